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
        let Self { waiting, told, .. } = self;
        drop(waiting);
        told.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Disconnected)
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
        let closed = gate.lock().unwrap();
        let mut notices = Notices::new(move |notice| {
            let _open = passes.lock().unwrap();
            hears.lock().unwrap().push(notice.to_string());
        })
        .unwrap();
        // One may be on its way already.
        let (all, kept) = (3 * MOST_WAITING, MOST_WAITING..=MOST_WAITING + 1);
        (0..all).for_each(|number| notices.tell(number.to_string()));
        drop(closed);
        while heard.lock().unwrap().len() < MOST_WAITING {
            thread::yield_now();
        }
        notices.tell("the last".to_owned());
        assert!(notices.finish());
        let heard = heard.lock().unwrap();
        let (told, rest) = heard.split_at(heard.len() - 2);
        assert!(kept.contains(&told.len()), "{}", told.len());
        let lost = format!("nobody took what was told: {} notices are lost", all - told.len());
        assert_eq!(rest, [lost, "the last".to_owned()]);
        assert!(told.iter().enumerate().all(|(number, notice)| *notice == number.to_string()));
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
}
