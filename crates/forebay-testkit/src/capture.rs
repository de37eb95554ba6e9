//! A capture reader for tests: pcap and pcapng, written from the file formats alone.
//!
//! Tests judge the product's outputs with it, so it shares no code with the product. The whole
//! file is held in memory. pcap is read in both byte orders and both clocks, including the old
//! minor versions that stored the two lengths the other way round; pcapng with any number of
//! sections and interfaces, each with its link type and clock, from enhanced, simple and obsolete
//! packet blocks.
//!
//! Reading stops at the first thing that is cut off or contradicts the format: the packets before
//! it are kept and [`Capture::cut`] is set.
//!
//! Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

use std::path::Path;

/// One captured packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The link-type number of the interface (LINKTYPE_ registry).
    pub link: u32,
    /// The captured bytes.
    pub data: Vec<u8>,
    /// Length on the wire, in bytes.
    pub wire_len: u32,
    /// Nanoseconds since 1970; 0 for a block without a timestamp.
    pub nanos: u64,
    /// Interface in order of declaration over the whole file; 0 in a pcap.
    pub interface: usize,
}

/// The packets of a file, up to its first defect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capture {
    /// The packets in file order.
    pub packets: Vec<Packet>,
    /// Whether the file ends inside a header, block or packet, contradicts its format, or is no
    /// capture at all.
    pub cut: bool,
}

/// Reads the capture at `path`.
///
/// # Panics
/// When the file cannot be read: the test that asked for it cannot go on.
pub fn read(path: impl AsRef<Path>) -> Capture {
    let path = path.as_ref();
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    parse(&bytes)
}

/// Reads a capture that is already in memory.
pub fn parse(bytes: &[u8]) -> Capture {
    let mut packets = Vec::new();
    let whole = match bytes.get(..4) {
        Some([0x0a, 0x0d, 0x0d, 0x0a]) => pcapng(bytes, &mut packets),
        Some(_) => pcap(bytes, &mut packets),
        None => None,
    };
    Capture { packets, cut: whole.is_none() }
}

/// Bytes read front to back in one byte order; `None` where they end early.
#[derive(Clone, Copy)]
struct Reader<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.bytes.split_at_checked(n)?;
        self.bytes = rest;
        Some(head)
    }

    fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn u16(&mut self) -> Option<u16> {
        let b = self.take(2)?.try_into().ok()?;
        Some(if self.big_endian { u16::from_be_bytes(b) } else { u16::from_le_bytes(b) })
    }

    fn u32(&mut self) -> Option<u32> {
        let b = self.take(4)?.try_into().ok()?;
        Some(if self.big_endian { u32::from_be_bytes(b) } else { u32::from_le_bytes(b) })
    }

    fn u64(&mut self) -> Option<u64> {
        let b = self.take(8)?.try_into().ok()?;
        Some(if self.big_endian { u64::from_be_bytes(b) } else { u64::from_le_bytes(b) })
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(self.u32()?).ok()
    }
}

/// Reads a pcap file; `None` when it is cut or is none.
fn pcap(bytes: &[u8], packets: &mut Vec<Packet>) -> Option<()> {
    let (big_endian, nanos_per_tick) = match bytes.get(..4)? {
        [0xa1, 0xb2, 0xc3, 0xd4] => (true, 1_000),
        [0xd4, 0xc3, 0xb2, 0xa1] => (false, 1_000),
        [0xa1, 0xb2, 0x3c, 0x4d] => (true, 1),
        [0x4d, 0x3c, 0xb2, 0xa1] => (false, 1),
        _ => return None,
    };
    let mut r = Reader { bytes: &bytes[4..], big_endian };
    let (_major, minor) = (r.u16()?, r.u16()?);
    r.take(12)?;
    // The upper half describes the frame check sequence.
    let link = r.u32()? & 0xffff;
    while !r.bytes.is_empty() {
        let (seconds, fraction) = (r.u32()?, r.u32()?);
        let (mut captured, mut wire_len) = (r.u32()?, r.u32()?);
        // The two lengths changed places in version 2.3, and not every writer of 2.3 knew.
        if minor < 3 || (minor == 3 && captured > wire_len) {
            std::mem::swap(&mut captured, &mut wire_len);
        }
        let data = r.take(usize::try_from(captured).ok()?)?.to_vec();
        let nanos = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * nanos_per_tick;
        packets.push(Packet { link, data, wire_len, nanos, interface: 0 });
    }
    Some(())
}

/// What an Interface Description Block declares.
struct Interface {
    link: u32,
    snap_length: usize,
    ticks_per_second: u128,
    offset_seconds: i64,
}

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const PACKET_OBSOLETE: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Reads a pcapng file; `None` when it is cut or contradicts itself.
fn pcapng(bytes: &[u8], packets: &mut Vec<Packet>) -> Option<()> {
    let mut r = Reader { bytes, big_endian: false };
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut first_of_section = 0;
    while !r.bytes.is_empty() {
        if r.bytes.starts_with(&SECTION_HEADER.to_be_bytes()) {
            r.big_endian = match r.bytes.get(8..12)? {
                [0x1a, 0x2b, 0x3c, 0x4d] => true,
                [0x4d, 0x3c, 0x2b, 0x1a] => false,
                _ => return None,
            };
            first_of_section = interfaces.len();
        }
        let kind = r.u32()?;
        let total = r.length()?;
        // Type, both copies of the length, and a body in whole words.
        if total < 12 || !total.is_multiple_of(4) {
            return None;
        }
        let body = Reader { bytes: r.take(total - 12)?, ..r };
        if r.length()? != total {
            return None;
        }
        match kind {
            INTERFACE_DESCRIPTION => interfaces.push(interface_description(body)?),
            PACKET_OBSOLETE | SIMPLE_PACKET | ENHANCED_PACKET => {
                packets.push(packet_block(kind, body, &interfaces, first_of_section)?);
            }
            _ => {}
        }
    }
    Some(())
}

fn interface_description(mut r: Reader<'_>) -> Option<Interface> {
    let link = u32::from(r.u16()?);
    r.take(2)?;
    let snap_length = match r.length()? {
        0 => usize::MAX,
        n => n,
    };
    let mut found = Interface { link, snap_length, ticks_per_second: 1_000_000, offset_seconds: 0 };
    while !r.bytes.is_empty() {
        let (code, length) = (r.u16()?, usize::from(r.u16()?));
        let mut value = Reader { bytes: r.take(length)?, ..r };
        let padding = (4 - length % 4) % 4;
        r.take(padding.min(r.bytes.len()))?;
        match code {
            0 => break,
            9 => {
                let resolution = value.u8()?;
                let exponent = u32::from(resolution & 0x7f);
                let base: u128 = if resolution & 0x80 == 0 { 10 } else { 2 };
                found.ticks_per_second = base.checked_pow(exponent)?;
            }
            14 => {
                found.offset_seconds = value.u64()?.cast_signed();
            }
            _ => {}
        }
    }
    Some(found)
}

fn packet_block(
    kind: u32,
    mut r: Reader<'_>,
    interfaces: &[Interface],
    first_of_section: usize,
) -> Option<Packet> {
    let local = match kind {
        ENHANCED_PACKET => r.length()?,
        PACKET_OBSOLETE => {
            let id = usize::from(r.u16()?);
            r.take(2)?;
            id
        }
        _ => 0,
    };
    let interface = first_of_section.checked_add(local)?;
    let source = interfaces.get(interface)?;
    let (nanos, captured, wire_len) = if kind == SIMPLE_PACKET {
        let wire_len = r.u32()?;
        (0, usize::try_from(wire_len).ok()?.min(source.snap_length), wire_len)
    } else {
        let ticks = u64::from(r.u32()?) << 32 | u64::from(r.u32()?);
        (nanoseconds(ticks, source), r.length()?, r.u32()?)
    };
    let data = r.take(captured)?.to_vec();
    Some(Packet { link: source.link, data, wire_len, nanos, interface })
}

fn nanoseconds(ticks: u64, source: &Interface) -> u64 {
    let since_offset = i128::try_from(u128::from(ticks) * 1_000_000_000 / source.ticks_per_second)
        .unwrap_or(i128::MAX);
    let total = since_offset.saturating_add(i128::from(source.offset_seconds) * 1_000_000_000);
    u64::try_from(total.max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: u32, big_endian: bool) -> [u8; 4] {
        if big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn half(value: u16, big_endian: bool) -> [u8; 2] {
        if big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn block(kind: u32, body: &[u8], big_endian: bool) -> Vec<u8> {
        let mut out = number(kind, big_endian).to_vec();
        let padded = body.len().next_multiple_of(4);
        let total = number(u32::try_from(padded).unwrap() + 12, big_endian);
        out.extend(total);
        out.extend(body);
        out.resize(8 + padded, 0);
        out.extend(total);
        out
    }

    fn words(values: &[u32], big_endian: bool) -> Vec<u8> {
        values.iter().flat_map(|&v| number(v, big_endian)).collect()
    }

    #[test]
    fn pcap_in_both_orders_and_clocks_stops_at_the_cut() {
        for big_endian in [false, true] {
            for (magic, nanos) in [(0xa1b2_c3d4, 7_000), (0xa1b2_3c4d, 7)] {
                let mut file = number(magic, big_endian).to_vec();
                file.extend([half(2, big_endian), half(4, big_endian)].concat());
                file.extend(words(&[0, 0, 65535, 0x3000_0001], big_endian));
                file.extend(words(&[1, 7, 3, 60], big_endian));
                file.extend(b"abc");
                let whole = parse(&file);
                let expected = Packet {
                    link: 1,
                    data: b"abc".to_vec(),
                    wire_len: 60,
                    nanos: 1_000_000_000 + nanos,
                    interface: 0,
                };
                assert_eq!(whole, Capture { packets: vec![expected.clone()], cut: false });
                for end in 0..file.len() {
                    let part = parse(&file[..end]);
                    assert!(part.packets.is_empty());
                    assert_eq!(part.cut, end != 24, "cut after {end} bytes");
                }
            }
        }
    }

    #[test]
    fn pcapng_knows_every_packet_block_and_each_interfaces_clock() {
        for big_endian in [false, true] {
            let mut file = words(&[0x1a2b_3c4d], big_endian);
            file.extend([half(1, big_endian), half(0, big_endian)].concat());
            file.extend([0xff; 8]);
            let mut file = block(SECTION_HEADER, &file, big_endian);
            let plain = [half(1, big_endian), [0; 2], [0; 2], [0; 2]].concat();
            file.extend(block(INTERFACE_DESCRIPTION, &plain, big_endian));
            let mut binary = [half(101, big_endian), [0; 2]].concat();
            binary.extend(number(2, big_endian));
            binary.extend([half(9, big_endian), half(1, big_endian)].concat());
            binary.extend([0x81, 0, 0, 0]);
            file.extend(block(INTERFACE_DESCRIPTION, &binary, big_endian));

            let mut enhanced = words(&[1, 0, 3, 2, 9], big_endian);
            enhanced.extend(b"xy");
            file.extend(block(ENHANCED_PACKET, &enhanced, big_endian));
            let mut obsolete = [half(0, big_endian), [0; 2]].concat();
            obsolete.extend(words(&[0, 5, 1, 1], big_endian));
            obsolete.extend(b"z");
            file.extend(block(PACKET_OBSOLETE, &obsolete, big_endian));
            let mut simple = words(&[2], big_endian);
            simple.extend(b"pq");
            file.extend(block(SIMPLE_PACKET, &simple, big_endian));

            let got = parse(&file);
            assert!(!got.cut);
            let seen: Vec<_> = got
                .packets
                .iter()
                .map(|p| (p.link, p.data.as_slice(), p.wire_len, p.nanos, p.interface))
                .collect();
            assert_eq!(
                seen,
                [
                    (101, &b"xy"[..], 9, 1_500_000_000, 1),
                    (1, &b"z"[..], 1, 5_000, 0),
                    (1, &b"pq"[..], 2, 0, 0)
                ]
            );
            assert!(parse(&file[..file.len() - 1]).cut);
            assert_eq!(parse(&file[..file.len() - 1]).packets.len(), 2);
        }
    }

    #[test]
    fn noise_is_no_capture() {
        assert_eq!(parse(b""), Capture { packets: vec![], cut: true });
        assert_eq!(parse(b"not a capture at all"), Capture { packets: vec![], cut: true });
    }
}
