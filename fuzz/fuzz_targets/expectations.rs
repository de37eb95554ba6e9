//! Announcements of control connections, from any bytes: parsing ends, is bounded, and
//! stays in the payload.
#![no_main]

use forebay_packet::announcement::{BYTES, ControlProtocol, MOST, announcements};
use forebay_packet::decode::DecodeOutcome;
use forebay_packet::{DecodeOptions, Decoder, LinkType};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let decoder = Decoder::new(DecodeOptions::default());
    let (decoded, payload) = decoder.decode_with_payload(LinkType::RAW, data);
    assert_eq!(decoded, decoder.decode(LinkType::RAW, data));
    let payload = match payload {
        Some(payload) => {
            assert_eq!(decoded.outcome, DecodeOutcome::Ip);
            let range = data.as_ptr_range();
            assert!(payload.is_empty() || range.contains(&payload.as_ptr()));
            payload
        }
        None => data,
    };
    for protocol in [ControlProtocol::Ftp, ControlProtocol::Sip] {
        let found = announcements(protocol, payload);
        assert!(found.len() <= MOST);
        assert!(found.iter().all(|one| one.port != 0));
        assert!(found.iter().all(|one| protocol.is_over(one.transport)));
        // Bytes beyond the bound are ignored.
        let read = &payload[..payload.len().min(BYTES)];
        assert_eq!(found, announcements(protocol, read));
        if protocol == ControlProtocol::Sip {
            assert!(found.iter().all(|one| one.address.is_some()));
        }
    }
});
