//! Frames made for a test.

/// Addresses of most frames.
pub const SOURCE: [u8; 6] = [0x02, 0, 0, 0, 0, 0x0a];
pub const DESTINATION: [u8; 6] = [0x02, 0, 0, 0, 0, 0x0b];

pub const SYN: u8 = 0x02;
pub const ACK: u8 = 0x10;

/// One end of a connection: an address of 10.0.0.0/16 or fd00::/112, and a port.
pub type End = (u16, u16);

/// An Ethernet frame with those VLAN tags (type, then priority and identifier).
pub fn ethernet(tags: &[(u16, u16)], ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [DESTINATION, SOURCE].concat();
    for &(kind, tag) in tags {
        frame.extend(kind.to_be_bytes());
        frame.extend(tag.to_be_bytes());
    }
    frame.extend(ether_type.to_be_bytes());
    frame.extend(payload);
    frame
}

fn ipv4_address(end: End) -> [u8; 4] {
    let [high, low] = end.0.to_be_bytes();
    [10, 0, high, low]
}

fn ipv6_address(end: End) -> [u8; 16] {
    let mut address = [0; 16];
    address[0] = 0xfd;
    address[14..].copy_from_slice(&end.0.to_be_bytes());
    address
}

/// An IPv4 packet without options; `fragment` is its fragment field.
pub fn ipv4(protocol: u8, from: End, to: End, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + payload.len()).unwrap();
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0x12, 0x34]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(ipv4_address(from));
    packet.extend(ipv4_address(to));
    packet.extend(payload);
    packet
}

/// An IPv6 packet.
pub fn ipv6(next_header: u8, from: End, to: End, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
    packet.extend([next_header, 64]);
    packet.extend(ipv6_address(from));
    packet.extend(ipv6_address(to));
    packet.extend(payload);
    packet
}

/// The ports that TCP and UDP begin with.
pub fn ports(from: End, to: End) -> Vec<u8> {
    [from.1.to_be_bytes(), to.1.to_be_bytes()].concat()
}

/// A UDP header and so many bytes of payload.
pub fn udp_header(from: End, to: End, payload: usize) -> Vec<u8> {
    let length = u16::try_from(8 + payload).unwrap();
    let mut header = ports(from, to);
    header.extend(length.to_be_bytes());
    header.resize(8 + payload, 0);
    header
}

/// A TCP header with those flags.
pub fn tcp_header(from: End, to: End, flags: u8) -> Vec<u8> {
    let mut header = ports(from, to);
    header.extend([0; 8]);
    header.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    header
}

/// A frame with UDP over IPv4.
pub fn udp(from: End, to: End) -> Vec<u8> {
    ethernet(&[], 0x0800, &ipv4(17, from, to, 0, &udp_header(from, to, 18)))
}

/// A frame with TCP over IPv4.
pub fn tcp(from: End, to: End, flags: u8) -> Vec<u8> {
    ethernet(&[], 0x0800, &ipv4(6, from, to, 0, &tcp_header(from, to, flags)))
}

/// A frame with UDP over IPv6.
pub fn udp6(from: End, to: End) -> Vec<u8> {
    ethernet(&[], 0x86dd, &ipv6(17, from, to, &udp_header(from, to, 18)))
}

/// A frame with a later fragment of UDP over IPv4.
pub fn fragment(from: End, to: End) -> Vec<u8> {
    ethernet(&[], 0x0800, &ipv4(17, from, to, 185, &[0; 40]))
}
