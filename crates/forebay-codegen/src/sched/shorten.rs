//! Shortens lifetimes in a finished schedule.
//!
//! List and modulo schedulers start each op as soon as they can, and a value
//! that is defined long before its use occupies a register; with seven opmask
//! registers that decides whether a loop can be pipelined at all. An op may
//! start anywhere between the last of its operands and the first of its
//! readers. Moving it later shortens the lifetime of its result and lengthens
//! those of the operands it is the last to read, and vice versa. The sum is a
//! convex function of the op's time, so each step towards its minimum improves
//! it. Ops are moved there, as far as units are free, until nothing improves
//! (in the manner of Eichenberger and Davidson, "Stage scheduling", 1995, who
//! move by whole stages only).

use super::ddg::{Ddg, Edge};
use super::resources::{ReservationTable, Resources};
use super::schedule::Schedule;
use super::values::Values;
use crate::mir::{LoopBody, Reg, RegClass};
use forebay_filter::cancel;

/// Passes over all ops, backwards and forwards in turn; further passes change
/// little.
const PASSES: usize = 6;

/// Moves ops of a modulo schedule so that fewer registers are live.
pub fn shorten(
    body: &LoopBody,
    values: &Values,
    ddg: &Ddg,
    resources: &Resources,
    schedule: &mut Schedule,
) {
    let mut mover = Mover::new(body, values, ddg, resources, schedule);
    let ops = body.ops.len();
    for pass in 0..PASSES {
        let mut moved = false;
        for place in 0..ops {
            moved |= mover.improve(if pass % 2 == 0 { ops - 1 - place } else { place });
        }
        if !moved {
            break;
        }
    }
    let first = mover.times.iter().copied().min().unwrap_or(0);
    schedule.times = mover.times.iter().map(|&time| (time - first) as u32).collect();
}

/// The cost of a live cycle of a register: the inverse of the number of
/// registers.
fn weight(class: RegClass) -> i64 {
    match class {
        RegClass::Vector => 1,
        RegClass::General | RegClass::Mask => 4,
    }
}

struct Mover<'a> {
    values: &'a Values,
    ddg: &'a Ddg,
    ii: u32,
    table: ReservationTable<'a>,
    times: Vec<i64>,
    /// By op: the register that it defines.
    made: Vec<Option<Reg>>,
    /// By register.
    weights: Vec<i64>,
    /// By node: whether a neighbour moved since the node was last examined.
    stale: Vec<bool>,
    /// Kept to reuse its memory.
    operands: Vec<Operand>,
}

/// A register that an op reads.
struct Operand {
    /// The last start of the other ops that read it.
    others: i64,
    weight: i64,
}

impl<'a> Mover<'a> {
    fn new(
        body: &LoopBody,
        values: &'a Values,
        ddg: &'a Ddg,
        resources: &'a Resources,
        schedule: &Schedule,
    ) -> Self {
        let mut table = ReservationTable::new(resources, schedule.ii);
        for (node, &time) in schedule.times.iter().enumerate() {
            table.take(node, (time % schedule.ii) as usize);
        }
        Self {
            values,
            ddg,
            ii: schedule.ii,
            table,
            times: schedule.times.iter().map(|&time| i64::from(time)).collect(),
            made: body.ops.iter().map(|op| op.dest).collect(),
            weights: body.classes.iter().map(|&class| weight(class)).collect(),
            stale: vec![true; ddg.nodes()],
            operands: Vec::new(),
        }
    }

    /// Moves `node` to where the registers it touches live shortest; returns
    /// whether it moved.
    fn improve(&mut self, node: usize) -> bool {
        if !std::mem::replace(&mut self.stale[node], false) {
            return false;
        }
        cancel::check();
        let now = self.times[node];
        let (low, high) = self.window(node);
        let best = self.best(node, now).clamp(low, high);
        let ii = i64::from(self.ii);
        let row = |time: i64| time.rem_euclid(ii) as usize;
        if best == now {
            return false;
        }
        self.table.release(node, row(now));
        // Every step towards the best place is an improvement.
        let cycles = (best - now).abs().min(ii);
        let place = self.table.first_fit(node, best, cycles, best > now);
        self.times[node] = place.unwrap_or(now);
        self.table.take(node, row(self.times[node]));
        if place.is_some() {
            for edge in self.ddg.into(node).iter().chain(self.ddg.out(node)) {
                self.stale[edge.from as usize] = true;
                self.stale[edge.to as usize] = true;
            }
        }
        place.is_some()
    }

    /// The first and the last cycle that other ops allow for `node`. An op
    /// without operands, or without readers, stays where it is on that side.
    fn window(&self, node: usize) -> (i64, i64) {
        let now = self.times[node];
        let others = |edge: &&Edge| edge.from != edge.to;
        let after = |edge: &Edge| self.times[edge.from as usize] + edge.delay(self.ii);
        let before = |edge: &Edge| self.times[edge.to as usize] - edge.delay(self.ii);
        let low = self.ddg.into(node).iter().filter(others).map(after).max();
        let high = self.ddg.out(node).iter().filter(others).map(before).min();
        (low.unwrap_or(now).min(now), high.unwrap_or(now).max(now))
    }

    /// The cycle at which the registers that `node` touches live shortest;
    /// `now` if that is as good. A cycle later its result lives a cycle
    /// shorter, and operands that no other op reads that late live a cycle
    /// longer.
    fn best(&mut self, node: usize, now: i64) -> i64 {
        let gain = self.made[node]
            .filter(|&reg| !self.values.readers(reg).is_empty())
            .map_or(0, |reg| self.weights[reg.0 as usize]);
        self.operands.clear();
        for reg in self.values.reads(node) {
            let others = self.values.readers(reg).iter().filter(|&&reader| reader as usize != node);
            let others = others.map(|&reader| self.times[reader as usize]).max();
            let weight = self.weights[reg.0 as usize];
            self.operands.push(Operand { others: others.unwrap_or(i64::MIN), weight });
        }
        let operands = || self.operands.iter();
        let loss = |time: i64| -> i64 {
            let longer = operands().filter(|operand| operand.others <= time);
            longer.map(|operand| operand.weight).sum()
        };
        let stops = operands().map(|operand| operand.others);
        if loss(now) < gain {
            // Later, until losses exceed the gain.
            let stops = stops.filter(|&others| others > now);
            stops.filter(|&time| loss(time) >= gain).min().unwrap_or(i64::MAX)
        } else if loss(now - 1) > gain {
            let stops = stops.filter(|&others| others < now);
            stops.filter(|&time| loss(time) >= gain).min().unwrap_or(i64::MIN)
        } else {
            now
        }
    }
}
