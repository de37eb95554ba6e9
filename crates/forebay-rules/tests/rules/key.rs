//! The key of a packet: what is there, and what is absent from fragments, cut
//! packets and behind IPv6 extension headers.

use forebay_packet::LinkType;
use forebay_packet::decode::PlainHead;
use forebay_rules::key::Key;
use forebay_rules::packed::Packed;
use forebay_rules::rule::Family;

/// An IPv4 packet of `protocol` with fragment field `fragment`.
fn ipv4(protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let total = u16::try_from(20 + payload.len()).unwrap().to_be_bytes();
    let [high, low] = fragment.to_be_bytes();
    let mut packet = vec![0x45, 0, total[0], total[1], 0, 0, high, low, 64, protocol, 0, 0];
    packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(payload);
    packet
}

/// An IPv6 packet whose first header behind the fixed one is `next`.
fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, len[0], len[1], next, 64];
    packet.extend(1_u128.to_be_bytes());
    packet.extend(2_u128.to_be_bytes());
    packet.extend(payload);
    packet
}

const TCP_SYN: [u8; 20] = [4, 0, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x02, 0, 0, 0, 0, 0, 0];

#[test]
fn a_whole_packet_has_all_its_protocol_has() {
    let key = Key::of_ip(&ipv4(6, 0, &TCP_SYN)).unwrap();
    assert_eq!((key.family, key.source, key.destination), (Family::Ipv4, 0x0a00_0001, 0x0a00_0002));
    assert_eq!((key.protocol, key.ports, key.tcp_flags), (Some(6), Some((1024, 80)), Some(2)));
    let udp = Key::of_ip(&ipv4(17, 0, &TCP_SYN[..8])).unwrap();
    assert_eq!((udp.ports, udp.tcp_flags, udp.icmp), (Some((1024, 80)), None, None));
    let icmp = Key::of_ip(&ipv4(1, 0, &[3, 1, 0, 0])).unwrap();
    assert_eq!((icmp.ports, icmp.icmp), (None, Some((3, 1))));
    let gre = Key::of_ip(&ipv4(47, 0, &TCP_SYN)).unwrap();
    assert_eq!((gre.protocol, gre.ports, gre.icmp), (Some(47), None, None));
    // ICMP is the family's own.
    assert_eq!(Key::of_ip(&ipv4(58, 0, &[3, 1])).unwrap().icmp, None);
    assert_eq!(Key::of_ip(&ipv6(58, &[128, 0])).unwrap().icmp, Some((128, 0)));
}

#[test]
fn only_the_first_fragment_has_ports() {
    let first = Key::of_ip(&ipv4(6, 0x2000, &TCP_SYN)).unwrap();
    assert_eq!((first.ports, first.tcp_flags), (Some((1024, 80)), Some(2)));
    let later = Key::of_ip(&ipv4(6, 0x0003, &TCP_SYN)).unwrap();
    assert_eq!((later.protocol, later.ports, later.tcp_flags), (Some(6), None, None));
    let header = |place: u8| [&[6, 0, 0, place, 0, 0, 0, 1][..], &TCP_SYN].concat();
    let first = Key::of_ip(&ipv6(44, &header(1))).unwrap();
    assert_eq!((first.protocol, first.ports), (Some(6), Some((1024, 80))));
    let later = Key::of_ip(&ipv6(44, &header(8))).unwrap();
    assert_eq!((later.protocol, later.ports), (Some(6), None));
    // Behind a later fragment's destination options lies nobody knows what.
    let hidden = Key::of_ip(&ipv6(44, &[60, 0, 0, 8, 0, 0, 0, 1, 6, 0, 0, 0])).unwrap();
    assert_eq!(hidden.protocol, None);
}

#[test]
fn what_is_cut_off_is_absent() {
    let packet = ipv4(6, 0, &TCP_SYN);
    for captured in 0..=packet.len() {
        let key = Key::of_ip(&packet[..captured]);
        assert_eq!(key.is_some(), captured >= 20, "{captured}");
        let Some(key) = key else { continue };
        assert_eq!(key.ports.is_some(), captured >= 24, "{captured}");
        assert_eq!(key.tcp_flags.is_some(), captured >= 34, "{captured}");
    }
    let mut padded = ipv4(17, 0, &[]);
    padded.extend([0; 26]);
    assert_eq!(Key::of_ip(&padded).unwrap().ports, None, "padding is no header");
    let mut short_header = packet;
    short_header[0] = 0x44;
    assert_eq!(Key::of_ip(&short_header).unwrap().ports, None);
    assert_eq!(Key::of_ip(&[0x50; 60]), None);
}

#[test]
fn the_ipv6_protocol_is_the_upper_layers() {
    let options = [60, 0, 0, 0, 0, 0, 0, 0];
    let last = [6, 0, 0, 0, 0, 0, 0, 0];
    let packet = ipv6(0, &[&options[..], &last, &TCP_SYN].concat());
    let key = Key::of_ip(&packet).unwrap();
    assert_eq!((key.family, key.source, key.destination), (Family::Ipv6, 1, 2));
    assert_eq!((key.protocol, key.ports, key.tcp_flags), (Some(6), Some((1024, 80)), Some(2)));
    for captured in 40..56 {
        assert_eq!(Key::of_ip(&packet[..captured]).unwrap().protocol, None, "{captured}");
    }
    assert_eq!(Key::of_ip(&packet[..56]).unwrap().protocol, Some(6));
    let endless: Vec<u8> = options.iter().copied().cycle().take(8 * 40).collect();
    assert_eq!(Key::of_ip(&ipv6(60, &endless)).unwrap().protocol, None);
}

#[test]
fn what_lies_before_ip_is_passed_over() {
    let ip = ipv4(6, 0, &TCP_SYN);
    let key = Key::of_ip(&ip);
    let after = |header: &[u8]| [header, &ip[..]].concat();
    let ethernet = |tail: &[u8]| after(&[&[0; 12][..], tail].concat());
    let tagged = ethernet(&[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 8, 0]);
    assert_eq!(Key::of_packet(LinkType::ETHERNET, &ethernet(&[8, 0])), key);
    assert_eq!(Key::of_packet(LinkType::ETHERNET, &tagged), key);
    // The header's own version decides, as for the flow.
    assert_eq!(Key::of_packet(LinkType::ETHERNET, &ethernet(&[0x86, 0xdd])), key);
    assert_eq!(Key::of_packet(LinkType::ETHERNET, &ethernet(&[8, 6])), None);
    let cooked = [&[0; 14][..], &[8, 0]].concat();
    assert_eq!(Key::of_packet(LinkType::LINUX_SLL, &after(&cooked)), key);
    let cooked = [&[8, 0][..], &[0; 18]].concat();
    assert_eq!(Key::of_packet(LinkType::LINUX_SLL2, &after(&cooked)), key);
    assert_eq!(Key::of_packet(LinkType::NULL, &after(&[2, 0, 0, 0])), key);
    assert_eq!(Key::of_packet(LinkType::RAW, &ip), key);
    assert_eq!(Key::of_packet(LinkType(105), &ip), None);
    // A capture's own MPLS, PPPoE, SNAP and backbone headers, alone and behind a tag.
    let headers: [&[u8]; 8] = [
        &[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64],
        &[0x81, 0, 0, 7, 0x88, 0x48, 0, 2, 1, 64],
        &[0x88, 0x64, 0x11, 0, 0, 9, 0, 42, 0, 0x21],
        &[0x88, 0x64, 0x11, 0, 0, 9, 0, 42, 0x21],
        &[0, 48, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0],
        &[0x81, 0, 0, 7, 0, 48, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0],
        &[0x89, 0x3f, 0, 1, 0, 2, 0, 3, 8, 0],
        &[0x88, 0xe7, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 8, 0],
    ];
    for header in headers {
        assert_eq!(Key::of_packet(LinkType::ETHERNET, &ethernet(header)), key, "{header:x?}");
    }
    // Discovery, an unknown organisation, labels without a bottom: no IP.
    let others: [&[u8]; 3] = [
        &[0x88, 0x63, 0x11, 0, 0, 9, 0, 42, 0, 0x21],
        &[0, 48, 0xaa, 0xaa, 3, 0, 0, 1, 8, 0],
        &[0x88, 0x47, 0, 1, 0, 64],
    ];
    for header in others {
        assert_eq!(Key::of_packet(LinkType::ETHERNET, &ethernet(header)), None, "{header:x?}");
    }
    let framed: [(u32, &[u8]); 6] = [
        (9, &[0xff, 3, 0, 0x21]),
        (50, &[0xff, 3, 0, 0x21]),
        (9, &[0x21]),
        (51, &[0x11, 0, 0, 9, 0, 42, 0, 0x21]),
        (104, &[0x0f, 0, 8, 0]),
        (12, &[]),
    ];
    for (link, header) in framed {
        assert_eq!(Key::of_packet(LinkType(link), &after(header)), key, "{link}");
    }
    let labels: Vec<u8> = [0x88, 0x47].into_iter().chain([0; 400]).collect();
    assert_eq!(Key::of_packet(LinkType::ETHERNET, &ethernet(&labels)), None);
    for captured in 0..tagged.len() {
        let cut = Key::of_packet(LinkType::ETHERNET, &tagged[..captured]);
        assert_eq!(cut.is_some(), captured >= 22 + 20, "{captured}");
    }
}

/// Frames of the commonest kind have a short way to the key, which finds the same.
#[test]
fn plain_frames_have_the_key_of_any_packet() {
    let plain = PlainHead::of(&ethernet(&ipv4(6, 0, &TCP_SYN))).unwrap();
    assert_eq!((plain.protocol(), plain.ports, plain.tcp_flags), (6, (1024, 80), Some(2)));
    let mut found = 0;
    for protocol in [6, 17] {
        let frame = ethernet(&ipv4(protocol, 0, &TCP_SYN));
        let cut = (0..frame.len()).map(|len| frame[..len].to_vec());
        let changed = (12..frame.len()).flat_map(|at| {
            [0, 1, 6, 17, 20, 24, 33, 34, 0x20, 0x45, 0x46, 0xff].map(|value| {
                let mut frame = frame.clone();
                frame[at] = value;
                frame
            })
        });
        for frame in cut.chain(changed) {
            let expected = Key::of_packet(LinkType::ETHERNET, &frame);
            let packed = Packed::of_packet(LinkType::ETHERNET, &frame);
            assert_eq!(packed, expected.as_ref().map(Packed::from), "{frame:02x?}");
            found += usize::from(PlainHead::of(&frame).is_some());
        }
    }
    assert!(found > 300, "{found}");
}

fn ethernet(packet: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &[8, 0], packet].concat()
}
