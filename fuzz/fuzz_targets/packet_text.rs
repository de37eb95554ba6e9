//! Packets as text: no text makes the parser panic, and the key of any packet, captured or
//! written, survives printing and parsing.
#![no_main]

use forebay_packet::LinkType;
use forebay_rules::Key;
use libfuzzer_sys::fuzz_target;

/// Link types with link headers of every kind.
const LINKS: [u32; 10] = [0, 1, 9, 12, 51, 101, 104, 108, 113, 276];

fuzz_target!(|data: &[u8]| {
    let Some((link, packet)) = data.split_first() else { return };
    let link = LinkType(LINKS[usize::from(*link) % LINKS.len()]);
    let captured = [Key::of_packet(link, packet), Key::of_ip(packet)];
    let written = std::str::from_utf8(data).ok().and_then(|text| text.parse().ok());
    for key in captured.into_iter().flatten().chain(written) {
        assert_eq!(key.to_string().parse(), Ok(key));
    }
});
