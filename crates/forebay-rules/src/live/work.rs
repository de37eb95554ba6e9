//! Work in the background: new lists, bit vectors, engines.

use super::error::LiveError;
use super::writers::{Shared, Thread, WriterState};
use crate::choose::{self, Chosen, MAY_BE_LINEAR, MOST_LINEAR};
use crate::rule::{Family, RuleList};
use crate::tree::Estimate;
use crate::tree::generation::{Generation, Held, How};
use crate::tree::side::Vectors;
use forebay_codegen::code::Isa;
use forebay_packet::cancel::{self, Cancel, Stopped};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

/// The most changes that are applied to a new list while writers wait.
const FEW: usize = 8;

/// A long list has an engine built when it was not changed for so many naps.
const SETTLED_NAPS: usize = 20;
const NAP: Duration = Duration::from_millis(10);

/// Work for the thread.
enum Work {
    /// To build the list of these rules.
    List(Vec<Held>),
    /// To build bit vectors for what waits outside trees.
    Vectors(Family, Vectors),
    /// To build an engine that cannot be changed, for a list that is not too long.
    Engine,
}

/// A list that an engine is built for, the numbers of its rules, and what its trees are expected to take.
struct Settled {
    list: RuleList,
    names: Vec<u32>,
    trees: Option<Estimate>,
}

impl Settled {
    fn of(state: &WriterState, isa: Isa) -> Self {
        let costs = state.generation.as_ref().map(Generation::costs);
        let trees = costs.map(|costs| Estimate::of(costs, isa));
        Self { list: state.list.as_list(state.default), names: state.list.names(), trees }
    }
}

/// Dropped when the thread panics, so that no client waits for it.
struct Broken<'a>(&'a Shared);

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.thread = Thread::None;
        self.0.fail(&mut state, true, "its thread broke down");
    }
}

impl WriterState {
    fn needs_list(&self) -> bool {
        let is_due = self.generation.as_ref().is_some_and(Generation::needs_rebuild);
        self.waiting.is_some() || (is_due && self.refused != Some(self.edition))
    }

    /// The list that bit vectors are to be built for, if there is one.
    fn needs_vectors(&self) -> Option<&Generation> {
        let is_refused = self.refused == Some(self.edition);
        self.generation.as_ref().filter(|all| !is_refused && all.needs_vectors())
    }

    fn needs_engine(&self) -> bool {
        let is_refused = self.refused == Some(self.edition);
        let is_due = !self.is_compiled && self.generation.is_some() && self.edition > self.first;
        is_due && !is_refused && self.list.len() <= MAY_BE_LINEAR
    }

    fn has_work(&self) -> bool {
        self.needs_list() || self.needs_vectors().is_some() || self.needs_engine()
    }

    fn work(&mut self) -> Option<Work> {
        if self.needs_list() {
            self.log = Some(Vec::new());
            return Some(Work::List(self.list.held()));
        }
        if let Some((family, vectors)) = self.needs_vectors().and_then(Generation::wanted_vectors) {
            return Some(Work::Vectors(family, vectors));
        }
        self.needs_engine().then_some(Work::Engine)
    }
}

impl Shared {
    /// Has the thread look for work if there is some and it does not work. It is started if there is
    /// none, and stays: starting it takes longer than a change.
    pub(super) fn wake(self: &Arc<Self>, state: &mut WriterState) {
        if state.thread == Thread::Works || state.stop || !state.has_work() {
            return;
        }
        if std::mem::replace(&mut state.thread, Thread::Works) == Thread::Waits {
            self.due.notify_one();
            return;
        }
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new().name("forebay-rules".to_owned());
        let work = move || {
            let broken = Broken(&shared);
            while let Some((work, state)) = shared.await_work() {
                shared.work(work, state);
            }
            std::mem::forget(broken);
        };
        if let Err(error) = thread.spawn(work) {
            state.thread = Thread::None;
            self.fail(state, true, &format!("cannot start a thread: {error}"));
        }
    }

    /// Waits until there is work, or until the list is dropped; then there is none.
    fn await_work(&self) -> Option<(Work, MutexGuard<'_, WriterState>)> {
        let mut state = self.state();
        while !state.stop {
            if let Some(work) = state.work() {
                state.thread = Thread::Works;
                return Some((work, state));
            }
            state.thread = Thread::Waits;
            state = self.due.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// Does one piece of work.
    fn work(&self, work: Work, mut state: MutexGuard<'_, WriterState>) {
        let (edition, merges) = (state.edition, state.merges);
        let (is_list, is_engine) = (matches!(work, Work::List(_)), matches!(work, Work::Engine));
        let cancel = Cancel::watched((self.watch)());
        state.cancel = cancel.clone();
        drop(state);
        let done = cancel.run(|| self.perform(work, edition, merges));
        let why = match done {
            Ok(Ok(())) => return,
            Ok(Err(why)) => why,
            Err(Stopped::Refused(why)) => why,
            Err(Stopped::Cancelled) => "cancelled".to_owned(),
        };
        match is_engine {
            // Trees are what is in force.
            true => self.state().refused = Some(edition),
            false => self.fail(&mut self.state(), is_list, &why),
        }
    }

    fn perform(&self, work: Work, edition: u64, merges: u64) -> Result<(), String> {
        match work {
            Work::List(rules) => {
                let built = Generation::build(&rules).map_err(|error| error.to_string())?;
                self.bring_up_to_date(built, merges);
            }
            Work::Vectors(family, vectors) => {
                let wild = vectors.build();
                let mut state = self.state();
                if state.merges == merges
                    && let Some(generation) = &mut state.generation
                {
                    generation.install(family, vectors, wild);
                    self.publish(&mut state);
                }
            }
            Work::Engine => {
                let Some(settled) = self.settled(edition) else { return Ok(()) };
                let chosen = self.scan(&settled);
                let mut state = self.state();
                match chosen {
                    Some(chosen) if state.edition == edition => {
                        self.put_in_force(&mut state, How::Engine(chosen.engine, settled.names));
                        state.is_compiled = true;
                    }
                    Some(_) => {}
                    // Trees are what is in force.
                    None => state.refused = Some(edition),
                }
            }
        }
        Ok(())
    }

    /// Puts an engine that scans a list into force beside its trees, which were just built, if that is
    /// expected to be faster. Returns whether it is.
    pub(super) fn scan_beside_trees(&self) -> bool {
        let mut state = self.state();
        if state.list.len() > MAY_BE_LINEAR {
            return false;
        }
        let list = Settled::of(&state, self.isa);
        let Some(chosen) = self.scan(&list) else { return false };
        self.put_in_force(&mut state, How::Engine(chosen.engine, list.names));
        state.is_compiled = true;
        true
    }

    /// The engine that scans a list, if it is short, or expected to be faster than its trees.
    fn scan(&self, Settled { list, trees, .. }: &Settled) -> Option<Chosen> {
        match list.rules.len() {
            0..=MOST_LINEAR => choose::scan(list, self.isa, f64::INFINITY),
            _ => choose::scan_beside(list, self.isa, (*trees)?),
        }
    }

    /// The list of an edition, if it stays that edition; a long one for a while, as its engine takes long
    /// to build.
    fn settled(&self, edition: u64) -> Option<Settled> {
        let naps = if self.state().list.len() > MOST_LINEAR { SETTLED_NAPS } else { 0 };
        for _ in 0..naps {
            cancel::check();
            std::thread::sleep(NAP);
            if self.state().edition != edition {
                return None;
            }
        }
        let state = self.state();
        (state.edition == edition).then(|| Settled::of(&state, self.isa))
    }

    /// Records that work has failed; if it was to build the list, undoes the change that waits.
    fn fail(&self, state: &mut WriterState, is_list: bool, why: &str) {
        state.refused = Some(state.edition);
        state.log = None;
        match if is_list { state.waiting.take() } else { None } {
            Some(steps) => {
                state.list.undo(steps);
                state.edition += 1;
                state.refused = Some(state.edition);
                state.outcome = Some(Err(LiveError::Refused(why.to_owned())));
            }
            None => {
                let why = format!("the changed list of rules cannot be built anew: {why}");
                state.complaint = Some(why);
            }
        }
        self.done.notify_all();
    }

    /// Applies the changes since its build began to `generation`, and replaces the list with it,
    /// unless there is a later one or no room.
    fn bring_up_to_date(&self, mut generation: Generation, merges: u64) {
        loop {
            let mut state = self.state();
            let Some(changes) = state.log.take().filter(|_| state.merges == merges) else { return };
            let last = changes.len() <= FEW;
            let held = if last {
                Some(state)
            } else {
                state.log = Some(Vec::new());
                drop(state);
                None
            };
            if generation.make(&changes).is_err() {
                // The next one is built with all changes.
                self.forget(held);
                return;
            }
            if let Some(mut state) = held {
                let old = state.generation.replace(generation);
                state.merges += 1;
                self.publish(&mut state);
                self.note_rate(&mut state);
                if state.waiting.take().is_some() {
                    state.outcome = Some(Ok(()));
                }
                self.done.notify_all();
                drop(state);
                drop(old);
                return;
            }
        }
    }

    fn forget(&self, held: Option<MutexGuard<'_, WriterState>>) {
        let mut state = held.unwrap_or_else(|| self.state());
        state.log = None;
    }
}
