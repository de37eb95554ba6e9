//! The payload of a packet, byte for byte, behind headers of every kind.

use forebay_packet::{DecodeOptions, Decoder, LinkType};

/// An Ethernet frame with padding behind its content.
fn frame(ether_type: [u8; 2], content: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &ether_type, content, &[0xaa; 7]].concat()
}

/// An IPv4 packet with so many words of options and this fragment field.
fn ipv4(protocol: u8, options: u8, fragment: u16, content: &[u8]) -> Vec<u8> {
    let total = (20 + 4 * usize::from(options) + content.len()) as u16;
    let mut packet = vec![0x45 + options, 0];
    packet.extend(total.to_be_bytes());
    packet.extend([0, 7]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(vec![1; 4 * usize::from(options)]);
    packet.extend(content);
    packet
}

fn ipv6(next_header: u8, content: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((content.len() as u16).to_be_bytes());
    packet.extend([next_header, 64]);
    packet.extend([0x20; 32]);
    packet.extend(content);
    packet
}

fn udp(port: u16, content: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0xc0, 0];
    datagram.extend(port.to_be_bytes());
    datagram.extend((8 + content.len() as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(content);
    datagram
}

/// A TCP segment whose header is said to have so many words.
fn tcp(words: u8, content: &[u8]) -> Vec<u8> {
    let mut segment = vec![0xc0, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, words << 4, 0x18];
    segment.resize(20.max(4 * usize::from(words)), 0);
    segment.extend(content);
    segment
}

fn payload(packet: &[u8]) -> Option<&[u8]> {
    Decoder::default().payload(LinkType::ETHERNET, packet)
}

#[test]
fn a_payload_is_what_is_behind_the_transport_header() {
    let content = b"content";
    let fragment_header = |offset: u16| {
        let [high, low] = (offset << 3).to_be_bytes();
        [&[17, 0, high, low, 0, 0, 0, 7][..], content].concat()
    };
    let options = [&[6, 0, 1, 4, 0, 0, 0, 0][..], &tcp(5, content)].concat();
    for packet in [
        frame([8, 0], &ipv4(17, 0, 0, &udp(53, content))),
        frame([8, 0], &ipv4(17, 3, 0, &udp(53, content))),
        frame([8, 0], &ipv4(6, 0, 0, &tcp(5, content))),
        frame([8, 0], &ipv4(6, 0, 0, &tcp(9, content))),
        // A first fragment has a transport header, a later one has none.
        frame([8, 0], &ipv4(17, 0, 0x2000, &udp(53, content))),
        frame([8, 0], &ipv4(17, 0, 4, content)),
        frame([0x86, 0xdd], &ipv6(44, &fragment_header(4))),
        frame([0x86, 0xdd], &ipv6(60, &options)),
        frame([0x81, 0], &[&[0, 9, 8, 0][..], &ipv4(17, 0, 0, &udp(53, content))].concat()),
        // Other protocols: all behind the IP header.
        frame([8, 0], &ipv4(1, 0, 0, content)),
        frame([0x86, 0xdd], &ipv6(89, content)),
    ] {
        assert_eq!(payload(&packet), Some(&content[..]), "{packet:02x?}");
    }
}

#[test]
fn a_payload_is_that_of_the_innermost_packet() {
    let inner = ipv4(6, 0, 0, &tcp(5, b"inside"));
    let gre = [&[0, 0, 8, 0][..], &inner].concat();
    let vxlan = [&[8, 0, 0, 0, 0, 0, 9, 0][..], &[2; 12], &[8, 0], &inner].concat();
    let no_vxlan = [&[0, 0, 0, 0, 0, 0, 9, 0][..], &inner].concat();
    for (packet, expected) in [
        (ipv4(4, 0, 0, &inner), &b"inside"[..]),
        (ipv4(47, 0, 0, &gre), b"inside"),
        (ipv4(17, 0, 0, &udp(4789, &vxlan)), b"inside"),
        (ipv4(17, 0, 0, &udp(4789, &no_vxlan)), &no_vxlan),
    ] {
        assert_eq!(payload(&frame([8, 0], &packet)), Some(expected), "{packet:02x?}");
    }
    let outermost = Decoder::new(DecodeOptions { tunnel_depth: 0, ..Default::default() });
    let packet = frame([8, 0], &ipv4(4, 0, 0, &inner));
    assert_eq!(outermost.payload(LinkType::ETHERNET, &packet), Some(&inner[..]));
    // An ICMP error is a payload itself, with the packet that it quotes.
    let error = [&[3, 1, 0, 0, 0, 0, 0, 0][..], &inner].concat();
    assert_eq!(payload(&frame([8, 0], &ipv4(1, 0, 0, &error))), Some(&error[..]));
}

#[test]
fn nothing_is_hidden_by_headers_that_are_cut_or_wrong() {
    let short = tcp(1, b"short");
    let cases = [
        (ipv4(6, 0, 0, &short), Some(&short[..])),
        (ipv4(6, 0, 0, &short[..12]), Some(&short[..12])),
        (ipv4(17, 0, 0, &[0xc0, 0, 0]), Some(&[0xc0, 0, 0][..])),
        // The header is said to extend beyond the packet.
        (ipv4(6, 0, 0, &tcp(15, b"")[..24]), Some(&[][..])),
        (vec![0x45, 0, 0], None),
        (vec![0x35; 60], None),
    ];
    for (packet, expected) in cases {
        assert_eq!(payload(&frame([8, 0], &packet)), expected, "{packet:02x?}");
    }
    assert_eq!(payload(&frame([8, 6], &[0; 28])), None);
    assert_eq!(payload(&[]), None);
}
