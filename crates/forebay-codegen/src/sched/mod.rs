//! Scheduling of loops: from a [`LoopBody`] to code with physical registers.
//!
//! Steps, each a module: ops that overwrite an operand get copies where they
//! must not ([`ties`]); dependences ([`ddg`]) and units ([`resources`]) give
//! the least II; iterative modulo scheduling ([`modulo`]) finds a schedule at
//! that II or little above, in which lifetimes are then shortened
//! ([`shorten`]); registers are allocated ([`crate::regalloc`]); prologue,
//! kernel and epilogue are laid out ([`expand`]). Iterations that do not fill
//! the pipeline, or would look ahead beyond the batch, run one by one, by a
//! list schedule ([`list`]).
//!
//! Where registers do not suffice, the scheduler first takes loads and then all
//! ops to be faster, which makes iterations shorter and fewer of them overlap,
//! and at last takes a larger II (`search`). A loop that cannot be pipelined
//! at all is left list-scheduled, or as selection ordered it.
//!
//! [`checker`] proves a result right without using any of these, and [`report`]
//! shows it.

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

/// What a schedule is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Cycles that loads are taken to last.
    pub load_latency: u8,
    /// How far to go.
    pub scheduling: Scheduling,
}

impl From<&crate::code::Options> for Options {
    fn from(options: &crate::code::Options) -> Self {
        Self { load_latency: options.load_latency, scheduling: options.scheduling }
    }
}

/// What a schedule takes ops to last. Processors that issue out of order wait
/// as long as it takes, whatever a schedule assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// Cycles of a load.
    pub load: u8,
    /// The most cycles of the work that an op does, after a load if any.
    pub work: u8,
}

impl Latencies {
    /// The work's own latencies, and `load` cycles for a load.
    #[must_use]
    pub fn of_loads(load: u8) -> Self {
        Self { load, work: u8::MAX }
    }

    /// What to try, one after another, where registers do not suffice: the
    /// sooner a result is taken to be there, the sooner its register is free.
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
    /// Of each op, the cycle in which it starts, the first being 0.
    pub times: Vec<u32>,
}

impl Schedule {
    /// The stage of an op.
    #[must_use]
    pub fn stage(&self, op: usize) -> u32 {
        self.times[op] / self.ii
    }

    /// Number of stages: iterations under way at a time.
    #[must_use]
    pub fn stages(&self) -> u32 {
        self.times.iter().max().map_or(1, |&last| last / self.ii + 1)
    }
}

/// The order in which a copy of the kernel has its ops.
///
/// Ops go by their row. In a row those of later stages, which belong to earlier
/// iterations, go first: they free registers. Ops of one row and stage keep
/// their program order, so that dependences of latency 0 hold.
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

    /// The place of an op among all instructions that run, counted from the
    /// start of its iteration's first row; it is later by the number of ops
    /// for each iteration on.
    #[must_use]
    pub fn place(&self, op: usize) -> u32 {
        self.places[op]
    }
}

/// A schedule with its registers.
#[derive(Clone, Debug)]
pub struct Placed {
    /// When ops start.
    pub schedule: Schedule,
    /// In which order.
    pub order: LinearOrder,
    /// In which registers.
    pub allocation: Allocation,
}

/// A pipelined loop.
#[derive(Clone, Debug)]
pub struct Pipelined {
    /// Times, order and registers.
    pub placed: Placed,
    /// Prologue, kernel and epilogue.
    pub expansion: Expansion,
    /// What ops were taken to last.
    pub latencies: Latencies,
}

/// Lower bounds of II.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// By units and issue slots.
    pub res_mii: u32,
    /// The units that bind.
    pub binding: Bottleneck,
    /// By recurrences.
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
    /// The loop, copies for overwritten operands included.
    pub body: LoopBody,
    /// The number in the given loop of each op; `None` for a copy.
    pub origin: Vec<Option<u32>>,
    /// The least II.
    pub bounds: Bounds,
    /// The pipelined form, if there is one.
    pub pipelined: Option<Pipelined>,
    /// One iteration, for what does not fill the pipeline; ops that look
    /// ahead are left out of it.
    pub single: Placed,
    /// What ops are taken to last in `single`, as was asked.
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

/// Schedules a loop and gives it registers.
///
/// # Errors
/// When not even one iteration in program order has enough registers.
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
    // What looks ahead is left out of the rolled loop: another one has it.
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
