//! The state of one direction of a connection.

use super::held::{Held, distance};
use super::pool::{Comparison, Delivered, Pool};
use super::uncertainty::{Uncertainties, Uncertainty};

/// The farthest that a segment can be from the expected one: the largest window (RFC 7323,
/// section 2.3).
const LARGEST_WINDOW: i32 = 1 << 30;

/// How far from the bytes of an old connection those of a new one start for certain: the largest
/// window without scaling. Linux starts them two further when it reuses a pair of ports.
const NEAR: u32 = 65_535;

/// So many acknowledgments of bytes that were not seen may come before these do. Where two taps of a
/// link have different delays, acknowledgments overtake what they are for.
const MOST_AHEAD: u8 = 8;

/// Bits of [`Direction::flags`].
const STARTED: u8 = 1;
const SYN_SEEN: u8 = 2;
const ACKED: u8 = 4;
const FIN_SEEN: u8 = 8;
const RESUMED: u8 = 16;

/// The bytes of a segment, without those of the header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data<'a> {
    /// The sequence number of the first.
    pub start: u32,
    /// Those that are captured.
    pub bytes: &'a [u8],
    /// Those that were sent.
    pub sent: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Direction {
    delivered: Delivered,
    /// The sequence number of the next byte to deliver.
    next: u32,
    /// That of the first byte.
    start: u32,
    /// The highest number that the other side has acknowledged.
    acked: u32,
    /// That of the FIN.
    fin: u32,
    /// The highest number of a segment of this side.
    seen: u32,
    held: Held,
    flags: u8,
    /// Acknowledgments of bytes that were not seen, since the last byte that was.
    ahead: u8,
    /// The last byte that was delivered, if none is missing behind it.
    last_byte: Option<u8>,
}

impl Direction {
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn is_started(&self) -> bool {
        self.has(STARTED)
    }

    /// Whether the direction started with a SYN of the sequence number before `start`.
    pub(super) fn started_by_syn(&self, start: u32) -> bool {
        self.has(SYN_SEEN) && self.start == start
    }

    /// Starts with the byte `start`.
    pub(super) fn begin(&mut self, start: u32, by_syn: bool, pool: &mut Pool) {
        self.held.clear(&mut pool.blocks);
        self.delivered.clear();
        (self.start, self.next, self.seen, self.ahead) = (start, start, start, 0);
        self.last_byte = None;
        // What was acknowledged before the SYN belongs to another connection.
        self.flags = if by_syn { SYN_SEEN } else { self.flags & ACKED };
        self.flags |= STARTED | RESUMED;
    }

    /// Fetches what the next segment is recorded in ahead of its use.
    pub(super) fn prefetch(&self, pool: &Pool) {
        pool.histories.prefetch(&self.delivered);
    }

    /// Whether `number` is that of the next byte, or the one behind the FIN.
    pub(super) fn is_next(&self, number: u32) -> bool {
        number == self.next.wrapping_add(u32::from(self.fin_reached()))
    }

    /// Whether no byte was delivered.
    pub(super) fn is_at_start(&self) -> bool {
        self.next == self.start
    }

    /// Whether bytes from `start` on could be taken for the next ones of this stream.
    pub(super) fn could_continue_at(&self, start: u32) -> bool {
        !self.is_at_start() && distance(self.next, start).unsigned_abs() <= NEAR
    }

    /// Notes that the other side has acknowledged all bytes before `number`.
    pub(super) fn acknowledge(&mut self, number: u32, found: &mut Uncertainties) {
        if !self.has(ACKED) || distance(self.acked, number) > 0 {
            self.acked = number;
            self.flags |= ACKED;
        }
        if self.is_started() && self.missing() > 0 {
            self.ahead = self.ahead.saturating_add(1);
            if self.ahead > MOST_AHEAD {
                found.insert(Uncertainty::Gap);
            }
        }
    }

    /// Notes the number of a segment of this side.
    pub(super) fn note_sent(&mut self, number: u32) {
        if (1..=LARGEST_WINDOW).contains(&distance(self.next, number))
            && distance(self.seen, number) > 0
        {
            self.seen = number;
        }
    }

    /// Whether bytes before a segment or a FIN that was seen are missing.
    pub(super) fn has_hole(&self) -> bool {
        let ahead = distance(self.next, self.seen) > i32::from(self.fin_reached());
        self.is_started() && (ahead || !self.held.is_empty())
    }

    /// Notes a gap if this side has gone on behind bytes that the other one has acknowledged, and
    /// that were not seen: they do not come any more. Continues with the bytes behind these.
    pub(super) fn check_gap(
        &mut self,
        pool: &mut Pool,
        found: &mut Uncertainties,
        deliver: &mut dyn FnMut(&[u8], bool),
    ) {
        if self.missing() <= 0 || !self.has_hole() {
            return;
        }
        found.insert(Uncertainty::Gap);
        if let Some(start) = self.held.start(&pool.blocks)
            && distance(start, self.acked) >= 0
        {
            self.skip_to(start);
            self.deliver_held(pool, deliver);
        }
    }

    /// The bytes that the other side has acknowledged and that were not delivered.
    fn missing(&self) -> i32 {
        if !self.has(ACKED) {
            return 0;
        }
        let fin = i32::from(self.fin_reached());
        distance(self.next, self.acked).saturating_sub(fin)
    }

    /// Whether all bytes before the FIN were delivered.
    pub(super) fn fin_reached(&self) -> bool {
        self.has(FIN_SEEN) && self.next == self.fin
    }

    /// Whether there are bytes that are held, or that were acknowledged and not delivered.
    pub(super) fn is_waiting(&self) -> bool {
        !self.held.is_empty() || self.is_started() && self.missing() > 0
    }

    /// How far a number is ahead of the next byte, unless that is farther than any window.
    fn ahead_in_window(&self, number: u32, found: &mut Uncertainties) -> Option<i32> {
        let ahead = distance(self.next, number);
        let is_in = (-LARGEST_WINDOW..=LARGEST_WINDOW).contains(&ahead);
        if !is_in {
            found.insert(Uncertainty::OutOfWindow);
        }
        is_in.then_some(ahead)
    }

    /// Notes a FIN with this sequence number.
    pub(super) fn finish(&mut self, fin: u32, found: &mut Uncertainties) {
        if self.ahead_in_window(fin, found).is_none() {
            return;
        }
        if !self.has(FIN_SEEN) {
            self.fin = fin;
            self.flags |= FIN_SEEN;
        } else if self.fin != fin {
            found.insert(Uncertainty::Fin);
        }
    }

    /// Takes the bytes of a segment, and delivers those that are next. `deliver` gets bytes, and
    /// whether they continue those before them.
    pub(super) fn take(
        &mut self,
        data: Data<'_>,
        pool: &mut Pool,
        found: &mut Uncertainties,
        deliver: &mut dyn FnMut(&[u8], bool),
    ) {
        let Some(ahead) = self.ahead_in_window(data.start, found) else { return };
        let mut data = data;
        if ahead < 0 {
            let repeated = data.sent.min(ahead.unsigned_abs());
            self.compare(data, repeated, pool, found);
            if repeated == data.sent {
                return;
            }
            data.start = self.next;
            data.bytes = data.bytes.get(repeated as usize..).unwrap_or_default();
            data.sent -= repeated;
        }
        if data.start == self.next {
            self.in_order(data, pool, found, deliver);
        } else {
            self.hold(data, pool, found, deliver);
        }
        self.resynchronise(pool, found, deliver);
    }

    /// Notes whether there are bytes at the FIN or behind it.
    pub(super) fn check_fin(&self, pool: &Pool, found: &mut Uncertainties) {
        let behind = |end: u32| distance(self.fin, end) > 0;
        let held = self.held.end(&pool.blocks).is_some_and(behind);
        if self.has(FIN_SEEN) && (held || behind(self.next)) {
            found.insert(Uncertainty::PastFin);
        }
    }

    /// Compares the first `repeated` bytes of a segment, which were delivered.
    fn compare(&self, data: Data<'_>, repeated: u32, pool: &Pool, found: &mut Uncertainties) {
        // A keep-alive may have one byte before the next one (RFC 9293, section 3.8.4). Of another value
        // than the byte there it is no keep-alive for a sensor that has not taken the last segment.
        if data.sent == 1 && distance(self.next, data.start) == -1 {
            let is_same = match self.is_at_start() {
                true => self.has(SYN_SEEN),
                false => self.last_byte == data.bytes.first().copied(),
            };
            if !is_same {
                found.insert(Uncertainty::Overlap);
            }
            return;
        }
        let captured = &data.bytes[..data.bytes.len().min(repeated as usize)];
        if captured.is_empty() {
            return;
        }
        match pool.histories.compare(&self.delivered, data.start, captured, self.next) {
            Comparison::Same => {}
            Comparison::Different => found.insert(Uncertainty::Overlap),
            Comparison::Unknown => found.insert(Uncertainty::Unverified),
        }
    }

    fn in_order(
        &mut self,
        data: Data<'_>,
        pool: &mut Pool,
        found: &mut Uncertainties,
        deliver: &mut dyn FnMut(&[u8], bool),
    ) {
        if !self.held.is_empty() && self.held.conflicts(&pool.blocks, data.start, data.bytes) {
            found.insert(Uncertainty::Overlap);
        }
        if !data.bytes.is_empty() {
            deliver(data.bytes, !self.has(RESUMED));
            self.flags &= !RESUMED;
            pool.histories.record(&mut self.delivered, data.start, data.bytes);
            self.next = self.next.wrapping_add(data.bytes.len() as u32);
            (self.ahead, self.last_byte) = (0, data.bytes.last().copied());
        }
        if data.sent as usize > data.bytes.len() {
            self.skip_to(data.start.wrapping_add(data.sent));
        }
        self.deliver_held(pool, deliver);
    }

    /// Delivers held bytes that are next.
    fn deliver_held(&mut self, pool: &mut Pool, deliver: &mut dyn FnMut(&[u8], bool)) {
        while let Some((block, skip)) = self.held.ready(&pool.blocks, self.next) {
            let bytes = &pool.blocks.bytes(block)[skip..];
            if !bytes.is_empty() {
                deliver(bytes, !self.has(RESUMED));
                self.flags &= !RESUMED;
                pool.histories.record(&mut self.delivered, self.next, bytes);
                self.next = self.next.wrapping_add(bytes.len() as u32);
                self.last_byte = bytes.last().copied();
            }
            self.held.pop(&mut pool.blocks);
        }
    }

    /// Continues with the byte `next`, without those before it.
    fn skip_to(&mut self, next: u32) {
        self.next = next;
        (self.ahead, self.last_byte) = (0, None);
        self.flags |= RESUMED;
        self.delivered.clear();
    }

    /// Holds the bytes of a segment. Where there is no room, the stream continues with the first
    /// bytes that there are.
    fn hold(
        &mut self,
        data: Data<'_>,
        pool: &mut Pool,
        found: &mut Uncertainties,
        deliver: &mut dyn FnMut(&[u8], bool),
    ) {
        loop {
            let inserted = self.held.insert(&mut pool.blocks, data.start, data.bytes);
            if inserted.conflict {
                found.insert(Uncertainty::Overlap);
            }
            if !inserted.full {
                return;
            }
            found.insert(Uncertainty::Memory);
            match self.held.start(&pool.blocks) {
                Some(start) if distance(data.start, start) < 0 => {
                    self.skip_to(start);
                    self.deliver_held(pool, deliver);
                }
                _ => {
                    self.skip_to(data.start);
                    self.in_order(data, pool, found, deliver);
                    return;
                }
            }
            let delivered = distance(data.start, self.next);
            if delivered >= 0 {
                let rest = data.bytes.get(delivered as usize..).unwrap_or_default();
                let sent = data.sent.saturating_sub(delivered as u32);
                let rest = Data { start: self.next, bytes: rest, sent };
                self.in_order(rest, pool, found, deliver);
                return;
            }
        }
    }

    /// Where the other side has acknowledged held bytes, those before them have reached it and were
    /// not seen: continues with the held bytes.
    pub(super) fn resynchronise(
        &mut self,
        pool: &mut Pool,
        found: &mut Uncertainties,
        deliver: &mut dyn FnMut(&[u8], bool),
    ) {
        while self.has(ACKED)
            && let Some(start) = self.held.start(&pool.blocks)
            && distance(start, self.acked) > 0
        {
            found.insert(Uncertainty::Gap);
            self.skip_to(start);
            self.deliver_held(pool, deliver);
        }
    }

    /// Ends the direction, and gives its memory back.
    pub(super) fn end(&mut self, pool: &mut Pool, found: &mut Uncertainties) {
        let unfinished = self.has(FIN_SEEN) && distance(self.next, self.fin) > 0;
        if self.is_waiting() || unfinished {
            found.insert(Uncertainty::Gap);
        }
        self.held.clear(&mut pool.blocks);
        self.delivered.clear();
        *self = Self::default();
    }
}

const _: () = assert!(size_of::<Direction>() <= 64, "the state of a direction");
