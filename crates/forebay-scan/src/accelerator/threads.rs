//! The accelerator that scans on threads of this process.
//!
//! Batches pass through bounded queues; nothing is shared by packets. A fixed number of batches
//! exists, so no queue is ever full.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::batch::{Batch, BatchScanner};
use super::in_flight::InFlight;
use super::{Accelerator, BatchLimits, Cause, Completion, LimitError, Refused, Ticket};
use crate::matches::Match;
use crate::scanner::Scanner;

/// The most worker threads.
pub const MAX_THREADS: usize = 256;

/// A batch on its way to a worker.
#[derive(Debug)]
struct Job {
    ticket: Ticket,
    batch: Batch,
}

/// A batch on its way back.
#[derive(Debug)]
struct Done {
    job: Job,
    worker: usize,
    result: Result<Vec<Match>, Cause>,
}

#[derive(Debug)]
struct Worker {
    /// None after the worker has ended.
    jobs: Option<SyncSender<Job>>,
    queued: usize,
    thread: Option<JoinHandle<()>>,
}

/// An [`Accelerator`] of worker threads. Dropping it waits for the batches that are in the queues.
#[derive(Debug)]
pub struct Threads {
    limits: BatchLimits,
    workers: Vec<Worker>,
    done: Receiver<Done>,
    /// A batch that [`Accelerator::wait`] received.
    received: Option<Done>,
    open: Option<Batch>,
    free: Vec<Batch>,
    in_flight: InFlight,
    /// Batches that no worker could take.
    refused: Vec<Ticket>,
}

/// Why worker threads were not started.
#[derive(Debug, thiserror::Error)]
pub enum ThreadsError {
    /// A limit of batches is out of range.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The number of threads is out of range.
    #[error("expected 1 to {MAX_THREADS} threads, found {0}")]
    Count(usize),
    /// The system does not start a thread.
    #[error("cannot start a thread: {0}")]
    Start(#[from] io::Error),
}

impl Threads {
    /// Starts `threads` workers that scan with `scanner`.
    ///
    /// # Errors
    /// A limit is out of range, or the system does not start a thread.
    pub fn new(
        scanner: &Arc<Scanner>,
        threads: usize,
        limits: BatchLimits,
    ) -> Result<Self, ThreadsError> {
        limits.check()?;
        if !(1..=MAX_THREADS).contains(&threads) {
            return Err(ThreadsError::Count(threads));
        }
        let in_flight = limits.in_flight as usize;
        let (send_done, done) = sync_channel(in_flight);
        let start = |number| {
            let (jobs, taken) = sync_channel(in_flight);
            let scanner = BatchScanner::new(Arc::clone(scanner), limits.matches);
            let send_done = send_done.clone();
            let thread = thread::Builder::new()
                .name(format!("scan-{number}"))
                .spawn(move || work(number, scanner, &taken, &send_done))?;
            Ok(Worker { jobs: Some(jobs), queued: 0, thread: Some(thread) })
        };
        let workers = (0..threads).map(start).collect::<io::Result<_>>()?;
        Ok(Self {
            limits,
            workers,
            done,
            received: None,
            open: None,
            free: vec![Batch::default(); in_flight],
            in_flight: InFlight::default(),
            refused: Vec::new(),
        })
    }

    /// Gives a job to the worker that has the fewest.
    fn dispatch(&mut self, mut job: Job) {
        loop {
            let running = self.workers.iter_mut().filter(|worker| worker.jobs.is_some());
            let Some(worker) = running.min_by_key(|worker| worker.queued) else { break };
            let Some(jobs) = &worker.jobs else { break };
            match jobs.try_send(job) {
                Ok(()) => {
                    worker.queued += 1;
                    return;
                }
                // The worker has ended.
                Err(error) => {
                    worker.jobs = None;
                    job = match error {
                        std::sync::mpsc::TrySendError::Full(job)
                        | std::sync::mpsc::TrySendError::Disconnected(job) => job,
                    };
                }
            }
        }
        self.refused.push(job.ticket);
        self.free.push(job.batch);
    }

    /// Takes a batch back.
    fn take(&mut self, done: Done, completed: &mut Vec<Completion>) {
        let Done { job: Job { ticket, mut batch }, worker, result } = done;
        self.workers[worker].queued -= 1;
        batch.clear();
        self.free.push(batch);
        if self.in_flight.complete(ticket) {
            completed.push(Completion { ticket, result });
        }
    }
}

/// Scans batches until the queue is closed.
fn work(number: usize, mut scanner: BatchScanner, jobs: &Receiver<Job>, done: &SyncSender<Done>) {
    for job in jobs {
        let result = scanner.scan(&job.batch);
        if done.send(Done { job, worker: number, result }).is_err() {
            return;
        }
    }
}

impl Accelerator for Threads {
    fn push(&mut self, parts: &[&[u8]]) -> Result<(), Refused> {
        if self.open.is_none() {
            self.open = self.free.pop();
        }
        let open = self.open.as_mut().ok_or(Refused::MayMatch(Cause::Busy))?;
        open.push(parts, &self.limits)
    }

    fn submit(&mut self, now: u64) -> Option<Ticket> {
        let batch = self.open.take_if(|batch| batch.len() > 0)?;
        let ticket = self.in_flight.add(now.saturating_add(self.limits.time_limit));
        self.dispatch(Job { ticket, batch });
        Some(ticket)
    }

    fn poll(&mut self, now: u64, completed: &mut Vec<Completion>) {
        if let Some(done) = self.received.take() {
            self.take(done, completed);
        }
        while let Ok(done) = self.done.try_recv() {
            self.take(done, completed);
        }
        for ticket in self.refused.drain(..) {
            if self.in_flight.complete(ticket) {
                completed.push(Completion { ticket, result: Err(Cause::Fault) });
            }
        }
        while let Some(ticket) = self.in_flight.overdue(now) {
            self.in_flight.complete(ticket);
            completed.push(Completion { ticket, result: Err(Cause::TimeOut) });
        }
    }

    fn wait(&mut self, limit: Duration) -> io::Result<()> {
        if self.received.is_some() || !self.refused.is_empty() || self.in_flight.count() == 0 {
            return Ok(());
        }
        match self.done.recv_timeout(limit) {
            Ok(done) => self.received = Some(done),
            Err(RecvTimeoutError::Timeout) => {}
            // All workers have ended: the batches in flight reach their deadlines.
            Err(RecvTimeoutError::Disconnected) => thread::sleep(limit),
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.in_flight.count()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            worker.jobs = None;
        }
        for thread in self.workers.iter_mut().filter_map(|worker| worker.thread.take()) {
            // A panic was reported by the thread; its batches have reached their deadlines.
            let _ = thread.join();
        }
    }
}
