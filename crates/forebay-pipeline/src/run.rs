//! Drives chains: workers receive, each its own part of the input, and share the
//! stages that look at one packet at a time; the stages that need all packets in
//! order, and the output, go from worker to worker.
//!
//! The input is dealt to the workers in turn, and they take the same turns at the
//! serial part, so the order of the input is kept without sequence numbers, sorting or
//! queues. A worker carries its packets from input to output, while its cache has
//! them; there is no thread in between to be woken. Memory does not grow with the
//! input: a worker has one answer of its lane at a time.
//!
//! When delivery fails, or a stage, everything still under way is counted as
//! dropped for that reason and the ledger closes all the same.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use forebay_packet::Batch;

use crate::chain::Chain;
use crate::ledger::{ABORTED, DropCount, Ledger, LedgerRow};
use crate::remarks::Remarks;
use crate::stage::StageError;

/// Turns between two ticks of the stages.
const TURNS_A_TICK: u64 = 16;

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
    /// A worker's thread could not be started; what others had done by then is kept.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// How a run ended.
#[derive(Debug)]
pub struct Run<R, D> {
    /// Where every packet went.
    pub ledger: Ledger,
    /// What stages noticed besides.
    pub remarks: Remarks,
    /// What ended the run before the input did; the first to happen.
    pub error: Option<RunError<R, D>>,
}

/// What ends a run.
enum Failure<R, D> {
    Receive(R),
    Stage(StageError),
    Deliver(D),
    Thread(std::io::Error),
}

impl<R, D> From<StageError> for Failure<R, D> {
    fn from(error: StageError) -> Self {
        Self::Stage(error)
    }
}

/// A worker: where its part of the input comes from, and what it does with it.
pub struct Worker<L> {
    /// The next batches of its part, perhaps none; nothing at the end. Asking the
    /// workers in turn gives the input in order.
    pub lane: L,
    /// The stages.
    pub chain: Chain,
}

/// What a worker makes of one answer of its lane.
enum Answer<R> {
    Batches(Vec<Batch>),
    Receive(R),
    Stage(StageError),
}

/// Receives batches until there are none, sends them through the chain of the worker
/// that received them and then through `serial`, and delivers what comes out, in the
/// order of the input.
///
/// # Panics
/// When there is no worker or one whose chain may hold packets back: both are
/// mistakes of the caller.
pub fn run<L, R, D>(
    workers: Vec<Worker<L>>,
    serial: Chain,
    deliver: impl FnMut(&Batch) -> Result<(), D> + Send,
) -> Run<R, D>
where
    L: FnMut() -> Result<Option<Vec<Batch>>, R> + Send,
    R: Send,
    D: Send,
{
    assert!(!workers.is_empty() && workers.iter().all(|worker| worker.chain.is_parallel()));
    let tail = Tail {
        serial,
        deliver,
        written: 0,
        failed: None,
        abandoned: false,
        turn: 0,
        gone: vec![false; workers.len()],
        started: Instant::now(),
        turns: 0,
    };
    let turns = Turns { tail: Mutex::new(tail), next: Condvar::new() };
    let stop = AtomicBool::new(false);
    let mut done = Vec::new();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (i, worker) in workers.into_iter().enumerate() {
            let (turns, stop) = (&turns, &stop);
            let name = format!("forebay-work-{i}");
            let work = move || work(i, worker, turns, stop);
            match thread::Builder::new().name(name).spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    // Its lane is gone with it, and with that the input has ended.
                    turns.lock().fail(Failure::Thread(error));
                    turns.leave(i);
                }
            }
        }
        for thread in threads {
            done.push(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    let mut tail = turns.tail.into_inner().unwrap_or_else(PoisonError::into_inner);
    tail.drain();
    let broken = tail.abandoned || tail.is_broken();
    finished(&done, tail.written, tail.failed, broken, &tail.serial)
}

/// The serial part, and whose turn it is.
struct Turns<R, D, F> {
    tail: Mutex<Tail<R, D, F>>,
    next: Condvar,
}

impl<R, D, F: FnMut(&Batch) -> Result<(), D>> Turns<R, D, F> {
    fn lock(&self) -> MutexGuard<'_, Tail<R, D, F>> {
        // A panic of another worker goes on when its thread is joined.
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn of worker `i`, does something, passes the turn on.
    fn take(&self, i: usize, act: impl FnOnce(&mut Tail<R, D, F>)) {
        let mut tail = self.lock();
        while tail.turn != i {
            tail = self.next.wait(tail).unwrap_or_else(PoisonError::into_inner);
        }
        act(&mut tail);
        tail.pass_turn();
        drop(tail);
        self.next.notify_all();
    }

    /// Worker `i` takes no more turns.
    fn leave(&self, i: usize) {
        let mut tail = self.lock();
        tail.gone[i] = true;
        if tail.turn == i {
            tail.pass_turn();
        }
        drop(tail);
        self.next.notify_all();
    }
}

/// A worker's place in the turns; given up also by a panic.
struct Place<'a, R, D, F: FnMut(&Batch) -> Result<(), D>> {
    turns: &'a Turns<R, D, F>,
    i: usize,
}

impl<R, D, F: FnMut(&Batch) -> Result<(), D>> Drop for Place<'_, R, D, F> {
    fn drop(&mut self) {
        self.turns.leave(self.i);
    }
}

/// A worker's thread. Returns packets received and the chain, for its account.
fn work<L, R, D, F>(
    i: usize,
    worker: Worker<L>,
    turns: &Turns<R, D, F>,
    stop: &AtomicBool,
) -> (u64, Chain)
where
    L: FnMut() -> Result<Option<Vec<Batch>>, R>,
    F: FnMut(&Batch) -> Result<(), D>,
{
    let Worker { mut lane, mut chain } = worker;
    let _place = Place { turns, i };
    let mut received = 0;
    while !stop.load(Ordering::Relaxed) {
        let answer = match lane() {
            Ok(None) => break,
            Err(error) => Answer::Receive(error),
            Ok(Some(batches)) => {
                received += batches.iter().map(|batch| batch.live().count() as u64).sum::<u64>();
                pass_through(&mut chain, batches)
            }
        };
        let last = !matches!(answer, Answer::Batches(_));
        turns.take(i, |tail| {
            tail.take(answer);
            if tail.failed.is_some() || tail.serial.wants_no_more() {
                stop.store(true, Ordering::Relaxed);
            }
        });
        if last {
            break;
        }
    }
    (received, chain)
}

fn pass_through<R>(chain: &mut Chain, batches: Vec<Batch>) -> Answer<R> {
    let mut passed = Vec::with_capacity(batches.len());
    for batch in batches {
        let outcome = chain.push(batch, &mut |batch| {
            passed.push(batch);
            Ok::<(), StageError>(())
        });
        if let Err(error) = outcome {
            return Answer::Stage(error);
        }
    }
    Answer::Batches(passed)
}

/// What workers take turns at.
struct Tail<R, D, F> {
    serial: Chain,
    deliver: F,
    written: u64,
    failed: Option<Failure<R, D>>,
    /// A stage failed when no more was wanted.
    abandoned: bool,
    /// The worker whose turn it is.
    turn: usize,
    /// Workers that take no more turns.
    gone: Vec<bool>,
    started: Instant,
    turns: u64,
}

impl<R, D, F: FnMut(&Batch) -> Result<(), D>> Tail<R, D, F> {
    fn take(&mut self, answer: Answer<R>) {
        match answer {
            Answer::Batches(batches) => {
                for batch in batches {
                    self.guard(|serial, deliver| serial.push(batch, deliver));
                }
            }
            // What goes wrong behind the last packet that is wanted is of no concern,
            // but packets may have been lost in the stage.
            Answer::Receive(_) if self.serial.wants_no_more() => {}
            Answer::Stage(_) if self.serial.wants_no_more() => self.abandoned = true,
            Answer::Receive(error) => self.fail(Failure::Receive(error)),
            Answer::Stage(error) => self.fail(Failure::Stage(error)),
        }
        self.turns += 1;
        if self.turns.is_multiple_of(TURNS_A_TICK) {
            let now = self.started.elapsed().as_nanos() as u64;
            self.guard(|serial, deliver| serial.tick(now, deliver));
        }
    }

    fn drain(&mut self) {
        self.guard(Chain::drain);
    }

    /// On to the next worker that still takes turns.
    fn pass_turn(&mut self) {
        let n = self.gone.len();
        let next = (1..=n).map(|step| (self.turn + step) % n).find(|&i| !self.gone[i]);
        self.turn = next.unwrap_or(self.turn);
    }

    /// Whether packets can go no further. A failed input is no such failure: what
    /// precedes it is delivered.
    fn is_broken(&self) -> bool {
        matches!(self.failed, Some(Failure::Stage(_) | Failure::Deliver(_)))
    }

    /// Runs something that delivers, unless that is of no use any more, and keeps its
    /// failure.
    fn guard(
        &mut self,
        work: impl FnOnce(
            &mut Chain,
            &mut dyn FnMut(Batch) -> Result<(), Failure<R, D>>,
        ) -> Result<(), Failure<R, D>>,
    ) {
        if self.is_broken() {
            return;
        }
        let Self { serial, deliver, written, .. } = self;
        let outcome = work(serial, &mut |batch| {
            deliver(&batch).map_err(Failure::Deliver)?;
            *written += batch.live().count() as u64;
            Ok(())
        });
        if let Err(failure) = outcome {
            self.fail(failure);
        }
    }

    /// The first failure is kept, but one that breaks the run outweighs a failed
    /// input.
    fn fail(&mut self, failure: Failure<R, D>) {
        let outweighs = !matches!(failure, Failure::Receive(_));
        if self.failed.is_none() || (outweighs && !self.is_broken()) {
            self.failed = Some(failure);
        }
    }
}

/// Draws the account up.
fn finished<R, D>(
    workers: &[(u64, Chain)],
    written: u64,
    failed: Option<Failure<R, D>>,
    broken: bool,
    serial: &Chain,
) -> Run<R, D> {
    let mut rows = vec![LedgerRow::passed("read", workers.iter().map(|(n, _)| n).sum())];
    let mut shared: Vec<LedgerRow> = Vec::new();
    for (_, chain) in workers {
        for (i, row) in chain.rows().into_iter().enumerate() {
            match shared.get_mut(i) {
                Some(sum) => sum.add(&row),
                None => shared.push(row),
            }
        }
    }
    rows.append(&mut shared);
    rows.append(&mut serial.rows());
    rows.push(LedgerRow::passed("write", written));
    let mut remarks = Remarks::default();
    let chains = workers.iter().map(|(_, chain)| chain).chain([serial]);
    chains.for_each(|chain| remarks.add(&chain.remarks()));
    if broken {
        settle(&mut rows);
    }
    let error = failed.map(|failure| match failure {
        Failure::Receive(error) => RunError::Receive(error),
        Failure::Stage(error) => RunError::Stage(error),
        Failure::Deliver(error) => RunError::Deliver(error),
        Failure::Thread(error) => RunError::Thread(error),
    });
    Run { ledger: Ledger { rows }, remarks, error }
}

/// After a failure: what a stage let out and the next never took in, and what a
/// stage took in and could not finish, is dropped under the name of the failure.
fn settle(rows: &mut [LedgerRow]) {
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
