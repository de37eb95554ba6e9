//! Overload that harms the fewest flows.
//!
//! A flow that lost a packet is of little use to a sensor, however much of it arrives later. So
//! flows are shed whole as far as possible:
//!
//! - The volume that a flow has had predicts how much is still to come of it: with a heavy tail,
//!   the more there was, the more will be. The load is measured by the volume that its flows
//!   have had, and flows above a threshold are cut, which is chosen so that the load of the
//!   others is a little below the limit. A cut flow stays cut as long as the overload lasts, and
//!   its room is that of other flows from then on: the threshold rises until it is reached again.
//! - If there is no room left for new flows, they are refused, and no packet of them passes as
//!   long as there is too much.
//! - What a flow under way sends beyond the limit even so is shed for that reason, and the flow
//!   is cut.
//!
//! Of a cut flow the first ends of the connection still pass, if there is room, so that the
//! sensor can close it.
//!
//! Suspect flows come first: as long as all that a worker is offered of them is within its share of
//! the limit, all of it passes, and the others share the rest by the same rules. Where suspect flows
//! alone are too much, they share the whole by these rules, and the others get what is left.
//!
//! New flows may use what others leave, at a rate that is never above the limit's: otherwise all
//! that is admitted in the first moment of an overload would fill the window, nothing would pass
//! for the rest of it, and so on every 100 ms.

use super::limit::{Limit, parts};
use super::{Arrival, INTERVAL, KEPT, Shed, TO_WINDOW, WINDOW};
use crate::policy::Count;

/// The part of the limit that flows under way are to take.
const TARGET: f64 = 0.95;

/// The part of it that flows under way are left with, however many begin.
const LEAST: f64 = 0.4;

/// Nanoseconds without overload after which the next one is another, in which no flow is cut or
/// refused yet.
const CALM: u64 = 1_000_000_000;

/// Classes of volumes: four for each power of two.
const CLASSES: usize = 256;

/// Thresholds between the least load and the whole target: the lower ones while new flows have
/// used up what is allowed, since to refuse them would harm more flows.
const LEVELS: usize = 16;

/// The state of a flow: what was decided, how many ends have passed, and in which overload.
const ADMITTED: u16 = 1;
const CUT: u16 = 2;
const REFUSED: u16 = 3;
const DECISION: u16 = 3;
const END: u16 = 4;
const ENDS: u16 = 3 * END;
const OVERLOAD_BIT: u32 = 4;
const OVERLOADS: u16 = u16::MAX >> OVERLOAD_BIT;

/// The flows that share a part of the limit: those that are suspect, or the others.
#[derive(Debug)]
struct Part {
    /// Packets and bytes of flows that are not cut, by their volumes; they decay.
    loads: [[f64; 2]; CLASSES],
    /// Those of new flows.
    new: [f64; 2],
    /// The first class of flows that are cut, by how much is allowed: the first for the least.
    thresholds: [usize; LEVELS],
}

#[derive(Debug)]
pub(super) struct WholeFlows {
    /// Flows that are not suspect, and those that are.
    parts: [Part; 2],
    /// Packets and bytes that are offered of suspect flows; they decay.
    suspect: [f64; 2],
    /// They are within the limit.
    suspect_fit: bool,
    /// When the loads were estimated last.
    at: u64,
    /// The room for new flows by the rates of both limits, in windows of the worker's share;
    /// negative where flows under way took more.
    allowance: [f64; 2],
    allowed_at: u64,
    /// The worker's part of the load.
    share: f64,
    is_over: bool,
    /// When there was too much last.
    over_at: Option<u64>,
    /// The number of the overload, in the place that it has in states; never 0.
    overload: u16,
}

impl WholeFlows {
    /// Overloads are numbered from one of 16 numbers on, by the seed. Their low 8 bits are set:
    /// rates in states of CSFQ are never so high, and so are not taken for decisions.
    pub(super) fn new(seed: u64) -> Self {
        let first = (seed as u16 & 0xf) << 8 | 0xff;
        Self {
            parts: [Part::default(), Part::default()],
            suspect: [0.0; 2],
            suspect_fit: true,
            at: 0,
            allowance: [0.0; 2],
            allowed_at: 0,
            share: 1.0,
            is_over: false,
            over_at: None,
            overload: first << OVERLOAD_BIT,
        }
    }

    /// The most that may be allowed at a time, and owed: that of an interval.
    const MOST_ALLOWED: f64 = INTERVAL as f64 / WINDOW as f64;

    pub(super) fn begin(&mut self, now: u64, limit: &Limit, share: f64, is_over: bool) {
        if is_over {
            if self.over_at.is_some_and(|at| now.saturating_sub(at) > CALM) {
                self.begin_overload();
            }
            self.over_at = Some(now);
        }
        (self.share, self.is_over) = (share, is_over);
        let passed = now.saturating_sub(self.allowed_at) as f64 / WINDOW as f64;
        let allow = |allowance: f64| (allowance + passed).min(Self::MOST_ALLOWED);
        self.allowance = self.allowance.map(allow);
        self.allowed_at = now;
        let intervals = now.saturating_sub(self.at) / INTERVAL;
        if intervals > 0 {
            self.at = now;
            self.choose(limit);
            self.decay(KEPT.powi(intervals.min(1_000) as i32));
        }
    }

    fn begin_overload(&mut self) {
        let number = (self.overload >> OVERLOAD_BIT) % OVERLOADS + 1;
        self.overload = number << OVERLOAD_BIT;
    }

    /// Chooses the thresholds by the loads.
    fn choose(&mut self, limit: &Limit) {
        let targets = limit.per_window().map(|limit| limit.map_or(f64::INFINITY, |n| n as f64));
        let targets = targets.map(|limit| limit * TARGET * self.share / TO_WINDOW);
        let pairs = || targets.iter().zip(self.suspect);
        self.suspect_fit = pairs().all(|(&most, suspect)| suspect <= most);
        let rest = [0, 1].map(|at| (targets[at] - self.suspect[at]).max(0.0));
        let [others, suspect] = &mut self.parts;
        others.choose(rest, self.is_over);
        suspect.choose(targets, self.is_over);
    }

    fn decay(&mut self, kept: f64) {
        let loads =
            self.parts.iter_mut().flat_map(|part| part.loads.iter_mut().chain([&mut part.new]));
        for load in loads.chain([&mut self.suspect]) {
            *load = load.map(|part| part * kept);
        }
    }

    /// Decides on a packet: `room` is none if there is none, and true if there is more than is
    /// kept for flows under way.
    pub(super) fn packet(
        &mut self,
        packet: &Arrival,
        state: &mut u16,
        room: Option<bool>,
        limit: &Limit,
    ) -> Option<Shed> {
        if *state & !(DECISION | ENDS) != self.overload {
            *state = self.overload;
        }
        let len = Count::of(packet.len);
        if packet.is_suspect {
            add(&mut self.suspect, len);
            if self.suspect_fit {
                *state = *state & !DECISION | ADMITTED;
                // A flow that loses a packet to a burst is whole again from the next one on.
                if self.is_over && room.is_none() {
                    return Some(Shed::Limit);
                }
                self.pass(len, limit);
                return None;
            }
        }
        let part = usize::from(packet.is_suspect);
        match *state & DECISION {
            REFUSED => return Some(Shed::NewFlow),
            CUT => return self.end_of_cut(packet, state, room, limit),
            0 if packet.is_first => {
                add(&mut self.parts[part].new, len);
                if self.is_over && !(room == Some(true) && self.allowed() > 0.0) {
                    *state |= REFUSED;
                    return Some(Shed::NewFlow);
                }
                *state |= ADMITTED;
                self.pass(len, limit);
                return None;
            }
            _ => *state |= ADMITTED,
        }
        let class = class(limit.cost(packet.prior));
        let is_tail = class >= self.threshold(part, room);
        if self.is_over && (is_tail || room.is_none()) {
            *state = *state & !DECISION | CUT;
            return match is_tail {
                true => self.end_of_cut(packet, state, room, limit),
                false => Some(Shed::Limit),
            };
        }
        add(&mut self.parts[part].loads[class], len);
        self.pass(len, limit);
        None
    }

    /// Whether all that is offered of suspect flows passes.
    pub(super) fn suspect_fit(&self) -> bool {
        self.suspect_fit
    }

    /// A packet of no flow passes: of what is allowed for new flows, it takes its part.
    pub(super) fn other(&mut self, len: Count, is_suspect: bool, limit: &Limit) {
        add(if is_suspect { &mut self.suspect } else { &mut self.parts[0].new }, len);
        self.pass(len, limit);
    }

    /// Decides on a packet of a flow that is cut.
    fn end_of_cut(
        &mut self,
        packet: &Arrival,
        state: &mut u16,
        room: Option<bool>,
        limit: &Limit,
    ) -> Option<Shed> {
        if !packet.is_end || *state & ENDS == ENDS || room.is_none() {
            return Some(Shed::Tail);
        }
        *state += END;
        self.pass(Count::of(packet.len), limit);
        None
    }

    /// The first class of flows that are cut now: the less is allowed, the lower.
    fn threshold(&self, part: usize, room: Option<bool>) -> usize {
        let level = match room {
            Some(true) => (self.allowed() / Self::MOST_ALLOWED * LEVELS as f64) as usize,
            _ => 0,
        };
        self.parts[part].thresholds[level.min(LEVELS - 1)]
    }

    /// What new flows may use, in windows.
    fn allowed(&self) -> f64 {
        self.allowance[0].min(self.allowance[1])
    }

    fn pass(&mut self, count: Count, limit: &Limit) {
        let limits = limit.per_window().into_iter().zip(parts(count));
        for (allowance, (limit, part)) in self.allowance.iter_mut().zip(limits) {
            let part = limit.map_or(0.0, |limit| part as f64 / (limit as f64 * self.share));
            *allowance = (*allowance - part).max(-Self::MOST_ALLOWED);
        }
    }
}

impl Default for Part {
    fn default() -> Self {
        Self { loads: [[0.0; 2]; CLASSES], new: [0.0; 2], thresholds: [CLASSES; LEVELS] }
    }
}

impl Part {
    /// Chooses the thresholds for what the flows may have together.
    fn choose(&mut self, targets: [f64; 2], is_over: bool) {
        let most = [0, 1].map(|at| (targets[at] - self.new[at]).max(targets[at] * LEAST));
        let bound = |level: usize| {
            let part = level as f64 / (LEVELS - 1) as f64;
            [0, 1].map(|at| LEAST * targets[at] * (1.0 - part) + most[at] * part)
        };
        let (mut sum, mut level) = ([0.0; 2], 0);
        self.thresholds = [CLASSES; LEVELS];
        for (class, load) in self.loads.iter().enumerate() {
            sum = [sum[0] + load[0], sum[1] + load[1]];
            while level < LEVELS && sum.iter().zip(bound(level)).any(|(&sum, most)| sum > most) {
                self.thresholds[level] = class;
                level += 1;
            }
        }
        if is_over {
            // Of flows that are cut there is nothing to come.
            self.loads[self.thresholds[LEVELS - 1]..].fill([0.0; 2]);
        }
    }
}

fn add(load: &mut [f64; 2], count: Count) {
    let [packets, bytes] = parts(count);
    *load = [load[0] + packets as f64, load[1] + bytes as f64];
}

/// The class of a volume.
fn class(cost: u64) -> usize {
    let power = cost.max(4).ilog2();
    (power as usize * 4 + (cost >> (power - 2)) as usize % 4).min(CLASSES - 1)
}
