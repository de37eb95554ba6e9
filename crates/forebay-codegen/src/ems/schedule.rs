//! The modulo schedule: the time of each test.
//!
//! Time counts cycles from the one in which a packet enters, and another packet
//! enters every initiation interval. An event at time *t* happens in *slot* *t*
//! mod II, to the packet that entered *t* div II intervals ago: its *stage*. A
//! packet's offset is loaded when it enters, the bytes for its first test a
//! load's latency later, and the bytes for each further test once it is known
//! which test that is. A test waits for its bytes.
//!
//! Of the machine's resources only branches are reserved, one a slot; this code
//! uses branches most. As in enhanced modulo scheduling (Warter, Haab and
//! Bockhaus, MICRO-25, 1992), tests of the same stage may share a slot, because
//! a packet makes only one of them. The least interval is thus the number of
//! tests along the longest path through the filter, plus one for the test for
//! another packet. Iterations depend on one another through the packet number
//! only, so recurrences need no more than one cycle.

use super::graph::{Graph, NodeId, Target};
use super::value::Costs;
use forebay_filter::cancel;

/// The most packets in flight, each of which takes two registers.
pub(super) const MAX_STAGES: usize = 4;

/// An event in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    pub slot: u32,
    pub kind: EventKind,
    /// Intervals since the packet of the event entered.
    pub stage: usize,
}

/// The kind of an event; events of a slot happen in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EventKind {
    /// The next packet enters.
    Enter,
    /// A packet's first bytes are loaded.
    FirstLoad,
    /// A packet is tested.
    Test,
}

/// A modulo schedule.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    /// The initiation interval.
    pub ii: u32,
    /// Its lower bound by resources.
    pub mii: u32,
    /// Packets in flight.
    pub stages: usize,
    /// The time of each node.
    pub times: Vec<u32>,
    /// The time of the first load.
    pub first_load: u32,
    /// Cycles that loading the content of each node takes.
    pub latencies: Vec<u32>,
    /// All events, in the order in which they happen.
    pub agenda: Vec<Event>,
}

impl Schedule {
    /// Whether `event` is the test of `node`.
    pub(super) fn is_due(&self, node: NodeId, event: Event) -> bool {
        self.times[node as usize] == event.slot + event.stage as u32 * self.ii
    }
}

/// Finds schedules of a graph.
pub(super) struct Scheduler<'a> {
    graph: &'a Graph,
    first_load: u32,
    /// By node: cycles that loading its content takes.
    latencies: Vec<u32>,
    /// Tests along the longest path, plus the test for another packet.
    mii: u32,
}

impl<'a> Scheduler<'a> {
    pub(super) fn new(graph: &'a Graph, costs: &Costs<'_>, load_latency: u8) -> Self {
        let latencies = graph.nodes.iter().map(|node| {
            let Some(content) = node.content else { return 0 };
            let cost = costs.of(content.key).map_or(0, |cost| cost.latency);
            cost + u32::from(content.mask != u32::MAX)
        });
        let mut depth = vec![1; graph.nodes.len()];
        let mut deepest = 0;
        let branches = graph.nodes.iter().enumerate();
        for (index, node) in branches.filter(|(_, node)| node.decides().is_none()) {
            deepest = depth[index].max(deepest);
            for target in [node.then, node.otherwise] {
                if let Target::Node(next) = target {
                    depth[next as usize] = depth[next as usize].max(depth[index] + 1);
                }
            }
        }
        let latencies = latencies.collect();
        Self { graph, first_load: u32::from(load_latency), latencies, mii: deepest + 1 }
    }

    /// The candidate schedules, best first: for each number of packets in
    /// flight from `most` down to 2, the one with the smallest interval.
    pub(super) fn candidates(&self, most: usize) -> impl Iterator<Item = Schedule> + '_ {
        let most = most.min(MAX_STAGES);
        let mut last = 0;
        (2..=most).rev().filter_map(move |stages| {
            let schedule = self.with_stages(stages as u32);
            let is_new = schedule.ii > last;
            last = schedule.ii;
            is_new.then_some(schedule)
        })
    }

    /// The schedule with the smallest interval and at most `stages` stages.
    fn with_stages(&self, stages: u32) -> Schedule {
        let unlimited = self.place(u32::MAX).map_or(1, |times| self.length(&times));
        let mut ii = self.mii.max(unlimited.div_ceil(stages));
        loop {
            if let Some(times) = self.place(ii) {
                let length = self.length(&times);
                // An interval of the whole length has one stage.
                if length.div_ceil(ii) <= stages {
                    return self.schedule(ii, length.div_ceil(ii) as usize, times);
                }
            }
            ii += 1;
        }
    }

    /// Cycles until a packet's last event is over.
    fn length(&self, times: &[u32]) -> u32 {
        let loads = matches!(self.graph.entry, Target::Node(_));
        let first = if loads { self.first_load } else { 0 };
        times.iter().copied().max().unwrap_or(0).max(first) + 1
    }

    /// Places the nodes in order, each at the earliest time with a free slot.
    /// `None` if a node has none within an interval.
    fn place(&self, ii: u32) -> Option<Vec<u32>> {
        let count = self.graph.nodes.len();
        let mut times = vec![0; count];
        // By node: the latest time of arrival, and the time its content is
        // loaded.
        let (mut earliest, mut ready) = (vec![1; count], vec![0; count]);
        if let (Target::Node(entry), Some(_)) =
            (self.graph.entry, self.graph.content(self.graph.entry))
        {
            // A packet reaches its first test with the first load.
            earliest[entry as usize] = self.first_load.max(1);
            ready[entry as usize] = self.first_load + self.latencies[entry as usize];
        }
        let mut slots = Slots::new(ii, count);
        for (index, node) in self.graph.nodes.iter().enumerate() {
            cancel::check();
            let from = if node.test.reads_data() {
                earliest[index].max(ready[index])
            } else {
                earliest[index]
            };
            let time = if node.decides().is_some() { from } else { slots.reserve(from)? };
            times[index] = time;
            for (target, load) in [node.then, node.otherwise].into_iter().zip(node.loads) {
                let Target::Node(next) = target else { continue };
                let next = next as usize;
                let loaded = match load {
                    Some(_) => time + 1 + self.latencies[next],
                    None => ready[index],
                };
                earliest[next] = earliest[next].max(time + 1);
                ready[next] = ready[next].max(loaded);
            }
        }
        Some(times)
    }

    fn schedule(&self, ii: u32, stages: usize, times: Vec<u32>) -> Schedule {
        let event = |kind, time: u32| Event { slot: time % ii, kind, stage: (time / ii) as usize };
        let mut agenda = vec![event(EventKind::Enter, 0)];
        if self.graph.content(self.graph.entry).is_some() {
            agenda.push(event(EventKind::FirstLoad, self.first_load));
        }
        agenda.extend(times.iter().map(|&time| event(EventKind::Test, time)));
        agenda.sort_unstable();
        agenda.dedup();
        let (first_load, latencies) = (self.first_load, self.latencies.clone());
        Schedule { ii, mii: self.mii, stages, times, first_load, latencies, agenda }
    }
}

/// The stage that branches in each slot.
struct Slots {
    ii: u32,
    /// By slot; slots not requested yet are missing.
    stages: Vec<Option<u32>>,
}

impl Slots {
    fn new(ii: u32, nodes: usize) -> Self {
        // Slot 0, where a packet enters, has the test for another packet.
        let mut stages = Vec::with_capacity(nodes + 1);
        stages.push(Some(0));
        Self { ii, stages }
    }

    /// The first time from `from` on whose slot is free or used only by the
    /// same stage.
    fn reserve(&mut self, from: u32) -> Option<u32> {
        let times = from..from.saturating_add(self.ii.min(MAX_TRIES));
        for time in times {
            let (slot, stage) = ((time % self.ii) as usize, time / self.ii);
            if self.stages.len() <= slot {
                self.stages.resize(slot + 1, None);
            }
            if *self.stages[slot].get_or_insert(stage) == stage {
                return Some(time);
            }
        }
        None
    }
}

/// Slots that are tried for a test before the interval is increased.
const MAX_TRIES: u32 = 256;
