//! What people are told, without the broker waiting for them.

use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::time::Duration;
use std::{fmt, io, thread};

/// Notices that wait to be told. What comes while so many wait is not told.
const MOST_WAITING: usize = 1_024;

/// How long the end waits for them.
const PATIENCE: Duration = Duration::from_secs(1);

/// Something to tell people.
pub struct Notice(pub(super) String);

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A thread that tells: a terminal that stands still, or a log that takes nothing, must not
/// hold up the broker.
pub(super) struct Notices {
    waiting: SyncSender<Notice>,
    /// Closed when all is told.
    told: mpsc::Receiver<()>,
    lost: u64,
}

impl Notices {
    /// Has everything told by `tell`.
    ///
    /// # Errors
    /// That there is no thread.
    pub(super) fn new(tell: impl FnMut(Notice) + Send + 'static) -> io::Result<Self> {
        let (waiting, notices) = mpsc::sync_channel(MOST_WAITING);
        let (all_told, told) = mpsc::channel::<()>();
        thread::Builder::new().name("forebay-notices".to_owned()).spawn(move || {
            notices.into_iter().for_each(tell);
            drop(all_told);
        })?;
        Ok(Self { waiting, told, lost: 0 })
    }

    /// Tells, later if need be.
    pub(super) fn tell(&mut self, what: String) {
        if self.lost > 0 {
            let lost = format!("nobody took what was told: {} notices are lost", self.lost);
            if self.waiting.try_send(Notice(lost)).is_err() {
                self.lost += 1;
                return;
            }
            self.lost = 0;
        }
        if self.waiting.try_send(Notice(what)).is_err() {
            self.lost += 1;
        }
    }

    /// Waits until everything is told, but not for long. Returns whether it is.
    pub(super) fn finish(self) -> bool {
        let Self { waiting, told, lost } = self;
        drop(waiting);
        lost == 0 && told.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Disconnected)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn who_tells_waits_for_nobody_and_what_is_lost_is_told() {
        let (heard, gate) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(())));
        let (hears, passes) = (Arc::clone(&heard), Arc::clone(&gate));
        let (takes, taken) = mpsc::channel();
        let closed = gate.lock().unwrap();
        let mut notices = Notices::new(move |notice| {
            let _ = takes.send(());
            let _open = passes.lock().unwrap();
            hears.lock().unwrap().push(notice.to_string());
        })
        .unwrap();
        notices.tell("0".to_owned());
        // With the first on its way nobody takes another, so that just so many can wait.
        taken.recv().unwrap();
        let (all, kept) = (3 * MOST_WAITING, 1 + MOST_WAITING);
        (1..all).for_each(|number| notices.tell(number.to_string()));
        drop(closed);
        (1..kept).for_each(|_| taken.recv().unwrap());
        notices.tell("the last".to_owned());
        assert!(notices.finish());
        let lost = format!("nobody took what was told: {} notices are lost", all - kept);
        let told = (0..kept).map(|number| number.to_string());
        let expected: Vec<_> = told.chain([lost, "the last".to_owned()]).collect();
        assert_eq!(*heard.lock().unwrap(), expected);
    }

    #[test]
    fn the_end_does_not_wait_for_one_who_never_takes_anything() {
        let gate = Arc::new(Mutex::new(()));
        let passes = Arc::clone(&gate);
        let closed = gate.lock().unwrap();
        let mut notices = Notices::new(move |_| drop(passes.lock())).unwrap();
        notices.tell("something".to_owned());
        assert!(!notices.finish());
        drop(closed);
    }

    #[test]
    fn the_end_knows_of_what_was_lost_and_never_told() {
        let gate = Arc::new(Mutex::new(()));
        let passes = Arc::clone(&gate);
        let closed = gate.lock().unwrap();
        let mut notices = Notices::new(move |_| drop(passes.lock())).unwrap();
        (0..2 * MOST_WAITING).for_each(|number| notices.tell(number.to_string()));
        drop(closed);
        assert!(!notices.finish());
    }
}
