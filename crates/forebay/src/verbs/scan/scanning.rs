//! The stage that scans payloads, and the queues of what it found.
//!
//! A worker scans payloads of a batch together. What it found is queued, as a batch has no room
//! for it, and taken when the batch comes out of the chain. Batches of a worker come out in the
//! order in which they went in, so each worker has one queue; the verdict of a packet is the
//! number of its worker. The matches in a queue are limited: at the limit, a worker leaves the
//! other packets unscanned, and they are scanned one by one when they come out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_packet::{Batch, Decoder};
use forebay_pipeline::{Outbox, Promises, Stage, StageError};
use forebay_scan::{Match, Matches, Scanner, Scratch};

use crate::failure::Failure;

/// A worker scans no further packet while its queue has that many matches.
const MOST_QUEUED: usize = 1 << 20;

/// The most packets that are scanned together.
const TOGETHER: usize = 32;

/// What was found in the first packets of a batch.
#[derive(Default)]
pub(super) struct Found {
    /// By packet, the bytes that were scanned; none of a packet that is not IP.
    pub(super) scanned: Vec<Option<usize>>,
    /// By packet: its rank among the live ones is the text. Those of a packet by literal.
    pub(super) matches: Vec<Match>,
}

/// The queues of all workers.
#[derive(Clone)]
pub(super) struct Queues(Arc<[Mutex<VecDeque<Found>>]>);

impl Queues {
    pub(super) fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Mutex::default()).collect())
    }

    fn with<T>(&self, worker: usize, act: impl FnOnce(&mut VecDeque<Found>) -> T) -> T {
        // A panic of another thread goes on when it is joined.
        act(&mut self.0[worker].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Appends what a worker found in a batch.
    pub(super) fn push(&self, worker: usize, found: Found) {
        self.with(worker, |queue| queue.push_back(found));
    }

    /// Calls `each` for the packets of a batch, with the bytes that were scanned (none if it is
    /// not IP) and the matches. Packets that its worker left are scanned by `payloads`.
    ///
    /// # Errors
    /// That of `each`.
    pub(super) fn take(
        &self,
        batch: &Batch,
        payloads: &mut Payloads,
        mut each: impl FnMut(usize, Option<usize>, &[Match]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(first) = batch.live().iter().next() else { return Ok(()) };
        let worker = batch.verdict.get(first).map_or(0, |&worker| worker as usize);
        let queued = self.with(worker, VecDeque::pop_front);
        let mut found = queued.unwrap_or_default();
        let mut rest = found.matches.as_slice();
        let mut live = batch.live().iter();
        for (rank, (&scanned, i)) in (0..).zip(found.scanned.iter().zip(&mut live)) {
            let end = rest.iter().take_while(|hit| hit.text == rank).count();
            let (matches, others) = rest.split_at(end);
            rest = others;
            each(i, scanned, matches)?;
        }
        for i in live {
            found.scanned.clear();
            found.matches.clear();
            payloads.scan(batch, &[i], &mut found);
            each(i, found.scanned[0], &found.matches)?;
        }
        Ok(())
    }
}

/// Scans the payloads of packets.
pub(super) struct Payloads {
    decoder: Decoder,
    scanner: Arc<Scanner>,
    scratch: Scratch,
    matches: Matches,
}

impl Payloads {
    pub(super) fn new(decoder: Decoder, scanner: Arc<Scanner>) -> Self {
        let (scratch, matches) = (scanner.scratch(), Matches::new());
        Self { decoder, scanner, scratch, matches }
    }

    /// Adds what is found in packets of a batch, at most [`TOGETHER`].
    fn scan(&mut self, batch: &Batch, packets: &[usize], found: &mut Found) {
        let before = found.scanned.len();
        let mut texts = [&[][..]; TOGETHER];
        for (text, &i) in texts.iter_mut().zip(packets) {
            let payload = self.decoder.payload(batch.interface(i).link, batch.packet(i));
            *text = payload.unwrap_or_default();
            found.scanned.push(payload.map(<[u8]>::len));
        }
        self.matches.clear();
        self.scanner.scan(&texts[..packets.len()], &mut self.scratch, &mut self.matches);
        let first = found.matches.len();
        let ranked = |hit: &Match| Match { text: hit.text + before as u32, ..*hit };
        found.matches.extend(self.matches.as_slice().iter().map(ranked));
        found.matches[first..].sort_unstable();
    }
}

/// The stage: scans the payloads of a batch, and queues what it found.
pub(super) struct Scan {
    payloads: Payloads,
    queues: Queues,
    worker: usize,
}

impl Scan {
    /// That of a worker.
    pub(super) fn new(payloads: Payloads, queues: Queues, worker: usize) -> Self {
        Self { payloads, queues, worker }
    }
}

impl Stage for Scan {
    fn name(&self) -> &'static str {
        "scan"
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        let sum = |queue: &mut VecDeque<Found>| queue.iter().map(|found| found.matches.len()).sum();
        let queued: usize = self.queues.with(self.worker, sum);
        let live: Vec<usize> = batch.live().iter().collect();
        let mut found = Found::default();
        for packets in live.chunks(TOGETHER) {
            if queued + found.matches.len() > MOST_QUEUED {
                break;
            }
            self.payloads.scan(&batch, packets, &mut found);
        }
        self.queues.push(self.worker, found);
        let packets = batch.len();
        batch.verdict.clear();
        batch.verdict.resize(packets, self.worker as u32);
        out.emit(batch);
        Ok(())
    }
}
