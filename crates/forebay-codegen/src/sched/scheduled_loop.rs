//! A loop, scheduled and with its registers, ready to be encoded.

use super::ddg::Latencies;
use super::expand::Instance;
use super::search::{Bounds, Pipelined, Placed, Search};
use super::ties::untie;
use crate::code::{Isa, Scheduling};
use crate::mir::LoopBody;
use crate::regalloc::RegisterPressure;

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
