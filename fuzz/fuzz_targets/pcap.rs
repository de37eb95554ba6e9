//! The pcap reader on any bytes: the same packets and the same end for any block size.
#![no_main]

#[path = "support/capture.rs"]
mod capture;

use libfuzzer_sys::fuzz_target;

const MAGICS: [[u8; 4]; 5] = [
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x34, 0xcd, 0xb2, 0xa1],
];

fuzz_target!(|data: &[u8]| {
    let [magic, rest @ ..] = data else { return };
    let magic = MAGICS[usize::from(*magic) % MAGICS.len()];
    capture::check(&[&magic, rest].concat());
});
