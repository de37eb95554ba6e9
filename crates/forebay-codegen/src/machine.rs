//! The machine model for scheduling loops.
//!
//! One model serves all processors: a core of the Golden Cove kind (Intel,
//! "Optimization Reference Manual", section 2.1; latencies, and ports that it
//! does not list, as measured by uops.info). A cycle issues six fused
//! instructions, two loads, two stores, and operations on five ports, three of
//! which take vectors.
//!
//! The manual has three loads a cycle, two of them of 512 bits. Microbenchmarks
//! on a Sapphire Rapids guest gave two, whatever their size: six independent
//! loads took 3.0 cycles. They also showed that insertions and broadcasts from
//! memory take port 0 or 5, that comparisons into opmask registers, shuffles of
//! 512 bits and tests take port 5 only, and that one store of 512 bits
//! completes a cycle. So the model has two load units, and load-bound code is
//! scheduled for its actual rate.
//!
//! Zen 4 splits 512-bit operations in two; the same schedules suit it.

/// Instructions that a cycle may issue.
pub const ISSUE_WIDTH: u32 = 6;

/// Number of units in [`mod@unit`].
pub const UNITS: usize = 9;

/// One bit for each unit of the machine.
pub mod unit {
    /// A load of any size.
    pub const LOAD_0: u16 = 1;
    /// A load of any size.
    pub const LOAD_1: u16 = 1 << 1;
    /// A store.
    pub const STORE_0: u16 = 1 << 2;
    /// A store of at most 256 bits.
    pub const STORE_1: u16 = 1 << 3;
    /// Port 0.
    pub const PORT_0: u16 = 1 << 4;
    /// Port 1.
    pub const PORT_1: u16 = 1 << 5;
    /// Port 5.
    pub const PORT_5: u16 = 1 << 6;
    /// Port 6, integer only.
    pub const PORT_6: u16 = 1 << 7;
    /// Port 10, integer only.
    pub const PORT_10: u16 = 1 << 8;

    /// The units' names, in order of their bits.
    pub const NAMES: [&str; super::UNITS] =
        ["ld0", "ld1", "st0", "st1", "p0", "p1", "p5", "p6", "p10"];
}

/// The resources of an instruction in its issue cycle: one issue slot, and one
/// unit out of each choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Units(pub [u16; 2]);

impl Units {
    /// A load of any size.
    pub const LOAD: Self = Self([unit::LOAD_0 | unit::LOAD_1, 0]);
    /// A store of at most 256 bits.
    pub const STORE: Self = Self([unit::STORE_0 | unit::STORE_1, 0]);
    /// A store of 512 bits.
    pub const STORE_512: Self = Self([unit::STORE_0, 0]);
    /// Integer arithmetic and logic.
    pub const ALU: Self =
        Self([unit::PORT_0 | unit::PORT_1 | unit::PORT_5 | unit::PORT_6 | unit::PORT_10, 0]);
    /// An integer shift.
    pub const SHIFT: Self = Self([unit::PORT_0 | unit::PORT_6, 0]);
    /// An integer multiplication or CRC.
    pub const MULTIPLY: Self = Self([unit::PORT_1, 0]);
    /// Logic on 512 bits, an insertion or a broadcast from memory.
    pub const LOGIC_512: Self = Self([unit::PORT_0 | unit::PORT_5, 0]);
    /// Logic on at most 256 bits.
    pub const LOGIC: Self = Self([unit::PORT_0 | unit::PORT_1 | unit::PORT_5, 0]);
    /// A comparison of at most 256 bits into a vector.
    pub const COMPARE: Self = Self([unit::PORT_0 | unit::PORT_1, 0]);
    /// A shuffle in 512 bits, or across lanes, or a comparison or test into an
    /// opmask.
    pub const PORT_5: Self = Self([unit::PORT_5, 0]);
    /// A shuffle within the lanes of 256 bits.
    pub const SHUFFLE: Self = Self([unit::PORT_1 | unit::PORT_5, 0]);
    /// Opmask logic, and moves out of vector and opmask registers.
    pub const PORT_0: Self = Self([unit::PORT_0, 0]);
    /// A move of the upper half of 128 bits to a general register.
    pub const PORT_0_AND_5: Self = Self([unit::PORT_0, unit::PORT_5]);
    /// A selection by the bytes of a third vector: two operations on cores of Intel.
    pub const SELECT: Self = Self([Self::LOGIC.0[0]; 2]);
    /// An issue slot only: an eliminated move.
    pub const NONE: Self = Self([0, 0]);

    /// The same with a load.
    #[must_use]
    pub const fn with_load(self) -> Self {
        Self([self.0[0], Self::LOAD.0[0]])
    }

    /// The same without the load of a memory operand.
    #[must_use]
    pub const fn without_load(self) -> Self {
        Self([self.0[0], 0])
    }
}

/// Latencies in cycles, by kind of operation.
pub mod latency {
    /// Integer and vector logic, shuffles within lanes.
    pub const SIMPLE: u8 = 1;
    /// A comparison into an opmask register, a shuffle across lanes, a
    /// multiplication, a move between register classes.
    pub const CROSSING: u8 = 3;
    /// A shift of an opmask.
    pub const MASK_SHIFT: u8 = 4;
}
