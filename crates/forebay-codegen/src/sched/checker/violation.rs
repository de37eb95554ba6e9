//! What the checker finds.

use iced_x86::Register;

/// A violation in a scheduled loop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The ops differ from the source.
    #[error("op {op} of the scheduled loop: {reason}")]
    Body {
        /// The op's number in the scheduled loop.
        op: usize,
        /// The violated expectation.
        reason: &'static str,
    },
    /// An op starts before an operand is ready.
    #[error("op {to} starts in cycle {start}, but the result of op {from} is ready in {ready}")]
    Dependence {
        /// The op that defines the operand.
        from: usize,
        /// The op that reads it.
        to: usize,
        /// When it starts.
        start: u32,
        /// When the operand is ready.
        ready: u32,
    },
    /// A row has too few units for its ops.
    #[error("row {row} of the reservation table has no unit left for op {op}")]
    Units {
        /// The row.
        row: u32,
        /// The op without a unit.
        op: usize,
    },
    /// A row has more ops than issue slots.
    #[error("row {row} of the reservation table issues {ops} ops")]
    Issue {
        /// The row.
        row: u32,
        /// Its ops.
        ops: usize,
    },
    /// A virtual register has a physical one that is not allowed.
    #[error("register {register:?} for virtual register {reg}: {reason}")]
    Register {
        /// The virtual register.
        reg: usize,
        /// The physical one.
        register: Register,
        /// The reason.
        reason: &'static str,
    },
    /// An op reads a wrong value.
    #[error("batch of {count}: op {op} for packet {packet} reads {found} from {register:?}")]
    Value {
        /// Packets of the batch.
        count: u32,
        /// The op's number in the scheduled loop.
        op: usize,
        /// The first packet of its iteration.
        packet: u32,
        /// The register that it reads.
        register: Register,
        /// The value found.
        found: String,
    },
    /// A tied op whose first operand is not in its destination register.
    #[error("op {op} for packet {packet} is tied, but its operand is in another register")]
    Tied {
        /// The op's number in the scheduled loop.
        op: usize,
        /// The first packet of its iteration.
        packet: u32,
    },
    /// An op does not run once for an iteration.
    #[error("batch of {count}: op {op} runs {times} times for packet {packet}")]
    Times {
        /// Packets of the batch.
        count: u32,
        /// The op's number in the scheduled loop.
        op: usize,
        /// The first packet of the iteration.
        packet: u32,
        /// How often it runs.
        times: u32,
    },
    /// An op accesses entries beyond the batch.
    #[error("batch of {count}: op {op} for packet {packet} looks beyond the last packet")]
    Beyond {
        /// Packets of the batch.
        count: u32,
        /// The op's number in the scheduled loop.
        op: usize,
        /// The first packet of its iteration.
        packet: u32,
    },
}
