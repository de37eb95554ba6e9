//! Drives chains: one thread receives, workers share the stages that look at one
//! packet at a time, and the caller's thread runs the rest and delivers.
//!
//! Batches are dealt to the workers in turn and collected in the same turn, so the
//! order of the input is kept without sequence numbers or sorting. The queues
//! between threads are short: memory does not grow with the input, and a slow end
//! slows the beginning down.
//!
//! When delivery fails, or a stage, everything still under way is counted as
//! dropped for that reason and the ledger closes all the same.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use forebay_packet::Batch;

use crate::chain::Chain;
use crate::ledger::{DropCount, Ledger, LedgerRow};
use crate::stage::StageError;

/// Batches that wait for a worker, and that wait behind it.
const QUEUE: usize = 16;

/// Batches between two ticks of the stages.
const BATCHES_A_TICK: u64 = 64;

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError<R, D> {
    /// The input failed; all packets before that were delivered.
    #[error(transparent)]
    Receive(R),
    /// A stage failed.
    #[error(transparent)]
    Stage(StageError),
    /// The output failed.
    #[error(transparent)]
    Deliver(D),
}

/// How a run ended.
#[derive(Debug)]
pub struct Run<R, D> {
    /// Where every packet went.
    pub ledger: Ledger,
    /// What stages noticed besides: name and packets.
    pub remarks: Vec<(&'static str, u64)>,
    /// What ended the run before the input did; the first to happen.
    pub error: Option<RunError<R, D>>,
}

/// What happens in the caller's thread.
enum Failure<D> {
    Stage(StageError),
    Deliver(D),
}

impl<D> From<StageError> for Failure<D> {
    fn from(error: StageError) -> Self {
        Self::Stage(error)
    }
}

type Sent = Result<Vec<Batch>, StageError>;

/// Receives batches until there are none, sends them through one of `parallel` and
/// then through `serial`, and delivers what comes out, in the order it came in.
///
/// # Panics
/// When `parallel` is empty or one of its chains may hold packets back: both are
/// mistakes of the caller.
pub fn run<R, D>(
    mut receive: impl FnMut() -> Result<Option<Batch>, R> + Send,
    mut parallel: Vec<Chain>,
    mut serial: Chain,
    mut deliver: impl FnMut(&Batch) -> Result<(), D>,
) -> Run<R, D>
where
    R: Send,
{
    assert!(!parallel.is_empty() && parallel.iter().all(Chain::is_parallel));
    let stop = AtomicBool::new(false);
    let mut tail = Tail { serial: &mut serial, written: 0, failed: None };
    let (received, receive_error) = thread::scope(|scope| {
        let mut feeds = Vec::new();
        let mut results = Vec::new();
        for chain in &mut parallel {
            let (feed, work) = sync_channel(QUEUE);
            let (done, result) = sync_channel(QUEUE);
            scope.spawn(move || work_through(chain, &work, &done));
            feeds.push(feed);
            results.push(result);
        }
        let stop = &stop;
        let source = scope.spawn(move || deal(&mut receive, &feeds, stop));
        tail.collect(&results, stop, &mut deliver);
        finish(source)
    });
    let Tail { written, failed, .. } = tail;
    finished(received, receive_error, written, failed, &parallel, &serial)
}

/// Deals batches to the workers in turn. Returns packets received and the error
/// that ended it.
fn deal<R>(
    receive: &mut impl FnMut() -> Result<Option<Batch>, R>,
    feeds: &[SyncSender<Batch>],
    stop: &AtomicBool,
) -> (u64, Option<R>) {
    let mut received = 0;
    for feed in feeds.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match receive() {
            Ok(Some(batch)) => {
                let packets = batch.live().count() as u64;
                // A worker is gone only after it failed: what it is owed no longer
                // counts as received.
                if feed.send(batch).is_err() {
                    break;
                }
                received += packets;
            }
            Ok(None) => break,
            Err(error) => return (received, Some(error)),
        }
    }
    (received, None)
}

/// A worker: one message out for each batch in.
fn work_through(chain: &mut Chain, work: &Receiver<Batch>, done: &SyncSender<Sent>) {
    for batch in work {
        let mut passed = Vec::with_capacity(1);
        let outcome = chain.push(batch, &mut |batch| {
            passed.push(batch);
            Ok::<(), StageError>(())
        });
        if done.send(outcome.map(|()| passed)).is_err() {
            return;
        }
    }
}

/// The part in the caller's thread.
struct Tail<'a, D> {
    serial: &'a mut Chain,
    written: u64,
    failed: Option<Failure<D>>,
}

impl<D> Tail<'_, D> {
    /// Takes the workers' results in turn until one has no more to come: the dealing
    /// is in turn, so then none has.
    fn collect(
        &mut self,
        results: &[Receiver<Sent>],
        stop: &AtomicBool,
        deliver: &mut impl FnMut(&Batch) -> Result<(), D>,
    ) {
        let started = Instant::now();
        for (turn, result) in (1_u64..).zip(results.iter().cycle()) {
            let Ok(sent) = result.recv() else { break };
            match sent {
                // After a failure the rest is only taken, so that workers end.
                Ok(_) if self.failed.is_some() => {}
                Ok(batches) => self.pass(batches, deliver),
                Err(error) => self.fail(Failure::Stage(error)),
            }
            if turn % BATCHES_A_TICK == 0 && self.failed.is_none() {
                let now = started.elapsed().as_nanos() as u64;
                self.guard(deliver, |serial, deliver| serial.tick(now, deliver));
            }
            if self.failed.is_some() || self.serial.wants_no_more() {
                stop.store(true, Ordering::Relaxed);
            }
        }
        if self.failed.is_none() {
            self.guard(deliver, |serial, deliver| serial.drain(deliver));
        }
    }

    fn pass(&mut self, batches: Vec<Batch>, deliver: &mut impl FnMut(&Batch) -> Result<(), D>) {
        for batch in batches {
            self.guard(deliver, |serial, deliver| serial.push(batch, deliver));
            if self.failed.is_some() {
                break;
            }
        }
    }

    /// Runs something that delivers, and keeps its failure.
    fn guard(
        &mut self,
        deliver: &mut impl FnMut(&Batch) -> Result<(), D>,
        work: impl FnOnce(
            &mut Chain,
            &mut dyn FnMut(Batch) -> Result<(), Failure<D>>,
        ) -> Result<(), Failure<D>>,
    ) {
        let written = &mut self.written;
        let outcome = work(self.serial, &mut |batch| {
            deliver(&batch).map_err(Failure::Deliver)?;
            *written += batch.live().count() as u64;
            Ok(())
        });
        if let Err(failure) = outcome {
            self.fail(failure);
        }
    }

    fn fail(&mut self, failure: Failure<D>) {
        self.failed.get_or_insert(failure);
    }
}

fn finish<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Draws the account up.
fn finished<R, D>(
    received: u64,
    receive_error: Option<R>,
    written: u64,
    failed: Option<Failure<D>>,
    parallel: &[Chain],
    serial: &Chain,
) -> Run<R, D> {
    let mut workers = parallel[0].rows();
    for chain in &parallel[1..] {
        for (row, other) in workers.iter_mut().zip(&chain.rows()) {
            row.add(other);
        }
    }
    let mut rows = vec![LedgerRow::passed("read", received)];
    rows.append(&mut workers);
    rows.append(&mut serial.rows());
    rows.push(LedgerRow::passed("write", written));
    let mut remarks: Vec<(&'static str, u64)> = Vec::new();
    for (name, packets) in parallel.iter().chain([serial]).flat_map(Chain::remarks) {
        match remarks.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += packets,
            None => remarks.push((name, packets)),
        }
    }
    let error = match (failed, receive_error) {
        (Some(Failure::Stage(error)), _) => Some(RunError::Stage(error)),
        (Some(Failure::Deliver(error)), _) => Some(RunError::Deliver(error)),
        (None, Some(error)) => Some(RunError::Receive(error)),
        (None, None) => None,
    };
    if matches!(error, Some(RunError::Stage(_) | RunError::Deliver(_))) {
        settle(&mut rows);
    }
    Run { ledger: Ledger { rows }, remarks, error }
}

/// After a failure: what a stage let out and the next never took in, and what a
/// stage took in and could not finish, is dropped under the name of the failure.
fn settle(rows: &mut [LedgerRow]) {
    const ABORTED: &str = "aborted";
    let mut before = None;
    for row in rows {
        let handed = before.unwrap_or(row.input);
        row.input = handed;
        row.held = 0;
        let inside = row.input + row.copies + row.injected;
        let lost = inside.saturating_sub(row.output + row.dropped());
        if lost > 0 {
            row.drops.push(DropCount { name: ABORTED, packets: lost });
        }
        before = Some(row.output);
    }
}
