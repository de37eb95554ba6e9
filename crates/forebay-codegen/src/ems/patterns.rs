//! The code patterns: every state that the packets in flight can be in.
//!
//! A state says which event of the schedule is next, where each packet in
//! flight is in the graph of tests, and which registers the newest one has. A
//! pattern is the code from a state up to the next branch, and both ways out
//! of that branch lead to states again. Beginning with no packet in flight,
//! all states that can come to be are found; equal ones are the same pattern,
//! which is how histories that no longer matter are forgotten.
//!
//! A packet whose verdict is known is done and no event concerns it any more.
//! Nor does a packet that never was: before the first packets and after the
//! last, those missing count as done. Prologue and epilogue are therefore
//! states like any other, and many of them patterns that the steady state has
//! too. Code ends when there is no further packet and all are done. A pattern
//! that only the epilogue has does not ask for another packet.
//!
//! What an outcome brings about, the load for the next test or a verdict, is
//! the beginning of the pattern entered, and part of what tells patterns apart.
//!
//! Registers rotate with the packets (modulo variable expansion: Lam, "Software
//! Pipelining", PLDI 1988): each that enters takes the next of as many *sets*
//! as there are stages, and with none in flight the first.

use forebay_filter::cancel;
use std::collections::HashMap;

use super::graph::{Graph, Load, Node, NodeId, Target, Verdict};
use super::schedule::{EventKind, MAX_STAGES, Schedule};

/// Index of a [`Pattern`]; code lies in this order.
pub(super) type PatternId = usize;

/// How far a packet in flight has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Progress {
    /// Its verdict is stored, or there is no such packet.
    Done,
    /// It has entered; its first bytes are still to be loaded.
    Entered,
    /// This is its next test.
    At(NodeId),
}

/// A packet in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Packet {
    /// Intervals since it entered.
    pub stage: usize,
    /// Its registers.
    pub set: usize,
}

/// An operation without a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// Loads the packet's offset and prefetches a later packet.
    Enter(Packet),
    /// Loads the packet's data register.
    Load(Packet, Load),
    /// Stores the packet's verdict.
    Verdict(Packet, Verdict),
    /// Stores one of two verdicts, as the test turns out.
    Decide(Packet, NodeId),
}

/// How a pattern ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With a test.
    Test { packet: Packet, node: NodeId, then: PatternId, otherwise: PatternId },
    /// All packets move on a stage. Whether there is another one decides, and
    /// there is none without `some`; without `none`, the code ends then.
    Next { some: Option<PatternId>, none: Option<PatternId> },
}

/// Packets in flight and what happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    /// The next event: index into [`Schedule::agenda`].
    pub next: usize,
    /// How far each packet has come, by stage.
    pub flight: [Progress; MAX_STAGES],
    /// The registers of the packet that entered last.
    pub newest: usize,
}

/// A stretch of code.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// The state at its branch.
    pub state: State,
    pub steps: Vec<Step>,
    pub end: End,
}

/// All patterns of a schedule, the first of which is where code begins; nothing
/// if there are more than `most`.
pub(super) fn patterns(graph: &Graph, schedule: &Schedule, most: usize) -> Option<Vec<Pattern>> {
    let mut walker = Walker {
        graph,
        schedule,
        known: HashMap::new(),
        found: Vec::new(),
        pending: Vec::new(),
        draining: false,
    };
    let start = State { next: 0, flight: [Progress::Done; MAX_STAGES], newest: 0 };
    walker.enter(start, None);
    let mut order = Vec::new();
    while let Some(Visit { id, state, first, draining }) = walker.pending.pop() {
        cancel::check();
        if draining && !walker.found[id].draining {
            // It was walked through for when there are packets left.
            continue;
        }
        walker.draining = draining;
        let pattern = walker.walk(state, first);
        let found = &mut walker.found[id].pattern;
        if found.is_none() {
            order.push(id);
        }
        *found = Some(pattern);
        if walker.found.len() > most {
            return None;
        }
    }
    Some(renumbered(walker.found, &order))
}

/// A pattern to be walked through.
struct Visit {
    id: PatternId,
    state: State,
    first: Option<Step>,
    /// Whether there is no packet any more that could enter.
    draining: bool,
}

/// A pattern that is known of.
struct Found {
    /// Whether it is only entered when there is no packet any more: so far.
    draining: bool,
    pattern: Option<Pattern>,
}

struct Walker<'a> {
    graph: &'a Graph,
    schedule: &'a Schedule,
    known: HashMap<(State, Option<Step>), PatternId>,
    found: Vec<Found>,
    /// Those to be walked through next come last.
    pending: Vec<Visit>,
    /// Whether this is a walk without a further packet.
    draining: bool,
}

impl Walker<'_> {
    /// The pattern that begins in `state` with `first`. It is walked through
    /// once for when there are packets left, which covers all that can happen
    /// when there are not, or else once for that.
    fn enter(&mut self, state: State, first: Option<Step>) -> PatternId {
        let state = self.at_next_event(state);
        let (draining, new) = (self.draining, self.found.len());
        let id = *self.known.entry((state, first)).or_insert(new);
        if id == new {
            self.found.push(Found { draining, pattern: None });
        } else if self.found[id].draining && !draining {
            self.found[id].draining = false;
        } else {
            return id;
        }
        self.pending.push(Visit { id, state, first, draining });
        id
    }

    /// `state` as it is when the next event comes that concerns some packet.
    fn at_next_event(&self, mut state: State) -> State {
        let agenda = &self.schedule.agenda;
        loop {
            // The first event always concerns one: the packet that enters.
            let Some(&event) = agenda.get(state.next) else {
                state.next = 0;
                continue;
            };
            let concerned = match (event.kind, state.flight[event.stage]) {
                (EventKind::Enter, _) | (EventKind::FirstLoad, Progress::Entered) => true,
                (EventKind::Test, Progress::At(node)) => self.schedule.is_due(node, event),
                _ => false,
            };
            if concerned {
                break;
            }
            state.next += 1;
        }
        if state.flight.iter().all(|&progress| progress == Progress::Done) {
            state.newest = 0;
        }
        state
    }

    fn walk(&mut self, mut state: State, first: Option<Step>) -> Pattern {
        let mut steps: Vec<Step> = first.into_iter().collect();
        loop {
            let event = self.schedule.agenda[state.next];
            let packet = self.packet(&state, event.stage);
            match (event.kind, state.flight[event.stage]) {
                (EventKind::FirstLoad, _) => {
                    if let (Target::Node(node), Some(content)) =
                        (self.graph.entry, self.graph.content(self.graph.entry))
                    {
                        steps.push(Step::Load(packet, Load { content, from: None }));
                        state.flight[event.stage] = Progress::At(node);
                    }
                    state.next += 1;
                    state = self.at_next_event(state);
                }
                (EventKind::Test, Progress::At(node))
                    if self.graph.node(node).decides().is_some() =>
                {
                    steps.push(Step::Decide(packet, node));
                    state.flight[event.stage] = Progress::Done;
                    state.next += 1;
                    state = self.at_next_event(state);
                }
                (EventKind::Test, Progress::At(node)) => {
                    let end = self.test(state, packet, node);
                    return Pattern { state, steps, end };
                }
                _ => {
                    let end = self.next_packet(state);
                    return Pattern { state, steps, end };
                }
            }
        }
    }

    fn packet(&self, state: &State, stage: usize) -> Packet {
        let sets = self.schedule.stages;
        Packet { stage, set: (state.newest + sets - stage % sets) % sets }
    }

    fn test(&mut self, state: State, packet: Packet, node: NodeId) -> End {
        let Node { then, otherwise, loads, .. } = *self.graph.node(node);
        // What is entered last is walked through next, and so lies next.
        let otherwise = self.follow(state, packet, otherwise, loads[1]);
        let then = self.follow(state, packet, then, loads[0]);
        End::Test { packet, node, then, otherwise }
    }

    /// The pattern after `packet` has gone to `target`, with `load` on the way.
    fn follow(
        &mut self,
        mut state: State,
        packet: Packet,
        target: Target,
        load: Option<Load>,
    ) -> PatternId {
        state.next += 1;
        let first = match target {
            Target::Verdict(verdict) => {
                state.flight[packet.stage] = Progress::Done;
                Some(give(packet, verdict))
            }
            Target::Node(next) => {
                state.flight[packet.stage] = Progress::At(next);
                load.map(|load| Step::Load(packet, load))
            }
        };
        self.enter(state, first)
    }

    fn next_packet(&mut self, state: State) -> End {
        let in_flight = state.flight.iter().any(|&progress| progress != Progress::Done);
        let mut after = State { next: state.next + 1, ..state };
        after.newest = if in_flight { (state.newest + 1) % self.schedule.stages } else { 0 };
        after.flight.rotate_right(1);
        after.flight[0] = Progress::Done;
        let draining = std::mem::replace(&mut self.draining, true);
        let none = in_flight.then(|| self.enter(after, None));
        self.draining = draining;
        if draining {
            return End::Next { some: None, none };
        }
        let packet = self.packet(&after, 0);
        let first = match self.graph.entry {
            Target::Verdict(verdict) => give(packet, verdict),
            Target::Node(node) => {
                let loads = self.graph.content(self.graph.entry).is_some();
                after.flight[0] = if loads { Progress::Entered } else { Progress::At(node) };
                Step::Enter(packet)
            }
        };
        End::Next { some: Some(self.enter(after, Some(first))), none }
    }
}

/// The store of a verdict. Constants need no register, and patterns shall not
/// differ by one.
fn give(packet: Packet, verdict: Verdict) -> Step {
    match verdict {
        Verdict::Constant(_) => Step::Verdict(Packet { set: 0, ..packet }, verdict),
        Verdict::Computed(_) => Step::Verdict(packet, verdict),
    }
}

/// The patterns in the order they were walked through, with their new numbers.
fn renumbered(mut found: Vec<Found>, order: &[PatternId]) -> Vec<Pattern> {
    let mut numbers = vec![0; found.len()];
    for (number, &id) in order.iter().enumerate() {
        numbers[id] = number;
    }
    let renumber = |mut pattern: Pattern| {
        match &mut pattern.end {
            End::Test { then, otherwise, .. } => {
                (*then, *otherwise) = (numbers[*then], numbers[*otherwise]);
            }
            End::Next { some, none } => {
                *some = some.map(|some| numbers[some]);
                *none = none.map(|none| numbers[none]);
            }
        }
        pattern
    };
    order.iter().filter_map(|&id| found[id].pattern.take().map(renumber)).collect()
}
