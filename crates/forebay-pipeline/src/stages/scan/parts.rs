//! The parts of streams that the packets of a batch have, scanned together: the matcher takes much
//! longer for short texts one by one.
//!
//! A stream's state moves on at once, so that the next part of the same stream finds it. What it
//! had before is copied. A packet that fills a hole delivers the held segments behind it: these are
//! one part, so that a direction of a connection copies at most what was held of it.

use std::ops::Range;

use forebay_packet::{BATCH, Batch};
use forebay_scan::{Matches, Scanner, Scratch, StreamPart, StreamState};

use super::flows::Stream;

/// With more copied bytes than these, parts are scanned before the end of the batch.
const MOST_COPIED: usize = 1 << 18;

/// Where the bytes of a part are.
#[derive(Clone, Debug)]
enum Place {
    /// In the packet whose part it is.
    Packet(Range<usize>),
    /// Among those that were copied.
    Copied(Range<usize>),
}

#[derive(Clone, Debug)]
struct Part {
    /// Twice the packet and the direction.
    text: u32,
    /// What the state of the stream had before, as copied.
    head: Range<usize>,
    again: u8,
    place: Place,
    /// The number of the flow.
    flow: u32,
}

/// Parts of streams to be scanned.
#[derive(Debug, Default)]
pub(super) struct Parts {
    parts: Vec<Part>,
    copied: Vec<u8>,
}

impl Parts {
    /// Adds the next bytes of a stream, which packet `text / 2` of the batch completes: often
    /// bytes of `packet` itself. `continues` tells whether they are behind those before them.
    pub(super) fn add(
        &mut self,
        (text, flow, continues): (u32, u32, bool),
        (bytes, packet): (&[u8], &[u8]),
        (scanner, state): (&Scanner, &mut StreamState),
    ) {
        if let Some(Part { text: last, place: Place::Copied(range), .. }) = self.parts.last_mut()
            && (*last, range.end, continues) == (text, self.copied.len(), true)
        {
            self.copied.extend_from_slice(bytes);
            range.end = self.copied.len();
            scanner.append(bytes, state);
            return;
        }
        let (head, again) = (self.copy(state.tail()), state.again());
        let start = bytes.as_ptr().addr().wrapping_sub(packet.as_ptr().addr());
        let is_in_packet = start <= packet.len() && packet.len() - start >= bytes.len();
        let place = match is_in_packet {
            true => Place::Packet(start..start + bytes.len()),
            false => Place::Copied(self.copy(bytes)),
        };
        scanner.append(bytes, state);
        self.parts.push(Part { text, head, again, place, flow });
    }

    fn copy(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.copied.len();
        self.copied.extend_from_slice(bytes);
        start..self.copied.len()
    }

    /// Whether the copies take so much memory that the parts are to be scanned now.
    pub(super) fn are_many(&self) -> bool {
        self.copied.len() > MOST_COPIED
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
                let Part { text, head, again, place, .. } = part;
                let bytes = match place {
                    Place::Packet(range) => &batch.packet(*text as usize / 2)[range.clone()],
                    Place::Copied(range) => &self.copied[range.clone()],
                };
                let head = &self.copied[head.clone()];
                *to = StreamPart { text: *text, head, bytes, again: *again };
            }
            scanner.scan_parts(&list[..parts.len()], scratch, matches);
            // The last part of a stream counts: none was added since.
            for (part, &again) in parts.iter().zip(scratch.again()) {
                let states = &mut streams[part.flow as usize].states;
                states[part.text as usize % 2].set_again(again);
            }
        }
        self.parts.clear();
        self.copied.clear();
        self.copied.shrink_to(2 * MOST_COPIED);
    }
}
