//! The code patterns: every reachable state of the packets in flight.
//!
//! A state consists of the next event of the schedule, the node of each packet
//! in flight, and the registers of the newest packet. A pattern is the code
//! from a state up to the next branch; both outcomes of that branch lead to
//! states again. Starting with no packet in flight, all reachable states are
//! enumerated. Equal states are the same pattern, which discards histories that
//! no longer matter.
//!
//! A packet whose verdict is known is done, and no event applies to it any
//! more. So is a packet that does not exist: before the first packet and after
//! the last, the missing packets count as done. Prologue and epilogue are
//! therefore ordinary states, and share many patterns with the steady state.
//! The code ends when there is no further packet and all are done. A pattern
//! that only the epilogue reaches does not test for another packet.
//!
//! The effect of an outcome, the load for the next test or a verdict, is the
//! first step of the pattern entered, and part of its identity.
//!
//! Registers rotate with the packets (modulo variable expansion: Lam, "Software
//! Pipelining", PLDI 1988): each entering packet takes the next of as many
//! *sets* as there are stages; with none in flight, the first.

use super::graph::{Graph, Load, Node, NodeId, Target, Verdict};
use super::schedule::{EventKind, MAX_STAGES, Schedule};
use forebay_filter::cancel;
use rustc_hash::FxHashMap;

/// Index of a [`Pattern`]; code is laid out in this order.
pub(super) type PatternId = usize;

/// The position of a packet in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Progress {
    /// Its verdict is stored, or there is no such packet.
    Done,
    /// It has entered; its first bytes are not loaded yet.
    Entered,
    /// Its next test.
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
    /// Stores one of two verdicts, by the outcome of the test.
    Decide(Packet, NodeId),
}

/// The end of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With a test.
    Test { packet: Packet, node: NodeId, then: PatternId, otherwise: PatternId },
    /// All packets advance a stage. The branch depends on whether there is
    /// another packet: `some` is `None` if there cannot be one; if `none` is
    /// `None`, the code ends when there is none.
    Next { some: Option<PatternId>, none: Option<PatternId> },
}

/// Packets in flight and the next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FlightState {
    /// The next event: index into [`Schedule::agenda`].
    pub next: usize,
    /// The position of each packet, by stage.
    pub flight: [Progress; MAX_STAGES],
    /// The registers of the packet that entered last.
    pub newest: usize,
}

/// The code of a pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// The state at the branch that ends it.
    pub state: FlightState,
    pub steps: Vec<Step>,
    pub end: End,
}

/// All patterns of a schedule, the start of the code first; `None` if there are
/// more than `most`.
pub(super) fn patterns(graph: &Graph, schedule: &Schedule, most: usize) -> Option<Vec<Pattern>> {
    let mut walker = Walker {
        graph,
        schedule,
        known: FxHashMap::default(),
        found: Vec::new(),
        pending: Vec::new(),
        draining: false,
    };
    let start = FlightState { next: 0, flight: [Progress::Done; MAX_STAGES], newest: 0 };
    walker.enter(start, None);
    let mut order = Vec::new();
    while let Some(Visit { id, state, first, draining }) = walker.pending.pop() {
        cancel::check();
        if draining && !walker.found[id].draining {
            // It was visited with packets left, which covers this case.
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

/// A pattern to be visited.
struct Visit {
    id: PatternId,
    state: FlightState,
    first: Option<Step>,
    /// Whether the batch has no further packet.
    draining: bool,
}

/// A pattern found so far.
struct Found {
    /// Whether it is reached only after the last packet, as far as known.
    draining: bool,
    pattern: Option<Pattern>,
}

struct Walker<'a> {
    graph: &'a Graph,
    schedule: &'a Schedule,
    known: FxHashMap<(FlightState, Option<Step>), PatternId>,
    found: Vec<Found>,
    /// A stack: the last entry is visited next.
    pending: Vec<Visit>,
    /// Whether the current visit is without further packets.
    draining: bool,
}

impl Walker<'_> {
    /// The pattern that begins in `state` with `first`. It is visited once with
    /// packets left, which covers all that can happen without; or else once
    /// without.
    fn enter(&mut self, state: FlightState, first: Option<Step>) -> PatternId {
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

    /// `state` advanced to the next event that applies to a packet in flight.
    fn at_next_event(&self, mut state: FlightState) -> FlightState {
        let agenda = &self.schedule.agenda;
        loop {
            // The first event always applies: a packet enters.
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

    fn walk(&mut self, mut state: FlightState, first: Option<Step>) -> Pattern {
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

    fn packet(&self, state: &FlightState, stage: usize) -> Packet {
        let sets = self.schedule.stages;
        Packet { stage, set: (state.newest + sets - stage % sets) % sets }
    }

    fn test(&mut self, state: FlightState, packet: Packet, node: NodeId) -> End {
        let Node { then, otherwise, loads, .. } = *self.graph.node(node);
        // The pattern entered last is visited next, and so laid out next.
        let otherwise = self.follow(state, packet, otherwise, loads[1]);
        let then = self.follow(state, packet, then, loads[0]);
        End::Test { packet, node, then, otherwise }
    }

    /// The pattern after `packet` goes to `target`, with `load` on the way.
    fn follow(
        &mut self,
        mut state: FlightState,
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

    fn next_packet(&mut self, state: FlightState) -> End {
        let in_flight = state.flight.iter().any(|&progress| progress != Progress::Done);
        let mut after = FlightState { next: state.next + 1, ..state };
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

/// A step that stores a verdict. Constants need no register, so the register
/// set is fixed: patterns must not differ by it.
fn give(packet: Packet, verdict: Verdict) -> Step {
    match verdict {
        Verdict::Constant(_) => Step::Verdict(Packet { set: 0, ..packet }, verdict),
        Verdict::Computed(_) => Step::Verdict(packet, verdict),
    }
}

/// The patterns in the order of their visits, renumbered.
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
