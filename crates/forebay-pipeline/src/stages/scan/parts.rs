//! The texts of the packets of a batch, those by themselves and parts of streams, scanned together:
//! the matcher takes much longer for short texts one by one.
//!
//! A stream's state moves on when its part has been scanned, so that it is not copied. What the next
//! part of the same stream in a batch has before it is taken from the part before, and copied only if
//! that one is short. A packet that fills a hole delivers the held segments behind it: these are
//! one part, so that a direction of a connection copies at most what was held of it.

use std::ops::Range;

use forebay_packet::{BATCH, Batch, NO_RECORD};
use forebay_scan::{Matches, Scanner, Scratch, StreamPart, StreamState};

use super::flows::Stream;

/// With more copied bytes than these, parts are scanned before the end of the batch.
const MOST_COPIED: usize = 1 << 18;

/// Parts after which they are scanned before the end of the batch.
const MOST_PARTS: usize = 4 * BATCH;

/// The number, from 1, of all parts from this one on: only held segments with holes between them are so
/// many.
const MOST_NUMBERED: u16 = u16::MAX;

/// Numbers of texts of a packet: its text by itself, and behind these two those of the directions of
/// its connection.
const TEXTS: u32 = 4;
const STREAMS: u32 = 2;

/// The packet of a text with this number.
pub(super) fn packet_of(text: u32) -> usize {
    (text / TEXTS) as usize
}

/// The direction whose stream the text with this number is part of; none of a text by itself.
pub(super) fn stream_of(text: u32) -> Option<usize> {
    (text % TEXTS).checked_sub(STREAMS).map(|direction| direction as usize)
}

/// Where the bytes of a part are.
#[derive(Clone, Debug)]
enum Place {
    /// In the packet whose part it is.
    Packet(Range<usize>),
    /// Among those that were copied.
    Copied(Range<usize>),
}

/// What the stream has before a part.
#[derive(Clone, Debug)]
enum Head {
    /// What its state has.
    State,
    /// Nothing.
    Empty,
    /// The end of the bytes of another part, by its index.
    Part(usize),
    /// Copied bytes.
    Copied(Range<usize>),
}

#[derive(Clone, Debug)]
struct Part {
    text: u32,
    /// The number of the flow; [`NO_RECORD`] for a text by itself.
    flow: u32,
    head: Head,
    place: Place,
}

/// Parts to be scanned.
#[derive(Debug, Default)]
pub(super) struct Parts {
    parts: Vec<Part>,
    copied: Vec<u8>,
}

impl Place {
    fn len(&self) -> usize {
        let (Self::Packet(range) | Self::Copied(range)) = self;
        range.len()
    }
}

/// At most so many of the last bytes.
fn last(bytes: &[u8], most: usize) -> &[u8] {
    &bytes[bytes.len().saturating_sub(most)..]
}

impl Parts {
    /// Adds the text that packet `i` is by itself, at `place` in it.
    pub(super) fn add_block(&mut self, i: usize, (start, len): (u32, u32)) {
        let place = Place::Packet(start as usize..(start + len) as usize);
        self.parts.push(Part { text: TEXTS * i as u32, flow: NO_RECORD, head: Head::Empty, place });
    }

    /// Adds the next bytes of a direction of stream number `flow`, which packet `i` of the batch
    /// completes: often bytes of the packet itself. `continues` tells whether they are behind those
    /// before them.
    pub(super) fn add(
        &mut self,
        (i, flow, direction, continues): (usize, u32, usize, bool),
        (bytes, batch): (&[u8], &Batch),
        (scanner, states, pending): (&Scanner, &[StreamState; 2], &mut [u16; 2]),
    ) {
        let text = TEXTS * i as u32 + STREAMS + direction as u32;
        if let Some(Part { text: last, place: Place::Copied(range), .. }) = self.parts.last_mut()
            && (*last, range.end, continues) == (text, self.copied.len(), true)
        {
            self.copied.extend_from_slice(bytes);
            range.end = self.copied.len();
            return;
        }
        let head = match pending[direction] {
            _ if !continues => Head::Empty,
            0 => Head::State,
            number => {
                let is_last = |part: &Part| (part.flow, part.text % 2) == (flow, text % 2);
                let before = match number {
                    // It may be any behind those that have a number.
                    MOST_NUMBERED => self.parts.iter().rposition(is_last).unwrap_or_default(),
                    _ => usize::from(number) - 1,
                };
                self.head_behind(before, scanner.kept(), (&states[direction], batch))
            }
        };
        let packet = batch.packet(i);
        let start = bytes.as_ptr().addr().wrapping_sub(packet.as_ptr().addr());
        let is_in_packet = start <= packet.len() && packet.len() - start >= bytes.len();
        let place = match is_in_packet {
            true => Place::Packet(start..start + bytes.len()),
            false => {
                let start = self.copied.len();
                self.copied.extend_from_slice(bytes);
                Place::Copied(start..self.copied.len())
            }
        };
        self.parts.push(Part { text, flow, head, place });
        pending[direction] = self.parts.len().min(MOST_NUMBERED.into()) as u16;
    }

    /// What a stream has behind part `before`, its last one, of which `keep` bytes count.
    fn head_behind(
        &mut self,
        before: usize,
        keep: usize,
        (state, batch): (&StreamState, &Batch),
    ) -> Head {
        let Part { text, head, place, .. } = self.parts[before].clone();
        let packet = batch.packet(packet_of(text));
        let Some(wanted) = keep.checked_sub(place.len()).filter(|&wanted| wanted > 0) else {
            return Head::Part(before);
        };
        let start = self.copied.len();
        match head {
            Head::State => self.copied.extend_from_slice(last(state.tail(), wanted)),
            Head::Empty => {}
            Head::Part(number) => {
                let Part { text, place, .. } = self.parts[number].clone();
                self.copy_last(&place, wanted, batch.packet(packet_of(text)));
            }
            Head::Copied(range) => self.copy_last(&Place::Copied(range), wanted, packet),
        }
        self.copy_last(&place, keep, packet);
        Head::Copied(start..self.copied.len())
    }

    /// Copies at most so many of the last bytes at a place, which may be in `packet`.
    fn copy_last(&mut self, place: &Place, most: usize, packet: &[u8]) {
        let skip = place.len().saturating_sub(most);
        match place {
            Place::Packet(range) => self.copied.extend_from_slice(&packet[range.clone()][skip..]),
            Place::Copied(range) => self.copied.extend_from_within(range.start + skip..range.end),
        }
    }

    /// The bytes of a part.
    fn bytes<'a>(&'a self, part: &Part, batch: &'a Batch) -> &'a [u8] {
        match &part.place {
            Place::Packet(range) => &batch.packet(packet_of(part.text))[range.clone()],
            Place::Copied(range) => &self.copied[range.clone()],
        }
    }

    /// What a stream with this state has before a part.
    fn head<'a>(
        &'a self,
        part: &Part,
        state: &'a StreamState,
        batch: &'a Batch,
        keep: usize,
    ) -> &'a [u8] {
        match &part.head {
            Head::State => state.tail(),
            Head::Empty => &[],
            Head::Part(before) => {
                let bytes = self.bytes(&self.parts[*before], batch);
                last(bytes, keep)
            }
            Head::Copied(range) => &self.copied[range.clone()],
        }
    }

    /// Whether the parts take so much memory that they are to be scanned now.
    pub(super) fn are_many(&self) -> bool {
        self.copied.len() > MOST_COPIED || self.parts.len() > MOST_PARTS
    }

    /// Scans the parts, and removes them. `streams` are by the numbers of flows.
    pub(super) fn scan(
        &mut self,
        batch: &Batch,
        streams: &mut [Stream],
        scanner: &Scanner,
        (scratch, matches): (&mut Scratch, &mut Matches),
    ) {
        for parts in self.parts.chunks(BATCH) {
            let mut list = [StreamPart::default(); BATCH];
            for (to, part) in list.iter_mut().zip(parts) {
                let (mut head, mut again): (&[u8], u8) = (&[], 0);
                if part.flow != NO_RECORD {
                    let state = &streams[part.flow as usize].states[part.text as usize % 2];
                    head = self.head(part, state, batch, scanner.kept());
                    again = match part.head {
                        Head::State => state.again(),
                        _ => u8::MAX,
                    };
                }
                *to = StreamPart { text: part.text, head, bytes: self.bytes(part, batch), again };
            }
            scanner.scan_parts(&list[..parts.len()], scratch, matches);
            for (part, &again) in parts.iter().zip(scratch.again()) {
                if part.flow == NO_RECORD {
                    continue;
                }
                let direction = part.text as usize % 2;
                let stream = &mut streams[part.flow as usize];
                let state = &mut stream.states[direction];
                if matches!(part.head, Head::Empty) {
                    state.clear();
                }
                scanner.append(self.bytes(part, batch), state);
                state.set_again(again);
                stream.pending[direction] = 0;
            }
        }
        self.parts.clear();
        self.copied.clear();
        self.copied.shrink_to(2 * MOST_COPIED);
    }
}
