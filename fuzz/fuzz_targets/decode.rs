//! The header decoder on any bytes: it ends, and its result depends neither on bytes that
//! were not captured, nor on the packet's direction.
#![no_main]

use forebay_packet::{Affinity, DecodeOptions, Decoder, HashKey, LinkType, community_id};
use libfuzzer_sys::fuzz_target;

const LINKS: [LinkType; 20] = [
    LinkType::ETHERNET,
    LinkType::RAW,
    LinkType::IPV4,
    LinkType::IPV6,
    LinkType::NULL,
    LinkType::LOOP,
    LinkType::LINUX_SLL,
    LinkType::LINUX_SLL2,
    LinkType::IEEE802_11_RADIO,
    LinkType::PPP,
    LinkType::PPP_HDLC,
    LinkType::PPP_ETHER,
    LinkType::C_HDLC,
    LinkType::FRELAY,
    LinkType::IEEE802_11,
    LinkType::IEEE802_11_AVS,
    LinkType::PPI,
    LinkType::NFLOG,
    LinkType::DSA_TAG_DSA,
    LinkType::DSA_TAG_EDSA,
];

fuzz_target!(|data: &[u8]| {
    let [link, flags, packet @ ..] = data else { return };
    let options = DecodeOptions {
        affinity: match flags & 0x81 {
            0 => Affinity::FiveTuple,
            1 => Affinity::IpPair,
            0x80 => Affinity::Source,
            _ => Affinity::Destination,
        },
        vlan_in_key: flags & 2 != 0,
        tunnel_in_key: flags & 4 != 0,
        tunnel_depth: flags >> 3 & 0xf,
    };
    let decoder = Decoder::new(options);
    let link = LINKS[usize::from(*link) % LINKS.len()];
    let found = decoder.decode(link, packet);
    assert_eq!(found, decoder.decode(link, packet));
    let _ = (found.affinity.hash(&HashKey::OFFLINE), community_id(&found.key, 0));
    let affinity = found.affinity;
    assert!(
        (affinity.low, affinity.port_low) <= (affinity.high, affinity.port_high)
            || !affinity.has_ports
    );
    // A key has only addresses and ports that are in the packet.
    if found.key.has_ports {
        for port in [found.key.port_low, found.key.port_high] {
            let seen = packet.windows(2).any(|two| two == port.to_be_bytes());
            let icmp = matches!(found.key.protocol, 1 | 58);
            assert!(seen || icmp, "port {port} is not in the packet");
        }
    }
});
