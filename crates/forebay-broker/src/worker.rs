//! A worker: packets from its inputs through its stages to its outputs.
//!
//! Workers share nothing but their sensors' tables. Each has receive rings, stages and
//! transmit rings of its own, and its orders come over a [`WorkerMailbox`], which is looked at
//! between two batches: so settings change without a packet being lost, and a report is
//! the state between two batches, in which the ledger closes.

use std::collections::VecDeque;
use std::time::Duration;

use forebay_io::{Received, Rx, Tx, TxCounters};
use forebay_packet::{Batch, Rewrites};
use forebay_pipeline::{Chain, DropCount, Fork, LedgerRow, StageError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::clock::Clock;
use crate::flow_list::FlowListing;
use crate::mailbox::{Change, Order, WorkerMailbox};
use crate::report::{Report, drop_counts, received};
use crate::route::Route;

/// Batches that are taken from one input before the next has its turn.
const BURST: usize = 8;

/// Nanoseconds between two ticks of the stages, and the longest sleep.
const TICK: u64 = 10_000_000;

/// For how long inputs that take no more are still asked, and how long they must have had
/// nothing: the kernel hands a ring's last block over after some milliseconds.
const LAST_ROUNDS: u64 = 2_000_000_000;
const LAST_PACKETS: u64 = 20_000_000;

/// What went wrong at a port or in a stage.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// A port.
    #[error("{port}: {source}")]
    Port {
        /// Its name.
        port: String,
        /// Its error.
        source: forebay_io::Error,
    },
    /// A stage.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The system does not let the worker wait.
    #[error("cannot wait for packets: {0}")]
    Wait(std::io::Error),
}

/// Where packets come from.
pub struct Input {
    /// Its name in the ledger.
    pub name: String,
    /// The port.
    pub port: Box<dyn Rx>,
    /// The number of the output that its packets go to, past all stages.
    pub to: Option<usize>,
}

/// Where packets go.
pub struct Output {
    /// Its name in the ledger.
    pub name: String,
    /// The port.
    pub port: Box<dyn Tx>,
}

struct Source {
    input: Input,
    ended: bool,
}

struct Sink {
    output: Output,
    given: u64,
}

/// A thread's share of the broker.
pub struct Worker {
    sources: Vec<Source>,
    trunk: Chain,
    fork: Fork,
    delivery: Delivery,
    clock: Clock,
    busy_poll: bool,
    failed: Vec<String>,
    /// Lists of flows that are to be made, one after another.
    listings: VecDeque<FlowListing>,
}

/// What is behind the stages.
struct Delivery {
    sinks: Vec<Sink>,
    routes: Vec<Route>,
    /// Packets for sensors that there is no way to.
    unroutable: u64,
    failed: Vec<String>,
}

impl Worker {
    /// A worker with its own ports and stages; `routes` has an entry for each branch.
    #[must_use]
    pub fn new(
        inputs: Vec<Input>,
        trunk: Chain,
        fork: Fork,
        routes: Vec<Route>,
        outputs: Vec<Output>,
        clock: Clock,
        busy_poll: bool,
    ) -> Self {
        let sources = inputs.into_iter().map(|input| Source { input, ended: false }).collect();
        let sinks = outputs.into_iter().map(|output| Sink { output, given: 0 }).collect();
        let delivery = Delivery { sinks, routes, unroutable: 0, failed: Vec::new() };
        let (failed, listings) = (Vec::new(), VecDeque::new());
        Self { sources, trunk, fork, delivery, clock, busy_poll, failed, listings }
    }

    /// Has ports do what takes the user that the process stays: recorders create their files.
    ///
    /// # Errors
    /// [`WorkerError::Port`]: the first output that cannot begin.
    pub fn begin(&mut self) -> Result<(), WorkerError> {
        for Sink { output: Output { name, port }, .. } in &mut self.delivery.sinks {
            let failed = |source| WorkerError::Port { port: format!("output {name}"), source };
            port.begin().map_err(failed)?;
        }
        Ok(())
    }

    /// Works until it is ordered to stop or all inputs have ended, and gives its account.
    ///
    /// # Errors
    /// What makes it impossible to go on. A port that fails does not, as long as there
    /// is another: it is in the report.
    pub fn run(mut self, mailbox: &WorkerMailbox) -> (Report, Result<(), WorkerError>) {
        let leaving = mailbox.attach();
        let outcome = self.work(mailbox);
        let ended = self.wind_up();
        let mut report = self.report();
        for Sink { output: Output { name, port }, .. } in self.delivery.sinks {
            if let Err(error) = port.finish() {
                note(&mut report.failed, &name, &error);
            }
        }
        let outcome = outcome.and(ended);
        leaving.leave(&report, outcome.is_ok());
        (report, outcome)
    }

    fn work(&mut self, mailbox: &WorkerMailbox) -> Result<(), WorkerError> {
        let mut ticked = self.clock.now();
        loop {
            let idle = self.round()?;
            self.delivery.flush();
            let now = self.clock.now();
            if now.saturating_sub(ticked) >= TICK {
                ticked = now;
                self.tick(now)?;
            }
            for order in mailbox.take() {
                match order {
                    Order::Change(change) => self.change(*change)?,
                    Order::Report(reply) => {
                        let report = self.report();
                        mailbox.note(&report);
                        // The receiver may have gone.
                        let _ = reply.send(report);
                    }
                    Order::ListFlows(listing) => self.listings.push_back(listing),
                    Order::Stop => return self.take_what_is_there(),
                }
            }
            if self.sources.iter().all(|source| source.ended) {
                return Ok(());
            }
            self.list_flows();
            if idle && !self.busy_poll && self.listings.is_empty() {
                self.fork.rest();
                // What a tick or a change has let go.
                self.delivery.flush();
                self.wait(mailbox)?;
            }
        }
    }

    /// Goes on with the list of flows that is being made.
    fn list_flows(&mut self) {
        let Some(listing) = self.listings.pop_front() else { return };
        let flows = self.fork.flows(listing.group());
        if let Some(listing) = listing.step(flows) {
            self.listings.push_front(listing);
        }
    }

    /// Takes some batches of every input; returns whether none had any.
    fn round(&mut self) -> Result<bool, WorkerError> {
        let Self { sources, trunk, fork, delivery, failed, clock, .. } = self;
        let mut idle = true;
        for source in sources.iter_mut().filter(|source| !source.ended) {
            for _ in 0..BURST {
                match source.input.port.receive() {
                    Ok(Received::Batch(batch)) => {
                        idle = false;
                        if let Some(output) = source.input.to {
                            delivery.hand_over(output, &batch);
                            continue;
                        }
                        let now = clock.now();
                        trunk.begin(now);
                        fork.begin(now);
                        pass(trunk, fork, delivery, batch)?;
                    }
                    Ok(Received::Idle) => break,
                    Ok(Received::End) => {
                        source.ended = true;
                        break;
                    }
                    Err(error) => {
                        source.ended = true;
                        failed.push(format!("input {}: {error}", source.input.name));
                        break;
                    }
                }
            }
        }
        Ok(idle)
    }

    /// Takes in what has come by now, and no more.
    fn take_what_is_there(&mut self) -> Result<(), WorkerError> {
        let Self { sources, failed, .. } = self;
        for Source { input: Input { name, port, .. }, .. } in sources {
            if let Err(error) = port.refuse() {
                failed.push(format!("input {name}: {error}"));
            }
        }
        let begun = self.clock.now();
        let mut heard = begun;
        loop {
            // An empty round proves that nothing is left only if everything had arrived when it
            // began: this thread may be suspended after any read of the clock.
            let looked = self.clock.now();
            let idle = self.round()?;
            self.delivery.flush();
            let over = looked - begun >= LAST_ROUNDS;
            if over || (idle && looked - heard >= LAST_PACKETS) {
                return Ok(());
            }
            if idle {
                std::thread::sleep(Duration::from_millis(1));
            } else {
                heard = self.clock.now();
            }
        }
    }

    fn tick(&mut self, now: u64) -> Result<(), WorkerError> {
        let Self { trunk, fork, delivery, .. } = self;
        trunk.tick(now, &mut |batch| {
            fork.push(batch, &mut |branch, batch| delivery.deliver(branch, &batch))
        })?;
        fork.tick(now, &mut |branch, batch| delivery.deliver(branch, &batch))
    }

    fn change(&mut self, change: Change) -> Result<(), WorkerError> {
        let Self { trunk, fork, delivery, .. } = self;
        trunk.reload(&change.trunk, &mut |batch| {
            fork.push(batch, &mut |branch, batch| delivery.deliver(branch, &batch))
        })?;
        fork.replace(change.branches, &mut |branch, batch| delivery.deliver(branch, &batch))?;
        fork.reload(&change.settings, &mut |branch, batch| delivery.deliver(branch, &batch))?;
        delivery.routes = change.routes;
        Ok(())
    }

    /// Sleeps until an input has something, an order comes, or it is time for a tick.
    fn wait(&self, mailbox: &WorkerMailbox) -> Result<(), WorkerError> {
        let open = self.sources.iter().filter(|source| !source.ended);
        let ports = open.filter_map(|source| source.input.port.descriptor());
        let mut descriptors: Vec<PollFd<'_>> =
            ports.map(|port| PollFd::from_borrowed_fd(port, PollFlags::IN)).collect();
        descriptors.push(PollFd::from_borrowed_fd(mailbox.bell(), PollFlags::IN));
        let tick = Timespec { tv_sec: 0, tv_nsec: TICK as i64 };
        match poll(&mut descriptors, Some(&tick)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(WorkerError::Wait(error.into())),
        }
    }

    /// Gives up what stages hold and waits, not for long, for rings to run empty.
    fn wind_up(&mut self) -> Result<(), WorkerError> {
        let Self { trunk, fork, delivery, .. } = self;
        let drained = trunk.drain(&mut |batch| {
            fork.push(batch, &mut |branch, batch| delivery.deliver(branch, &batch))
        });
        let emptied = fork.drain(&mut |branch, batch| delivery.deliver(branch, &batch));
        let until = self.clock.now() + 100 * TICK;
        delivery.flush();
        while delivery.held() > 0 && self.clock.now() < until {
            std::thread::sleep(Duration::from_millis(1));
            delivery.flush();
        }
        drained.and(emptied)
    }

    /// The account between two batches.
    fn report(&mut self) -> Report {
        let mut report = Report::default();
        // Those that go past the stages stand beside the last of them, as if made there.
        let mut past = Vec::new();
        for source in &mut self.sources {
            let Input { name, port, to } = &mut source.input;
            match port.counters() {
                Ok(counters) => {
                    let row = received(name, &counters);
                    if to.is_some() {
                        past.push(LedgerRow { beside: true, input: 0, injected: row.input, ..row });
                    } else {
                        let beside = !report.ledger.rows.is_empty();
                        report.ledger.rows.push(LedgerRow { beside, ..row });
                    }
                    report.inputs.push((name.clone(), counters));
                }
                Err(error) => report.failed.push(format!("input {name}: {error}")),
            }
        }
        report.ledger.rows.extend(self.trunk.rows());
        report.ledger.rows.extend(self.fork.rows());
        report.ledger.rows.extend(past);
        for (i, sink) in self.delivery.sinks.iter_mut().enumerate() {
            sink.report(i > 0, &mut report);
        }
        report.ledger.rows.extend(self.delivery.unroutable());
        report.remarks = self.trunk.remarks();
        report.remarks.add(&self.fork.remarks());
        report.failed.extend(self.failed.iter().cloned());
        report.failed.extend(self.delivery.failed.iter().cloned());
        report
    }
}

/// Sends a batch from an input to the outputs.
fn pass(
    trunk: &mut Chain,
    fork: &mut Fork,
    delivery: &mut Delivery,
    batch: Batch,
) -> Result<(), WorkerError> {
    trunk.push(batch, &mut |batch| {
        fork.push(batch, &mut |branch, batch| delivery.deliver(branch, &batch))
    })
}

impl Delivery {
    /// Hands packets to an output as they are.
    fn hand_over(&mut self, output: usize, batch: &Batch) {
        let Some(sink) = self.sinks.get_mut(output) else {
            self.unroutable += batch.live().count() as u64;
            return;
        };
        sink.given += batch.live().count() as u64;
        if let Err(error) = sink.output.port.send(batch, &batch.live(), &Rewrites::NONE) {
            note(&mut self.failed, &sink.output.name, &error);
        }
    }

    /// Hands the packets of a branch to the outputs of their sensors.
    fn deliver(&mut self, branch: usize, batch: &Batch) -> Result<(), WorkerError> {
        let mut left = batch.live().count() as u64;
        let Some(route) = self.routes.get(branch) else {
            self.unroutable += left;
            return Ok(());
        };
        for (number, sink) in self.sinks.iter_mut().enumerate() {
            let which = route.packets_to(number, batch);
            let packets = which.count() as u64;
            if packets == 0 {
                continue;
            }
            sink.given += packets;
            left -= packets;
            if let Err(error) = sink.output.port.send(batch, &which, &route.rewrites) {
                note(&mut self.failed, &sink.output.name, &error);
            }
        }
        self.unroutable += left;
        Ok(())
    }

    /// The account of packets for sensors that there is no way to, if there were any.
    fn unroutable(&self) -> Option<LedgerRow> {
        (self.unroutable > 0).then(|| LedgerRow {
            stage: "tx nowhere".into(),
            beside: !self.sinks.is_empty(),
            input: self.unroutable,
            drops: vec![DropCount { name: "no_route", packets: self.unroutable }],
            ..LedgerRow::default()
        })
    }

    /// Has rings sent.
    fn flush(&mut self) {
        for sink in &mut self.sinks {
            if let Err(error) = sink.output.port.flush() {
                note(&mut self.failed, &sink.output.name, &error);
            }
        }
    }

    /// Packets that lie in rings.
    fn held(&mut self) -> u64 {
        let held =
            |sink: &mut Sink| sink.output.port.counters().map_or(0, |counters| counters.held);
        self.sinks.iter_mut().map(held).sum()
    }
}

/// Notes that an output fails, once for each way that it does.
fn note(failed: &mut Vec<String>, name: &str, error: &forebay_io::Error) {
    let text = format!("output {name}: {error}");
    if !failed.contains(&text) {
        failed.push(text);
    }
}

impl Sink {
    /// The account of an output. What it was given and did not count is lost with it.
    fn report(&mut self, beside: bool, report: &mut Report) {
        let Output { name, port } = &mut self.output;
        let counters = match port.counters() {
            Ok(counters) => counters,
            Err(error) => {
                note(&mut report.failed, name, &error);
                TxCounters::default()
            }
        };
        let lost: u64 = counters.losses.iter().map(|(_, packets)| packets).sum();
        let mut drops = drop_counts(&counters.losses);
        let unsaid = self.given.saturating_sub(counters.packets + lost + counters.held);
        if unsaid > 0 {
            drops.push(DropCount { name: "port_failed", packets: unsaid });
        }
        report.ledger.rows.push(LedgerRow {
            stage: format!("tx {name}").into(),
            beside,
            input: self.given,
            output: counters.packets,
            drops,
            held: counters.held,
            ..LedgerRow::default()
        });
        report.outputs.push((name.clone(), counters));
    }
}
