//! Notices to people, printed without the broker waiting for that.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::time::Duration;
use std::{fmt, io, thread};

use serde_json::{Value, json};

use crate::clock::Clock;

/// The most notices that wait to be printed. Those beyond are only counted.
const MOST_WAITING: usize = 1_024;

/// Notices that are kept for `ctl events`.
const KEPT: usize = 256;

/// How long the end waits for them.
const PATIENCE: Duration = Duration::from_secs(1);

/// Something to tell people.
pub struct Notice(pub(super) String);

impl Notice {
    fn of_lost(notices: u64) -> Self {
        Self(format!("standard error took no more: {notices} notices are lost"))
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A thread that prints: a terminal that stands still, or a log that takes nothing, must not
/// hold up the broker.
pub(super) struct Notices {
    waiting: SyncSender<Notice>,
    /// Closed when all is printed.
    told: mpsc::Receiver<()>,
    lost: u64,
    /// How many are lost at the end, which the thread prints last.
    lost_in_the_end: Arc<AtomicU64>,
    /// The last of them, each with its time by `clock`.
    kept: VecDeque<(u64, String)>,
    clock: Clock,
}

impl Notices {
    /// Prints everything by `tell`.
    ///
    /// # Errors
    /// That there is no thread.
    pub(super) fn new(
        clock: Clock,
        mut tell: impl FnMut(Notice) + Send + 'static,
    ) -> io::Result<Self> {
        let (waiting, notices) = mpsc::sync_channel(MOST_WAITING);
        let (all_told, told) = mpsc::channel::<()>();
        let lost_in_the_end = Arc::new(AtomicU64::new(0));
        let lost = Arc::clone(&lost_in_the_end);
        thread::Builder::new().name("forebay-notices".to_owned()).spawn(move || {
            notices.into_iter().for_each(&mut tell);
            match lost.load(Ordering::Acquire) {
                0 => {}
                lost => tell(Notice::of_lost(lost)),
            }
            drop(all_told);
        })?;
        let kept = VecDeque::with_capacity(KEPT);
        Ok(Self { waiting, told, lost: 0, lost_in_the_end, kept, clock })
    }

    /// Tells, later if need be.
    pub(super) fn tell(&mut self, what: String) {
        if self.kept.len() >= KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((self.clock.now(), what.clone()));
        if self.lost > 0 {
            if self.waiting.try_send(Notice::of_lost(self.lost)).is_err() {
                self.lost += 1;
                return;
            }
            self.lost = 0;
        }
        if self.waiting.try_send(Notice(what)).is_err() {
            self.lost += 1;
        }
    }

    /// The last notices, the oldest first, each with its time in seconds.
    pub(super) fn events(&self) -> Value {
        let event = |(at, what): &(u64, String)| json!({ "at_s": *at as f64 / 1e9, "what": what });
        self.kept.iter().map(event).collect()
    }

    /// Waits a short time until all notices are written, with the number of lost ones. Returns
    /// whether they are. If not, standard error takes nothing, so there is nowhere to report it.
    #[must_use]
    pub(super) fn finish(self) -> bool {
        self.finish_within(PATIENCE)
    }

    fn finish_within(self, patience: Duration) -> bool {
        let Self { waiting, told, lost, lost_in_the_end, .. } = self;
        lost_in_the_end.store(lost, Ordering::Release);
        drop(waiting);
        told.recv_timeout(patience) == Err(RecvTimeoutError::Disconnected)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Sends more notices than can wait to a receiver that takes none until all are sent, then
    /// `more`. Returns what was received, and what should have been received before `more`.
    fn flood(more: impl FnOnce(&mut Notices)) -> (Vec<String>, Vec<String>) {
        let (heard, gate) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(())));
        let (hears, passes) = (Arc::clone(&heard), Arc::clone(&gate));
        let (takes, taken) = mpsc::channel();
        let closed = gate.lock().unwrap();
        let mut notices = Notices::new(Clock::default(), move |notice| {
            let _ = takes.send(());
            let _open = passes.lock().unwrap();
            hears.lock().unwrap().push(notice.to_string());
        })
        .unwrap();
        notices.tell("0".to_owned());
        // The first is being written, and no other is taken: exactly so many can wait.
        taken.recv().unwrap();
        let (all, kept) = (3 * MOST_WAITING, 1 + MOST_WAITING);
        (1..all).for_each(|number| notices.tell(number.to_string()));
        drop(closed);
        (1..kept).for_each(|_| taken.recv().unwrap());
        more(&mut notices);
        assert!(notices.finish_within(Duration::from_secs(20)));
        let lost = format!("standard error took no more: {} notices are lost", all - kept);
        let told = (0..kept).map(|number| number.to_string());
        (heard.lock().unwrap().clone(), told.chain([lost]).collect())
    }

    #[test]
    fn who_tells_waits_for_nobody_and_what_is_lost_is_told() {
        let (heard, mut expected) = flood(|notices| notices.tell("the last".to_owned()));
        expected.push("the last".to_owned());
        assert_eq!(heard, expected);
    }

    #[test]
    fn what_is_lost_is_told_at_the_end_too() {
        let (heard, expected) = flood(|_| {});
        assert_eq!(heard, expected);
    }

    #[test]
    fn the_last_notices_are_kept_whoever_took_them() {
        let mut notices = Notices::new(Clock::default(), drop).unwrap();
        (0..KEPT + 5).for_each(|number| notices.tell(number.to_string()));
        let events = notices.events();
        let events = events.as_array().unwrap();
        assert_eq!((events.len(), &events[0]["what"]), (KEPT, &"5".into()));
        assert!(events[0]["at_s"].as_f64() <= events[KEPT - 1]["at_s"].as_f64());
        assert!(notices.finish());
    }

    #[test]
    fn the_end_does_not_wait_for_one_who_never_takes_anything() {
        let gate = Arc::new(Mutex::new(()));
        let passes = Arc::clone(&gate);
        let closed = gate.lock().unwrap();
        let mut notices = Notices::new(Clock::default(), move |_| drop(passes.lock())).unwrap();
        notices.tell("something".to_owned());
        assert!(!notices.finish());
        drop(closed);
    }
}
