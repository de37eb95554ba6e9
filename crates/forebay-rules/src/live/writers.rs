//! What writers share: the rules, the version in force, and what waits for the thread.

use super::error::LiveError;
use super::listing::{Listing, Step};
use crate::counters::Counters;
use crate::rule::Action;
use crate::tree::generation::{Change, Generation, How, Version};
use crate::tree::{Estimate, LEAST_RATE, TreeError};
use arc_swap::ArcSwap;
use forebay_codegen::code::Isa;
use forebay_packet::cancel::{Cancel, Watch};
use std::collections::VecDeque;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a writer waits for readers of the previous version.
const SETTLING: Duration = Duration::from_millis(2);

/// A writer that waits does not give its processor away for so long: most readers match a batch in less, and
/// a thread that builds a list would keep the processor for the rest of its time slice, some milliseconds.
const SPINNING: Duration = Duration::from_micros(50);

/// Then it sleeps for at least so long at a time.
const PAUSE: Duration = Duration::from_micros(20);

/// When a change is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum InForce {
    /// Now.
    Now,
    /// When the list has been built anew: see [`Live::outcome`](super::Live::outcome).
    Later,
}

/// The thread that works in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thread {
    /// There is none: there was no work yet, it broke down, or could not be started.
    None,
    /// It waits for some.
    Waits,
    /// It does some, or is about to.
    Works,
}

/// The state of the writers.
pub(super) struct WriterState {
    pub list: Listing,
    pub default: Action,
    /// The list that changes are applied to; none if the next change needs a new one.
    pub generation: Option<Generation>,
    /// Whether the version in force is an engine that cannot be changed.
    pub is_compiled: bool,
    /// Changes since the rebuild in progress began, if there is one.
    pub log: Option<Vec<Change>>,
    /// Steps of `list` that are not in force before the list has been built anew.
    pub waiting: Option<Vec<Step>>,
    /// The result of the last change that waited, until it is fetched.
    pub outcome: Option<Result<(), LiveError>>,
    /// Earlier versions, each with the numbers of rules that no later version has.
    pub retired: VecDeque<(Arc<Version>, Vec<u32>)>,
    /// Counts the changes of `list`.
    pub edition: u64,
    /// The edition that the list began with.
    pub first: u64,
    /// How often the list was built anew.
    pub merges: u64,
    /// The edition that could not be built, and the reason, until it is fetched.
    pub refused: Option<u64>,
    pub complaint: Option<String>,
    /// What the thread does, and the means to end its computation.
    pub thread: Thread,
    pub cancel: Cancel,
    pub stop: bool,
}

/// What writers, readers and the thread share.
pub(super) struct Shared {
    pub version: ArcSwap<Version>,
    pub state: Mutex<WriterState>,
    /// The thread has work to do, or is to end.
    pub due: Condvar,
    /// The thread has completed a piece of work.
    pub done: Condvar,
    pub isa: Isa,
    pub counters: Counters,
    pub watch: Box<dyn Fn() -> Watch + Send + Sync>,
}

impl Shared {
    /// The state, once no other thread has it.
    pub fn state(&self) -> MutexGuard<'_, WriterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all changes whose steps `change` collects, or none of them; with `of`, only if the
    /// list is of that edition.
    pub fn change(
        self: &Arc<Self>,
        of: Option<u64>,
        change: impl FnOnce(&mut Listing, &mut Vec<Step>) -> Result<(), LiveError>,
    ) -> Result<InForce, LiveError> {
        let mut state = self.state();
        if state.waiting.is_some() || state.outcome.is_some() {
            return Err(LiveError::Busy);
        }
        if of.is_some_and(|edition| edition != state.edition) {
            return Err(LiveError::Changed);
        }
        state.release(&self.counters);
        let mut steps = Vec::new();
        let changed = change(&mut state.list, &mut steps);
        let grows = steps.iter().any(Step::inserts);
        let allowed = changed.and_then(|()| match grows {
            true => self.require_rate(&state).map_err(LiveError::List),
            false => Ok(()),
        });
        if let Err(error) = allowed {
            state.list.undo(steps);
            return Err(error);
        }
        if steps.is_empty() {
            return Ok(InForce::Now);
        }
        let outcome = self.make(&mut state, steps);
        self.wake(&mut state);
        outcome
    }

    /// Brings steps that were made on `list` into force, now or later.
    fn make(&self, state: &mut WriterState, steps: Vec<Step>) -> Result<InForce, LiveError> {
        self.counters.prepare(state.list.numbers());
        let changes = state.list.changes(&steps);
        state.edition += 1;
        if let Some(log) = &mut state.log {
            log.extend_from_slice(&changes);
        }
        let made = state.generation.as_mut().is_some_and(|all| all.make(&changes).is_ok());
        if !made && !state.list.is_short() {
            state.generation = None;
            state.waiting = Some(steps);
            return Ok(InForce::Later);
        }
        if !made {
            // No version has the changes that were made in part.
            match Generation::build(&state.list.held()) {
                Ok(built) => state.generation = Some(built),
                Err(error) => {
                    state.generation = None;
                    state.log = None;
                    state.list.undo(steps);
                    return Err(error.into());
                }
            }
            state.log = None;
            state.merges += 1;
            self.note_rate(state);
        }
        self.publish(state);
        Ok(InForce::Now)
    }

    /// Makes a version of the generation.
    pub fn publish(&self, state: &mut WriterState) {
        let Some(generation) = &state.generation else { return };
        self.put_in_force(state, generation.how());
        state.is_compiled = false;
    }

    /// Makes a version of what matches packets, and has readers use it.
    pub fn put_in_force(&self, state: &mut WriterState, how: How) {
        let version = Version::new(how, state.default, self.isa);
        let old = self.version.swap(Arc::new(version));
        // A reader may still match a batch against the old version. Packets that arrive after
        // the change has returned are in later batches.
        let since = Instant::now();
        while Arc::strong_count(&old) > 1 && since.elapsed() < SETTLING {
            match since.elapsed() < SPINNING {
                true => std::hint::spin_loop(),
                false => std::thread::sleep(PAUSE),
            }
        }
        // Kept here, so that no reader has to free its memory.
        let left = state.list.take_left();
        state.retired.push_back((old, left));
    }

    /// Complains of a list that was just built and is slower than a start allows.
    pub fn note_rate(&self, state: &mut WriterState) {
        let error = self.require_rate(state).err();
        let why = |error| format!("a start would refuse the rules that are in force: {error}");
        state.complaint = error.map(why).or(state.complaint.take());
    }

    /// Refuses a list that has become too slow to be added to.
    pub fn require_rate(&self, state: &WriterState) -> Result<(), TreeError> {
        let Some(generation) = &state.generation else { return Ok(()) };
        let estimate = Estimate::of(generation.costs(), self.isa);
        if estimate.rate >= LEAST_RATE {
            return Ok(());
        }
        estimate.require(&state.list.as_list(state.default))
    }
}

impl WriterState {
    /// Frees versions that no reader has any more, and the numbers of their rules.
    pub fn release(&mut self, counters: &Counters) {
        while let Some((version, _)) = self.retired.front() {
            if Arc::strong_count(version) > 1 {
                return;
            }
            // Readers have counted before they dropped the version.
            fence(Ordering::Acquire);
            if let Some((_, numbers)) = self.retired.pop_front() {
                numbers.into_iter().for_each(|number| self.list.free(number, counters));
            }
        }
    }
}
