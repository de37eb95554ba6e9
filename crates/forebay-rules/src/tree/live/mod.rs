//! A list that is changed while packets are matched against it.
//!
//! Readers never wait: they take the [`Version`] in force, match a batch of keys, and drop it. A
//! version never changes. A change, or a batch of changes, is made on a copy of the parts that it
//! touches (`generation`). It takes effect as a whole when the copy becomes the next version: each
//! packet is matched against the list before all of the changes or after all of them.
//!
//! If there is no room for a change, a thread builds a new list that contains it; the old version
//! stays in force until then. The thread also builds a new list when room becomes short or leaves
//! have grown, applies the changes made meanwhile, and replaces the old list with it. It runs only
//! while there is such work.

mod edits;
mod listing;
mod reading;
mod work;

pub use edits::{Difference, Edit, Named, Place};
pub use listing::{RuleId, View};
pub use reading::{LiveReader, Reading};

use super::generation::{Generation, How, Version};
use super::{Estimate, MAX_RULES, TreeError, kernel};
use crate::choose::{EngineError, EngineName, MOST_LINEAR};
use crate::counters::{Count, Counters};
use crate::rule::{Action, Rule, RuleList};
use arc_swap::ArcSwap;
use forebay_codegen::code::Isa;
use forebay_packet::cancel::{Cancel, Watch};
use listing::{Listing, Step};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The longest list that the writer itself builds if a change finds no room: this takes 4 ms.
const SHORT: usize = 512;

/// The most atoms of such a list: the rules of some lists have hundreds of prefixes each.
const SHORT_ATOMS: usize = 8_192;

/// The number of lists that were made.
static LISTS: AtomicU64 = AtomicU64::new(0);

/// How long a writer waits for readers of the previous version.
const SETTLING: Duration = Duration::from_millis(2);

/// A change that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiveError {
    /// The list cannot be built with the rule, or is already matched too slowly.
    #[error(transparent)]
    List(#[from] TreeError),
    /// The list is full.
    #[error("the list has {MAX_RULES} rules, and cannot have more")]
    Full,
    /// There is no such rule.
    #[error("there is no rule {} any more, expected one that is in the list", .0.number)]
    Unknown(RuleId),
    /// There is no rule of that name.
    #[error("there is no rule {0} in the list")]
    Missing(Named),
    /// There is a rule of that name.
    #[error("there is a rule {0} in the list: expected a number that none has")]
    Taken(Named),
    /// There is no such position.
    #[error("there is no position {position}, expected one from 0 to {last}")]
    Position {
        /// The position given.
        position: usize,
        /// The last one for this change.
        last: usize,
    },
    /// The last change is not in force yet.
    #[error(
        "the list is being built anew for the previous change: try again when that is in force"
    )]
    Busy,
    /// The list is not the one that was compared.
    #[error("the list was changed after it was compared: try again")]
    Changed,
    /// The list could not be built anew.
    #[error("the list cannot be built anew with this change: {0}")]
    Refused(String),
}

/// When a change is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum InForce {
    /// Now.
    Now,
    /// When the list has been built anew: see [`Live::outcome`].
    Later,
}

/// The state of the writers.
struct State {
    list: Listing,
    default: Action,
    /// The list that changes are applied to; none if the next change needs a new one.
    generation: Option<Generation>,
    /// Whether the version in force is an engine that cannot be changed.
    is_compiled: bool,
    /// Changes since the rebuild in progress began, if there is one.
    log: Option<Vec<super::generation::Change>>,
    /// Steps of `list` that are not in force before the list has been built anew.
    waiting: Option<Vec<Step>>,
    /// The result of the last change that waited, until it is fetched.
    outcome: Option<Result<(), LiveError>>,
    /// Earlier versions, each with the numbers of rules that no later version has.
    retired: VecDeque<(Arc<Version>, Vec<u32>)>,
    /// Counts the changes of `list`.
    edition: u64,
    /// The edition that the list began with.
    first: u64,
    /// How often the list was built anew.
    merges: u64,
    /// The edition that could not be built, and the reason, until it is fetched.
    refused: Option<u64>,
    complaint: Option<String>,
    /// Whether the thread runs, and the means to end its computation.
    working: bool,
    cancel: Cancel,
    stop: bool,
}

struct Shared {
    version: ArcSwap<Version>,
    state: Mutex<State>,
    /// The thread has completed a piece of work.
    done: Condvar,
    isa: Isa,
    counters: Counters,
    watch: Box<dyn Fn() -> Watch + Send + Sync>,
}

/// A rule list that can be changed at any time.
pub struct Live {
    shared: Arc<Shared>,
}

impl Live {
    /// Builds `list`, to be matched with the instructions of `isa` and counted
    /// by so many workers. Its rules are numbered from 0 in their order.
    ///
    /// # Errors
    /// If the list is too long, or would be matched too slowly.
    ///
    /// # Panics
    /// If this machine has not got `isa`.
    pub fn new(list: &RuleList, isa: Isa, workers: usize) -> Result<Self, TreeError> {
        let held = Listing::new(list.rules.clone())?;
        let (live, estimate) =
            Self::of_trees(held, list.default, isa, workers, Box::new(|| Box::new(|| Ok(()))))?;
        estimate.require(list)?;
        Ok(live)
    }

    /// As [`Live::new`], but matched by the engine that `auto` selects while the list does not
    /// change. `watch` limits what is built in the background. Also returns a notice about the
    /// engine, if there is one.
    ///
    /// # Errors
    /// If no engine supports the list: the reason, and the place of the rule that causes it, if
    /// it is a single rule.
    ///
    /// # Panics
    /// If this machine has not got `isa`.
    pub fn automatic(
        list: RuleList,
        isa: Isa,
        workers: usize,
        watch: Box<dyn Fn() -> Watch + Send + Sync>,
    ) -> Result<(Self, Option<String>), (EngineError, Option<usize>)> {
        let short = list.rules.len() <= MOST_LINEAR;
        let compiled = short.then(|| EngineName::Auto.choose(&list, isa)).and_then(Result::ok);
        let default = list.default;
        let rules = Listing::new(list.rules).map_err(|error| (error.into(), None))?;
        if let Some(chosen) = compiled.filter(|chosen| chosen.name != EngineName::Tree) {
            let how = How::Engine(chosen.engine, rules.names());
            return Ok((Self::of(rules, default, how, None, isa, workers, watch), None));
        }
        let names = rules.in_order().map(|(_, rule)| Named::of(rule)).collect::<Vec<_>>();
        let built = Self::of_trees(rules, default, isa, workers, watch);
        let built = built.and_then(|(live, estimate)| {
            live.shared.require_rate(&live.shared.state())?;
            Ok((live, estimate))
        });
        let (live, estimate) = built.map_err(|error| {
            let error = EngineError::from(error);
            let name = error.rule().map(|(family, number)| Named { family, number });
            let index = names.iter().position(|of| Some(*of) == name);
            (error, index)
        })?;
        let notice = (estimate.ranged > 0).then(|| format!("{}: {estimate}", EngineName::Tree));
        Ok((live, notice))
    }

    fn of_trees(
        list: Listing,
        default: Action,
        isa: Isa,
        workers: usize,
        watch: Box<dyn Fn() -> Watch + Send + Sync>,
    ) -> Result<(Self, Estimate), TreeError> {
        assert_eq!(forebay_jit::cpu::require(isa), Ok(()), "the machine has the level");
        let generation = Generation::build(&list.held())?;
        let estimate = Estimate::of(generation.costs(), kernel::supported(isa));
        let how = generation.how();
        Ok((Self::of(list, default, how, Some(generation), isa, workers, watch), estimate))
    }

    fn of(
        list: Listing,
        default: Action,
        how: How,
        generation: Option<Generation>,
        isa: Isa,
        workers: usize,
        watch: Box<dyn Fn() -> Watch + Send + Sync>,
    ) -> Self {
        let version = Version::new(how, default, kernel::supported(isa));
        let counters = Counters::with_cells(workers, list.len());
        // No two lists have an edition in common: a reader of parts notices another list.
        let first = LISTS.fetch_add(1, Ordering::Relaxed) << 32;
        let state = State {
            list,
            default,
            is_compiled: generation.is_none(),
            generation,
            log: None,
            waiting: None,
            outcome: None,
            retired: VecDeque::new(),
            edition: first,
            first,
            merges: 0,
            refused: None,
            complaint: None,
            working: false,
            cancel: Cancel::default(),
            stop: false,
        };
        let (state, done) = (Mutex::new(state), Condvar::new());
        let version = ArcSwap::from_pointee(version);
        Self { shared: Arc::new(Shared { version, state, done, isa, counters, watch }) }
    }

    /// A reader of the list, for another thread.
    #[must_use]
    pub fn reader(&self) -> LiveReader {
        LiveReader(Arc::clone(&self.shared))
    }

    /// The version in force.
    #[must_use]
    pub fn read(&self) -> Reading {
        Reading { version: self.shared.version.load() }
    }

    /// The rules and their numbers, in order.
    #[must_use]
    pub fn rules(&self) -> Vec<(RuleId, Arc<Rule>)> {
        self.shared.state().list.rules()
    }

    /// Calls `look` with the list as it is. Changes wait meanwhile, readers do not.
    pub fn look<T>(&self, look: impl FnOnce(&View<'_>) -> T) -> T {
        let mut state = self.shared.state();
        state.release(&self.shared.counters);
        let State { list, default, edition, .. } = &*state;
        look(&View::new(list, *default, *edition, &self.shared.counters))
    }

    /// Puts `rule` before the rule at `position`, or at the end of the list, and waits until it
    /// is in force.
    ///
    /// # Errors
    /// If there is no such position, no room, or the list is matched too slowly
    /// since it was last built.
    pub fn insert(&self, position: usize, rule: Rule) -> Result<RuleId, LiveError> {
        let mut id = None;
        self.change_and_wait(|list, steps| {
            list.require(position, list.len())?;
            let added = list.add(Arc::new(rule))?;
            id = Some(list.id(added));
            list.make(Step::Insert(position, added), steps);
            Ok(())
        })?;
        id.ok_or(LiveError::Full)
    }

    /// Takes a rule out, and waits until that is in force.
    ///
    /// # Errors
    /// If it is not in the list.
    pub fn delete(&self, rule: RuleId) -> Result<(), LiveError> {
        self.change_and_wait(|list, steps| {
            let at = list.place(rule)?;
            list.make(Step::Delete(at, rule.number), steps);
            Ok(())
        })
    }

    /// Moves a rule so that it comes to stand at `position`, and waits until that is in force.
    ///
    /// # Errors
    /// If it is not in the list, or there is no such position.
    pub fn relocate(&self, rule: RuleId, position: usize) -> Result<(), LiveError> {
        self.change_and_wait(|list, steps| {
            let at = list.place(rule)?;
            list.require(position, list.len() - 1)?;
            list.make(Step::Delete(at, rule.number), steps);
            list.make(Step::Insert(position, rule.number), steps);
            Ok(())
        })
    }

    /// The counters of the rules, by their numbers.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// The packets of a rule since it was inserted.
    #[must_use]
    pub fn count(&self, rule: RuleId) -> Count {
        self.shared.state().list.count(rule.number, &self.shared.counters)
    }

    /// How often the list was built anew.
    #[must_use]
    pub fn merges(&self) -> u64 {
        self.shared.state().merges
    }

    /// The result of the last change that was not in force at once; none while it waits. It is
    /// returned once, and there is no other change before.
    pub fn outcome(&self) -> Option<Result<(), LiveError>> {
        self.shared.state().outcome.take()
    }

    /// Why the list could not be built anew in the background, or that it is slower than a start
    /// allows; returned once. The list in force is correct.
    pub fn complaint(&self) -> Option<String> {
        self.shared.state().complaint.take()
    }

    fn change_and_wait(
        &self,
        change: impl FnOnce(&mut Listing, &mut Vec<Step>) -> Result<(), LiveError>,
    ) -> Result<(), LiveError> {
        if self.shared.change(None, change)? == InForce::Now {
            return Ok(());
        }
        let mut state = self.shared.state();
        loop {
            if let Some(outcome) = state.outcome.take() {
                return outcome;
            }
            state = self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.stop = true;
        state.cancel.cancel();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all changes whose steps `change` collects, or none of them; with `of`, only if the
    /// list is of that edition.
    fn change(
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
    fn make(&self, state: &mut State, steps: Vec<Step>) -> Result<InForce, LiveError> {
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
    fn publish(&self, state: &mut State) {
        let Some(generation) = &state.generation else { return };
        self.put_in_force(state, generation.how());
        state.is_compiled = false;
    }

    fn put_in_force(&self, state: &mut State, how: How) {
        let version = Version::new(how, state.default, kernel::supported(self.isa));
        let old = self.version.swap(Arc::new(version));
        // A reader may still match a batch against the old version. Packets that arrive after
        // the change has returned are in later batches.
        let since = Instant::now();
        while Arc::strong_count(&old) > 1 && since.elapsed() < SETTLING {
            std::thread::yield_now();
        }
        // Kept here, so that no reader has to free its memory.
        let left = state.list.take_left();
        state.retired.push_back((old, left));
    }

    /// Complains of a list that was just built and is slower than a start allows.
    fn note_rate(&self, state: &mut State) {
        let error = self.require_rate(state).err();
        let why = |error| format!("a start would refuse the rules that are in force: {error}");
        state.complaint = error.map(why).or(state.complaint.take());
    }

    /// Refuses a list that has become too slow to be added to.
    fn require_rate(&self, state: &State) -> Result<(), TreeError> {
        let Some(generation) = &state.generation else { return Ok(()) };
        let estimate = Estimate::of(generation.costs(), kernel::supported(self.isa));
        if estimate.rate >= super::LEAST_RATE {
            return Ok(());
        }
        estimate.require(&state.list.as_list(state.default))
    }
}

impl State {
    /// Frees versions that no reader has any more, and the numbers of their rules.
    fn release(&mut self, counters: &Counters) {
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
