//! The client's side of shared memory: batches in slots, descriptors, completions.
//!
//! The client has as many slots as the rings have entries, and a slot is free again only when its
//! completion has been taken. So neither ring is ever full, and the client reads one position of
//! the device's alone. It trusts nothing in memory: each word is read once, and the copy is checked
//! before it is used. A completion that is not the answer to a batch in flight, and an answer with
//! a match that is not possible or without the match of the probe, end the session.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use forebay_packet::random::Random;

use super::super::batch::{padded, total_len};
use super::super::probe::Probes;
use super::super::protocol::{
    Area, CLIENT_SLEEPS, COMPLETED, COMPLETION_WORDS, DESCRIPTOR_WORDS, DEVICE_SLEEPS, Descriptor,
    Layout, REGIONS, RESULT_REGION, Reply, SCAN, SUBMITTED, SetIdentity, TEXT_REGION, WORD,
    check_word, match_of, status,
};
use super::super::shared::Words;
use super::super::{BatchLimits, Cause, MAX_IN_FLIGHT, Refused, Ticket};
use crate::matches::Match;

/// A batch that the device has.
#[derive(Clone, Copy, Debug)]
struct Expected {
    id: u64,
    cookie: u64,
    ticket: Ticket,
    /// Texts of the caller's.
    texts: u32,
    /// The literal of the probe, which is the text after them.
    probe: Option<u32>,
}

/// The open batch.
#[derive(Debug)]
struct Open {
    slot: u32,
    /// For each text the offset from the first text, and the length.
    table: Vec<(u32, u32)>,
    /// Words that the texts occupy.
    words: usize,
}

/// An answer that makes the session unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Invalid;

/// Shared memory, and what the client put there.
#[derive(Debug)]
pub(super) struct Session {
    regions: Arc<[Words; REGIONS]>,
    layout: Layout,
    limits: BatchLimits,
    generation: u32,
    literals: u32,
    /// By slot, the batch that the device has.
    expected: Vec<Option<Expected>>,
    free: Vec<u32>,
    open: Option<Open>,
    /// Batches that the device has.
    outstanding: u64,
    submitted: u64,
    completed: u64,
    random: Random,
}

impl Session {
    /// Creates memory. Returns the files of the regions too.
    pub(super) fn create(
        limits: &BatchLimits,
        layout: Layout,
        generation: u32,
        set: SetIdentity,
        seed: u64,
    ) -> std::io::Result<(Self, [OwnedFd; REGIONS])> {
        let [control, texts, results] = layout.region_words();
        let (control, control_file) = Words::create(control)?;
        let (texts, texts_file) = Words::create(texts)?;
        let (results, results_file) = Words::create(results)?;
        let regions = Arc::new([control, texts, results]);
        let session = Self::new(regions, limits, layout, generation, set, seed);
        Ok((session, [control_file, texts_file, results_file]))
    }

    /// A session in memory that exists, of the sizes that the layout requires.
    pub(super) fn new(
        regions: Arc<[Words; REGIONS]>,
        limits: &BatchLimits,
        layout: Layout,
        generation: u32,
        set: SetIdentity,
        seed: u64,
    ) -> Self {
        Self {
            regions,
            layout,
            limits: *limits,
            generation,
            literals: set.literals,
            expected: vec![None; layout.slots as usize],
            free: (0..limits.in_flight.min(layout.slots)).rev().collect(),
            open: None,
            outstanding: 0,
            submitted: 0,
            completed: 0,
            random: Random::new(seed),
        }
    }

    fn control(&self) -> &Words {
        &self.regions[0]
    }

    /// The first word of a slot's texts: its table lies before them.
    fn texts_at(&self, slot: u32) -> usize {
        slot as usize * (self.layout.batch_bytes as usize / WORD) + self.layout.texts as usize
    }

    /// Appends a text to the open batch.
    pub(super) fn push(&mut self, parts: &[&[u8]]) -> Result<(), Refused> {
        let most = self.limits.bytes as usize;
        let len = total_len(parts).filter(|&len| padded(len) <= most);
        let len = len.ok_or(Refused::MayMatch(Cause::TooLong))?;
        if self.open.is_none() {
            let slot = self.free.pop().ok_or(Refused::MayMatch(Cause::Busy))?;
            self.open = Some(Open { slot, table: Vec::new(), words: 0 });
        }
        let Some(open) = &self.open else { return Err(Refused::MayMatch(Cause::Busy)) };
        let is_full = open.table.len() == self.limits.texts as usize;
        if is_full || open.words * WORD + padded(len) > most {
            return Err(Refused::Full);
        }
        self.append(parts, len);
        Ok(())
    }

    /// Appends a text for which there is room.
    fn append(&mut self, parts: &[&[u8]], len: usize) {
        let Some(open) = &mut self.open else { return };
        let (slot, at) = (open.slot, open.words);
        open.table.push(((at * WORD) as u32, len as u32));
        open.words += padded(len) / WORD;
        let at = self.texts_at(slot) + at;
        self.regions[TEXT_REGION as usize].write_text(at, parts);
    }

    /// Texts of the open batch.
    pub(super) fn open_texts(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.table.len())
    }

    /// Passes the open batch to the device. Returns whether the device must be woken.
    pub(super) fn submit(&mut self, ticket: Ticket, probes: &mut Probes) -> bool {
        let texts = self.open_texts() as u32;
        let probe = probes.next().map(|(literal, bytes)| {
            self.append(&[bytes], bytes.len());
            literal
        });
        let Some(Open { slot, table, words }) = self.open.take() else { return false };
        let first = self.texts_at(slot) - table.len();
        let table_bytes = (table.len() * WORD) as u32;
        let memory = &self.regions[TEXT_REGION as usize];
        for (place, (offset, len)) in (first..).zip(&table) {
            memory.write(place, u64::from(offset + table_bytes) | u64::from(*len) << 32);
        }
        let id = self.submitted * u64::from(MAX_IN_FLIGHT) + u64::from(slot);
        let expected = Expected { id, cookie: self.random.next(), ticket, texts, probe };
        let area = |region, offset: usize, len| Area { region, offset: offset as u64, len };
        let result_bytes = self.layout.result_bytes;
        let batch_bytes = table_bytes + (words * WORD) as u32;
        let descriptor = Descriptor {
            id,
            generation: self.generation,
            operation: SCAN,
            cookie: expected.cookie,
            texts: table.len() as u32,
            batch: area(TEXT_REGION, first * WORD, batch_bytes),
            results: area(RESULT_REGION, slot as usize * result_bytes as usize, result_bytes),
        };
        self.expected[slot as usize] = Some(expected);
        self.outstanding += 1;
        let at = self.layout.descriptor_at(self.submitted);
        self.submitted += 1;
        let control = self.control();
        control.write_array::<DESCRIPTOR_WORDS>(at, descriptor.encode());
        control.release(SUBMITTED, self.submitted);
        // Either the device sees the new position after it has marked itself asleep, or this sees
        // the mark.
        fence(Ordering::SeqCst);
        control.read(DEVICE_SLEEPS) != 0
    }

    /// Takes completions, and calls `done` for each that is valid.
    pub(super) fn take(
        &mut self,
        mut done: impl FnMut(Ticket, Result<Vec<Match>, Cause>),
    ) -> Result<(), Invalid> {
        let completed = self.control().acquire(COMPLETED);
        let ready = completed.wrapping_sub(self.completed);
        if ready > self.outstanding {
            return Err(Invalid);
        }
        for _ in 0..ready {
            let at = self.layout.completion_at(self.completed);
            self.completed += 1;
            let words = self.control().read_array(at);
            let reply = Reply::decode(words);
            let slot = (reply.id % u64::from(MAX_IN_FLIGHT)) as usize;
            let is_answered = |expected: &Expected| {
                expected.id == reply.id && self.generation == reply.generation
            };
            let expected = self.expected.get(slot).copied().flatten().filter(is_answered);
            let expected = expected.ok_or(Invalid)?;
            let result = self.result(slot, &expected, words)?;
            self.expected[slot] = None;
            self.outstanding -= 1;
            self.free.push(slot as u32);
            done(expected.ticket, result);
        }
        Ok(())
    }

    /// The result of a batch: the matches of its texts, each once, in order.
    fn result(
        &self,
        slot: usize,
        expected: &Expected,
        reply: [u64; COMPLETION_WORDS],
    ) -> Result<Result<Vec<Match>, Cause>, Invalid> {
        let reply_words = reply;
        let reply = Reply::decode(reply);
        let cause = match reply.status {
            status::DONE => None,
            status::BUSY => Some(Cause::Busy),
            status::FAULT => Some(Cause::Fault),
            status::OVERFLOW => Some(Cause::Overflow),
            status::TIME_OUT => Some(Cause::TimeOut),
            status::RESET => Some(Cause::Reset),
            _ => return Err(Invalid),
        };
        let words = self.matches_at(slot, &reply).ok_or(Invalid)?;
        // Read once: checked and used from this copy.
        let memory = &self.regions[RESULT_REGION as usize];
        let words: Vec<u64> = words.map(|at| memory.read(at)).collect();
        if reply.check != check_word(reply_words, expected.cookie, words.iter().copied()) {
            return Err(Invalid);
        }
        if let Some(cause) = cause {
            return Ok(Err(cause));
        }
        let mut matches: Vec<Match> = words.into_iter().map(match_of).collect();
        let is_possible = |found: &Match| {
            let texts = expected.texts + u32::from(expected.probe.is_some());
            found.literal < self.literals && found.text < texts
        };
        let is_of_probe = |found: &Match| found.text == expected.texts;
        let is_probe_found = expected.probe.is_none_or(|literal| {
            matches.iter().any(|found| is_of_probe(found) && found.literal == literal)
        });
        if !is_probe_found || !matches.iter().all(is_possible) {
            return Err(Invalid);
        }
        matches.retain(|found| !is_of_probe(found));
        matches.sort_unstable();
        matches.dedup();
        Ok(Ok(matches))
    }

    /// The words of a reply's matches; none if they are not all in the slot's result area.
    fn matches_at(&self, slot: usize, reply: &Reply) -> Option<Range<usize>> {
        let area = self.layout.result_bytes as usize;
        let (offset, len) = (reply.offset as usize, (reply.matches as usize).checked_mul(WORD)?);
        let fits = offset.is_multiple_of(WORD) && offset.checked_add(len)? <= area;
        let first = (slot * area + offset) / WORD;
        fits.then(|| first..first + len / WORD)
    }

    /// Marks whether the client waits for a message. After it was marked asleep: whether it must
    /// not wait, as a completion is there.
    pub(super) fn set_asleep(&self, sleeps: bool) -> bool {
        self.control().write(CLIENT_SLEEPS, u64::from(sleeps));
        fence(Ordering::SeqCst);
        self.control().read(COMPLETED) != self.completed
    }
}
