//! A list that is changed while packets are matched against it.
//!
//! Readers never wait, whatever writers do: they take what the list is at the
//! moment, match a batch of keys, and let go. Each packet is matched against
//! the list from before a change or the one from after. Writers take turns, and
//! each waits for readers that have begun before the last change was made, so
//! that nobody meets half of two changes. A change is usually made in place, by swapping the few leaves that it touches;
//! what cannot be is put into an overlay of at most 64 rules' parts, from which
//! a thread moves them on. Before room runs out, the thread builds the list anew, brings it up to date with what
//! has changed meanwhile, and swaps it in.

use super::generation::{Generation, Held, Version};
use super::readers::{Reader, Readers};
use super::{Estimate, MAX_RULES, TreeError, kernel, least_labels};
use crate::counters::{Count, Counters};
use crate::packed::{Key4, Key6};
use crate::rule::{Rule, RuleList};
use arc_swap::{ArcSwap, Guard};
use forebay_codegen::code::Isa;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A rule of a [`Live`] list: its name for as long as it is in the list,
/// wherever it is moved. No other rule ever has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId {
    /// What readers get and counters count by. It is given out again some time
    /// after the rule has gone.
    pub number: u32,
    /// How often the number was given out before.
    life: u32,
}

/// A change that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiveError {
    /// The list cannot be built with the rule in it, or is matched too slowly
    /// already.
    #[error(transparent)]
    List(#[from] TreeError),
    /// The list is full.
    #[error("the list has {MAX_RULES} rules, and cannot have more")]
    Full,
    /// There is no such rule.
    #[error("there is no rule {} any more, expected one that is in the list", .0.number)]
    Unknown(RuleId),
    /// There is no such place.
    #[error("there is no position {position}, expected one from 0 to {last}")]
    Position {
        /// What was asked for.
        position: usize,
        /// The last position there is for this change.
        last: usize,
    },
}

/// A change as it is made again on a list that was built meanwhile.
enum Change {
    Insert(Held, usize),
    Delete(u32),
    Move(u32, usize),
}

/// What writers share.
struct State {
    generation: Generation,
    /// Changes since a rebuild began, if one is under way.
    log: Option<Vec<Change>>,
    next: u32,
    /// Numbers to be given out again.
    free: Vec<u32>,
    /// Numbers of rules deleted since the last rebuild.
    deleted: Vec<u32>,
    /// The same from before, and the lists in which readers may still see them.
    retired: Vec<(Arc<Version>, Vec<u32>)>,
    /// How often numbers were given out again, of those that were.
    lives: HashMap<u32, u32>,
    /// What had been counted under numbers when they were given out again.
    counted: HashMap<u32, Count>,
    /// How often the list was built anew.
    merges: u64,
    stop: bool,
}

struct Shared {
    version: ArcSwap<Version>,
    state: Mutex<State>,
    /// A rebuild is due, or the list goes away.
    wake: Condvar,
    isa: Isa,
    readers: Readers,
    counters: Counters,
}

/// A look at a list. The numbers that it gives are those of the rules for as
/// long as it is held, whatever becomes of the list: count by them before it
/// goes. Writers wait for it: hold it for a batch or so, and change nothing while
/// the same thread holds one.
pub struct Reading<'a> {
    version: Guard<Arc<Version>>,
    isa: Isa,
    _reader: Reader<'a>,
}

impl Reading<'_> {
    /// Writes for each key the number of the first rule that matches it, or
    /// [`NO_RULE`](crate::engine::NO_RULE).
    ///
    /// # Panics
    /// If `keys` and `rules` differ in length.
    pub fn classify4(&self, keys: &[Key4], rules: &mut [u32]) {
        least_labels(self.isa, &self.version.v4, keys, rules);
        rules.iter_mut().for_each(|rule| *rule = self.version.names.rule(*rule));
    }

    /// As [`Reading::classify4`], for IPv6.
    ///
    /// # Panics
    /// If `keys` and `rules` differ in length.
    pub fn classify6(&self, keys: &[Key6], rules: &mut [u32]) {
        least_labels(self.isa, &self.version.v6, keys, rules);
        rules.iter_mut().for_each(|rule| *rule = self.version.names.rule(*rule));
    }
}

/// A rule list that can be changed at any time.
pub struct Live {
    shared: Arc<Shared>,
    merger: Option<JoinHandle<()>>,
}

impl Live {
    /// Builds `list`, to be matched with the instructions of `isa` and counted
    /// by so many workers. Its rules are numbered from 0 in their order.
    ///
    /// # Errors
    /// If the list is too long, or would be matched too slowly.
    ///
    /// # Panics
    /// If this machine has not got `isa`, or cannot start a thread.
    pub fn new(list: &RuleList, isa: Isa, workers: usize) -> Result<Self, TreeError> {
        assert_eq!(forebay_jit::cpu::require(isa), Ok(()), "the machine has the level");
        let rules = list.rules.len();
        if rules > MAX_RULES {
            return Err(TreeError::Rules { rules });
        }
        let held = |(id, rule): (u32, &Rule)| Held { id, rule: Arc::new(rule.clone()) };
        let generation = Generation::build((0..).zip(&list.rules).map(held).collect())?;
        Estimate::of(generation.costs(), kernel::supported(isa)).require(list)?;
        let shared = Arc::new(Shared {
            version: ArcSwap::new(Arc::clone(&generation.version)),
            state: Mutex::new(State {
                generation,
                log: None,
                next: rules as u32,
                free: Vec::new(),
                deleted: Vec::new(),
                retired: Vec::new(),
                lives: HashMap::new(),
                counted: HashMap::new(),
                merges: 0,
                stop: false,
            }),
            wake: Condvar::new(),
            isa: kernel::supported(isa),
            readers: Readers::default(),
            counters: Counters::new(workers),
        });
        let for_merger = Arc::clone(&shared);
        let merger = std::thread::Builder::new()
            .name("rules-merge".to_owned())
            .spawn(move || for_merger.merge_until_stopped())
            .expect("a thread can be started");
        Ok(Self { shared, merger: Some(merger) })
    }

    /// Begins to read: takes the list as it is.
    #[must_use]
    pub fn read(&self) -> Reading<'_> {
        // Who changes the list waits for all that had begun, so that the list is
        // taken after beginning.
        let reader = self.shared.readers.begin();
        Reading { version: self.shared.version.load(), isa: self.shared.isa, _reader: reader }
    }

    /// The rules and their numbers, in order.
    #[must_use]
    pub fn rules(&self) -> Vec<(RuleId, Arc<Rule>)> {
        let state = self.shared.state();
        let rules = state.generation.rules();
        rules.map(|held| (state.id(held.id), Arc::clone(&held.rule))).collect()
    }

    /// Puts `rule` before the rule at `position`, or at the end of the list.
    ///
    /// # Errors
    /// If there is no such position, no room, or the list is matched too slowly
    /// since it was last built.
    pub fn insert(&self, position: usize, rule: Rule) -> Result<RuleId, LiveError> {
        let mut state = self.shared.state();
        let last = state.generation.len();
        if position > last {
            return Err(LiveError::Position { position, last });
        }
        if last == MAX_RULES {
            return Err(LiveError::Full);
        }
        self.shared.require_rate(&state)?;
        let id = self.new_id(&mut state);
        let old = self
            .shared
            .make(&mut state, Change::Insert(Held { id, rule: Arc::new(rule) }, position))?;
        let id = state.id(id);
        drop(state);
        drop(old);
        Ok(id)
    }

    /// Takes a rule out.
    ///
    /// # Errors
    /// If it is not in the list.
    pub fn delete(&self, rule: RuleId) -> Result<(), LiveError> {
        let mut state = self.shared.state();
        state.expect(rule)?;
        let old = self.shared.make(&mut state, Change::Delete(rule.number))?;
        state.deleted.push(rule.number);
        drop(state);
        drop(old);
        Ok(())
    }

    /// Moves a rule so that it comes to stand at `position`.
    ///
    /// # Errors
    /// If it is not in the list, or there is no such position.
    pub fn relocate(&self, rule: RuleId, position: usize) -> Result<(), LiveError> {
        let mut state = self.shared.state();
        state.expect(rule)?;
        let last = state.generation.len() - 1;
        if position > last {
            return Err(LiveError::Position { position, last });
        }
        let old = self.shared.make(&mut state, Change::Move(rule.number, position))?;
        drop(state);
        drop(old);
        Ok(())
    }

    /// The counters, for workers to count with under the numbers they got.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// What was counted for a rule since it was put in.
    #[must_use]
    pub fn count(&self, rule: RuleId) -> Count {
        let state = self.shared.state();
        let before = state.counted.get(&rule.number).copied().unwrap_or_default();
        self.shared.counters.total(rule.number).since(before)
    }

    /// How often the list was built anew.
    #[must_use]
    pub fn merges(&self) -> u64 {
        self.shared.state().merges
    }

    /// A number for a new rule: one that no reader can meet as another's.
    fn new_id(&self, state: &mut State) -> u32 {
        let free = &mut state.free;
        state.retired.retain_mut(|(version, ids)| {
            // Nobody else can take it any more.
            let in_use = Arc::strong_count(version) > 1;
            if !in_use {
                free.append(ids);
            }
            in_use
        });
        match state.free.pop() {
            Some(id) => {
                state.counted.insert(id, self.shared.counters.total(id));
                *state.lives.entry(id).or_default() += 1;
                id
            }
            None => {
                state.next += 1;
                state.next - 1
            }
        }
    }
}

impl State {
    /// The rule that has this number now.
    fn id(&self, number: u32) -> RuleId {
        RuleId { number, life: self.lives.get(&number).copied().unwrap_or(0) }
    }

    fn expect(&self, rule: RuleId) -> Result<(), LiveError> {
        let there = self.generation.has(rule.number) && self.id(rule.number) == rule;
        there.then_some(()).ok_or(LiveError::Unknown(rule))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.shared.state().stop = true;
        self.shared.wake.notify_all();
        if let Some(merger) = self.merger.take() {
            // It ends by itself; a panic of its own was reported already.
            let _ = merger.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a change that was found possible, and has the list built anew, now
    /// or soon, where it has no room left. What it gives back is to be dropped
    /// when others need not wait for it.
    fn make(&self, state: &mut State, change: Change) -> Result<Option<Generation>, TreeError> {
        let publish = |version: &Arc<Version>| self.version.store(Arc::clone(version));
        let wait = || {
            self.readers.changed();
            self.readers.settle();
        };
        self.readers.settle();
        let made = change.make(&mut state.generation, &publish, &wait);
        let mut old = None;
        match (&mut state.log, made) {
            (Some(log), true) => log.push(change),
            (None, true) => {}
            (_, false) => old = Some(self.build_now(state, &change)?),
        }
        self.readers.changed();
        if state.log.is_none() && state.generation.wants_work() {
            self.wake.notify_one();
        }
        Ok(old)
    }

    /// Builds the list with `change` made, while the writer waits.
    ///
    /// # Errors
    /// If it cannot be built with it. The list is then as it was before, but
    /// built anew, as readers may have seen a part of the change.
    fn build_now(&self, state: &mut State, change: &Change) -> Result<Generation, TreeError> {
        let before: Vec<_> = state.generation.rules().cloned().collect();
        let mut rules = before.clone();
        change.make_on(&mut rules);
        let built = Generation::build(rules);
        let (generation, failure) = match built {
            Ok(generation) => (generation, None),
            Err(error) => (Generation::build(before)?, Some(error)),
        };
        state.log = None;
        let old = self.swap(state, generation);
        self.readers.changed();
        failure.map_or(Ok(old), Err)
    }

    /// Refuses a list that has become too slow to be added to.
    fn require_rate(&self, state: &State) -> Result<(), TreeError> {
        let estimate = Estimate::of(state.generation.costs(), self.isa);
        if estimate.rate >= super::LEAST_RATE {
            return Ok(());
        }
        let rules = state.generation.rules().map(|held| Rule::clone(&held.rule)).collect();
        estimate.require(&RuleList { rules, ..RuleList::default() })
    }

    /// Makes `generation` the list, and gives the one from before.
    fn swap(&self, state: &mut State, generation: Generation) -> Generation {
        self.version.store(Arc::clone(&generation.version));
        let deleted = std::mem::take(&mut state.deleted);
        // Held here, so that no reader is the last to hold it and has to free it.
        state.retired.push((Arc::clone(&state.generation.version), deleted));
        state.merges += 1;
        std::mem::replace(&mut state.generation, generation)
    }

    fn merge_until_stopped(&self) {
        loop {
            let mut state = self.state();
            while !state.stop && !state.generation.wants_work() {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.stop {
                return;
            }
            let swapped = state.merges;
            if state.generation.needs_rebuild() {
                let rules: Vec<_> = state.generation.rules().cloned().collect();
                state.log = Some(Vec::new());
                drop(state);
                if let Ok(generation) = Generation::build(rules) {
                    self.bring_up_to_date(generation, swapped);
                }
            } else if let Some((family, vectors)) = state.generation.wanted_vectors() {
                drop(state);
                let wild = vectors.build();
                let mut state = self.state();
                if state.merges == swapped {
                    let publish = |version: &Arc<Version>| self.version.store(Arc::clone(version));
                    self.readers.settle();
                    state.generation.install(family, vectors, wild, &publish);
                    self.readers.changed();
                }
            }
        }
    }

    /// Makes on `generation` what was changed since it began to be built, and
    /// swaps it in; unless it was overtaken by a rebuild, or has no room.
    fn bring_up_to_date(&self, mut generation: Generation, swapped: u64) {
        /// So few changes are made while writers wait.
        const FEW: usize = 8;
        loop {
            let mut state = self.state();
            if state.merges != swapped {
                return;
            }
            let changes = state.log.replace(Vec::new()).unwrap_or_default();
            let last = changes.len() <= FEW;
            let waiting = if last {
                Some(state)
            } else {
                drop(state);
                None
            };
            let silent = |_: &Arc<Version>| {};
            if !changes.iter().all(|change| change.make(&mut generation, &silent, &|| {})) {
                let mut state = waiting.unwrap_or_else(|| self.state());
                state.log = None;
                return;
            }
            if let Some(mut state) = waiting {
                state.log = None;
                let old = self.swap(&mut state, generation);
                self.readers.changed();
                drop(state);
                drop(old);
                return;
            }
        }
    }
}

impl Change {
    /// Makes the change; false if there is no room for it.
    fn make(
        &self,
        generation: &mut Generation,
        publish: &dyn Fn(&Arc<Version>),
        wait: &dyn Fn(),
    ) -> bool {
        let made = match self {
            Self::Insert(held, position) => generation.insert(held.clone(), *position, publish),
            Self::Delete(id) => generation.delete(*id, publish),
            Self::Move(id, position) => generation.relocate(*id, *position, publish, wait),
        };
        made.is_ok()
    }

    /// Makes the change on a plain list.
    fn make_on(&self, rules: &mut Vec<Held>) {
        let take = |rules: &mut Vec<Held>, id: u32| {
            rules.iter().position(|held| held.id == id).map(|at| rules.remove(at))
        };
        match self {
            Self::Insert(held, position) => {
                rules.insert((*position).min(rules.len()), held.clone())
            }
            Self::Delete(id) => {
                take(rules, *id);
            }
            Self::Move(id, position) => {
                if let Some(held) = take(rules, *id) {
                    rules.insert((*position).min(rules.len()), held);
                }
            }
        }
    }
}
