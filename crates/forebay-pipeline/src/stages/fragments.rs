//! Sends every fragment of a datagram where its first fragment goes.
//!
//! Only the first fragment has the transport header (RFC 791 section 3.2, RFC 8200
//! section 4.5), so the others are looked up by address pair, protocol and
//! identification. A fragment that comes before its first is held, and everything
//! after it too, so that the output keeps the order of the input. The wait is
//! bounded in packets, bytes and capture time, and on a live link in time. A
//! fragment whose first does not come within these bounds goes by its address pair,
//! with what follows of its datagram, and is counted: it is exempt from the promise
//! of whole flows.
//!
//! A datagram that is whole is soon forgotten: identifications are used again, within
//! seconds on a fast link, and a fragment of the next datagram of that name may come
//! before its first.
//!
//! Work is per batch unless a batch holds fragments. Memory is bounded by the
//! window and by a table of [`MAX_DATAGRAMS`] datagrams, the oldest out first.

use std::collections::{HashMap, VecDeque};

use forebay_packet::fragment::{FragmentKey, FragmentNote, FragmentRole, FragmentSpan};
use forebay_packet::{Batch, FlowKey};

use crate::remarks::Remarks;
use crate::stage::{Outbox, Promises, Stage, StageError};

/// Datagrams that are remembered.
pub const MAX_DATAGRAMS: usize = 1 << 14;

/// How long a datagram's identification is good for, in nanoseconds of capture
/// time: RFC 791 recommends to give up reassembly after 15 s, RFC 8200 after 60 s.
const REASSEMBLY: i64 = 30_000_000_000;

/// How long a whole datagram is remembered, in nanoseconds of capture time, for copies
/// of its fragments.
const COPIES: i64 = 1_000_000_000;

/// The most fragments of a datagram whose places are kept: more than 65,535 bytes need
/// on any link that IPv6 allows. Of a datagram with more it is never known that it is
/// whole.
const MAX_SPANS: usize = 64;

/// The first batches of the queue are held in the regions they came in, each of at most
/// [`REGION_IN_PLACE`] bytes: most waits end within them, and need no copy. Later batches are
/// copied, which bounds what they take.
const IN_PLACE: usize = 4;
const REGION_IN_PLACE: usize = 1 << 20;

/// What a fragment that waits takes besides its packet, in bytes: its place in the map of those
/// who wait, which may be half empty, and in the list of its batch.
const A_NOTE: usize = 2 * (size_of::<FragmentKey>() + size_of::<Vec<(u64, usize)>>()) + 128;

/// How far to look ahead for the first fragment of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The most packets that are held.
    pub packets: u64,
    /// The most bytes of memory that held packets take, as if all of them were compacted.
    pub bytes: u64,
    /// The longest that is waited, in nanoseconds of capture time.
    pub capture_nanos: i64,
    /// The longest that is waited on the monotonic clock, in nanoseconds, where
    /// packets must not be late.
    pub live_nanos: Option<u64>,
}

impl Window {
    /// For captures: they can wait as long as the memory is small.
    pub const OFFLINE: Self =
        Self { packets: 65_536, bytes: 8 << 20, capture_nanos: REASSEMBLY, live_nanos: None };
}

/// What is known of a datagram.
#[derive(Clone, Copy)]
struct Datagram {
    hash: u64,
    key: FlowKey,
    reversed: bool,
    seen: i64,
    /// The first fragment never came: `hash` is that of the address pair.
    orphaned: bool,
}

/// A datagram that is remembered.
struct Known {
    datagram: Datagram,
    /// Tells this entry from an earlier one under the same identification.
    serial: u64,
    /// Parts that have come.
    spans: Vec<FragmentSpan>,
    /// When the last missing part came.
    whole_since: Option<i64>,
}

impl Known {
    /// Takes note of a part. A copy of one that has come changes nothing.
    fn add(&mut self, span: FragmentSpan, nanos: i64) {
        let copy = self.spans.iter().any(|known| known.start == span.start);
        if copy || self.spans.len() == MAX_SPANS {
            return;
        }
        self.spans.push(span);
        let end = self.spans.iter().find(|span| span.last).map(|span| u32::from(span.end));
        let come: u32 = self.spans.iter().map(|s| u32::from(s.end.saturating_sub(s.start))).sum();
        if end.is_some_and(|end| come >= end) {
            // Parts that waited for the first are older than it.
            self.whole_since = Some(nanos.max(self.datagram.seen));
        }
    }

    /// Whether that is the same datagram: a copy of its first fragment has come.
    fn is_copied_by(&self, other: &Datagram) -> bool {
        let same =
            |a: &Datagram, b: &Datagram| (a.hash, a.key, a.orphaned) == (b.hash, b.key, b.orphaned);
        self.whole_since.is_some() && self.is_current(other.seen) && same(&self.datagram, other)
    }

    /// Whether a fragment at that time may still be one of this datagram.
    fn is_current(&self, nanos: i64) -> bool {
        let within = |since: i64, limit: i64| nanos.abs_diff(since) <= limit.unsigned_abs();
        within(self.datagram.seen, REASSEMBLY)
            && self.whole_since.is_none_or(|since| within(since, COPIES))
    }
}

/// A batch in the queue.
struct Waiting {
    batch: Batch,
    /// Notes that wait for a first fragment: indexes into the batch's fragments.
    open: Vec<usize>,
    since: Option<u64>,
    bytes: u64,
    packets: u64,
}

/// Reunites the fragments of datagrams.
pub struct Fragments {
    window: Window,
    datagrams: HashMap<FragmentKey, Known>,
    /// Datagrams in the order of their entry, with their serial numbers.
    order: VecDeque<(FragmentKey, u64)>,
    serial: u64,
    queue: VecDeque<Waiting>,
    /// Number of the queue's front batch, counted from the first ever queued.
    front: u64,
    /// Who waits for which datagram: batch number and index of the note.
    waiting: HashMap<FragmentKey, Vec<(u64, usize)>>,
    held_packets: u64,
    held_bytes: u64,
    now: Option<u64>,
    joined: u64,
    orphaned: u64,
}

impl Fragments {
    /// Looks ahead as far as `window`.
    #[must_use]
    pub fn new(window: Window) -> Self {
        Self {
            window,
            datagrams: HashMap::new(),
            order: VecDeque::new(),
            serial: 0,
            queue: VecDeque::new(),
            front: 0,
            waiting: HashMap::new(),
            held_packets: 0,
            held_bytes: 0,
            now: None,
            joined: 0,
            orphaned: 0,
        }
    }

    fn known(&self, key: &FragmentKey, nanos: i64) -> Option<Datagram> {
        let known = self.datagrams.get(key).filter(|known| known.is_current(nanos));
        known.map(|known| known.datagram)
    }

    /// Remembers a datagram, forgetting the oldest where there are too many.
    fn remember(&mut self, key: FragmentKey, datagram: Datagram) {
        if let Some(known) = self.datagrams.get(&key)
            && known.is_copied_by(&datagram)
        {
            return;
        }
        self.serial += 1;
        let known = Known { datagram, serial: self.serial, spans: Vec::new(), whole_since: None };
        self.datagrams.insert(key, known);
        self.order.push_back((key, self.serial));
        while self.order.len() > MAX_DATAGRAMS {
            let Some((oldest, serial)) = self.order.pop_front() else { break };
            if self.datagrams.get(&oldest).is_some_and(|known| known.serial == serial) {
                self.datagrams.remove(&oldest);
            }
        }
    }

    /// Whether a fragment of the batch will have to wait for a later batch.
    fn must_wait(&self, batch: &Batch) -> bool {
        let notes = &batch.fragments;
        notes.iter().any(|note| {
            note.role != FragmentRole::First
                && self.known(&note.key, batch.nanos(usize::from(note.packet))).is_none()
                && !notes.iter().any(|n| n.role == FragmentRole::First && n.key == note.key)
        })
    }

    /// Works through the notes of the queue's last batch.
    fn read_notes(&mut self) {
        let number = self.front + self.queue.len() as u64 - 1;
        let Some(last) = self.queue.back() else { return };
        let notes = last.batch.fragments.clone();
        for (i, note) in notes.iter().enumerate() {
            if note.role == FragmentRole::First {
                // Where the packet also carries a later fragment, its hash is not
                // final yet: it is announced when that is settled.
                if last_note_of(&notes, note.packet).role == FragmentRole::First {
                    self.announce(note, self.datagram_of(number, note.packet, false));
                }
                continue;
            }
            let nanos = self.batch(number).nanos(usize::from(note.packet));
            match self.known(&note.key, nanos) {
                Some(datagram) => {
                    let firsts = self.settle(number, i, &datagram);
                    firsts.into_iter().for_each(|(note, datagram)| self.announce(&note, datagram));
                }
                None => {
                    self.waiting.entry(note.key).or_default().push((number, i));
                    self.waiting_batch(number).open.push(i);
                }
            }
        }
    }

    fn batch(&self, number: u64) -> &Batch {
        &self.queue[(number - self.front) as usize].batch
    }

    fn waiting_batch(&mut self, number: u64) -> &mut Waiting {
        &mut self.queue[(number - self.front) as usize]
    }

    /// What fragments of a datagram inherit from one of its packets.
    fn datagram_of(&self, number: u64, packet: u16, orphaned: bool) -> Datagram {
        let batch = self.batch(number);
        let i = usize::from(packet);
        Datagram {
            hash: batch.hash[i],
            key: batch.key[i],
            reversed: batch.reversed[i],
            seen: batch.nanos(i),
            orphaned,
        }
    }

    /// Remembers a datagram and settles those who waited for it, and those who
    /// waited for these: a list, not a recursion, because packets can be made to
    /// wait for one another in long chains.
    fn announce(&mut self, note: &FragmentNote, datagram: Datagram) {
        let mut news = vec![(*note, datagram)];
        while let Some((note, datagram)) = news.pop() {
            self.remember(note.key, datagram);
            if note.role == FragmentRole::First {
                self.add_span(&note, datagram.seen);
            }
            for (number, i) in self.waiting.remove(&note.key).unwrap_or_default() {
                news.append(&mut self.settle(number, i, &datagram));
            }
        }
    }

    fn add_span(&mut self, note: &FragmentNote, nanos: i64) {
        if let Some(known) = self.datagrams.get_mut(&note.key) {
            known.add(note.span, nanos);
        }
    }

    /// Note `i` of a batch has found its datagram. Returns the datagrams that the
    /// packet is the first fragment of, on outer levels.
    fn settle(
        &mut self,
        number: u64,
        i: usize,
        datagram: &Datagram,
    ) -> Vec<(FragmentNote, Datagram)> {
        let waiting = self.waiting_batch(number);
        waiting.open.retain(|&open| open != i);
        let batch = &mut waiting.batch;
        let note = batch.fragments[i];
        let FragmentNote { packet, role, .. } = note;
        let at = usize::from(packet);
        batch.hash[at] = datagram.hash;
        if role == FragmentRole::Later && !datagram.orphaned {
            batch.key[at] = datagram.key;
            batch.reversed[at] = datagram.reversed;
        }
        if role == FragmentRole::Later {
            let nanos = batch.nanos(at);
            self.add_span(&note, nanos);
        }
        *(if datagram.orphaned { &mut self.orphaned } else { &mut self.joined }) += 1;
        let notes = &self.batch(number).fragments;
        let firsts = notes.iter().filter(|n| n.packet == packet && n.role == FragmentRole::First);
        firsts.map(|n| (*n, self.datagram_of(number, packet, datagram.orphaned))).collect()
    }

    /// Lets go of the front of the queue as far as nothing in it waits.
    fn release(&mut self, out: &mut Outbox) {
        while self.queue.front().is_some_and(|waiting| waiting.open.is_empty()) {
            let Some(waiting) = self.queue.pop_front() else { break };
            self.front += 1;
            self.held_packets -= waiting.packets;
            self.held_bytes -= waiting.bytes;
            out.emit(waiting.batch);
        }
    }

    /// Gives up on the first fragments that the front batch waits for. They go by
    /// their address pair or, a better guess, where a datagram of that name went
    /// shortly before.
    fn give_up_on_front(&mut self) {
        while let Some(&i) = self.queue.front().and_then(|waiting| waiting.open.first()) {
            let note = self.batch(self.front).fragments[i];
            let nanos = self.batch(self.front).nanos(usize::from(note.packet));
            let earlier = self.datagrams.get(&note.key).map(|known| known.datagram);
            let stand_in = earlier
                .filter(|earlier| nanos.abs_diff(earlier.seen) <= REASSEMBLY.unsigned_abs())
                .map(|earlier| Datagram { orphaned: true, ..earlier })
                .unwrap_or_else(|| self.datagram_of(self.front, note.packet, true));
            // Settles this note among others, so the loop comes to an end.
            self.announce(&note, stand_in);
        }
    }

    /// Whether the front of the queue has waited long enough.
    fn is_overdue(&self, capture_now: Option<i64>) -> bool {
        let Some(front) = self.queue.front() else { return false };
        let packet_of = |&i: &usize| usize::from(front.batch.fragments[i].packet);
        let oldest = front.open.first().map(packet_of).map(|i| front.batch.nanos(i));
        let waited = match (capture_now, oldest) {
            (Some(now), Some(oldest)) => now.saturating_sub(oldest),
            _ => 0,
        };
        let waited_live = match (self.window.live_nanos, self.now, front.since) {
            (Some(limit), Some(now), Some(since)) => now.saturating_sub(since) > limit,
            _ => false,
        };
        self.held_packets > self.window.packets
            || self.held_bytes > self.window.bytes
            || waited > self.window.capture_nanos
            || waited_live
    }

    fn let_go(&mut self, capture_now: Option<i64>, out: &mut Outbox) {
        self.release(out);
        while self.is_overdue(capture_now) {
            self.give_up_on_front();
            self.release(out);
        }
    }
}

/// The last note of a packet: the only one that may have to be settled.
fn last_note_of(notes: &[FragmentNote], packet: u16) -> FragmentNote {
    let end = notes.partition_point(|note| note.packet <= packet);
    notes[end - 1]
}

impl Stage for Fragments {
    fn name(&self) -> &'static str {
        "fragments"
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: false }
    }

    fn process(&mut self, batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        if self.queue.is_empty() && batch.fragments.is_empty() {
            out.emit(batch);
            return Ok(());
        }
        let fits = self.queue.len() < IN_PLACE && batch.region().len() <= REGION_IN_PLACE;
        let in_place = fits && !batch.region().is_shared();
        let batch = if !in_place && (!self.queue.is_empty() || self.must_wait(&batch)) {
            let no_memory = |source| StageError::Memory { stage: "fragments", source };
            batch.compact().map_err(no_memory)?
        } else {
            batch
        };
        let live = batch.live();
        let capture_now = live.iter().last().map(|i| batch.nanos(i));
        let packets = live.count() as u64;
        let bytes = batch.footprint() + (batch.fragments.len() * A_NOTE) as u64;
        self.held_packets += packets;
        self.held_bytes += bytes;
        self.queue.push_back(Waiting { batch, open: Vec::new(), since: self.now, bytes, packets });
        self.read_notes();
        self.let_go(capture_now, out);
        Ok(())
    }

    fn tick(&mut self, now: u64, out: &mut Outbox) -> Result<(), StageError> {
        self.now = Some(now);
        self.let_go(None, out);
        Ok(())
    }

    fn drain(&mut self, out: &mut Outbox) -> Result<(), StageError> {
        while !self.queue.is_empty() {
            self.give_up_on_front();
            self.release(out);
        }
        Ok(())
    }

    fn held(&self) -> u64 {
        self.held_packets
    }

    fn remarks(&self) -> Remarks {
        Remarks::from([
            ("fragments_joined", self.joined),
            ("fragments_without_first", self.orphaned),
        ])
    }
}
