//! Scheduling of loops: from a [`LoopBody`] to code with physical registers.
//!
//! Steps, each a module: ops that overwrite an operand get copies where that
//! operand is still needed ([`ties`]); dependences ([`ddg`]) and units
//! ([`resources`]) give the least II; iterative modulo scheduling ([`modulo`])
//! finds a schedule at that II or little above, in which lifetimes are then
//! shortened ([`shorten`]); registers are allocated ([`crate::regalloc`]);
//! prologue, kernel and epilogue are laid out ([`expand`]). Iterations that do
//! not fill the pipeline, or whose lookahead exceeds the batch, run one by one,
//! in a list schedule ([`list`]).
//!
//! If registers do not suffice, the scheduler assumes shorter latencies, first
//! for loads and then for all ops, so that iterations are shorter and fewer
//! overlap, and at last increases the II (`search`). A loop that cannot be
//! pipelined at all stays list-scheduled, or in the order of selection.
//!
//! [`checker`] verifies a result without any of these, and [`report`] prints
//! it.

pub mod checker;
pub mod ddg;
pub mod expand;
pub mod list;
pub mod modulo;
pub mod report;
pub mod resources;
#[cfg(test)]
pub(crate) mod samples;
mod search;
pub mod shorten;
#[cfg(test)]
mod tests;
pub mod ties;
pub mod values;

use self::expand::{Expansion, Instance};
use self::resources::Bottleneck;
use self::search::Search;
use self::ties::untie;
use crate::code::{Isa, Scheduling};
use crate::mir::LoopBody;
use crate::regalloc::{Allocation, RegisterPressure};

/// Options of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Load latency that the scheduler assumes, in cycles.
    pub load_latency: u8,
    /// How far to schedule.
    pub scheduling: Scheduling,
}

impl From<&crate::code::Options> for Options {
    fn from(options: &crate::code::Options) -> Self {
        Self { load_latency: options.load_latency, scheduling: options.scheduling }
    }
}

/// The latencies that a schedule assumes. Out-of-order processors wait for the
/// actual result, whatever a schedule assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// Cycles of a load.
    pub load: u8,
    /// The most cycles of an op's own latency, after its load if any.
    pub work: u8,
}

impl Latencies {
    /// The ops' own latencies, and `load` cycles for a load.
    #[must_use]
    pub fn of_loads(load: u8) -> Self {
        Self { load, work: u8::MAX }
    }

    /// Shorter latencies to try, one after another, if registers do not
    /// suffice: they shorten the lifetime of registers.
    fn shorter(self) -> [Self; 2] {
        [
            Self { load: self.load.min(1), work: self.work.min(2) },
            Self { load: 0, work: self.work.min(1) },
        ]
    }
}

/// When each op of an iteration starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Cycles between the starts of two iterations.
    pub ii: u32,
    /// The start cycle of each op; the first is 0.
    pub times: Vec<u32>,
}

impl Schedule {
    /// The stage of an op.
    #[must_use]
    pub fn stage(&self, op: usize) -> u32 {
        self.times[op] / self.ii
    }

    /// Number of stages: iterations in flight.
    #[must_use]
    pub fn stages(&self) -> u32 {
        self.times.iter().max().map_or(1, |&last| last / self.ii + 1)
    }
}

/// The order of the ops within a copy of the kernel.
///
/// Ops are ordered by their row. In a row those of later stages, which belong
/// to earlier iterations, go first, since they free registers. Ops of one row
/// and stage keep their program order, so that dependences of latency 0 hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinearOrder {
    ops: Vec<u32>,
    places: Vec<u32>,
}

impl LinearOrder {
    /// The order of a schedule.
    #[must_use]
    pub fn of(schedule: &Schedule) -> Self {
        let mut ops: Vec<u32> = (0..schedule.times.len() as u32).collect();
        ops.sort_by_key(|&op| {
            let time = schedule.times[op as usize];
            (time % schedule.ii, std::cmp::Reverse(time / schedule.ii))
        });
        let mut places = vec![0; ops.len()];
        for (position, &op) in ops.iter().enumerate() {
            places[op as usize] = schedule.stage(op as usize) * ops.len() as u32 + position as u32;
        }
        Self { ops, places }
    }

    /// The ops in that order.
    #[must_use]
    pub fn ops(&self) -> &[u32] {
        &self.ops
    }

    /// The place of an op among all executed instructions, counted from the
    /// start of its iteration's first row; each further iteration adds the
    /// number of ops.
    #[must_use]
    pub fn place(&self, op: usize) -> u32 {
        self.places[op]
    }
}

/// A schedule with its registers.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Start times.
    pub schedule: Schedule,
    /// Order of the ops.
    pub order: LinearOrder,
    /// Physical registers.
    pub allocation: Allocation,
}

/// A pipelined loop.
#[derive(Clone, Debug)]
pub struct Pipelined {
    /// Times, order and registers.
    pub placed: Placed,
    /// Prologue, kernel and epilogue.
    pub expansion: Expansion,
    /// The latencies assumed.
    pub latencies: Latencies,
}

/// Lower bounds of II.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// ResMII: by units and issue slots.
    pub res_mii: u32,
    /// The units that limit the II.
    pub binding: Bottleneck,
    /// RecMII: by recurrences.
    pub rec_mii: u32,
}

impl Bounds {
    /// The least II: the greater of the two.
    #[must_use]
    pub fn mii(&self) -> u32 {
        self.res_mii.max(self.rec_mii).max(1)
    }
}

/// A loop ready to be encoded.
#[derive(Clone, Debug)]
pub struct ScheduledLoop {
    /// The loop, including copies for overwritten operands.
    pub body: LoopBody,
    /// By op: its number in the given loop; `None` for a copy.
    pub origin: Vec<Option<u32>>,
    /// The least II.
    pub bounds: Bounds,
    /// The pipelined form, if there is one.
    pub pipelined: Option<Pipelined>,
    /// One iteration, for the packets that do not fill the pipeline; without
    /// `ahead` ops.
    pub single: Placed,
    /// The latencies assumed in `single`, as requested.
    pub latencies: Latencies,
    /// The level whose registers it uses.
    pub isa: Isa,
}

impl ScheduledLoop {
    /// The ops of the rolled loop, in order.
    #[must_use]
    pub fn rolled(&self) -> Vec<Instance> {
        let ops = self.single.order.ops().iter().filter(|&&op| !self.body.ops[op as usize].ahead);
        ops.map(|&op| Instance { op, iteration: 0 }).collect()
    }
}

/// Schedules a loop and allocates its registers.
///
/// # Errors
/// If registers do not suffice for one iteration in program order.
pub fn schedule_loop(
    body: &LoopBody,
    options: &Options,
    isa: Isa,
) -> Result<ScheduledLoop, RegisterPressure> {
    let untied = untie(body);
    let latencies = Latencies::of_loads(options.load_latency);
    let search = Search::new(&untied.body, latencies, isa);
    let single = search.single(options.scheduling)?;
    let pipelined = match options.scheduling {
        Scheduling::Modulo => search.pipeline(single.schedule.ii),
        Scheduling::None | Scheduling::List => None,
    };
    // The rolled loop omits `ahead` ops, so it can be a different schedule.
    let pipelined = pipelined
        .or_else(|| (body.lookahead > 0).then(|| search.pipelined(single.clone(), latencies)));
    let bounds = search.bounds;
    Ok(ScheduledLoop {
        bounds,
        pipelined,
        single,
        latencies,
        isa,
        body: untied.body,
        origin: untied.origin,
    })
}
