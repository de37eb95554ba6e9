//! Iterative modulo scheduling (Rau, "Iterative modulo scheduling", 1996).
//!
//! Iterations start every II cycles; an op at time `t` takes its units in row
//! `t mod II` of the reservation table, in all iterations at once. Ops are
//! placed by [`Priority`], each in the first row with room among the II rows
//! after its operands. If none has room, the op is placed anyway, and the ops
//! that conflict with it, for units or by a dependence, are removed and placed
//! again. After a number of placements the II is given up.

use super::ddg::Ddg;
use super::list::{by_height, program_order};
use super::resources::{ReservationTable, Resources};
use super::schedule::Schedule;
use forebay_filter::cancel;

/// Placements an op, on average, before an II is given up. Rau finds twice the
/// number of ops enough for nearly all loops that can be scheduled.
const BUDGET: usize = 4;

/// Which ops are placed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Longest path to the end first, as in Rau: the schedule is short.
    Height,
    /// Program order. Selection finishes one computation before it starts
    /// another, and so does the schedule: fewer values are live.
    Program,
    /// Program order, each op no earlier than if ops were issued in program
    /// order, one iteration at a time: iterations overlap by the part of that
    /// time beyond II, and few more values are live than in the program.
    Spread,
}

/// Schedules one iteration at an II of `ii` cycles, which must be at least
/// RecMII; `None` if that fails.
#[must_use]
pub fn modulo_schedule(
    ddg: &Ddg,
    resources: &Resources,
    ops: usize,
    ii: u32,
    priority: Priority,
) -> Option<Schedule> {
    let mut state = Placing::new(ddg, resources, ii, priority);
    let mut budget = BUDGET * ddg.nodes() + 8;
    while let Some(node) = state.next() {
        cancel::check();
        budget = budget.checked_sub(1)?;
        let earliest = state.earliest(node);
        let free = state.table.first_fit(node, earliest, i64::from(ii), false);
        let time = free.unwrap_or_else(|| state.least_bad(node, earliest));
        state.place(node, time);
    }
    let first = state.times[..ops].iter().copied().min().unwrap_or(0);
    let times = state.times[..ops].iter().map(|&time| (time - first) as u32).collect();
    Some(Schedule { ii, times })
}

/// In place of the row of a node that is not placed.
const UNPLACED: u32 = u32::MAX;

/// A partial schedule.
struct Placing<'a> {
    ddg: &'a Ddg,
    table: ReservationTable<'a>,
    ii: u32,
    priority: Priority,
    /// Nodes by priority.
    order: Vec<u32>,
    /// The place of each node in `order`.
    rank: Vec<u32>,
    /// When each node would start in program order.
    in_order: Vec<u32>,
    /// A bit for each place in `order`: whether the node is not placed yet.
    waiting: Vec<u64>,
    /// By node: the row of its start, or [`UNPLACED`].
    rows: Vec<u32>,
    /// By node: its start, or its last start before it was removed.
    times: Vec<i64>,
    tried: Vec<bool>,
}

impl<'a> Placing<'a> {
    fn new(ddg: &'a Ddg, resources: &'a Resources, ii: u32, priority: Priority) -> Self {
        let nodes = ddg.nodes();
        let order = match priority {
            Priority::Height => by_height(&ddg.heights(ii)),
            Priority::Program | Priority::Spread => (0..nodes as u32).collect(),
        };
        let mut rank = vec![0; nodes];
        for (place, &node) in order.iter().enumerate() {
            rank[node as usize] = place as u32;
        }
        let in_order = match priority {
            Priority::Spread => program_order(ddg, resources, nodes).times,
            Priority::Height | Priority::Program => Vec::new(),
        };
        let mut waiting = vec![u64::MAX; nodes.div_ceil(64)];
        if !nodes.is_multiple_of(64)
            && let Some(last) = waiting.last_mut()
        {
            *last = (1 << (nodes % 64)) - 1;
        }
        Self {
            ddg,
            table: ReservationTable::new(resources, ii),
            ii,
            priority,
            order,
            rank,
            in_order,
            waiting,
            rows: vec![UNPLACED; nodes],
            times: vec![0; nodes],
            tried: vec![false; nodes],
        }
    }

    /// The first node that is not placed.
    fn next(&self) -> Option<usize> {
        let (word, bits) = self.waiting.iter().enumerate().find(|(_, bits)| **bits != 0)?;
        Some(self.order[word * 64 + bits.trailing_zeros() as usize] as usize)
    }

    fn row(&self, time: i64) -> usize {
        time.rem_euclid(i64::from(self.ii)) as usize
    }

    /// The earliest start of `node`, apart from its dependences.
    fn share(&self, node: usize) -> i64 {
        match self.priority {
            Priority::Height | Priority::Program => 0,
            Priority::Spread => i64::from(self.in_order[node]),
        }
    }

    /// The earliest start of `node` by the placed nodes that it depends on.
    fn earliest(&self, node: usize) -> i64 {
        self.ddg
            .into(node)
            .iter()
            .filter(|edge| self.rows[edge.from as usize] != UNPLACED)
            .map(|edge| self.times[edge.from as usize] + edge.delay(self.ii))
            .fold(self.share(node), i64::max)
    }

    /// The time for a node without room: later than its last time, so that two
    /// nodes do not displace each other for ever.
    fn least_bad(&self, node: usize, earliest: i64) -> i64 {
        if self.tried[node] { earliest.max(self.times[node] + 1) } else { earliest }
    }

    /// Places `node` and removes the nodes that conflict with it.
    fn place(&mut self, node: usize, time: i64) {
        let row = self.row(time);
        while !self.table.fits(node, row) {
            let competing = (0..self.rows.len()).filter(|&other| {
                self.rows[other] == row as u32 && self.table.competes(node, other, row)
            });
            let Some(other) = competing.max_by_key(|&other| self.rank[other]) else { break };
            self.take_out(other);
        }
        self.table.take(node, row);
        self.times[node] = time;
        self.rows[node] = row as u32;
        self.tried[node] = true;
        let place = self.rank[node] as usize;
        self.waiting[place / 64] &= !(1 << (place % 64));
        let ddg = self.ddg;
        for edge in ddg.out(node) {
            let other = edge.to as usize;
            let too_early = self.times[other] < time + edge.delay(self.ii);
            if other != node && self.rows[other] != UNPLACED && too_early {
                self.take_out(other);
            }
        }
    }

    fn take_out(&mut self, node: usize) {
        self.table.release(node, self.rows[node] as usize);
        self.rows[node] = UNPLACED;
        let place = self.rank[node] as usize;
        self.waiting[place / 64] |= 1 << (place % 64);
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::Code;
    use proptest::prelude::*;

    use super::*;
    use crate::machine::Units;
    use crate::mir::{LoopBody, Op};
    use crate::sched::ddg::Edge;

    /// A loop of ops that occupy `units` and depend on nothing.
    fn body(units: &[Units]) -> LoopBody {
        let mut body = LoopBody::new("test", 1);
        for &units in units {
            body.push(Op {
                code: Code::Nopd,
                dest: None,
                tied: false,
                operands: Vec::new(),
                mask: None,
                latency: 1,
                units,
                note: 0,
                ahead: false,
            });
        }
        body
    }

    /// Whether a schedule keeps all dependences and no row has more than `most`
    /// requests for units.
    fn holds(schedule: &Schedule, ddg: &Ddg, body: &LoopBody, most: usize) -> bool {
        let kept = ddg.edges().iter().all(|edge| {
            let [from, to] = [edge.from, edge.to].map(|node| schedule.times[node as usize]);
            i64::from(to) >= i64::from(from) + edge.delay(schedule.ii)
        });
        let mut taken = vec![0; schedule.ii as usize];
        for (op, &time) in body.ops.iter().zip(&schedule.times) {
            let choices = op.units.0.iter().filter(|&&choice| choice != 0).count();
            taken[(time % schedule.ii) as usize] += choices;
        }
        kept && taken.iter().all(|&taken| taken <= most)
    }

    const TWO: Units = Units::LOAD;

    #[test]
    fn a_recurrence_over_two_iterations_sets_the_pace() {
        let edge = |from, to, latency, distance| Edge { from, to, latency, distance };
        let edges = vec![edge(0, 1, 4, 0), edge(1, 2, 4, 0), edge(2, 0, 3, 2)];
        let (ddg, body) = (Ddg::new(3, edges), body(&[TWO; 3]));
        let resources = Resources::of_loop(&body, 3);
        assert_eq!((ddg.rec_mii(), resources.res_mii().0), (6, 2));
        for priority in [Priority::Height, Priority::Program, Priority::Spread] {
            let schedule = modulo_schedule(&ddg, &resources, 3, 6, priority);
            assert!(schedule.is_some_and(|schedule| holds(&schedule, &ddg, &body, 2)));
        }
    }

    proptest! {
        #[test]
        fn random_graphs_with_recurrences_are_scheduled_right(
            nodes in 1usize..20,
            edges in prop::collection::vec((0u32..20, 0u32..20, 0u32..6, 0u32..4), 0..40),
            priority in prop::sample::select(vec![
                Priority::Height, Priority::Program, Priority::Spread,
            ]),
        ) {
            let edges = edges.into_iter().filter_map(|(from, to, latency, distance)| {
                let (from, to) = (from % nodes as u32, to % nodes as u32);
                (distance > 0 || from < to).then_some(Edge { from, to, latency, distance })
            });
            let ddg = Ddg::new(nodes, edges.collect());
            let body = body(&vec![TWO; nodes]);
            let resources = Resources::of_loop(&body, nodes);
            let mii = ddg.rec_mii().max(resources.res_mii().0).max(1);
            let found = (mii..mii + 100)
                .find_map(|ii| modulo_schedule(&ddg, &resources, nodes, ii, priority));
            let schedule = found.expect("there is a schedule at some II");
            prop_assert!(holds(&schedule, &ddg, &body, 2));
        }
    }
}
