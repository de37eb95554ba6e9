//! Captures made by hand, byte by byte: pcap and pcapng in either byte order.

/// LINKTYPE_ETHERNET.
pub const ETHERNET: u32 = 1;
/// LINKTYPE_RAW.
pub const RAW: u32 = 101;

/// The header and clock of a pcap.
#[derive(Clone, Copy, Debug)]
pub struct Pcap {
    /// Byte order.
    pub big_endian: bool,
    /// Nanoseconds or microseconds.
    pub nanoseconds: bool,
    /// Link type.
    pub link: u32,
    /// Snapshot length.
    pub snap_len: u32,
}

impl Pcap {
    /// Little-endian, microseconds, of this link type.
    pub const fn of(link: u32) -> Self {
        Self { big_endian: false, nanoseconds: false, link, snap_len: 262_144 }
    }

    fn word(self, value: u32) -> [u8; 4] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn half(self, value: u16) -> [u8; 2] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    /// The file header.
    pub fn header(self) -> Vec<u8> {
        let magic = if self.nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        let mut bytes = self.word(magic).to_vec();
        bytes.extend(self.half(2));
        bytes.extend(self.half(4));
        bytes.extend([0; 8]);
        bytes.extend(self.word(self.snap_len));
        bytes.extend(self.word(self.link));
        bytes
    }

    /// A record; the clock's fraction of a second is cut to its resolution.
    pub fn record(self, nanos: u64, data: &[u8], wire_len: u32) -> Vec<u8> {
        let fraction = (nanos % 1_000_000_000) as u32;
        let fraction = if self.nanoseconds { fraction } else { fraction / 1_000 };
        let mut bytes = Vec::with_capacity(16 + data.len());
        for value in [(nanos / 1_000_000_000) as u32, fraction, data.len() as u32, wire_len] {
            bytes.extend(self.word(value));
        }
        bytes.extend(data);
        bytes
    }

    /// A file of whole packets, one a millisecond.
    pub fn file(self, packets: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.header();
        for (i, packet) in (0_u64..).zip(packets) {
            let nanos = 1_700_000_000_000_000_000 + i * 1_000_000 + 123_456 + i % 1_000;
            bytes.extend(self.record(nanos, packet, packet.len() as u32));
        }
        bytes
    }
}

/// A pcapng block, little-endian: draft-ietf-opsawg-pcapng section 3.1.
pub fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let total = (padded as u32 + 12).to_le_bytes();
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend(total);
    bytes.extend(body);
    bytes.resize(8 + padded, 0);
    bytes.extend(total);
    bytes
}

/// A Section Header Block.
pub fn section() -> Vec<u8> {
    let mut body = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
    body.extend([1, 0, 0, 0]);
    body.extend([0xff; 8]);
    block(0x0a0d_0d0a, &body)
}

/// An Interface Description Block whose clock ticks 10^-`digits` seconds.
pub fn interface(link: u32, digits: u8) -> Vec<u8> {
    let mut body = (link as u16).to_le_bytes().to_vec();
    body.extend([0, 0]);
    body.extend(262_144_u32.to_le_bytes());
    body.extend([9, 0, 1, 0, digits, 0, 0, 0]);
    body.extend([0; 4]);
    block(1, &body)
}

/// An Enhanced Packet Block of a whole packet.
pub fn enhanced(interface: u32, ticks: u64, data: &[u8]) -> Vec<u8> {
    let len = data.len() as u32;
    let mut body = Vec::new();
    for value in [interface, (ticks >> 32) as u32, ticks as u32, len, len] {
        body.extend(value.to_le_bytes());
    }
    body.extend(data);
    block(6, &body)
}

/// The time stamps of a little-endian pcapng's Enhanced Packet Blocks, in ticks, with
/// the interface and clock exponent of each.
pub fn ticks(bytes: &[u8]) -> Vec<(u32, u8, u64)> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let (mut at, mut exponents, mut found) = (0, Vec::new(), Vec::new());
    while at < bytes.len() {
        let (kind, total) = (word(at), word(at + 4) as usize);
        match kind {
            1 => exponents.push(exponent(&bytes[at + 16..at + total - 4])),
            6 => {
                let interface = word(at + 8);
                let ticks = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
                found.push((interface, exponents[interface as usize], ticks));
            }
            _ => {}
        }
        at += total;
    }
    found
}

/// `if_tsresol` among options: 6 where it is not there.
fn exponent(mut options: &[u8]) -> u8 {
    while let [code, 0, len, 0, rest @ ..] = options {
        match code {
            0 => break,
            9 => return rest[0],
            _ => options = &rest[usize::from(*len).next_multiple_of(4)..],
        }
    }
    6
}

/// An Ethernet frame of an IPv4 packet with the given fragment field (flags and offset).
pub fn ipv4(
    source: [u8; 4],
    destination: [u8; 4],
    id: u16,
    fragment: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, 0x45, 0];
    frame.extend((20 + payload.len() as u16).to_be_bytes());
    frame.extend(id.to_be_bytes());
    frame.extend(fragment.to_be_bytes());
    frame.extend([64, 17, 0, 0]);
    frame.extend(source);
    frame.extend(destination);
    frame.extend(payload);
    frame
}

/// An Ethernet frame of a UDP datagram between two addresses.
pub fn udp(source: ([u8; 4], u16), destination: ([u8; 4], u16), data: &[u8]) -> Vec<u8> {
    let mut payload = source.1.to_be_bytes().to_vec();
    payload.extend(destination.1.to_be_bytes());
    payload.extend((8 + data.len() as u16).to_be_bytes());
    payload.extend([0, 0]);
    payload.extend(data);
    ipv4(source.0, destination.0, 0, 0, &payload)
}

/// The same packet without its Ethernet header: for [`RAW`].
pub fn without_ethernet(frame: &[u8]) -> Vec<u8> {
    frame[14..].to_vec()
}

/// `count` datagrams of as many flows, all different in length and bytes.
pub fn datagrams(count: u16) -> Vec<Vec<u8>> {
    let one = |i: u16| {
        let [high, low] = i.to_be_bytes();
        let data = vec![low; 1 + usize::from(i % 300)];
        udp(([10, 1, high, low], 1024 + i), ([192, 0, 2, 1], 53), &data)
    };
    (0..count).map(one).collect()
}
