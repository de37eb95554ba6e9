//! A worker's mailbox: orders for the worker, and its last report.
//!
//! The broker's thread puts orders into it, and the worker takes them between two batches.
//! When the worker ends, for whatever reason, the mailbox closes: callers that wait for an
//! answer then get the worker's last report at once.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use forebay_pipeline::{Branch, Settings};
use rustix::event::{EventfdFlags, eventfd};

use crate::flow_list::{FlowList, FlowListing};
use crate::report::Report;
use crate::route::Route;

/// Orders in a mailbox from which on no more reports are requested: the worker hangs.
const MOST_WAITING: usize = 64;

/// New settings for a worker.
pub struct Change {
    /// For the stages that all packets pass.
    pub trunk: Settings,
    /// The groups there are from now on; those there were keep their stages.
    pub branches: Vec<Branch>,
    /// For the stages of each.
    pub settings: Vec<Settings>,
    /// The way to the sensors of each.
    pub routes: Vec<Route>,
}

/// An order to a worker.
pub(crate) enum Order {
    Change(Box<Change>),
    Report(mpsc::Sender<Report>),
    ListFlows(FlowListing),
    Stop,
}

/// The content of a mailbox.
#[derive(Default)]
struct MailboxState {
    orders: Vec<Order>,
    last: Report,
    /// Set when the worker has ended: whether it ended without an error.
    left: Option<bool>,
}

/// Orders for a worker, and what is known of it.
pub struct WorkerMailbox {
    state: Mutex<MailboxState>,
    waiting: AtomicBool,
    bell: OwnedFd,
    /// How often the worker has polled the mailbox.
    heartbeat: AtomicU64,
}

impl WorkerMailbox {
    /// An empty mailbox.
    ///
    /// # Errors
    /// The system's, when it has no descriptor left.
    pub fn new() -> std::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let (state, waiting) = (Mutex::default(), AtomicBool::new(false));
        Ok(Self { state, waiting, bell, heartbeat: AtomicU64::new(0) })
    }

    /// How often the worker has polled for orders. It rises all the time while the worker
    /// runs, also when there are no packets.
    #[must_use]
    pub fn heartbeat(&self) -> u64 {
        self.heartbeat.load(Ordering::Relaxed)
    }

    /// Has new settings taken over.
    pub fn change(&self, change: Change) {
        self.put(Order::Change(Box::new(change)));
    }

    /// Asks for a report.
    #[must_use]
    pub fn ask(&self) -> Asked<'_> {
        let (send, answer) = mpsc::channel();
        if self.state().orders.len() < MOST_WAITING {
            self.put(Order::Report(send));
        }
        Asked { mailbox: self, answer }
    }

    /// Asks for the largest open flows of a group, at most so many. There is no answer if the
    /// worker ends first.
    #[must_use]
    pub fn list_flows(&self, group: &str, most: usize) -> mpsc::Receiver<FlowList> {
        let (listing, list) = FlowListing::new(group, most);
        self.put(Order::ListFlows(listing));
        list
    }

    /// The worker's last report.
    #[must_use]
    pub fn last(&self) -> Report {
        self.state().last.clone()
    }

    /// Has the worker end, after what has reached it.
    pub fn stop(&self) {
        self.put(Order::Stop);
    }

    /// Whether the worker has ended with an error.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.state().left == Some(false)
    }

    fn put(&self, order: Order) {
        let mut state = self.state();
        if state.left.is_some() {
            return;
        }
        state.orders.push(order);
        drop(state);
        // A bell that cannot be rung has been rung too often: it will be heard. It rings
        // before the worker can know of the order, or it would ring for nothing later.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        self.waiting.store(true, Ordering::Release);
    }

    /// What wakes the worker.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Takes all orders, and counts the heartbeat.
    pub(crate) fn take(&self) -> Vec<Order> {
        // Written by this one thread.
        self.heartbeat.store(self.heartbeat() + 1, Ordering::Relaxed);
        if !self.waiting.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut self.state().orders)
    }

    /// Notes how the worker is, for when it cannot be asked.
    pub(crate) fn note(&self, report: &Report) {
        self.state().last = report.clone();
    }

    /// Attaches the worker; the mailbox closes when the value is dropped.
    pub(crate) fn attach(&self) -> Attached<'_> {
        Attached { mailbox: self, well: false }
    }

    fn state(&self) -> MutexGuard<'_, MailboxState> {
        // They are in order between any two operations.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question to a worker.
pub struct Asked<'a> {
    mailbox: &'a WorkerMailbox,
    answer: mpsc::Receiver<Report>,
}

impl Asked<'_> {
    /// Waits for the answer. It is what the worker said last when it has left; nothing when
    /// it is there and does not answer in time.
    #[must_use]
    pub fn answer(self, patience: Duration) -> Option<Report> {
        match self.answer.recv_timeout(patience) {
            Ok(report) => Some(report),
            Err(_) => {
                let state = self.mailbox.state();
                state.left.is_some().then(|| state.last.clone())
            }
        }
    }
}

/// A worker's hold on its mailbox. Dropping it, by a panic or otherwise, closes the mailbox.
pub(crate) struct Attached<'a> {
    mailbox: &'a WorkerMailbox,
    well: bool,
}

impl Attached<'_> {
    /// The worker leaves, with a last report; `well` is whether it was ordered to, or had
    /// nothing more to do.
    pub(crate) fn leave(mut self, report: &Report, well: bool) {
        self.mailbox.note(report);
        self.well = well;
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        let mut state = self.mailbox.state();
        state.left = Some(self.well);
        // Drops the senders of answers, so that callers stop waiting.
        state.orders.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn who_has_left_is_not_waited_for_and_has_said_something() {
        let mailbox = WorkerMailbox::new().unwrap();
        let asked = mailbox.ask();
        let report = Report { failed: vec!["nothing".to_owned()], ..Report::default() };
        let attached = mailbox.attach();
        assert_eq!(mailbox.take().len(), 1);
        attached.leave(&report, true);
        for asked in [asked, mailbox.ask()] {
            assert_eq!(asked.answer(PATIENCE).unwrap().failed, report.failed);
        }
        assert!(!mailbox.has_failed());
    }

    #[test]
    fn who_panics_has_left_in_disorder() {
        let mailbox = WorkerMailbox::new().unwrap();
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let _attached = mailbox.attach();
                panic!("for a test");
            });
            assert!(worker.join().is_err());
        });
        assert!(mailbox.has_failed());
        assert!(mailbox.ask().answer(PATIENCE).is_some());
    }

    #[test]
    fn questions_to_who_hangs_do_not_pile_up_and_orders_are_kept() {
        let mailbox = WorkerMailbox::new().unwrap();
        let asked: Vec<_> = (0..10 * MOST_WAITING).map(|_| mailbox.ask()).collect();
        mailbox.stop();
        // What was not put there is known at once not to be answered.
        assert!(asked.into_iter().next_back().unwrap().answer(PATIENCE).is_none());
        let orders = mailbox.take();
        assert_eq!(orders.len(), MOST_WAITING + 1);
        assert!(matches!(orders.last(), Some(Order::Stop)));
    }

    #[test]
    fn the_bell_is_silent_when_all_orders_are_taken() {
        let mailbox = WorkerMailbox::new().unwrap();
        std::thread::scope(|scope| {
            let broker = scope.spawn(|| (0..2_000).for_each(|_| mailbox.stop()));
            let mut taken = 0;
            while taken < 2_000 {
                taken += mailbox.take().len();
            }
            broker.join().unwrap();
        });
        // The last order may ring once more than was read.
        assert!(mailbox.take().is_empty());
        let waiting = mailbox.waiting.load(Ordering::Relaxed);
        let rings = rustix::io::read(&mailbox.bell, &mut [0; 8]).is_ok();
        assert!(waiting || !rings, "a worker would never sleep again");
    }
}
