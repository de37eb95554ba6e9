//! The calling conventions of compiled filters, and their registers.
//!
//! Batch code is a System V function of one argument, the address of the argument
//! table with the offsets in [`argument`]. On entry the table is read into
//! fixed registers; its address is not needed afterwards.
//!
//! `list` code has six arguments, in registers: it is called for single packets too, where a table
//! takes longer than the packet. They are as in the table, in this order: base, offsets, count, lengths on
//! the wire, captured lengths, verdicts.

use iced_x86::Register;

/// Offsets in the argument table, whose fields have eight bytes each.
pub mod argument {
    /// Start of packet memory; packet offsets are relative to it.
    pub const BASE: i64 = 0;
    /// Offsets of the packets, 32 bits each.
    pub const OFFSET: i64 = 8;
    /// Captured lengths, 32 bits each.
    pub const CAP_LEN: i64 = 16;
    /// Lengths on the wire, 32 bits each.
    pub const WIRE_LEN: i64 = 24;
    /// Verdicts, 32 bits each, written.
    pub const VERDICT: i64 = 32;
    /// Number of packets, 1 to 256.
    pub const COUNT: i64 = 40;
    /// Output: packets left to `list`. The group that starts at packet `s`
    /// writes its bits, at least a byte, `s` bytes into this table.
    pub const SLOW: i64 = 48;
    /// Scratch memory, 64-byte aligned.
    pub const SCRATCH: i64 = 56;
}

/// The most packets of a batch.
pub const MAX_COUNT: u32 = 256;

/// A table that batch code reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// Packet memory.
    Base,
    /// Packet offsets.
    Offset,
    /// Captured lengths.
    CapLen,
    /// Lengths on the wire.
    WireLen,
    /// Verdicts.
    Verdict,
    /// Packets left to `list`.
    Slow,
    /// Scratch memory.
    Scratch,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Base,
        Self::Offset,
        Self::CapLen,
        Self::WireLen,
        Self::Verdict,
        Self::Slow,
        Self::Scratch,
    ];

    /// Its name in listings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "packet",
            Self::Offset => "offset",
            Self::CapLen => "cap_len",
            Self::WireLen => "wire_len",
            Self::Verdict => "verdict",
            Self::Slow => "slow",
            Self::Scratch => "scratch",
        }
    }

    /// Offset of its address in the argument table.
    #[must_use]
    pub fn argument(self) -> i64 {
        match self {
            Self::Base => argument::BASE,
            Self::Offset => argument::OFFSET,
            Self::CapLen => argument::CAP_LEN,
            Self::WireLen => argument::WIRE_LEN,
            Self::Verdict => argument::VERDICT,
            Self::Slow => argument::SLOW,
            Self::Scratch => argument::SCRATCH,
        }
    }
}

/// Registers that a function must preserve.
pub const CALLEE_SAVED: [Register; 6] =
    [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];
