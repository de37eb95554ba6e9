//! The pcapng reader on any bytes, like the pcap fuzzer.
#![no_main]

#[path = "support/capture.rs"]
mod capture;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    capture::check(&[&[0x0a, 0x0d, 0x0d, 0x0a], data].concat());
});
