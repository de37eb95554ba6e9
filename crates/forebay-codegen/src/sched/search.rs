//! The search for a schedule whose registers suffice.
//!
//! All attempts but the last are at the least II, and are for short loops:
//! first with the requested latencies and Rau's order, then with shorter
//! latencies and in program order, both of which shorten lifetimes. An
//! out-of-order processor loses less by operands that are not ready than by a
//! longer interval. Last, without latencies, II grows until registers suffice.

use super::ddg::{Ddg, Latencies};
use super::expand::{Expansion, expand};
use super::modulo::{Priority, modulo_schedule};
use super::resources::{Bottleneck, Resources};
use super::schedule::{LinearOrder, Schedule};
use super::values::Values;
use super::{list, shorten};
use crate::code::{Isa, Scheduling};
use crate::convention::MAX_COUNT;
use crate::mir::LoopBody;
use crate::regalloc::{Allocation, Limits, RegisterFile, RegisterPressure, allocate};

/// The most names for a register.
const MAX_UNROLL: u32 = 8;

/// The most ops in an unrolled kernel, about 6 KiB of code.
const MAX_KERNEL_OPS: u32 = 768;

/// The most ops of a loop that is pipelined. Placement takes time quadratic in
/// their number, and an out-of-order window holds a few hundred instructions: a
/// longer iteration has enough parallelism by itself.
const MAX_PIPELINED_OPS: usize = 600;

/// The most ops of a loop that is scheduled with latencies. For longer loops an
/// out-of-order processor has an iteration in flight anyway, and each schedule
/// tried takes time.
const MAX_LATENT_OPS: usize = 40;

/// The most ops of a loop that is list-scheduled; longer ones stay in the order
/// of selection.
const MAX_SCHEDULED_OPS: usize = 2400;

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

/// One loop, and the common input of all its schedules.
pub(super) struct Search<'a> {
    body: &'a LoopBody,
    latencies: Latencies,
    values: Values,
    ddg: Ddg,
    resources: Resources,
    file: RegisterFile,
    pub(super) bounds: Bounds,
}

impl<'a> Search<'a> {
    pub(super) fn new(body: &'a LoopBody, latencies: Latencies, isa: Isa) -> Self {
        let values = Values::of_loop(body);
        let ddg = Ddg::of_loop(body, &values, latencies);
        let resources = Resources::of_loop(body, ddg.nodes());
        let (res_mii, binding) = resources.res_mii();
        let bounds = Bounds { res_mii, binding, rec_mii: ddg.rec_mii() };
        let file = RegisterFile::of_loop(body, isa);
        Self { body, latencies, values, ddg, resources, file, bounds }
    }

    /// One iteration without overlap: list-scheduled if registers suffice;
    /// else, and for a long loop, in program order.
    pub(super) fn single(&self, scheduling: Scheduling) -> Result<Placed, RegisterPressure> {
        let ops = self.body.ops.len();
        let limits = Limits { unroll: 1, kernel: ops.max(1) as u32 };
        let in_order = || list::program_order(&self.ddg, &self.resources, ops);
        let as_selected = match scheduling {
            Scheduling::None => true,
            Scheduling::List => ops > MAX_SCHEDULED_OPS,
            // Few packets are left by the pipelined form.
            Scheduling::Modulo => ops > MAX_LATENT_OPS,
        };
        if as_selected {
            return self.place(in_order(), limits);
        }
        let mut schedule = list::list_schedule(&self.ddg, &self.resources, ops);
        if ops <= MAX_PIPELINED_OPS {
            shorten::shorten(self.body, &self.values, &self.ddg, &self.resources, &mut schedule);
        }
        self.place(schedule, limits).or_else(|_| self.place(in_order(), limits))
    }

    /// A pipelined form, if registers suffice for one.
    pub(super) fn pipeline(&self, one_by_one: u32) -> Option<Pipelined> {
        if self.body.ops.is_empty() || self.body.ops.len() > MAX_PIPELINED_OPS {
            return None;
        }
        let mii = self.bounds.mii();
        if self.body.ops.len() <= MAX_LATENT_OPS {
            let found = self.pipeline_with_latencies(mii);
            if found.is_some() {
                return found;
            }
        }
        let latencies = Latencies { load: 0, work: 0 };
        let ddg = Ddg::of_loop(self.body, &self.values, latencies);
        // Each II tried takes time. An out-of-order processor loses next to nothing if the II of a loop
        // of more than a few ops is a fifth longer.
        let step = |ii| if self.body.ops.len() > MAX_LATENT_OPS { 1 + ii / 5 } else { 1 };
        // At `one_by_one` cycles iterations no longer overlap.
        let mut ii = mii;
        while ii < one_by_one {
            let found = self.pipeline_at(&ddg, latencies, Priority::Spread, ii);
            if found.is_some() {
                return found;
            }
            ii += step(ii);
        }
        None
    }

    /// A pipelined form at the least II, with latencies.
    fn pipeline_with_latencies(&self, mii: u32) -> Option<Pipelined> {
        let found = self.pipeline_at(&self.ddg, self.latencies, Priority::Height, mii);
        found.or_else(|| {
            self.latencies.shorter().into_iter().find_map(|latencies| {
                let ddg = Ddg::of_loop(self.body, &self.values, latencies);
                self.pipeline_at(&ddg, latencies, Priority::Program, mii)
            })
        })
    }

    /// A pipelined form at an II of `ii`, if there is a schedule and registers
    /// suffice.
    fn pipeline_at(
        &self,
        ddg: &Ddg,
        latencies: Latencies,
        priority: Priority,
        ii: u32,
    ) -> Option<Pipelined> {
        let ops = self.body.ops.len();
        let mut schedule = modulo_schedule(ddg, &self.resources, ops, ii, priority)?;
        shorten::shorten(self.body, &self.values, ddg, &self.resources, &mut schedule);
        let packets = MAX_COUNT.saturating_sub(self.body.lookahead);
        let iterations = packets / self.body.step.max(1);
        let drained = schedule.stages() - 1;
        if drained >= iterations {
            return None;
        }
        let limits =
            Limits { unroll: MAX_UNROLL.min(iterations - drained), kernel: MAX_KERNEL_OPS };
        let placed = self.place(schedule, limits).ok()?;
        Some(self.pipelined(placed, latencies))
    }

    pub(super) fn pipelined(&self, placed: Placed, latencies: Latencies) -> Pipelined {
        let expansion = expand(&placed.schedule, &placed.order, placed.allocation.unroll);
        Pipelined { placed, expansion, latencies }
    }

    fn place(&self, schedule: Schedule, limits: Limits) -> Result<Placed, RegisterPressure> {
        let order = LinearOrder::of(&schedule);
        let allocation = allocate(self.body, &self.values, &order, &self.file, limits)?;
        Ok(Placed { schedule, order, allocation })
    }
}
