//! Long computations that can be given up: compiling filters, building classifiers.
//!
//! Whoever starts one runs it within [`Cancel::run`]; the computation calls [`check`] every
//! now and then, at least once in some milliseconds of work. Once it is cancelled, `check`
//! does not return: it unwinds to `run`, so that everything made on the way is dropped, and
//! no function in between needs an outcome for it. Outside of `run`, `check` does nothing.
//!
//! A [`Cancel`] can also watch over what the computation uses: `check` calls its watch every
//! few milliseconds, and a refusal ends the computation with the reason.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two questions to the watch.
const WATCH: Duration = Duration::from_millis(3);

/// Says whether a computation may go on, and if not, why.
pub type Watch = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Ends a computation from another thread. Clones end the same one.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Inner>);

#[derive(Default)]
struct Inner {
    cancelled: AtomicBool,
    watch: Option<Watch>,
}

/// Why a computation has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It was cancelled.
    Cancelled,
    /// The watch refused to let it go on.
    Refused(String),
}

/// A computation that this thread takes part in.
struct Current {
    cancel: Cancel,
    watched: Instant,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

impl Cancel {
    /// One that calls `watch` every few milliseconds of the computation.
    #[must_use]
    pub fn watched(watch: Watch) -> Self {
        Self(Arc::new(Inner { cancelled: AtomicBool::new(false), watch: Some(watch) }))
    }

    /// Ends the computation, soon.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether [`Cancel::cancel`] was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Relaxed)
    }

    /// The result of a computation, if it comes to its end.
    ///
    /// # Errors
    /// [`Stopped`]: why it did not.
    pub fn run<T>(&self, compute: impl FnOnce() -> T) -> Result<T, Stopped> {
        let within = || {
            let _scope = Scope::enter(self.clone());
            check();
            compute()
        };
        // What was made is dropped on the way, and no other code has seen it.
        catch_unwind(AssertUnwindSafe(within)).map_err(as_stopped)
    }

    /// A part of a computation on another thread than [`Cancel::run`] was called on. To be
    /// called with what [`current`] gives on that one; a panic is to be passed on to it.
    pub fn share<T>(shared: Option<Self>, compute: impl FnOnce() -> T) -> T {
        let _scope = shared.map(Scope::enter);
        compute()
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").field("cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}

/// Any panic but ours goes on.
fn as_stopped(payload: Box<dyn Any + Send>) -> Stopped {
    match payload.downcast::<Stopped>() {
        Ok(stopped) => *stopped,
        Err(panic) => resume_unwind(panic),
    }
}

/// The computation of this thread until it is dropped.
struct Scope(Option<Current>);

impl Scope {
    fn enter(cancel: Cancel) -> Self {
        let current = Current { cancel, watched: Instant::now() };
        Self(CURRENT.with_borrow_mut(|place| place.replace(current)))
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let before = self.0.take();
        CURRENT.with_borrow_mut(|place| *place = before);
    }
}

/// What ends the computation of this thread, for [`Cancel::share`].
#[must_use]
pub fn current() -> Option<Cancel> {
    CURRENT.with_borrow(|place| place.as_ref().map(|current| current.cancel.clone()))
}

/// Goes on, unless the computation of this thread is to end. Costs some
/// nanoseconds, and with a watch the reading of a clock.
pub fn check() {
    let stopped = CURRENT.with_borrow_mut(|place| place.as_mut().and_then(Current::stopped));
    // A value that is dropped while the stack unwinds must not unwind it again.
    if let Some(stopped) = stopped.filter(|_| !std::thread::panicking()) {
        // No defect: the panic hook is not called.
        resume_unwind(Box::new(stopped));
    }
}

impl Current {
    fn stopped(&mut self) -> Option<Stopped> {
        if self.cancel.is_cancelled() {
            return Some(Stopped::Cancelled);
        }
        let watch = self.cancel.0.watch.as_ref()?;
        let now = Instant::now();
        if now.duration_since(self.watched) < WATCH {
            return None;
        }
        self.watched = now;
        watch().err().map(Stopped::Refused)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn a_computation_ends_where_it_is_cancelled_and_drops_what_it_made() {
        let cancel = Cancel::default();
        let made = Arc::new(());
        let (begun, begins) = mpsc::channel();
        let (ends, kept) = (cancel.clone(), Arc::clone(&made));
        let computing = thread::spawn(move || {
            ends.run(|| {
                let _kept = kept;
                begun.send(()).unwrap();
                loop {
                    check();
                }
            })
        });
        begins.recv().unwrap();
        cancel.cancel();
        let outcome: Result<(), Stopped> = computing.join().unwrap();
        assert_eq!(outcome, Err(Stopped::Cancelled));
        assert_eq!(Arc::strong_count(&made), 1);
    }

    #[test]
    fn one_that_is_not_cancelled_has_its_result_and_checks_nothing_afterwards() {
        let cancel = Cancel::default();
        assert_eq!(cancel.run(|| 7), Ok(7));
        cancel.cancel();
        check();
        assert_eq!(cancel.run(|| 7), Err(Stopped::Cancelled), "before it begins");
        assert!(current().is_none());
    }

    #[test]
    fn the_watch_s_refusal_ends_it_on_whichever_thread_it_works() {
        let cancel = Cancel::watched(Box::new(|| Err("enough".to_owned())));
        let outcome: Result<(), Stopped> = cancel.run(|| {
            let shared = current();
            let part = || {
                Cancel::share(shared, || {
                    loop {
                        check();
                    }
                })
            };
            thread::scope(|scope| {
                let part = scope.spawn(part);
                part.join().unwrap_or_else(|panic| resume_unwind(panic))
            })
        });
        assert_eq!(outcome, Err(Stopped::Refused("enough".to_owned())));
    }

    #[test]
    fn another_panic_stays_one() {
        let panics = || {
            let _: Result<(), Stopped> = Cancel::default().run(|| resume_unwind(Box::new(7_u8)));
        };
        let payload = catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
        assert_eq!(payload.downcast_ref::<u8>(), Some(&7));
        assert!(current().is_none());
    }
}
