//! Headers that are taken off: what is left, byte for byte, and that its flow stays.

use forebay_packet::flow::AddressKind;
use forebay_packet::{Decoder, LinkType, MacAddress, Rewrite, Strip};
use forebay_testkit::capture;
use forebay_testkit::data::{at_least, captures, folder};
use proptest::prelude::*;

const ALL: Strip = Strip { vlan: true, mpls: true, vxlan: true, gre: true, erspan: true };

const OUTER: [u8; 12] = [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2];
const INNER: [u8; 12] = [3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4];

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// An IPv4 packet.
fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let total = (20 + payload.len()) as u16;
    let [high, low] = total.to_be_bytes();
    let header = [0x45, 0, high, low, 0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    join(&[&header, payload])
}

fn ipv6(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (payload.len() as u16).to_be_bytes();
    let header = [0x60, 0, 0, 0, high, low, protocol, 64];
    join(&[&header, &[0x20; 16], &[0x30; 16], payload])
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    let [long, short] = ((8 + payload.len()) as u16).to_be_bytes();
    join(&[&[0xc0, 0, high, low, long, short, 0, 0], payload])
}

/// What a sensor is to see.
fn plain() -> Vec<u8> {
    join(&[&INNER, &[8, 0], &ipv4(17, &udp(53, b"question"))])
}

fn strip(strip: Strip, frame: &[u8]) -> Vec<u8> {
    let rewrite = Rewrite { strip, ..Rewrite::NONE };
    let mut out = vec![0xee; frame.len()];
    let len = rewrite.write(frame, &mut out).unwrap();
    assert_eq!(len, rewrite.len_of(frame));
    assert_eq!(len + rewrite.stripped_off(frame), frame.len());
    out.truncate(len);
    out
}

/// A frame around the packet of a tunnel, with the padding of a short one behind.
fn around(ether_type: [u8; 2], packet: &[u8]) -> Vec<u8> {
    join(&[&OUTER, &ether_type, packet, &[0xaa; 7]])
}

#[test]
fn tags_are_taken_off_however_many() {
    let (head, rest) = (&plain()[..12], &plain()[12..]);
    let one = join(&[head, &[0x81, 0, 0, 5], rest]);
    let two = join(&[head, &[0x88, 0xa8, 0, 5, 0x81, 0, 0x20, 6], rest]);
    let only = Strip { vlan: true, ..Strip::NONE };
    assert_eq!(strip(only, &one), plain());
    assert_eq!(strip(only, &two), plain());
    assert_eq!(strip(only, &plain()), plain());
    let length = join(&[head, &[0x81, 0, 0, 5, 0, 3, 0x42, 0x42, 3]]);
    assert_eq!(strip(only, &length), join(&[head, &[0, 3, 0x42, 0x42, 3]]));
    assert_eq!(strip(Strip { vlan: false, ..ALL }, &two), two);
}

#[test]
fn labels_are_taken_off_and_tags_before_them_stay() {
    let packet = ipv4(17, &udp(53, b"question"));
    let labels = [0, 0, 0x10, 64, 0, 0, 0x21, 64];
    let frame = join(&[&OUTER, &[0x81, 0, 0, 5, 0x88, 0x47], &labels, &packet]);
    let only = Strip { mpls: true, ..Strip::NONE };
    assert_eq!(strip(only, &frame), join(&[&OUTER, &[0x81, 0, 0, 5, 8, 0], &packet]));
    assert_eq!(strip(ALL, &frame), join(&[&OUTER, &[8, 0], &packet]));
    let six = join(&[&OUTER, &[0x88, 0x48, 0, 0, 0x11, 64], &ipv6(17, &udp(53, b"question"))]);
    let left = join(&[&OUTER, &[0x86, 0xdd], &ipv6(17, &udp(53, b"question"))]);
    assert_eq!(strip(only, &six), left);
    let wire = join(&[&OUTER, &[0x88, 0x47], &labels, &[0; 4], &plain()]);
    assert_eq!(strip(only, &wire), plain());
    let without_word = join(&[&[0x22; 6], &plain()[6..]]);
    let wire = join(&[&OUTER, &[0x88, 0x47], &labels, &without_word]);
    assert_eq!(strip(only, &wire), without_word);
    let channel = join(&[&OUTER, &[0x88, 0x47], &labels, &[0x10; 4], &plain()]);
    assert_eq!(strip(only, &channel), channel);
}

#[test]
fn what_vxlan_and_erspan_carry_is_left_without_padding() {
    let vxlan = udp(4789, &join(&[&[8, 0, 0, 0, 0, 0, 9, 0], &plain()]));
    assert_eq!(strip(ALL, &around([8, 0], &ipv4(17, &vxlan))), plain());
    assert_eq!(strip(ALL, &around([0x86, 0xdd], &ipv6(17, &vxlan))), plain());
    let type_1 = join(&[&[0, 0, 0x88, 0xbe], &plain()]);
    let type_2 = join(&[&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 7, 0x10, 0, 0, 1, 0, 0, 0, 0], &plain()]);
    let third = [0x10, 0, 0x22, 0xeb, 0, 0, 0, 7, 0x20, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
    let type_3 = join(&[&third, &[0; 8], &plain()]);
    let only = Strip { erspan: true, ..Strip::NONE };
    for gre in [type_1, type_2, type_3] {
        let frame = around([8, 0], &ipv4(47, &gre));
        assert_eq!(strip(only, &frame), plain());
        assert_eq!(strip(Strip { erspan: false, ..ALL }, &frame), frame);
    }
}

#[test]
fn gre_leaves_the_outer_header_before_a_packet_and_none_before_a_frame() {
    let packet = ipv4(17, &udp(53, b"question"));
    let keyed = [0xb0, 0, 8, 0, 1, 1, 0, 0, 0, 0, 0, 5, 0, 0, 0, 9];
    let routed = around([8, 0], &ipv4(47, &join(&[&keyed, &packet])));
    assert_eq!(strip(ALL, &routed), join(&[&OUTER, &[8, 0], &packet]));
    let bridged = around([8, 0], &ipv4(47, &join(&[&[0, 0, 0x65, 0x58], &plain()])));
    assert_eq!(strip(Strip { gre: true, ..Strip::NONE }, &bridged), plain());
    // Whatever lies in what lies in it.
    let tagged = join(&[&INNER, &[0x81, 0, 0, 1], &plain()[12..]]);
    let nested = around([8, 0], &ipv4(47, &join(&[&[0, 0, 0x65, 0x58], &tagged])));
    assert_eq!(strip(ALL, &nested), plain());
    let source_routed = around([8, 0], &ipv4(47, &join(&[&[0x40, 0, 8, 0], &packet])));
    assert_eq!(strip(ALL, &source_routed), source_routed);
}

#[test]
fn fragments_and_other_ports_stay_as_they_are() {
    let vxlan = udp(4789, &join(&[&[8, 0, 0, 0, 0, 0, 9, 0], &plain()]));
    let mut fragment = around([8, 0], &ipv4(17, &vxlan));
    fragment[20] = 0x20;
    assert_eq!(strip(ALL, &fragment), fragment);
    let geneve = join(&[&[0, 0, 0x65, 0x58, 0, 0, 9, 0], &plain()]);
    let gtp = join(&[&[0x30, 255, 0, 36, 0, 0, 0, 9], &ipv4(17, &udp(53, b"question"))]);
    for (port, payload) in [(53, vec![8; 40]), (6081, geneve), (2152, gtp)] {
        let other = around([8, 0], &ipv4(17, &udp(port, &payload)));
        assert_eq!(strip(ALL, &other), other);
    }
    // An EtherType that GRE has, without GRE.
    let bridged = join(&[&OUTER, &[0x65, 0x58], &INNER, &[0x81, 0, 0, 5], &plain()[12..]]);
    assert_eq!(strip(ALL, &bridged), bridged);
}

#[test]
fn what_is_left_gets_addresses_and_a_tag_and_is_sliced() {
    let frame = join(&[&OUTER, &[0x81, 0, 0, 5], &plain()[12..]]);
    let rewrite = Rewrite {
        strip: ALL,
        destination: Some(MacAddress([9; 6])),
        source: Some(MacAddress([8; 6])),
        push_vlan: Some(0x123),
        slice: Some(20),
        ..Rewrite::NONE
    };
    let mut out = [0xee; 24];
    assert_eq!(rewrite.write(&frame, &mut out), Some(24));
    let head = [9, 9, 9, 9, 9, 9, 8, 8, 8, 8, 8, 8, 0x81, 0, 0x01, 0x23];
    assert_eq!(out[..], join(&[&head, &plain()[12..20]]));
    assert_eq!(rewrite.write(&frame, &mut out[..23]), None);
    let short = Rewrite { slice: Some(7), ..rewrite };
    assert_eq!(short.write(&frame, &mut out), Some(7));
    assert_eq!(out[..7], OUTER[..7]);
}

#[test]
fn the_flow_of_what_is_left_is_the_packet_s() {
    let decoder = Decoder::default();
    let (mut frames, mut changed, mut same) = (0, 0, 0);
    for path in captures(&folder()) {
        let (name, capture) = (path.display(), capture::read(&path));
        for packet in capture.packets.iter().filter(|packet| packet.link == LinkType::ETHERNET.0) {
            frames += 1;
            let left = strip(ALL, &packet.data);
            if left == packet.data {
                continue;
            }
            changed += 1;
            let before = decoder.decode(LinkType::ETHERNET, &packet.data);
            let after = decoder.decode(LinkType::ETHERNET, &left);
            // What is no IP in a tunnel is of the tunnel's flow, and now on its own.
            if matches!(after.key.kind, AddressKind::Ipv4 | AddressKind::Ipv6) {
                assert_eq!(before.key, after.key, "{name}: {:02x?}", packet.data);
                same += 1;
            }
        }
    }
    assert!(
        frames > at_least(100_000, 3_000) && same > at_least(1_000, 300),
        "{same}, {changed} of {frames}"
    );
}

proptest! {
    /// Whatever the bytes are, as much is written as is said, and no more.
    #[test]
    fn no_bytes_are_too_strange(
        start in prop::sample::select(vec![0x8100_u16, 0x8847, 0x0800, 0x86dd]),
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        slice in prop::option::of(0_u32..90),
        push_vlan in prop::option::of(0_u16..4095),
    ) {
        let mut frame = bytes.clone();
        if let Some(place) = frame.get_mut(12..14) {
            place.copy_from_slice(&start.to_be_bytes());
        }
        let rewrite = Rewrite { strip: ALL, slice, push_vlan, ..Rewrite::NONE };
        let len = rewrite.len_of(&frame);
        prop_assert!(len <= frame.len() + 4);
        let mut out = vec![0xee; len + 1];
        prop_assert_eq!(rewrite.write(&frame, &mut out), Some(len));
        prop_assert_eq!(out[len], 0xee);
    }
}
