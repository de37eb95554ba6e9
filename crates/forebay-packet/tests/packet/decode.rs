//! The decoder against packets built header by header, whole, cut at every byte, and hostile.

use forebay_packet::decode::{DecodeOutcome, MAX_LAYERS, Undecoded};
use forebay_packet::flow::AddressKind;
use forebay_packet::fragment::{FragmentKey, FragmentRole};
use forebay_packet::{Affinity, DecodeOptions, Decoded, Decoder, FlowKey, LinkType};
use forebay_testkit::packets::build::{ether_type as et, protocol as ip, *};
use forebay_testkit::packets::table::{INNER, cases, inner, key4, key6};
use proptest::prelude::*;

fn decode(link: LinkType, packet: &[u8]) -> Decoded {
    Decoder::default().decode(link, packet)
}

fn with(change: impl FnOnce(&mut DecodeOptions)) -> Decoder {
    let mut options = DecodeOptions::default();
    change(&mut options);
    Decoder::new(options)
}

fn notes(found: &Decoded) -> Vec<(FragmentRole, FragmentKey)> {
    found.fragments.iter().flatten().map(|one| (one.role, one.key)).collect()
}

#[test]
fn every_kind_of_packet_has_the_inner_flows_key_both_ways() {
    for case in cases() {
        let forth = decode(case.link, &(case.build)(FORTH));
        let back = decode(case.link, &(case.build)(BACK));
        assert_eq!(forth.key, case.key, "{}", case.name);
        assert_eq!(back.key, case.key, "{}, back", case.name);
        assert_eq!(forth.affinity, case.key, "{}", case.name);
        assert_eq!(back.affinity, case.key, "{}, back", case.name);
        assert!(!forth.reversed, "{}", case.name);
        assert!(back.reversed, "{}, back", case.name);
        assert_eq!(forth.outcome, DecodeOutcome::Ip, "{}", case.name);
        assert_eq!(notes(&forth), [], "{}", case.name);
    }
}

#[test]
fn a_tunnel_depth_of_zero_takes_the_outermost_ip_header() {
    for case in cases() {
        let packet = (case.build)(FORTH);
        let outer = with(|o| o.tunnel_depth = 0).decode(case.link, &packet);
        assert_eq!(outer.key == case.key, case.tunnels == 0, "{}", case.name);
        assert_eq!(outer.outcome, DecodeOutcome::Ip, "{}", case.name);
        let enough = with(|o| o.tunnel_depth = case.tunnels).decode(case.link, &packet);
        assert_eq!(enough.key, case.key, "{}", case.name);
    }
}

#[test]
fn tunnels_are_entered_as_deep_as_asked_and_no_deeper() {
    let nested = (2..=5).fold(inner(FORTH), |packet, net| FORTH.ip4(net, ip::IP_IN_IP, &packet));
    for depth in 0..=5 {
        let found = with(|o| o.tunnel_depth = depth).decode(LinkType::RAW, &nested);
        let expected = match depth {
            0..4 => key4(5 - depth, ip::IP_IN_IP, None),
            _ => key4(1, ip::TCP, Some(INNER)),
        };
        assert_eq!(found.key, expected, "depth {depth}");
    }
}

#[test]
fn an_address_pair_gathers_every_flow_between_its_hosts() {
    let decoder = with(|o| o.affinity = Affinity::IpPair);
    for case in cases() {
        let found = decoder.decode(case.link, &(case.build)(BACK));
        assert_eq!(found.key, case.key, "{}", case.name);
        assert_eq!(found.affinity, case.key.address_pair(), "{}", case.name);
        assert_eq!(found.affinity.protocol, 0, "{}", case.name);
    }
    let other = FORTH.ip4(1, ip::UDP, &FORTH.udp(1, 2, b""));
    let pair = decoder.decode(LinkType::RAW, &inner(BACK)).affinity;
    assert_eq!(decoder.decode(LinkType::RAW, &other).affinity, pair);
}

/// Every packet of the table, cut anywhere: ports are told only where they were captured.
#[test]
fn no_prefix_tells_ports_that_lie_beyond_it() {
    let told = |found: &Decoded, packet: &[u8]| {
        let key = &found.key;
        let ways = [(key.port_low, key.port_high), (key.port_high, key.port_low)];
        ways.iter().any(|(a, b)| {
            let spelt = [a.to_be_bytes(), b.to_be_bytes()].concat();
            packet.windows(4).any(|bytes| bytes == spelt)
        })
    };
    for case in cases() {
        let whole = (case.build)(FORTH);
        let mut known = false;
        for end in 0..=whole.len() {
            let prefix = &whole[..end];
            let found = decode(case.link, prefix);
            let at = format!("{}, {end} of {} bytes", case.name, whole.len());
            assert!(!found.key.has_ports || told(&found, prefix), "{at}: {found:?}");
            assert_eq!(found.key, found.affinity, "{at}");
            // Once the inner flow is known, further bytes change nothing.
            let inner = found.key == case.key && found.outcome == DecodeOutcome::Ip;
            assert!(inner || !known, "{at}: {found:?}");
            known = inner;
        }
        assert!(known, "{}", case.name);
    }
}

#[test]
fn identifiers_are_in_the_key_when_asked_for() {
    type Tagged = fn(u8) -> Vec<u8>;
    assert_eq!(decode(LinkType::ETHERNET, &inner_frame()).key.scope, 0);
    let vlans: [(&str, Tagged); 4] = [
        ("VLAN", |id| FORTH.ethernet(et::VLAN, &vlan(id.into(), et::IPV4, &inner(FORTH)))),
        ("inner VLAN", |id| {
            let tag = vlan(id.into(), et::IPV4, &inner(FORTH));
            FORTH.ethernet(et::PROVIDER_VLAN, &vlan(3, et::VLAN, &tag))
        }),
        ("802.1BR", |id| FORTH.ethernet(et::E_TAG, &e_tag(id.into(), et::IPV4, &inner(FORTH)))),
        ("802.1ah", |id| FORTH.ethernet(et::BACKBONE, &backbone(id, &inner_frame()))),
    ];
    let tunnels: [(&str, Tagged); 8] = [
        ("MPLS", |id| FORTH.ethernet(et::MPLS, &mpls(&[id.into()], &inner(FORTH)))),
        ("PPPoE", |id| {
            FORTH.ethernet(et::PPPOE, &pppoe(id.into(), &before(&[0, 0x21], &inner(FORTH))))
        }),
        ("GRE key", |id| in_tunnel(ip::GRE, &keyed_gre(id.into(), et::IPV4, &inner(FORTH)))),
        ("ERSPAN II", |id| in_tunnel(ip::GRE, &erspan_2(id, &inner_frame()))),
        ("ERSPAN III", |id| in_tunnel(ip::GRE, &erspan_3(id, false, &inner_frame()))),
        ("VXLAN", |id| in_tunnel(ip::UDP, &vxlan(4789, id, &inner_frame()))),
        ("GENEVE", |id| in_tunnel(ip::UDP, &geneve(id, 0, et::IPV4, &inner(FORTH)))),
        ("GTP-U", |id| in_tunnel(ip::UDP, &gtp_u(id, 0, &[], &inner(FORTH)))),
    ];
    let by_vlan = with(|o| o.vlan_in_key = true);
    let by_tunnel = with(|o| o.tunnel_in_key = true);
    let check = |(name, build): (&str, Tagged), asked: &Decoder, other: &Decoder| {
        let key = |decoder: &Decoder, id| decoder.decode(LinkType::ETHERNET, &build(id)).affinity;
        assert_ne!(key(asked, 5), key(asked, 6), "{name}");
        assert_eq!(key(asked, 5), key(asked, 5), "{name}");
        assert_eq!(key(other, 5), key(other, 6), "{name}, not asked for");
        assert_eq!(FlowKey { scope: 0, ..key(asked, 5) }, key4(1, ip::TCP, Some(INNER)), "{name}");
    };
    vlans.into_iter().for_each(|case| check(case, &by_vlan, &by_tunnel));
    tunnels.into_iter().for_each(|case| check(case, &by_tunnel, &by_vlan));
}

fn inner_frame() -> Vec<u8> {
    FORTH.ethernet(et::IPV4, &inner(FORTH))
}

fn in_tunnel(protocol: u8, payload: &[u8]) -> Vec<u8> {
    FORTH.ethernet(et::IPV4, &FORTH.ip4(2, protocol, payload))
}

#[test]
fn icmp_errors_travel_with_the_flow_they_quote() {
    let quoted = inner(FORTH);
    let flow = key4(1, ip::TCP, Some(INNER));
    for kind in [3, 4, 5, 11, 12] {
        let error = BACK.ip4(1, ip::ICMP, &icmp(kind, 1, &quoted[..28]));
        for (name, packet) in [
            ("from the host", error.clone()),
            ("from a router", BACK.ip4(7, ip::ICMP, &icmp(kind, 1, &quoted[..28]))),
            (
                "in a tunnel",
                FORTH.ip4(2, ip::UDP, &vxlan(4789, 5, &FORTH.ethernet(et::IPV4, &error))),
            ),
        ] {
            let found = decode(LinkType::RAW, &packet);
            assert_eq!(found.affinity, flow, "type {kind} {name}");
            assert_eq!(
                (found.key.protocol, found.outcome),
                (ip::ICMP, DecodeOutcome::Ip),
                "{name}"
            );
        }
        let pair = with(|o| o.affinity = Affinity::IpPair).decode(LinkType::RAW, &error);
        assert_eq!(pair.affinity, flow.address_pair());
    }
    let quoted = FORTH.ip6(1, ip::UDP, &FORTH.udp(INNER.0, INNER.1, b""));
    let flow = key6(1, ip::UDP, Some(INNER));
    for kind in [1, 2, 3, 4, 100, 127] {
        let found = decode(LinkType::RAW, &BACK.ip6(7, ip::ICMPV6, &icmp(kind, 0, &quoted)));
        assert_eq!(found.affinity, flow, "ICMPv6 type {kind}");
        assert_eq!(found.key.protocol, ip::ICMPV6);
    }
    let tunnelled = FORTH.ip4(2, ip::IP_IN_IP, &inner(FORTH));
    let found = decode(LinkType::RAW, &BACK.ip4(2, ip::ICMP, &icmp(3, 4, &tunnelled)));
    assert_eq!(found.affinity, key4(1, ip::TCP, Some(INNER)), "an error about a tunnel's packet");
}

#[test]
fn other_icmp_travels_with_its_address_pair() {
    let pair4 = key4(1, ip::ICMP, None);
    for (kind, way) in [(8, FORTH), (0, BACK), (13, FORTH), (9, BACK), (40, FORTH), (40, BACK)] {
        let found = decode(LinkType::RAW, &way.ip4(1, ip::ICMP, &icmp(kind, 0, b"")));
        assert_eq!(found.affinity, pair4, "type {kind}");
        assert!(found.key.has_ports);
    }
    let pair6 = key6(1, ip::ICMPV6, None);
    for (kind, way) in [(128, FORTH), (129, BACK), (135, FORTH), (137, BACK)] {
        let found = decode(LinkType::RAW, &way.ip6(1, ip::ICMPV6, &icmp(kind, 0, b"")));
        assert_eq!(found.affinity, pair6, "ICMPv6 type {kind}");
    }
    let ask = decode(LinkType::RAW, &FORTH.ip4(1, ip::ICMP, &icmp(8, 0, b"")));
    let answer = decode(LinkType::RAW, &BACK.ip4(1, ip::ICMP, &icmp(0, 0, b"")));
    assert_eq!(ask.key, answer.key);
    // An error is never about an error, and types of one version mean nothing in the other.
    let error = icmp(3, 1, &FORTH.ip4(1, ip::ICMP, &icmp(3, 1, &inner(FORTH))));
    assert_eq!(decode(LinkType::RAW, &BACK.ip4(1, ip::ICMP, &error)).affinity, pair4);
    let wrong = FORTH.ip6(3, ip::ICMP, &icmp(3, 1, &inner(FORTH)));
    assert_eq!(decode(LinkType::RAW, &wrong).affinity, key6(3, ip::ICMP, None));
}

const MORE: u16 = 0x2000;

#[test]
fn fragments_name_their_datagram() {
    let whole = FORTH.udp(INNER.0, INNER.1, &[0; 16]);
    let first = FORTH.fragment4(1, ip::UDP, (77, MORE), &whole[..16]);
    let later = FORTH.fragment4(1, ip::UDP, (77, 2), &whole[16..]);
    let [first, later] = [first, later].map(|packet| decode(LinkType::RAW, &packet));
    assert_eq!(first.key, key4(1, ip::UDP, Some(INNER)));
    assert_eq!((later.key, later.outcome), (key4(1, ip::UDP, None), DecodeOutcome::LaterFragment));
    let [(FragmentRole::First, datagram)] = notes(&first)[..] else { panic!("{first:?}") };
    assert_eq!(notes(&later), [(FragmentRole::Later, datagram)]);
    let differing = [
        FORTH.fragment4(1, ip::UDP, (78, 2), b"other identification"),
        FORTH.fragment4(1, ip::TCP, (77, 2), b"other protocol"),
        FORTH.fragment4(2, ip::UDP, (77, 2), b"other addresses"),
        BACK.fragment4(1, ip::UDP, (77, 2), b"other direction"),
        FORTH.ip6(1, ip::IPV6_FRAGMENT, &fragment6(ip::UDP, 16, 77, b"other version")),
    ];
    for packet in differing {
        let found = notes(&decode(LinkType::RAW, &packet));
        assert!(matches!(found[..], [(FragmentRole::Later, key)] if key != datagram), "{found:?}");
    }

    let six = |next, place, rest: &[u8]| {
        let extended = extension(ip::IPV6_FRAGMENT, 0, &fragment6(next, place, 0x0001_0007, rest));
        decode(LinkType::RAW, &FORTH.ip6(1, 0, &extended))
    };
    let (first, later) = (six(ip::UDP, 1, &whole[..16]), six(ip::UDP, 17, &whole[16..]));
    assert_eq!(first.key, key6(1, ip::UDP, Some(INNER)));
    assert_eq!((later.key, later.outcome), (key6(1, ip::UDP, None), DecodeOutcome::LaterFragment));
    let [(FragmentRole::First, datagram)] = notes(&first)[..] else { panic!("{first:?}") };
    assert_eq!(notes(&later), [(FragmentRole::Later, datagram)]);
    // RFC 8200 section 4.5: the next header of a later fragment need not be the first's.
    assert_eq!(notes(&six(ip::TCP, 17, &whole[16..])), [(FragmentRole::Later, datagram)]);
}

#[test]
fn fragments_nest_as_tunnels_do() {
    let whole = FORTH.udp(INNER.0, INNER.1, &[0; 16]);
    let inner_first = FORTH.fragment4(1, ip::UDP, (77, MORE), &whole[..16]);
    let inner_later = FORTH.fragment4(1, ip::UDP, (77, 2), &whole[16..]);
    let outer = |place, packet: &[u8]| {
        decode(LinkType::RAW, &FORTH.fragment4(2, ip::IP_IN_IP, (5, place), packet))
    };
    let roles = |found: &Decoded| notes(found).iter().map(|note| note.0).collect::<Vec<_>>();
    use FragmentRole::{First, Later};
    let both = outer(MORE, &inner_first);
    assert_eq!(roles(&both), [First, First]);
    assert_eq!(both.key, key4(1, ip::UDP, Some(INNER)));
    let carried = outer(MORE, &inner_later);
    assert_eq!(roles(&carried), [First, Later]);
    assert_eq!(notes(&both), [notes(&both)[0], (First, notes(&carried)[1].1)]);
    assert_eq!(notes(&outer(2, b"rest")), [(Later, notes(&both)[0].1)]);
    assert_eq!(roles(&outer(0, &inner_later)), [Later]);
}

#[test]
fn an_address_pair_needs_no_fragments_but_those_of_tunnels() {
    let pair = with(|o| o.affinity = Affinity::IpPair);
    let plain = FORTH.fragment4(1, ip::TCP, (77, 2), b"rest");
    let found = pair.decode(LinkType::RAW, &plain);
    assert_eq!((notes(&found), found.affinity), (vec![], key4(1, 0, None)));
    let tunnel = FORTH.fragment4(2, ip::IP_IN_IP, (77, 2), b"rest");
    assert_eq!(notes(&pair.decode(LinkType::RAW, &tunnel)).len(), 1);
    let flat = with(|o| (o.affinity, o.tunnel_depth) = (Affinity::IpPair, 0));
    assert_eq!(notes(&flat.decode(LinkType::RAW, &tunnel)), []);
}

#[test]
fn an_error_about_a_later_fragment_joins_its_datagram() {
    let later = FORTH.fragment4(1, ip::UDP, (77, 2), b"the rest");
    let datagram = notes(&decode(LinkType::RAW, &later))[0].1;
    let error = decode(LinkType::RAW, &BACK.ip4(1, ip::ICMP, &icmp(11, 1, &later)));
    assert_eq!(notes(&error), [(FragmentRole::Quoted, datagram)]);
    let first = FORTH.fragment4(1, ip::UDP, (77, MORE), &FORTH.udp(INNER.0, INNER.1, b""));
    let error = decode(LinkType::RAW, &BACK.ip4(1, ip::ICMP, &icmp(3, 4, &first)));
    assert_eq!((notes(&error), error.affinity), (vec![], key4(1, ip::UDP, Some(INNER))));
    let six = FORTH.ip6(1, ip::IPV6_FRAGMENT, &fragment6(ip::UDP, 9, 7, b"the rest"));
    let datagram = notes(&decode(LinkType::RAW, &six))[0].1;
    let error = decode(LinkType::RAW, &BACK.ip6(3, ip::ICMPV6, &icmp(3, 0, &six)));
    assert_eq!(notes(&error), [(FragmentRole::Quoted, datagram)]);
}

#[test]
fn padding_is_no_header_and_lengths_may_lie() {
    let frame = |ip: Vec<u8>| {
        let mut frame = FORTH.ethernet(if ip[0] >> 4 == 4 { et::IPV4 } else { et::IPV6 }, &ip);
        frame.extend([0xee; 46]);
        frame
    };
    let lie4 = |total: u16| {
        let mut ip = inner(FORTH);
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        decode(LinkType::ETHERNET, &frame(ip))
    };
    let lie6 = |length: u16| {
        let mut ip = FORTH.ip6(1, ip::TCP, &FORTH.tcp(INNER.0, INNER.1));
        ip[4..6].copy_from_slice(&length.to_be_bytes());
        decode(LinkType::ETHERNET, &frame(ip))
    };
    for total in [0, 24, 40, 41, 1500, u16::MAX] {
        assert_eq!(lie4(total).key, key4(1, ip::TCP, Some(INNER)), "total length {total}");
    }
    for total in [1, 19, 20, 23] {
        let found = lie4(total);
        assert_eq!(found.outcome, DecodeOutcome::Cut, "total length {total}");
        assert_eq!(found.key, key4(1, ip::TCP, None), "total length {total}");
    }
    for length in [0, 4, 20, 21, u16::MAX] {
        assert_eq!(lie6(length).key, key6(1, ip::TCP, Some(INNER)), "payload length {length}");
    }
    for length in [1, 2, 3] {
        assert_eq!(lie6(length).outcome, DecodeOutcome::Cut, "payload length {length}");
    }
    for words in 0..5 {
        let mut ip = inner(FORTH);
        ip[0] = 0x40 + words;
        let found = decode(LinkType::ETHERNET, &frame(ip));
        assert_eq!(found.key.kind, AddressKind::Mac, "a header of {words} words");
        assert_eq!(found.outcome, DecodeOutcome::NotIp);
    }
}

#[test]
fn what_only_looks_like_a_tunnel_stays_with_its_own_flow() {
    let over_udp = |payload: Vec<u8>, change: (usize, u8)| {
        let mut datagram = payload;
        datagram[change.0] = change.1;
        FORTH.ip4(2, ip::UDP, &datagram)
    };
    let frame = inner_frame();
    let own = |port| {
        let (a, b) = (u128::from(u32::from(host4(2, 1))), u128::from(u32::from(host4(2, 2))));
        let (key, _) = FlowKey::two_way(AddressKind::Ipv4, ip::UDP, (a, ENTROPY), (b, port));
        FlowKey { has_ports: true, ..key }
    };
    for (name, packet, port) in [
        ("VXLAN without a network", over_udp(vxlan(4789, 5, &frame), (8, 0)), 4789),
        ("GENEVE of version 1", over_udp(geneve(5, 0, et::IPV4, &inner(FORTH)), (8, 0x40)), 6081),
        ("GENEVE control", over_udp(geneve(5, 0, et::IPV4, &inner(FORTH)), (9, 0x80)), 6081),
        ("GENEVE, options too long", over_udp(geneve(5, 0, et::IPV4, b"x"), (8, 0x3f)), 6081),
        ("VXLAN behind a short datagram", over_udp(vxlan(4789, 5, &frame), (5, 20)), 4789),
        ("VXLAN behind no datagram", over_udp(vxlan(4789, 5, &frame), (5, 7)), 4789),
        ("GTP of version 2", over_udp(gtp_u(5, 0, &[], &inner(FORTH)), (8, 0x50)), 2152),
        ("GTP echo", over_udp(gtp_u(5, 0, &[], &inner(FORTH)), (9, 1)), 2152),
        ("GTP, empty extension", over_udp(gtp_u(5, 4, &[0, 0, 0, 0x85], &[0; 30]), (20, 0)), 2152),
    ] {
        let found = decode(LinkType::RAW, &packet);
        assert_eq!(found.affinity, own(port), "{name}");
    }
    let wrong_version = FORTH.ip4(2, ip::IP_IN_IP, &FORTH.ip6(1, ip::TCP, b"not version 4"));
    assert_eq!(decode(LinkType::RAW, &wrong_version).key, key4(2, ip::IP_IN_IP, None));
    let mut strange = erspan_2(5, &frame);
    strange[8] = 0x30;
    assert_eq!(decode(LinkType::RAW, &FORTH.ip4(2, ip::GRE, &strange)).key, key4(2, ip::GRE, None));
    let not_pptp = FORTH.ip4(2, ip::GRE, &gre(1, et::IPV4, &[], &inner(FORTH)));
    assert_eq!(decode(LinkType::RAW, &not_pptp).key, key4(2, ip::GRE, None));
    let acknowledgement = FORTH.ip4(2, ip::GRE, &gre(0x2081, et::PPP, &[0; 8], b""));
    assert_eq!(decode(LinkType::RAW, &acknowledgement).key, key4(2, ip::GRE, None));
}

#[test]
fn what_is_no_ip_goes_by_its_addresses_or_its_bytes() {
    let arp = |way: Way, operation: u8| {
        let (a, b) = way.ports(1, 2);
        let mut body = vec![0, 1, 8, 0, 6, 4, 0, operation, 2, 0, 0, 0, 0, a as u8];
        body.extend(host4(1, a as u8).octets());
        body.extend([2, 0, 0, 0, 0, b as u8]);
        body.extend(host4(1, b as u8).octets());
        decode(LinkType::ETHERNET, &way.ethernet(et::ARP, &body))
    };
    let (asks, answers) = (arp(FORTH, 1), arp(BACK, 2));
    assert_eq!((asks.key, asks.outcome), (answers.key, DecodeOutcome::Arp));
    assert_eq!(asks.key.kind, AddressKind::Arp);

    let discovery = |way: Way| decode(LinkType::ETHERNET, &way.ethernet(0x88cc, b"something"));
    assert_eq!(discovery(FORTH).key, discovery(BACK).key);
    assert_eq!(discovery(FORTH).key.kind, AddressKind::Mac);
    assert_eq!(discovery(FORTH).outcome, DecodeOutcome::NotIp);

    let undecoded = |link: u32, packet: &[u8]| decode(LinkType(link), packet).undecoded;
    assert_eq!(discovery(FORTH).undecoded, Some(Undecoded::EtherType(0x88cc)));
    assert_eq!(asks.undecoded, None);
    let macsec = |flags| undecoded(1, &FORTH.ethernet(0x88e5, &[flags, 0, 0, 0, 0, 1, 8, 0]));
    assert_eq!(macsec(0x0c), Some(Undecoded::EtherType(0x88e5)));
    assert_eq!(macsec(0), None, "a packet that is cut off");
    let bridge = FORTH.ethernet(38, &[0x42, 0x42, 3, 0, 0, 0, 0, 0]);
    assert_eq!(undecoded(1, &bridge), Some(Undecoded::Llc(0x4242)));
    assert_eq!(undecoded(9, &[0xff, 3, 0xc0, 0x21]), Some(Undecoded::Ppp(0xc021)));
    assert_eq!(undecoded(107, &[0x18, 0x41, 3, 0x81]), Some(Undecoded::Nlpid(0x81)));
    assert_eq!(undecoded(105, &[0x80; 60]), Some(Undecoded::Wireless));
    let inside = [0, 0, 8, 0, 147, 0, 0, 0];
    assert_eq!(undecoded(192, &inside), Some(Undecoded::Link(LinkType(147))));
    let hidden = |packet: Vec<u8>| undecoded(101, &packet);
    assert_eq!(hidden(FORTH.ip4(1, 51, &[6; 40])), Some(Undecoded::Protocol(51)));
    assert_eq!(hidden(FORTH.ip6(1, 108, &[6; 40])), Some(Undecoded::Protocol(108)));
    let spanning_tree = gre(0, et::TRANSPARENT_ETHERNET, &[], &bridge);
    assert_eq!(hidden(FORTH.ip4(1, ip::GRE, &spanning_tree)), None, "the tunnel is decoded");
    let hides = |packet: Vec<u8>| decode(LinkType(101), &packet).hides;
    assert!(hides(FORTH.ip4(1, ip::GRE, &spanning_tree)), "but not what is in it");
    assert!(hides(FORTH.ip4(1, ip::GRE, &[0xc0; 40])), "a header of another version");
    assert!(!hides(FORTH.ip4(1, ip::GRE, &gre(0, et::IPV4, &[], &FORTH.ip4(2, 200, &[1; 9])))));
    assert!(!hides(FORTH.ip4(1, 51, &[6; 40])) && !hides(FORTH.ip4(1, 200, &[6; 40])));

    let unknown = |bytes: &[u8]| decode(LinkType(147), bytes);
    assert_eq!(unknown(b"").undecoded, Some(Undecoded::Link(LinkType(147))));
    assert_eq!(unknown(b"some bytes").outcome, DecodeOutcome::UnknownLink);
    assert_eq!(unknown(b"some bytes").affinity, unknown(b"some bytes").affinity);
    assert_ne!(unknown(b"some bytes").affinity, unknown(b"some byteS").affinity);
    assert_ne!(unknown(b"").affinity, unknown(b"\0").affinity);
}

/// Stacks of headers that only an attacker builds: looked at up to the limit, not beyond.
#[test]
fn the_walk_ends_after_its_limit_of_headers() {
    let tags = |n: usize| {
        let innermost = vlan(5, et::IPV4, &inner(FORTH));
        let stack = (1..n).fold(innermost, |rest, _| vlan(5, et::VLAN, &rest));
        decode(LinkType::ETHERNET, &FORTH.ethernet(et::VLAN, &stack)).key
    };
    let flow = key4(1, ip::TCP, Some(INNER));
    // Around n tags lie Ethernet, the EtherType of IP, IP and TCP.
    assert_eq!(tags(MAX_LAYERS - 4), flow);
    assert!(!tags(MAX_LAYERS - 3).has_ports);
    assert_eq!(tags(16_000).kind, AddressKind::Mac);

    let labels = |n: usize| {
        let packet = mpls(&vec![16; n], &inner(FORTH));
        decode(LinkType::ETHERNET, &FORTH.ethernet(et::MPLS, &packet)).key
    };
    assert_eq!(labels(MAX_LAYERS - 4), flow);
    assert_eq!(labels(16_000).kind, AddressKind::Mac);

    let endless = with(|o| o.tunnel_depth = u8::MAX);
    let nested = (0..3_000).fold(inner(FORTH), |packet, _| FORTH.ip4(2, ip::IP_IN_IP, &packet));
    assert_eq!(endless.decode(LinkType::RAW, &nested).key, key4(2, ip::IP_IN_IP, None));
    let chain = (0..8_000).fold(FORTH.tcp(1, 2), |rest, _| extension(0, 0, &rest));
    let found = decode(LinkType::RAW, &FORTH.ip6(1, 0, &chain));
    assert_eq!((found.key.has_ports, found.outcome), (false, DecodeOutcome::Cut));
    let nested = [0, 0, 8, 0, 192, 0, 0, 0].repeat(16_000);
    assert_eq!(decode(LinkType::PPI, &nested).key.kind, AddressKind::Opaque);
    let path = [0, 2, 2, 4, 0, 0, 1, 9].repeat(16_000);
    assert_eq!(
        decode(LinkType::ETHERNET, &FORTH.ethernet(0x894f, &path)).key.kind,
        AddressKind::Mac
    );
}

/// The short way finds what the long way finds, or nothing; says whether it did.
fn check_plain(options: DecodeOptions, frame: &[u8]) -> bool {
    let affinities =
        [Affinity::FiveTuple, Affinity::IpPair, Affinity::Source, Affinity::Destination];
    let found = affinities.map(|affinity| {
        let decoder = Decoder::new(DecodeOptions { affinity, ..options });
        let Some(plain) = decoder.decode_plain(frame) else { return false };
        let expected = decoder.decode(LinkType::ETHERNET, frame);
        assert_eq!((plain.key, plain.reversed), (expected.key, expected.reversed));
        assert_eq!(plain.affinity, expected.affinity);
        assert_eq!(expected.outcome, DecodeOutcome::Ip);
        assert!(expected.fragments.iter().all(Option::is_none));
        if let Some((same, carried)) = decoder.decode_plain_with_carried(frame) {
            let (expected, expected_carried) =
                decoder.decode_with_carried(LinkType::ETHERNET, frame);
            assert_eq!((same, Some(carried)), (plain, expected_carried));
            assert_eq!((plain.tcp_flags, expected.undecoded), (expected.tcp_flags, None));
            assert!(!expected.hides);
        }
        true
    });
    found == [true; 4]
}

#[test]
fn plain_packets_are_found_the_short_way() {
    for (protocol, payload) in [(ip::TCP, FORTH.tcp(1, 2)), (ip::UDP, FORTH.udp(3, 4, b"1"))] {
        let datagram = FORTH.ip4(1, protocol, &payload);
        let frame = [&[2; 12][..], &[0x08, 0x00], &datagram].concat();
        assert!(check_plain(DecodeOptions::default(), &frame));
        assert!(Decoder::default().decode_plain_with_carried(&frame).is_some());
        let padded = [&frame[..], &[0; 6]].concat();
        assert!(check_plain(DecodeOptions::default(), &padded));
        for len in 0..38 {
            assert!(!check_plain(DecodeOptions::default(), &frame[..len]), "{len} bytes");
        }
        let mut tunnel = frame.clone();
        tunnel[36..38].copy_from_slice(&4789_u16.to_be_bytes());
        assert_eq!(check_plain(DecodeOptions::default(), &tunnel), protocol == ip::TCP);
    }
}

const LINKS: [u32; 23] = [
    0, 1, 9, 12, 14, 50, 51, 101, 104, 105, 107, 108, 113, 127, 147, 163, 192, 228, 229, 239, 276,
    284, 285,
];

proptest! {
    /// Whatever the bytes and options, decoding ends, and finds the same again.
    #[test]
    fn random_bytes_decode_to_something(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        pair in any::<bool>(), vlan_in_key in any::<bool>(), tunnel_in_key in any::<bool>(),
        tunnel_depth in any::<u8>(),
    ) {
        let affinity = if pair { Affinity::IpPair } else { Affinity::FiveTuple };
        let options = DecodeOptions { affinity, vlan_in_key, tunnel_in_key, tunnel_depth };
        let decoder = Decoder::new(options);
        check_plain(options, &bytes);
        for link in LINKS {
            let found = decoder.decode(LinkType(link), &bytes);
            prop_assert_eq!(found, decoder.decode(LinkType(link), &bytes));
            let ip = matches!(found.affinity.kind, AddressKind::Ipv4 | AddressKind::Ipv6);
            prop_assert!(!(pair && ip) || found.affinity == found.affinity.address_pair());
        }
    }

    /// Real headers with a few bytes changed, cut anywhere: the paths random bytes never reach.
    #[test]
    fn changed_packets_decode_to_something(
        case in any::<prop::sample::Index>(), end in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let cases = cases();
        let case = case.get(&cases);
        let mut packet = (case.build)(FORTH);
        for (at, value) in changes {
            let at = at.index(packet.len());
            packet[at] = value;
        }
        packet.truncate(end.index(packet.len() + 1));
        check_plain(DecodeOptions::default(), &packet);
        let found = decode(case.link, &packet);
        prop_assert_eq!(found, decode(case.link, &packet));
        let unordered = found.key.has_ports || found.key.kind == AddressKind::Opaque;
        prop_assert!(unordered || found.key.low <= found.key.high);
    }
}
