//! When the ops of an iteration start, and the order that follows.

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
        ops.sort_by_cached_key(|&op| {
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
