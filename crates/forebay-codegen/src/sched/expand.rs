//! From the schedule of one iteration to the code of a pipelined loop.
//!
//! With `S` stages and `u` names for each register, code for `n` iterations is
//!
//! - a prologue, which starts iterations 0 to `S − 2` and does what they do
//!   before iteration `S − 1` starts;
//! - a kernel of `u` copies, copy `c` of which starts an iteration and does
//!   stage `s` of the one started `s` copies before. A trip through the kernel
//!   starts `u` iterations;
//! - an epilogue, which ends the `S − 1` iterations that are in flight.
//!
//! Together they do `S − 1 + q · u` iterations, `q ≥ 1` being the trips through
//! the kernel. A rolled loop does the remaining iterations one by one, and all
//! if `n < S − 1 + u`. It also does those whose lookahead exceeds the batch
//! (`LoopBody::lookahead`), without the `ahead` ops. If the number of packets
//! is no multiple of an iteration's, one more iteration runs over the last
//! packets; it repeats some packets, which is harmless.
//!
//! All copies address their packets by one register, the packet number of the
//! oldest iteration in flight, and a distance.

use super::schedule::{LinearOrder, Schedule};

/// One copy of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The number of the op.
    pub op: u32,
    /// Iterations from the one of the packet number.
    pub iteration: u32,
}

/// The code of a pipelined loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expansion {
    /// Before the kernel, with packet number 0.
    pub prologue: Vec<Instance>,
    /// The kernel, run at least once; the packet number advances by
    /// [`Expansion::trip`] iterations after each trip.
    pub kernel: Vec<Instance>,
    /// After the kernel; the packet number then advances by
    /// [`Expansion::drained`] iterations.
    pub epilogue: Vec<Instance>,
    /// The least number of iterations for the three parts; with fewer, none of
    /// them runs. The kernel repeats while as many are left from the packet
    /// number on.
    pub least: u32,
    /// Iterations that a trip through the kernel starts.
    pub trip: u32,
    /// Iterations that the epilogue ends.
    pub drained: u32,
}

/// Expands a schedule with `unroll` names for each register.
#[must_use]
pub fn expand(schedule: &Schedule, order: &LinearOrder, unroll: u32) -> Expansion {
    let stages = schedule.stages();
    let drained = stages - 1;
    let mut prologue = Vec::with_capacity(order.ops().len() * drained as usize);
    let mut epilogue = Vec::with_capacity(prologue.capacity());
    for step in 0..drained {
        for &op in order.ops() {
            let stage = schedule.stage(op as usize);
            if stage <= step {
                prologue.push(Instance { op, iteration: step - stage });
            }
        }
    }
    let mut kernel = Vec::with_capacity(order.ops().len() * unroll as usize);
    for copy in 0..unroll {
        for &op in order.ops() {
            let stage = schedule.stage(op as usize);
            kernel.push(Instance { op, iteration: drained + copy - stage });
        }
    }
    for step in 0..drained {
        for &op in order.ops() {
            let stage = schedule.stage(op as usize);
            if stage > step {
                epilogue.push(Instance { op, iteration: drained + step - stage });
            }
        }
    }
    Expansion { prologue, kernel, epilogue, least: drained + unroll, trip: unroll, drained }
}
