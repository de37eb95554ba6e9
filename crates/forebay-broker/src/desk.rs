//! Where a worker's orders lie, and what it has said of itself.
//!
//! The broker's thread puts orders there, and the worker takes them between two batches.
//! When the worker leaves, for whatever reason, the desk is closed: who waits for an answer
//! then need not wait any longer, and has the worker's last report.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use forebay_pipeline::{Branch, Settings};
use rustix::event::{EventfdFlags, eventfd};

use crate::report::Report;
use crate::worker::Route;

/// Orders that lie on a desk from which on no more reports are asked for: the worker hangs.
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

/// What a worker is told.
pub(crate) enum Order {
    Change(Box<Change>),
    Report(mpsc::Sender<Report>),
    Stop,
}

/// What lies on a desk.
#[derive(Default)]
struct Papers {
    orders: Vec<Order>,
    last: Report,
    /// That the worker has left, and whether all was well.
    left: Option<bool>,
}

/// A worker's desk.
pub struct Desk {
    papers: Mutex<Papers>,
    waiting: AtomicBool,
    bell: OwnedFd,
    /// How often the worker has looked.
    looks: AtomicU64,
}

impl Desk {
    /// An empty desk.
    ///
    /// # Errors
    /// The system's, when it has no descriptor left.
    pub fn new() -> std::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let (papers, waiting) = (Mutex::default(), AtomicBool::new(false));
        Ok(Self { papers, waiting, bell, looks: AtomicU64::new(0) })
    }

    /// How often the worker has looked for orders: a number that rises all the time while
    /// it works, also when there are no packets.
    #[must_use]
    pub fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    /// Has new settings taken over.
    pub fn change(&self, change: Change) {
        self.put(Order::Change(Box::new(change)));
    }

    /// Asks for a report.
    #[must_use]
    pub fn ask(&self) -> Asked<'_> {
        let (send, answer) = mpsc::channel();
        if self.papers().orders.len() < MOST_WAITING {
            self.put(Order::Report(send));
        }
        Asked { desk: self, answer }
    }

    /// What the worker said last.
    #[must_use]
    pub fn last(&self) -> Report {
        self.papers().last.clone()
    }

    /// Has the worker end, after what has reached it.
    pub fn stop(&self) {
        self.put(Order::Stop);
    }

    /// Whether the worker has left because something was wrong.
    #[must_use]
    pub fn was_left_in_disorder(&self) -> bool {
        self.papers().left == Some(false)
    }

    fn put(&self, order: Order) {
        let mut papers = self.papers();
        if papers.left.is_some() {
            return;
        }
        papers.orders.push(order);
        drop(papers);
        // A bell that cannot be rung has been rung too often: it will be heard. It rings
        // before the worker can know of the order, or it would ring for nothing later.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        self.waiting.store(true, Ordering::Release);
    }

    /// What wakes the worker.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The orders that have come.
    pub(crate) fn take(&self) -> Vec<Order> {
        // Written by this one thread.
        self.looks.store(self.looks() + 1, Ordering::Relaxed);
        if !self.waiting.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut self.papers().orders)
    }

    /// Notes how the worker is, for when it cannot be asked.
    pub(crate) fn note(&self, report: &Report) {
        self.papers().last = report.clone();
    }

    /// The worker is there until it leaves.
    pub(crate) fn occupy(&self) -> Occupied<'_> {
        Occupied { desk: self, well: false }
    }

    fn papers(&self) -> MutexGuard<'_, Papers> {
        // They are in order between any two operations.
        self.papers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question to a worker.
pub struct Asked<'a> {
    desk: &'a Desk,
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
                let papers = self.desk.papers();
                papers.left.is_some().then(|| papers.last.clone())
            }
        }
    }
}

/// A worker at its desk. When this goes, by a panic or otherwise, the desk is closed.
pub(crate) struct Occupied<'a> {
    desk: &'a Desk,
    well: bool,
}

impl Occupied<'_> {
    /// The worker leaves, with a last report; `well` is whether it was told to, or had
    /// nothing more to do.
    pub(crate) fn leave(mut self, report: &Report, well: bool) {
        self.desk.note(report);
        self.well = well;
    }
}

impl Drop for Occupied<'_> {
    fn drop(&mut self) {
        let mut papers = self.desk.papers();
        papers.left = Some(self.well);
        // Whoever waits for an answer learns that there will be none.
        papers.orders.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn who_has_left_is_not_waited_for_and_has_said_something() {
        let desk = Desk::new().unwrap();
        let asked = desk.ask();
        let report = Report { failed: vec!["nothing".to_owned()], ..Report::default() };
        let occupied = desk.occupy();
        assert_eq!(desk.take().len(), 1);
        occupied.leave(&report, true);
        for asked in [asked, desk.ask()] {
            assert_eq!(asked.answer(PATIENCE).unwrap().failed, report.failed);
        }
        assert!(!desk.was_left_in_disorder());
    }

    #[test]
    fn who_panics_has_left_in_disorder() {
        let desk = Desk::new().unwrap();
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let _occupied = desk.occupy();
                panic!("for a test");
            });
            assert!(worker.join().is_err());
        });
        assert!(desk.was_left_in_disorder());
        assert!(desk.ask().answer(PATIENCE).is_some());
    }

    #[test]
    fn questions_to_who_hangs_do_not_pile_up_and_orders_are_kept() {
        let desk = Desk::new().unwrap();
        let asked: Vec<_> = (0..10 * MOST_WAITING).map(|_| desk.ask()).collect();
        desk.stop();
        // What was not put there is known at once not to be answered.
        assert!(asked.into_iter().next_back().unwrap().answer(PATIENCE).is_none());
        let orders = desk.take();
        assert_eq!(orders.len(), MOST_WAITING + 1);
        assert!(matches!(orders.last(), Some(Order::Stop)));
    }

    #[test]
    fn the_bell_is_silent_when_all_orders_are_taken() {
        let desk = Desk::new().unwrap();
        std::thread::scope(|scope| {
            let broker = scope.spawn(|| (0..2_000).for_each(|_| desk.stop()));
            let mut taken = 0;
            while taken < 2_000 {
                taken += desk.take().len();
            }
            broker.join().unwrap();
        });
        // The last order may ring once more than was read.
        assert!(desk.take().is_empty());
        let waiting = desk.waiting.load(Ordering::Relaxed);
        let rings = rustix::io::read(&desk.bell, &mut [0; 8]).is_ok();
        assert!(waiting || !rings, "a worker would never sleep again");
    }
}
