//! The judge's own tests: packets written by hand, with the flow each must have.

use super::layers::{GRE, IP_IN_IP, IPV6_IN_IP};
use super::*;

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 0, 0, 2];
const C: [u8; 4] = [192, 0, 2, 1];
const D: [u8; 4] = [192, 0, 2, 2];

fn packet(link: u32, data: Vec<u8>) -> Packet {
    Packet { link, wire_len: data.len() as u32, data, nanos: 0, interface: 0 }
}

fn one(link: u32, data: Vec<u8>) -> Option<Identity> {
    identities(&Capture { packets: vec![packet(link, data)], cut: false })[0]
}

fn v4_flow(a: ([u8; 4], u16), b: ([u8; 4], u16), protocol: u8) -> Option<Identity> {
    Some(Identity::new((IpAddr::from(a.0), a.1), (IpAddr::from(b.0), b.1), protocol))
}

fn ip4(source: [u8; 4], destination: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    fragment4(source, destination, protocol, 0, 0, payload)
}

/// `offset` in the header's form: flags and eights of bytes.
fn fragment4(
    source: [u8; 4],
    destination: [u8; 4],
    protocol: u8,
    id: u16,
    offset: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut ip = vec![0x45, 0];
    ip.extend((20 + payload.len() as u16).to_be_bytes());
    ip.extend(id.to_be_bytes());
    ip.extend(offset.to_be_bytes());
    ip.extend([64, protocol, 0, 0]);
    ip.extend(source);
    ip.extend(destination);
    ip.extend(payload);
    ip
}

fn ip6(source: u8, destination: u8, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x60, 0, 0, 0];
    ip.extend((payload.len() as u16).to_be_bytes());
    ip.extend([next, 64]);
    for last in [source, destination] {
        ip.extend([0; 15]);
        ip.push(last);
    }
    ip.extend(payload);
    ip
}

fn udp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = [from.to_be_bytes(), to.to_be_bytes()].concat();
    datagram.extend((8 + payload.len() as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    datagram
}

fn ethernet(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}

fn dns() -> Vec<u8> {
    ip4(A, B, UDP, &udp(5000, 53, b"question"))
}

#[test]
fn both_directions_are_one_flow_and_the_ports_count() {
    let there = one(1, ethernet(0x0800, &dns()));
    let back = one(1, ethernet(0x0800, &ip4(B, A, UDP, &udp(53, 5000, b"answer"))));
    assert_eq!(there, v4_flow((A, 5000), (B, 53), UDP));
    assert_eq!(there, back);
    assert_ne!(there, one(1, ethernet(0x0800, &ip4(B, A, UDP, &udp(53, 5001, b"")))));
    assert_eq!(one(1, ethernet(0x0806, &[0; 28])), None);
}

#[test]
fn every_link_layer_leads_to_the_same_flow() {
    let dns = dns();
    let after = |header: &[u8]| [header, &dns].concat();
    let vlan = |tag: u16| ethernet(tag, &after(&[0, 5, 0x08, 0x00]));
    let snap = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &dns].concat();
    let backbone = [&[0, 0, 0, 9][..], &ethernet(0x0800, &dns)].concat();
    let pseudowire = [&[0, 0, 1, 64, 0, 0, 0, 0][..], &ethernet(0x0800, &dns)].concat();
    let mut session = vec![0x11, 0, 0, 7];
    session.extend((dns.len() as u16 + 2).to_be_bytes());
    session.extend([0x00, 0x21]);
    let mut cooked = [0; 16];
    cooked[14] = 0x08;
    let mut cooked2 = [0; 20];
    cooked2[0] = 0x08;
    for (name, link, data) in [
        ("raw 12", 12, dns.clone()),
        ("raw 14", 14, dns.clone()),
        ("raw 101", 101, dns.clone()),
        ("IPv4", 228, dns.clone()),
        ("null, little-endian", 0, after(&[2, 0, 0, 0])),
        ("null, big-endian", 0, after(&[0, 0, 0, 2])),
        ("loop", 108, after(&[0, 0, 0, 2])),
        ("cooked", 113, after(&cooked)),
        ("cooked 2", 276, after(&cooked2)),
        ("802.1Q", 1, vlan(0x8100)),
        ("802.1ad", 1, vlan(0x88a8)),
        ("older tags", 1, ethernet(0x9100, &after(&[0, 5, 0x92, 0, 0, 6, 0x08, 0x00]))),
        ("802.1BR", 1, ethernet(0x893f, &after(&[0, 0, 0, 5, 0, 0, 0x08, 0x00]))),
        ("802.1ah", 1, ethernet(0x88e7, &backbone)),
        ("SNAP", 1, ethernet(snap.len() as u16, &snap)),
        ("MPLS", 1, ethernet(0x8847, &after(&[0, 0, 0, 64, 0, 0, 1, 64]))),
        ("MPLS pseudowire", 1, ethernet(0x8848, &pseudowire)),
        ("PPPoE", 1, ethernet(0x8864, &after(&session))),
    ] {
        assert_eq!(one(link, data), v4_flow((A, 5000), (B, 53), UDP), "{name}");
    }
    assert_eq!(one(229, dns), None);
}

#[test]
fn lengths_bound_the_ports() {
    let mut padded = ip4(A, B, TCP, &[0, 80]);
    padded.extend([0; 40]);
    assert_eq!(one(101, padded), None, "padding is not data");
    let mut offloaded = dns();
    offloaded[2..4].fill(0);
    assert_eq!(one(101, offloaded), v4_flow((A, 5000), (B, 53), UDP));
    for end in 0..24 {
        assert_eq!(one(101, dns()[..end].to_vec()), None, "{end} bytes");
    }
    assert!(one(101, dns()[..24].to_vec()).is_some());
    let mut short = dns();
    short[3] = 19;
    assert_eq!(one(101, short), None, "total length inside the header");
}

#[test]
fn ipv6_extensions_are_walked_and_authentication_is_not() {
    let plain = one(229, ip6(1, 2, UDP, &udp(7, 9, b"")));
    assert!(plain.is_some());
    let mut chain = vec![43, 0, 0, 0, 0, 0, 0, 0];
    chain.extend([60, 0, 0, 0, 0, 0, 0, 0]);
    chain.extend([60, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    chain.extend([17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    chain.extend(udp(7, 9, b""));
    assert_eq!(one(229, ip6(1, 2, 0, &chain)), plain);
    let protected = [&[17, 4, 0, 0][..], &[0; 20], &udp(7, 9, b"")].concat();
    assert_eq!(one(101, ip4(A, B, 51, &protected)), v4_flow((A, 0), (B, 0), 51));
}

#[test]
fn tunnels_lead_to_the_inner_flow() {
    let inner = dns();
    let frame = ethernet(0x0800, &inner);
    let after = |header: &[u8], rest: &[u8]| [header, rest].concat();
    let gre = |payload: &[u8]| ip4(C, D, GRE, payload);
    let over_udp = |port, payload: &[u8]| ip4(C, D, UDP, &udp(9999, port, payload));
    let erspan3 =
        |last: u8| [&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20][..], &[0; 10], &[last]].concat();
    let gtp = |flags: u8, extra: &[u8]| {
        let mut header = vec![flags, 255];
        header.extend(((extra.len() + inner.len()) as u16).to_be_bytes());
        header.extend([0, 0, 0, 1]);
        header.extend(extra);
        header
    };
    for (name, data) in [
        ("IPIP", ip4(C, D, 4, &inner)),
        ("GRE", gre(&after(&[0, 0, 8, 0], &inner))),
        ("GRE with all", gre(&after(&[0xb0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2], &inner))),
        ("GRE, PPP", gre(&after(&[0, 0, 0x88, 0x0b, 0xff, 3, 0, 0x21], &inner))),
        ("GRE, Ethernet", gre(&after(&[0, 0, 0x65, 0x58], &frame))),
        (
            "PPTP",
            gre(&after(
                &[0x30, 0x81, 0x88, 0x0b, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0xff, 3, 0x21],
                &inner,
            )),
        ),
        ("ERSPAN I", gre(&after(&[0, 0, 0x88, 0xbe], &frame))),
        (
            "ERSPAN II",
            gre(&after(&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 0, 0, 0, 0, 0, 0, 0], &frame)),
        ),
        ("ERSPAN III", gre(&after(&erspan3(0), &frame))),
        ("ERSPAN III with subheader", gre(&after(&after(&erspan3(1), &[0; 8]), &frame))),
        ("VXLAN", over_udp(4789, &after(&[8, 0, 0, 0, 0, 0, 1, 0], &frame))),
        ("VXLAN, Linux", over_udp(8472, &after(&[8, 0, 0, 0, 0, 0, 1, 0], &frame))),
        ("GENEVE", over_udp(6081, &after(&[1, 0, 0x65, 0x58, 0, 0, 1, 0, 0, 0, 0, 0], &frame))),
        ("GENEVE, IP", over_udp(6081, &after(&[0, 0, 8, 0, 0, 0, 1, 0], &inner))),
        ("GTP-U", over_udp(2152, &after(&gtp(0x30, &[]), &inner))),
        ("GTP-U, sequence", over_udp(2152, &after(&gtp(0x32, &[0, 1, 0, 0]), &inner))),
        (
            "GTP-U, extension",
            over_udp(2152, &after(&gtp(0x34, &[0, 0, 0, 0x85, 1, 0, 9, 0]), &inner)),
        ),
    ] {
        assert_eq!(one(101, data), v4_flow((A, 5000), (B, 53), UDP), "{name}");
    }
    let six = ip6(1, 2, UDP, &udp(7, 9, b""));
    assert_eq!(one(101, ip4(C, D, IPV6_IN_IP, &six)), one(101, six));
}

#[test]
fn what_only_looks_like_a_tunnel_is_a_flow_itself() {
    let echo = ip4(C, D, UDP, &udp(2152, 2152, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(one(101, echo), v4_flow((C, 2152), (D, 2152), UDP));
    let short = ip4(C, D, UDP, &udp(53, 4789, b"short"));
    assert_eq!(one(101, short), v4_flow((C, 53), (D, 4789), UDP));
    let no_network = ip4(C, D, UDP, &udp(53, 4789, &[0; 40]));
    assert_eq!(one(101, no_network), v4_flow((C, 53), (D, 4789), UDP));
    let source_route = [0x40, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(one(101, ip4(C, D, GRE, &[&source_route[..], &dns()].concat())), None);
    assert_eq!(one(101, ip4(C, D, GRE, &[&[0, 0, 8, 6][..], &[0; 28]].concat())), None, "ARP");
    assert_eq!(one(101, ip4(C, D, GRE, &[0, 0, 0, 0])), v4_flow((C, 0), (D, 0), GRE));
}

#[test]
fn four_tunnels_are_opened_and_no_more() {
    let mut data = dns();
    for _ in 0..4 {
        data = ip4(C, D, 4, &data);
    }
    assert_eq!(one(101, data.clone()), v4_flow((A, 5000), (B, 53), UDP));
    assert_eq!(one(101, ip4(A, C, 4, &data)), v4_flow((C, 0), (D, 0), 4));
}

#[test]
fn icmp_errors_have_the_flow_they_quote() {
    let expected = v4_flow((A, 5000), (B, 53), UDP);
    for kind in [3, 4, 5, 11, 12] {
        let error = [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &dns()[..28]].concat();
        assert_eq!(one(101, ip4(C, A, ICMP, &error)), expected, "type {kind}");
        assert_eq!(one(101, ip4(C, A, ICMP, &error[..31])), None, "type {kind}, quote cut");
    }
    assert_eq!(one(101, ip4(A, B, ICMP, &[8, 0, 0, 0])), v4_flow((A, 0), (B, 0), ICMP));
    let six = ip6(1, 2, TCP, &[0, 80, 1, 0, 0, 0, 0, 0]);
    let error = [&[1, 4, 0, 0, 0, 0, 0, 0][..], &six].concat();
    assert_eq!(one(101, ip6(3, 1, ICMPV6, &error)), one(101, six));
}

#[test]
fn fragments_follow_their_first() {
    let first = fragment4(A, B, UDP, 77, 0x2000, &udp(5000, 53, b""));
    let later = fragment4(A, B, UDP, 77, 1, b"53 bytes");
    let expected = v4_flow((A, 5000), (B, 53), UDP);
    let run = |packets: Vec<(u64, &Vec<u8>)>| {
        let packets = packets
            .into_iter()
            .map(|(nanos, data)| Packet { nanos, ..packet(101, data.clone()) })
            .collect();
        identities(&Capture { packets, cut: false })
    };
    assert_eq!(run(vec![(0, &first), (1, &later)]), [expected; 2]);
    assert_eq!(run(vec![(0, &later), (1, &first)]), [expected; 2]);
    assert_eq!(run(vec![(0, &later)]), [None]);
    assert_eq!(run(vec![(0, &first), (FRAGMENT_NANOS + 1, &later)]), [expected, None]);
    let reused = fragment4(A, B, UDP, 77, 0x2000, &udp(6000, 53, b""));
    let other = v4_flow((A, 6000), (B, 53), UDP);
    assert_eq!(
        run(vec![(0, &reused), (1, &first), (2, &later), (3, &reused)]),
        [other, expected, expected, other]
    );

    // A datagram in fragments inside a tunnel whose packets are in fragments themselves.
    let outer_first = fragment4(C, D, IP_IN_IP, 5, 0x2000, &later);
    let outer_later = fragment4(C, D, IP_IN_IP, 5, 6, b"the rest");
    let inner_first = ip4(C, D, IP_IN_IP, &first);
    let all = run(vec![(0, &outer_later), (1, &outer_first), (2, &inner_first)]);
    assert_eq!(all, [expected; 3]);
}

#[test]
fn ipv6_fragments_follow_their_first_and_atomic_ones_stand_alone() {
    let fragment = |flags: u8, id: u8, rest: &[u8]| {
        packet(229, ip6(1, 2, FRAGMENT, &[&[17, 0, 0, flags, 0, 0, 0, id][..], rest].concat()))
    };
    let whole = one(229, ip6(1, 2, UDP, &udp(7, 9, b"")));
    let packets = vec![
        fragment(0, 1, &udp(7, 9, b"")),
        fragment(9, 2, b"later"),
        fragment(1, 2, &udp(7, 9, b"")),
        fragment(9, 1, b"later"),
    ];
    let found = identities(&Capture { packets, cut: false });
    assert_eq!(found, [whole, whole, whole, None]);
}
