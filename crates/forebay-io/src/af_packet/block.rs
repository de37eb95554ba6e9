//! The packets of a block from the kernel (`tpacket_block_desc`, `tpacket3_hdr` in
//! linux/if_packet.h), completed in place.
//!
//! The kernel keeps two parts of a packet beside it. The outermost VLAN tag was removed by
//! the device or the stack: it is inserted again between addresses and EtherType, for which
//! there is room before the packet. And a packet sent by this host, for instance through a
//! veth pair, may have a checksum that covers only the pseudo-header, for a device to
//! complete: the `virtio_net_hdr` before the packet has the start of the covered bytes and
//! the offset of the checksum.
//!
//! Lengths written by the kernel are checked against the block: one that points outside
//! ends the parsing.

use forebay_packet::PacketMeta;

/// Bits of a packet's status.
const CHECKSUM_NOT_READY: u32 = 1 << 3;
const VLAN_VALID: u32 = 1 << 4;
const VLAN_PROTOCOL_VALID: u32 = 1 << 6;

/// Offset of the packet type in the address after the packet's header, and the type of
/// packets that this host sends. Some kernels deliver these to groups although they were
/// excluded.
const PACKET_TYPE: usize = 58;
const OUTGOING: u8 = 4;

/// Bytes of a VLAN tag, and its default protocol.
const TAG: usize = 4;
const TAG_PROTOCOL: u16 = 0x8100;

/// Bytes of the two addresses of a frame.
const ADDRESSES: usize = 12;

/// Bytes of a `virtio_net_hdr`, and its flag for an incomplete checksum.
const OFFLOAD: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;

/// Offset of the checksum in an SCTP header. It is not an Internet checksum, and no other
/// protocol has one at that offset.
const SCTP_CHECKSUM: usize = 8;

/// Bytes that the kernel reserves before each packet: for a tag, inserted after the offload
/// header was read.
pub(super) const RESERVE: usize = TAG;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Counts of changes to packets, and of coalesced ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Notes {
    pub tags_restored: u64,
    pub checksums_completed: u64,
    pub glued: u64,
}

/// Completes the packets of a block, and appends their descriptions to `packets`. The block
/// begins at byte `base` of its region.
pub(super) fn read(block: &mut [u8], base: usize, packets: &mut Vec<PacketMeta>) -> Notes {
    let mut notes = Notes::default();
    let count = u32_at(block, 12).unwrap_or_default();
    let mut at = u32_at(block, 16).unwrap_or_default() as usize;
    for _ in 0..count {
        let Some(next) = block.get_mut(at..).and_then(|rest| {
            if rest.get(PACKET_TYPE) == Some(&OUTGOING) {
                return u32_at(rest, 0);
            }
            let (mut meta, next) = read_packet(rest, &mut notes)?;
            meta.offset += (base + at) as u32;
            packets.push(meta);
            Some(next)
        }) else {
            break;
        };
        at += next as usize;
    }
    notes
}

/// The packet at the start of `bytes`, its offset, and the distance to the next one.
fn read_packet(bytes: &mut [u8], notes: &mut Notes) -> Option<(PacketMeta, u32)> {
    let next = u32_at(bytes, 0)?;
    let seconds = u64::from(u32_at(bytes, 4)?);
    let nanos = u64::from(u32_at(bytes, 8)?);
    let mut cap_len = u32_at(bytes, 12)?;
    let mut wire_len = u32_at(bytes, 16)?;
    let status = u32_at(bytes, 20)?;
    let mut start = usize::from(u16_at(bytes, 24)?);
    let end = start + cap_len as usize;
    if end > bytes.len() || start < OFFLOAD + TAG {
        return None;
    }
    let offload: [u8; OFFLOAD] = bytes[start - OFFLOAD..start].try_into().ok()?;
    if status & CHECKSUM_NOT_READY != 0 && cap_len == wire_len {
        notes.checksums_completed += u64::from(complete(&mut bytes[start..end], offload));
    }
    // The kind of segmentation, 0 for none.
    notes.glued += u64::from(offload[1] != 0);
    if status & VLAN_VALID != 0 && cap_len as usize >= ADDRESSES {
        let identifier = u32_at(bytes, 32)? as u16;
        let told = status & VLAN_PROTOCOL_VALID != 0;
        let protocol = if told { u16_at(bytes, 36)? } else { TAG_PROTOCOL };
        bytes.copy_within(start..start + ADDRESSES, start - TAG);
        let tag = start - TAG + ADDRESSES;
        bytes[tag..tag + 2].copy_from_slice(&protocol.to_be_bytes());
        bytes[tag + 2..tag + TAG].copy_from_slice(&identifier.to_be_bytes());
        start -= TAG;
        cap_len += TAG as u32;
        wire_len += TAG as u32;
        notes.tags_restored += 1;
    }
    let ticks = seconds * NANOS_PER_SECOND + nanos;
    let meta = PacketMeta { offset: start as u32, cap_len, wire_len, ticks, interface: 0 };
    Some((meta, next))
}

/// Completes a packet's Internet checksum (RFC 1071), whose field has the sum of the
/// pseudo-header. Returns false if the header does not request that, or the offsets are
/// invalid.
fn complete(packet: &mut [u8], offload: [u8; OFFLOAD]) -> bool {
    let [flags, .., a, b, c, d] = offload;
    let begin = usize::from(u16::from_ne_bytes([a, b]));
    let field = usize::from(u16::from_ne_bytes([c, d]));
    if flags & NEEDS_CHECKSUM == 0 || field == SCTP_CHECKSUM {
        return false;
    }
    let Some(covered) = packet.get_mut(begin..) else { return false };
    if field + 2 > covered.len() {
        return false;
    }
    // Zero would mean "no checksum"; its complement is equivalent.
    let sum = match !sum(covered) {
        0 => 0xffff,
        sum => sum,
    };
    covered[field..field + 2].copy_from_slice(&sum.to_ne_bytes());
    true
}

/// The one's complement sum of 16-bit words, in host byte order.
fn sum(bytes: &[u8]) -> u16 {
    let mut words = bytes.chunks_exact(4);
    let mut sum: u64 = words
        .by_ref()
        .map(|word| u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]])))
        .sum();
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    sum += u64::from(u32::from_ne_bytes(last));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet in the kernel's layout, with its descriptor.
    struct Laid<'a> {
        packet: &'a [u8],
        status: u32,
        vlan: (u16, u16),
        offload: [u8; OFFLOAD],
    }

    /// A block of those packets, with room for a tag before each.
    fn block_of(packets: &[Laid<'_>]) -> Vec<u8> {
        const START: usize = 96;
        let mut block = vec![0; 48];
        block[12..16].copy_from_slice(&(packets.len() as u32).to_ne_bytes());
        block[16..20].copy_from_slice(&48_u32.to_ne_bytes());
        for laid in packets {
            let mut bytes = vec![0; (START + laid.packet.len()).next_multiple_of(16)];
            let next = bytes.len() as u32;
            let len = laid.packet.len() as u32;
            for (at, word) in [(0, next), (4, 5), (8, 7), (12, len), (16, len), (20, laid.status)] {
                bytes[at..at + 4].copy_from_slice(&u32::to_ne_bytes(word));
            }
            bytes[24..26].copy_from_slice(&(START as u16).to_ne_bytes());
            bytes[32..36].copy_from_slice(&u32::from(laid.vlan.1).to_ne_bytes());
            bytes[36..38].copy_from_slice(&laid.vlan.0.to_ne_bytes());
            bytes[START - OFFLOAD..START].copy_from_slice(&laid.offload);
            bytes[START..START + laid.packet.len()].copy_from_slice(laid.packet);
            block.extend(bytes);
        }
        block
    }

    fn plain(packet: &[u8]) -> Laid<'_> {
        Laid { packet, status: 1, vlan: (0, 0), offload: [0; OFFLOAD] }
    }

    fn packets_of(block: &mut [u8]) -> (Vec<Vec<u8>>, Notes) {
        let mut metas = Vec::new();
        let notes = read(block, 4096, &mut metas);
        let bytes = |meta: &PacketMeta| {
            assert_eq!((meta.cap_len, meta.ticks), (meta.wire_len, 5 * NANOS_PER_SECOND + 7));
            let start = meta.offset as usize - 4096;
            block[start..start + meta.cap_len as usize].to_vec()
        };
        (metas.iter().map(bytes).collect(), notes)
    }

    const FRAME: [u8; 20] = [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 8, 0, 3, 4, 5, 6, 7, 8];

    #[test]
    fn stripped_tags_are_put_back_with_their_protocol() {
        let told = VLAN_VALID | VLAN_PROTOCOL_VALID;
        let mut block = block_of(&[
            plain(&FRAME),
            Laid { status: told, vlan: (0x88a8, 0xe123), ..plain(&FRAME) },
            Laid { status: VLAN_VALID, vlan: (0, 5), ..plain(&FRAME) },
            Laid { status: told, vlan: (0x8100, 0), ..plain(&FRAME[..11]) },
        ]);
        let (packets, notes) = packets_of(&mut block);
        assert_eq!(packets[0], FRAME);
        let tagged = |tag: [u8; 4]| [&FRAME[..12], &tag, &FRAME[12..]].concat();
        assert_eq!(packets[1], tagged([0x88, 0xa8, 0xe1, 0x23]));
        assert_eq!(packets[2], tagged([0x81, 0, 0, 5]));
        assert_eq!(packets[3], FRAME[..11], "no frame");
        assert_eq!((notes.tags_restored, notes.checksums_completed), (2, 0));
    }

    /// An Internet checksum the slow way, in network order.
    fn checksum(bytes: &[u8]) -> u16 {
        let mut sum = 0_u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn half_done_checksums_are_completed() {
        for len in [20, 21, 22, 23, 999, 1460] {
            let begin = 34;
            let mut packet: Vec<u8> = (0..begin + len).map(|i| (i * 7 + len) as u8).collect();
            let pseudo = [10, 0, 0, 1, 10, 0, 0, 2, 0, 6, (len >> 8) as u8, len as u8];
            let field = begin + 16;
            packet[field..field + 2].copy_from_slice(&[0, 0]);
            let expected = checksum(&[&pseudo[..], &packet[begin..]].concat());
            packet[field..field + 2].copy_from_slice(&(!checksum(&pseudo)).to_be_bytes());
            let mut offload = [0; OFFLOAD];
            offload[0] = NEEDS_CHECKSUM;
            offload[6..8].copy_from_slice(&(begin as u16).to_ne_bytes());
            offload[8..].copy_from_slice(&16_u16.to_ne_bytes());
            let half_done = Laid { status: CHECKSUM_NOT_READY | 1, offload, ..plain(&packet) };
            let tagged = Laid {
                status: half_done.status | VLAN_VALID,
                vlan: (0, 9),
                offload,
                packet: &packet,
            };
            let (packets, notes) = packets_of(&mut block_of(&[half_done, tagged]));
            assert_eq!(notes.checksums_completed, 2);
            assert_eq!(packets[0][field..field + 2], expected.to_be_bytes(), "{len}");
            assert_eq!(packets[1][field + 4..field + 6], expected.to_be_bytes(), "{len}");
        }
    }

    #[test]
    fn what_the_host_sends_is_left_out() {
        let mut block = block_of(&[plain(&FRAME), plain(&FRAME[..18]), plain(&FRAME)]);
        block[48 + PACKET_TYPE] = OUTGOING;
        assert_eq!(packets_of(&mut block).0, [&FRAME[..18], &FRAME]);
    }

    #[test]
    fn a_checksum_outside_of_the_packet_is_left_alone() {
        for (begin, field) in [(20_u16, 0_u16), (19, 0), (0, 19), (u16::MAX, u16::MAX), (0, 8)] {
            let mut offload = [0; OFFLOAD];
            offload[0] = NEEDS_CHECKSUM;
            offload[6..8].copy_from_slice(&begin.to_ne_bytes());
            offload[8..].copy_from_slice(&field.to_ne_bytes());
            let laid = Laid { status: CHECKSUM_NOT_READY, offload, ..plain(&FRAME) };
            let (packets, notes) = packets_of(&mut block_of(&[laid]));
            assert_eq!((&packets[0][..], notes.checksums_completed), (&FRAME[..], 0));
        }
    }

    #[test]
    fn no_content_of_a_block_leads_out_of_it() {
        let block = block_of(&[plain(&FRAME), plain(&FRAME)]);
        for at in 0..block.len() / 2 {
            for value in [0_u8, 1, 0x7f, 0xff] {
                let mut damaged = block.clone();
                damaged[at] = value;
                let mut metas = Vec::new();
                read(&mut damaged, 0, &mut metas);
                for meta in &metas {
                    assert!((meta.offset + meta.cap_len) as usize <= block.len(), "byte {at}");
                }
            }
        }
        for cut in 0..block.len() {
            read(&mut block[..cut].to_vec(), 0, &mut Vec::new());
        }
    }
}
