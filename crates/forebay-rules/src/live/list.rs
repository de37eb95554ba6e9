//! The list itself, with changes by place.

use super::error::LiveError;
use super::listing::{Listing, Step, View};
use super::names::{Named, RuleId};
use super::reading::{LiveReader, Reading};
use super::writers::{InForce, Shared, Thread, WriterState};
use crate::choose::{self, EngineError, EngineName, MOST_LINEAR};
use crate::counters::{Count, Counters};
use crate::rule::{Action, Rule, RuleList};
use crate::tree::generation::{Generation, How, Version};
use crate::tree::{Estimate, TreeError};
use arc_swap::ArcSwap;
use forebay_codegen::code::Isa;
use forebay_packet::cancel::{Cancel, Watch};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The number of lists that were made.
static LISTS: AtomicU64 = AtomicU64::new(0);

/// A rule list that can be changed at any time.
pub struct Live {
    pub(super) shared: Arc<Shared>,
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
        let is_short = list.rules.len() <= MOST_LINEAR;
        let compiled = is_short.then(|| choose::scan(&list, isa, f64::INFINITY)).flatten();
        let default = list.default;
        let rules = Listing::new(list.rules).map_err(|error| (error.into(), None))?;
        if let Some(chosen) = compiled {
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
        if !is_short && live.shared.scan_beside_trees() {
            return Ok((live, None));
        }
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
        let estimate = Estimate::of(generation.costs(), isa);
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
        let version = Version::new(how, default, isa);
        let counters = Counters::new(workers, list.len());
        // No two lists have an edition in common: a reader of parts notices another list.
        let first = LISTS.fetch_add(1, Ordering::Relaxed) << 32;
        let state = WriterState {
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
            thread: Thread::None,
            cancel: Cancel::default(),
            stop: false,
        };
        let (state, due, done) = (Mutex::new(state), Condvar::new(), Condvar::new());
        let version = ArcSwap::from_pointee(version);
        Self { shared: Arc::new(Shared { version, state, due, done, isa, counters, watch }) }
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
        let WriterState { list, default, edition, .. } = &*state;
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
        self.shared.due.notify_one();
    }
}
