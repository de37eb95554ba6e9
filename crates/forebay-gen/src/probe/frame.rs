//! The bytes of a probe.
//!
//! | bytes | |
//! |---|---|
//! | 0–13 | Ethernet |
//! | 14–33 | IPv4 without options |
//! | 34–41 | UDP, without a checksum (RFC 768 allows that over IPv4) |
//! | 42–45 | [`MAGIC`] |
//! | 46–49 | the flow's number |
//! | 50–57 | the frame's number in its flow, from 0 |
//! | 58–59 | the number of the generator's run |
//! | 60– | zeros |
//!
//! Numbers are big-endian. Receivers also accept probes with VLAN tags.

use forebay_packet::MacAddress;

use crate::checksum::{fold, sum_words};

/// Identifies a probe.
const MAGIC: [u8; 4] = *b"FBPR";

const IP: usize = 14;
const UDP: usize = IP + 20;
const NUMBERS: usize = UDP + 8;
const END: usize = NUMBERS + 18;

/// The shortest frame, without frame check sequence.
pub const MIN_FRAME: usize = 60;

/// The numbers that a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Probe {
    /// The flow.
    pub flow: u32,
    /// The frame's number in it, from 0.
    pub sequence: u64,
    /// The run of the generator: each run numbers the frames of its flows from 0.
    pub run: u16,
}

impl Probe {
    /// The numbers of a frame, if it is a probe.
    #[must_use]
    pub fn of_frame(frame: &[u8]) -> Option<Self> {
        let mut at = 12;
        // Up to two VLAN tags (IEEE 802.1Q, 802.1ad).
        for _ in 0..2 {
            match frame.get(at..at + 2)? {
                [0x81, 0x00] | [0x88, 0xa8] => at += 4,
                _ => break,
            }
        }
        let tags = at - 12;
        let ipv4 = frame.get(at..at + 2)? == [0x08, 0x00] && frame.get(IP + tags) == Some(&0x45);
        let numbers = frame.get(NUMBERS + tags..END + tags)?;
        if !ipv4 || numbers[..4] != MAGIC {
            return None;
        }
        let flow = u32::from_be_bytes(numbers[4..8].try_into().ok()?);
        let sequence = u64::from_be_bytes(numbers[8..16].try_into().ok()?);
        let run = u16::from_be_bytes(numbers[16..18].try_into().ok()?);
        // The next number must be valid too.
        (sequence < u64::MAX).then_some(Self { flow, sequence, run })
    }
}

/// The common content of all frames.
#[derive(Clone, Debug)]
pub struct ProbeFrame {
    bytes: Vec<u8>,
}

impl ProbeFrame {
    /// Frames of `len` bytes, at least [`MIN_FRAME`] and at most 65,535, between two
    /// stations.
    #[must_use]
    pub fn new(len: usize, destination: MacAddress, source: MacAddress) -> Self {
        let len = len.clamp(MIN_FRAME, usize::from(u16::MAX));
        let mut bytes = vec![0; len];
        bytes[..6].copy_from_slice(&destination.0);
        bytes[6..12].copy_from_slice(&source.0);
        bytes[12..14].copy_from_slice(&[0x08, 0x00]);
        bytes[IP] = 0x45;
        bytes[IP + 2..IP + 4].copy_from_slice(&((len - IP) as u16).to_be_bytes());
        bytes[IP + 8] = 64;
        bytes[IP + 9] = 17;
        bytes[UDP + 4..UDP + 6].copy_from_slice(&((len - UDP) as u16).to_be_bytes());
        bytes[NUMBERS..NUMBERS + 4].copy_from_slice(&MAGIC);
        Self { bytes }
    }

    /// The frame with these numbers. Flows differ in addresses and ports.
    pub fn with(&mut self, probe: Probe) -> &[u8] {
        let Probe { flow, sequence, run } = probe;
        let bytes = &mut self.bytes;
        // 10.0.0.0/8 to 172.16.0.0/12; 2^32 flows have 2^24 sources and 2^8 ports.
        let [port, a, b, c] = flow.to_be_bytes();
        bytes[IP + 12..IP + 16].copy_from_slice(&[10, a, b, c]);
        bytes[IP + 16..IP + 20].copy_from_slice(&[172, 16 | (c & 15), b, a]);
        bytes[IP + 10..IP + 12].fill(0);
        let checksum = fold(sum_words(&bytes[IP..UDP]));
        bytes[IP + 10..IP + 12].copy_from_slice(&checksum.to_be_bytes());
        bytes[UDP..UDP + 2].copy_from_slice(&(1024 + u16::from(port)).to_be_bytes());
        bytes[UDP + 2..UDP + 4].copy_from_slice(&9_u16.to_be_bytes());
        bytes[NUMBERS + 4..NUMBERS + 8].copy_from_slice(&flow.to_be_bytes());
        bytes[NUMBERS + 8..NUMBERS + 16].copy_from_slice(&sequence.to_be_bytes());
        bytes[NUMBERS + 16..END].copy_from_slice(&run.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use forebay_packet::decode::DecodeOutcome;
    use forebay_packet::{Decoder, LinkType, Rewrite};

    use super::*;

    #[test]
    fn a_frame_gives_its_numbers_back_also_behind_a_tag() {
        let stations = [MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2])];
        for len in [0, 60, 512, 9_000] {
            let mut frame = ProbeFrame::new(len, stations[0], stations[1]);
            for probe in [
                Probe { flow: 0, sequence: 0, run: 0 },
                Probe { flow: 0xfedc_ba98, sequence: 0x0123_4567_89ab_cdef, run: 0x1357 },
            ] {
                let bytes = frame.with(probe);
                assert_eq!(bytes.len(), len.max(MIN_FRAME));
                assert_eq!(Probe::of_frame(bytes), Some(probe));
                assert_eq!(fold(sum_words(&bytes[IP..UDP])), 0);
                let mut tagged = vec![0; bytes.len() + 4];
                let tag = Rewrite { push_vlan: Some(9), ..Rewrite::NONE };
                tag.write(bytes, &mut tagged).unwrap();
                assert_eq!(Probe::of_frame(&tagged), Some(probe));
                for cut in 0..END {
                    assert_eq!(Probe::of_frame(&bytes[..cut]), None);
                }
            }
        }
    }

    #[test]
    fn different_flows_have_different_keys() {
        let mut frame = ProbeFrame::new(60, MacAddress([2; 6]), MacAddress([4; 6]));
        let decoder = Decoder::default();
        let mut key = |flow| {
            let decoded =
                decoder.decode(LinkType::ETHERNET, frame.with(Probe { flow, sequence: 7, run: 0 }));
            assert_eq!(decoded.outcome, DecodeOutcome::Ip);
            decoded.key
        };
        let mut keys: Vec<_> = (0..70_000).chain([u32::MAX]).map(&mut key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 70_001);
    }
}
