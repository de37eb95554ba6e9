//! Frames of capture files: pcap (draft-ietf-opsawg-pcap) and pcapng
//! (draft-ietf-opsawg-pcapng), as far as tests need them. What is damaged ends a file.

use std::path::Path;
use std::{fs, iter};

/// The link type of Ethernet.
const ETHERNET: u32 = 1;

/// Bytes in one of the two orders.
#[derive(Clone, Copy)]
struct Input<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> Input<'a> {
    fn u32(self, at: usize) -> Option<u32> {
        let word = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
    }

    fn u16(self, at: usize) -> Option<u16> {
        let half = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.big_endian { u16::from_be_bytes(half) } else { u16::from_le_bytes(half) })
    }

    fn slice(self, at: usize, length: u32) -> Option<&'a [u8]> {
        self.bytes.get(at..at + length as usize)
    }
}

/// The packets of an Ethernet capture that the kernel takes as frames, from a header and
/// a byte to what an interface's MTU can be; none of any other link type.
pub fn captured_frames(path: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).unwrap();
    let frames = match bytes.get(..4) {
        Some([0x0a, 0x0d, 0x0d, 0x0a]) => pcapng(&bytes),
        Some([0xa1, 0xb2, ..]) => pcap(Input { bytes: &bytes, big_endian: true }),
        Some([.., 0xb2, 0xa1]) => pcap(Input { bytes: &bytes, big_endian: false }),
        _ => Vec::new(),
    };
    let fits = |frame: &&[u8]| (15..=65_535).contains(&frame.len());
    frames.into_iter().filter(fits).map(<[u8]>::to_vec).collect()
}

fn pcap(input: Input<'_>) -> Vec<&[u8]> {
    // The upper bits tell of check sequences.
    if input.u32(20).is_none_or(|link| link & 0x0fff_ffff != ETHERNET) {
        return Vec::new();
    }
    let mut at = 24;
    iter::from_fn(|| {
        let frame = input.slice(at + 16, input.u32(at + 8)?)?;
        at += 16 + frame.len();
        Some(frame)
    })
    .collect()
}

fn pcapng(bytes: &[u8]) -> Vec<&[u8]> {
    let mut input = Input { bytes, big_endian: false };
    let mut links = Vec::new();
    let mut frames = Vec::new();
    let mut at = 0;
    while let Some(kind) = input.u32(at) {
        if kind == 0x0a0d_0d0a {
            input.big_endian = bytes.get(at + 8..at + 12) == Some(&[0x1a, 0x2b, 0x3c, 0x4d]);
            links.clear();
        }
        let Some(length) = input.u32(at + 4).filter(|&length| length >= 12) else { break };
        let body = at + 8;
        let packet = match kind {
            1 => {
                links.extend(input.u16(body));
                None
            }
            // Simple packets are of the first interface, and may be cut.
            3 => Some((0, body + 4, input.u32(body).map(|original| original.min(length - 16)))),
            6 => input.u32(body).map(|link| (link as usize, body + 20, input.u32(body + 12))),
            _ => None,
        };
        if let Some((interface, start, captured)) = packet {
            let Some(frame) = captured.and_then(|captured| input.slice(start, captured)) else {
                break;
            };
            if links.get(interface) == Some(&(ETHERNET as u16)) {
                frames.push(frame);
            }
        }
        at += (length as usize).next_multiple_of(4);
    }
    frames
}
