//! Frames: TCP connections from SYN to FIN that carry the payloads of a capture's connections.
//!
//! What one side of a connection in the capture has sent is cut into frames of one size. If it ends
//! within a frame it is repeated, so that each frame with payload is full; and so are both sides of
//! a connection with fewer than [`LEAST`] frames. Of more than [`MOST`] the first are taken.
//! [`SIDE_BY_SIDE`] connections go on at a time.

use std::collections::HashMap;
use std::path::Path;

use forebay_bpf::programs::replay::{MOST_FRAMES, ReplayedFrame, identification};
use forebay_gen::checksum::{fold, sum_words};
use forebay_gen::{Config, Generator, Profile};
use forebay_io::{ReadOptions, Reader};
use forebay_packet::random::Random;
use forebay_packet::{Batch, Decoder, FlowKey};
use forebay_rules::rule::{TCP, flag};

use crate::failure::{During, Result};
use crate::suites::filters::traffic::CAPTURE;
use crate::suites::forward::traffic::{CHECK_SEQUENCE, SENSORS};

/// Frames with payload of a connection.
const LEAST: usize = 16;
const MOST: usize = 40;

/// Connections at a time.
const SIDE_BY_SIDE: usize = 64;

/// Bytes in front of the payload.
const HEADERS: usize = 54;

/// Frames without payload are as long as the shortest frame.
const SHORTEST: usize = 60;

/// Bytes of one side that are of use.
const ENOUGH: usize = MOST * 1_500;

/// Packets that are generated in place of a capture, and their flows.
const GENERATED: u64 = 40_000;
const GENERATED_FLOWS: u64 = 2_000;

const SEED: u64 = 20_261_126;

/// A connection of a capture: its ports and what each side has sent, the client's first.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    pub ports: [u16; 2],
    pub sent: [Vec<u8>; 2],
}

/// Collects the connections of a capture.
#[derive(Default)]
struct Conversations {
    places: HashMap<FlowKey, (usize, bool)>,
    all: Vec<Conversation>,
}

impl Conversations {
    fn add(&mut self, batch: &Batch) {
        let decoder = Decoder::default();
        for i in batch.live().iter() {
            let (link, packet) = (batch.interface(i).link, batch.packet(i));
            let decoded = decoder.decode(link, packet);
            let key = decoded.key;
            if key.protocol != TCP || !key.has_ports {
                continue;
            }
            let ports = [key.port_low, key.port_high];
            let (place, client_is_high) = *self.places.entry(key).or_insert_with(|| {
                // Without a SYN the client is the side with the higher port.
                let flags = decoded.tcp_flags.unwrap_or_default();
                let client_is_high = match flags & (flag::SYN | flag::ACK) {
                    flag::SYN => decoded.reversed,
                    _ => ports[1] > ports[0],
                };
                let order = if client_is_high { [ports[1], ports[0]] } else { ports };
                self.all.push(Conversation { ports: order, ..Conversation::default() });
                (self.all.len() - 1, client_is_high)
            });
            let sent = &mut self.all[place].sent[usize::from(decoded.reversed != client_is_high)];
            if sent.len() < ENOUGH {
                sent.extend_from_slice(decoder.payload(link, packet).unwrap_or_default());
            }
        }
    }
}

/// The connections of the larger data's capture, or of generated traffic where that is not there; and
/// which of the two it is.
pub fn conversations(data: &Path) -> Result<(Vec<Conversation>, bool)> {
    let path = data.join(CAPTURE);
    let mut found = Conversations::default();
    let is_captured = path.is_file();
    if is_captured {
        let reading = format!("reading {}", path.display());
        let mut reader = Reader::open(&path, &ReadOptions::default()).during(&reading)?;
        while let Some(batch) = reader.receive().during(&reading)? {
            found.add(&batch);
        }
    } else {
        let config = Config {
            packets: GENERATED,
            flows: GENERATED_FLOWS,
            seed: SEED,
            profile: Profile::Mix,
            ..Config::default()
        };
        let mut generator = Generator::new(config)?;
        while let Some(batch) = generator.next_batch().during("generating")? {
            found.add(&batch);
        }
    }
    found.all.retain(|one| one.sent.iter().any(|sent| !sent.is_empty()));
    Ok((found.all, is_captured))
}

/// A connection that is being cut into frames.
struct Connection<'a> {
    from: &'a Conversation,
    /// Its number, from which its addresses are made.
    number: usize,
    /// Frames with payload of each side, and those that were made.
    frames: [usize; 2],
    made: [usize; 2],
    next: [u32; 2],
    step: usize,
}

impl<'a> Connection<'a> {
    fn new(from: &'a Conversation, number: usize, payload: usize, random: &mut Random) -> Self {
        let mut frames = [0, 1].map(|side| from.sent[side].len().div_ceil(payload));
        let all: usize = frames.iter().sum();
        let repeated = LEAST.div_ceil(all.max(1));
        frames = frames.map(|count| count * repeated);
        if all * repeated > MOST {
            // Of both sides in proportion, at least one of each that has any.
            let kept = frames.map(|count| (count * MOST / (all * repeated)).max(count.min(1)));
            frames = kept;
        }
        let next = [random.next() as u32, random.next() as u32];
        Self { from, number, frames, made: [0; 2], next, step: 0 }
    }

    /// The next frame, if there is one: the flags, the side, and the payload's place if it has any.
    fn next(&mut self, size: usize) -> Option<ReplayedFrame> {
        self.step += 1;
        let (side, flags) = match self.step {
            1 => (0, flag::SYN),
            2 => (1, flag::SYN | flag::ACK),
            _ => match self.side() {
                Some(side) => return Some(self.data(side, size)),
                // Who has sent nothing ends without payload; the client acknowledges at last.
                None => match self.end() {
                    Some(side) => (side, flag::FIN | flag::ACK),
                    None if self.step < usize::MAX / 2 => {
                        self.step = usize::MAX / 2;
                        (0, flag::ACK)
                    }
                    None => return None,
                },
            },
        };
        let frame = self.frame(side, flags, &[], SHORTEST);
        if flags & (flag::SYN | flag::FIN) != 0 {
            self.next[side] = self.next[side].wrapping_add(1);
        }
        Some(frame)
    }

    /// The side that is behind.
    fn side(&self) -> Option<usize> {
        let [a, b] = [0, 1].map(|side| self.made[side] * self.frames[1 - side]);
        match [0, 1].map(|side| self.made[side] < self.frames[side]) {
            [true, true] => Some(usize::from(b < a)),
            [true, false] => Some(0),
            [false, true] => Some(1),
            [false, false] => None,
        }
    }

    /// A side without payload that has not ended.
    fn end(&mut self) -> Option<usize> {
        let side = (0..2).find(|&side| self.frames[side] == 0 && self.made[side] == 0)?;
        self.made[side] = 1;
        Some(side)
    }

    fn data(&mut self, side: usize, size: usize) -> ReplayedFrame {
        let sent = &self.from.sent[side];
        let len = size - HEADERS;
        let start = self.made[side] * len;
        let payload: Vec<u8> = (start..start + len).map(|at| sent[at % sent.len()]).collect();
        self.made[side] += 1;
        let is_last = self.made[side] == self.frames[side];
        // The input has NAPI by GRO, which holds no segment back that is to be pushed: frames of several
        // flows would change places.
        let flags = flag::ACK | flag::PSH | if is_last { flag::FIN } else { 0 };
        let frame = self.frame(side, flags, &payload, size);
        self.next[side] = self.next[side].wrapping_add((len + usize::from(is_last)) as u32);
        frame
    }

    fn frame(&self, side: usize, flags: u8, payload: &[u8], size: usize) -> ReplayedFrame {
        let number = self.number;
        let client = [10, 0, (number / 256 + 1) as u8, number as u8];
        let server = [198, 51, 100, (number % 250 + 1) as u8];
        let from_client = side == 0;
        let (source, destination) = if from_client { (client, server) } else { (server, client) };
        let ports = [self.from.ports[side], self.from.ports[1 - side]];
        let mut bytes = vec![0; size];
        bytes[..6].copy_from_slice(&SENSORS[0].0);
        bytes[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 8, 0]);
        let total = (HEADERS - 14 + payload.len()) as u16;
        bytes[14..16].copy_from_slice(&[0x45, 0]);
        bytes[16..18].copy_from_slice(&total.to_be_bytes());
        bytes[22..24].copy_from_slice(&[64, TCP]);
        bytes[26..30].copy_from_slice(&source);
        bytes[30..34].copy_from_slice(&destination);
        bytes[34..36].copy_from_slice(&ports[0].to_be_bytes());
        bytes[36..38].copy_from_slice(&ports[1].to_be_bytes());
        bytes[38..42].copy_from_slice(&self.next[side].to_be_bytes());
        if flags & flag::ACK != 0 {
            bytes[42..46].copy_from_slice(&self.next[1 - side].to_be_bytes());
        }
        bytes[46..50].copy_from_slice(&[0x50, flags, 0xff, 0xff]);
        bytes[HEADERS..HEADERS + payload.len()].copy_from_slice(payload);
        ReplayedFrame { bytes, from_client }
    }
}

/// Writes the identification of a frame's place, and its checksums.
pub fn place(frame: &mut ReplayedFrame, place: usize) {
    let bytes = &mut frame.bytes;
    bytes[18..20].copy_from_slice(&identification(place).to_be_bytes());
    bytes[24..26].fill(0);
    bytes[50..52].fill(0);
    let header = fold(sum_words(&bytes[14..34]));
    bytes[24..26].copy_from_slice(&header.to_be_bytes());
    let len = u16::from_be_bytes([bytes[16], bytes[17]]) - 20;
    let pseudo = sum_words(&bytes[26..34]) + u64::from(TCP) + u64::from(len);
    let segment = fold(pseudo + sum_words(&bytes[34..34 + usize::from(len)]));
    bytes[50..52].copy_from_slice(&segment.to_be_bytes());
}

/// The frames of a round, with payload in frames of `size` bytes, of which the check sequence is a
/// part that virtual interfaces do not have; and how many connections they are.
pub fn frames(conversations: &[Conversation], size: usize) -> (Vec<ReplayedFrame>, usize) {
    let size = size - CHECK_SEQUENCE;
    let mut random = Random::new(SEED);
    let mut left = MOST_FRAMES;
    let mut waiting: Vec<Connection<'_>> = Vec::new();
    for (number, one) in conversations.iter().enumerate() {
        let connection = Connection::new(one, number, size - HEADERS, &mut random);
        // The handshake, ends without payload, and the last acknowledgment.
        let frames = connection.frames.iter().sum::<usize>() + 5;
        if frames > left {
            break;
        }
        left -= frames;
        waiting.push(connection);
    }
    let connections = waiting.len();
    let mut waiting = waiting.into_iter();
    let mut open: Vec<Connection<'_>> = waiting.by_ref().take(SIDE_BY_SIDE).collect();
    let mut frames = Vec::new();
    let mut turn = 0;
    while !open.is_empty() {
        turn %= open.len();
        match open[turn].next(size) {
            Some(mut frame) => {
                place(&mut frame, frames.len());
                frames.push(frame);
                turn += 1;
            }
            None => match waiting.next() {
                Some(next) => open[turn] = next,
                None => drop(open.remove(turn)),
            },
        }
    }
    (frames, connections)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_packet::LinkType;

    #[test]
    fn connections_are_whole_and_frames_with_payload_are_full() {
        let conversations = [
            Conversation { ports: [40_000, 80], sent: [b"GET / HTTP/1.1".to_vec(), Vec::new()] },
            Conversation { ports: [40_001, 443], sent: [vec![1; 5_000], vec![2; 90_000]] },
            Conversation { ports: [40_002, 25], sent: [vec![3; 1], vec![4; 700]] },
        ];
        for size in [64, 512, 1_500] {
            let (frames, connections) = frames(&conversations, size);
            assert_eq!(connections, 3);
            let mut next: HashMap<(FlowKey, bool), (u32, u8)> = HashMap::new();
            for (number, frame) in frames.iter().enumerate() {
                let bytes = &frame.bytes;
                assert_eq!(fold(sum_words(&bytes[14..34])), 0);
                assert_eq!(bytes[18..20], identification(number).to_be_bytes());
                let decoder = Decoder::default();
                let (plain, carried) = decoder.decode_plain_with_carried(bytes).unwrap();
                let (len, flags) = (carried.payload.len(), plain.tcp_flags.unwrap());
                assert!(len == 0 || bytes.len() == size - CHECK_SEQUENCE);
                assert!(len > 0 || bytes.len() == SHORTEST);
                assert_eq!(flags & flag::PSH != 0, len > 0);
                let (sequence, _) = carried.tcp_numbers.unwrap();
                let key = decoder.decode(LinkType::ETHERNET, bytes).key;
                let known = next.entry((key, plain.reversed)).or_insert((sequence, 0));
                assert_eq!(known.0, sequence);
                let ends = (flags & (flag::SYN | flag::FIN)).count_ones();
                known.0 = sequence.wrapping_add(len as u32 + ends);
                known.1 |= flags;
            }
            assert_eq!(next.len(), 6);
            let both = flag::SYN | flag::FIN;
            assert!(next.values().all(|(_, flags)| flags & both == both));
        }
    }

    #[test]
    fn payloads_are_generated_where_no_capture_is() {
        let (made, is_captured) = conversations(Path::new("/nonexistent")).unwrap();
        assert!(!is_captured && made.len() > 100);
        let (frames, connections) = frames(&made, 1_500);
        assert!(frames.len() > 16 * connections && frames.len() <= MOST_FRAMES);
    }
}
