//! Keys as packets, and packets as keys.

use forebay_packet::LinkType;
use forebay_rules::key::Key;
use forebay_rules::packed::{HAS_ICMP, HAS_PORTS, Key4, NOT_TCP, Packed, UNREACHABLE};
use forebay_rules::rule::Family;

/// Bytes of a frame: the least that Ethernet carries, without the checksum.
pub const FRAME: usize = 60;

/// An Ethernet frame of IPv4 without options whose key is `key`.
pub fn frame(key: &Key4) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&(FRAME as u16 - 14).to_be_bytes());
    frame[22] = 64;
    frame[23] = key.kind as u8;
    frame[26..30].copy_from_slice(&key.source.to_be_bytes());
    frame[30..34].copy_from_slice(&key.destination.to_be_bytes());
    if key.kind & HAS_PORTS != 0 {
        frame[34..36].copy_from_slice(&key.first.to_be_bytes());
        frame[36..38].copy_from_slice(&key.second.to_be_bytes());
    }
    if key.kind & HAS_ICMP != 0 {
        frame[34..36].copy_from_slice(&[key.first as u8, key.second as u8]);
    }
    if key.flags < NOT_TCP {
        frame[46] = 0x50;
        frame[47] = key.flags as u8;
    }
    frame
}

/// The key of a frame of IPv4.
pub fn parsed(frame: &[u8]) -> Option<Key4> {
    Key::of_packet(LinkType::ETHERNET, frame).as_ref().and_then(packed)
}

/// A key of IPv4 in the form of engines.
pub fn packed(key: &Key) -> Option<Key4> {
    match Packed::from(key) {
        Packed::V4(packed) => Some(packed),
        Packed::V6(_) => None,
    }
}

/// A key in the form of the oracle.
pub fn unpacked(key: &Key4) -> Key {
    Key {
        family: Family::Ipv4,
        source: key.source.into(),
        destination: key.destination.into(),
        protocol: (key.kind & UNREACHABLE == 0).then_some(key.kind as u8),
        ports: (key.kind & HAS_PORTS != 0).then_some((key.first, key.second)),
        tcp_flags: u8::try_from(key.flags).ok(),
        icmp: (key.kind & HAS_ICMP != 0).then_some((key.first as u8, key.second as u8)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_being_packets_and_being_unpacked() {
        let of = |protocol, ports, tcp_flags, icmp| Key {
            family: Family::Ipv4,
            source: 0xc000_0201,
            destination: 0xc633_6402,
            protocol: Some(protocol),
            ports,
            tcp_flags,
            icmp,
        };
        let keys = [
            of(6, Some((80, 65535)), Some(0x12), None),
            of(17, Some((1, 53)), None, None),
            of(1, None, None, Some((8, 3))),
            of(47, None, None, None),
        ];
        for key in keys {
            let packed = packed(&key).unwrap();
            assert_eq!(unpacked(&packed), key);
            assert_eq!(parsed(&frame(&packed)), Some(packed));
        }
    }
}
