//! The machine that loops are scheduled for.
//!
//! One model serves all: a core of the Golden Cove kind (Intel, "Optimization
//! Reference Manual", section 2.1; latencies and ports as uops.info measures
//! them). A cycle issues six fused instructions, three loads of which two may
//! have 512 bits, two stores, and work on five ports of which three take
//! vectors; 512-bit work takes ports 0 and 5 only, and comparisons into opmask
//! registers and shuffles port 5. Zen 4 has the same widths but splits 512-bit
//! work in two, and a schedule for the one suits the other.

/// Instructions that a cycle may issue.
pub const ISSUE_WIDTH: u32 = 6;

/// Number of units in [`mod@unit`].
pub const UNITS: usize = 10;

/// One bit for each unit of the machine.
pub mod unit {
    /// A load of any size.
    pub const LOAD_0: u16 = 1;
    /// A load of any size.
    pub const LOAD_1: u16 = 1 << 1;
    /// A load of at most 256 bits.
    pub const LOAD_2: u16 = 1 << 2;
    /// A store.
    pub const STORE_0: u16 = 1 << 3;
    /// A store of at most 256 bits.
    pub const STORE_1: u16 = 1 << 4;
    /// Port 0.
    pub const PORT_0: u16 = 1 << 5;
    /// Port 1.
    pub const PORT_1: u16 = 1 << 6;
    /// Port 5.
    pub const PORT_5: u16 = 1 << 7;
    /// Port 6, for whole numbers only.
    pub const PORT_6: u16 = 1 << 8;
    /// Port 10, for whole numbers only.
    pub const PORT_10: u16 = 1 << 9;

    /// The units' names, in order of their bits.
    pub const NAMES: [&str; super::UNITS] =
        ["ld0", "ld1", "ld2", "st0", "st1", "p0", "p1", "p5", "p6", "p10"];
}

/// What an instruction occupies in the cycle of its issue: one issue slot, and
/// one unit out of each choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Units(pub [u16; 2]);

impl Units {
    /// A load of at most 256 bits.
    pub const LOAD: Self = Self([unit::LOAD_0 | unit::LOAD_1 | unit::LOAD_2, 0]);
    /// A load of 512 bits.
    pub const LOAD_512: Self = Self([unit::LOAD_0 | unit::LOAD_1, 0]);
    /// A store of at most 256 bits.
    pub const STORE: Self = Self([unit::STORE_0 | unit::STORE_1, 0]);
    /// A store of 512 bits.
    pub const STORE_512: Self = Self([unit::STORE_0, 0]);
    /// Whole-number work.
    pub const ALU: Self =
        Self([unit::PORT_0 | unit::PORT_1 | unit::PORT_5 | unit::PORT_6 | unit::PORT_10, 0]);
    /// A shift of whole numbers.
    pub const SHIFT: Self = Self([unit::PORT_0 | unit::PORT_6, 0]);
    /// A product or a checksum of whole numbers.
    pub const MULTIPLY: Self = Self([unit::PORT_1, 0]);
    /// Logic on 512 bits.
    pub const LOGIC_512: Self = Self([unit::PORT_0 | unit::PORT_5, 0]);
    /// Logic on at most 256 bits.
    pub const LOGIC: Self = Self([unit::PORT_0 | unit::PORT_1 | unit::PORT_5, 0]);
    /// A comparison of at most 256 bits into a vector.
    pub const COMPARE: Self = Self([unit::PORT_0 | unit::PORT_1, 0]);
    /// A shuffle in 512 bits, or across lanes, or a comparison into an opmask.
    pub const PORT_5: Self = Self([unit::PORT_5, 0]);
    /// A shuffle within the lanes of 256 bits.
    pub const SHUFFLE: Self = Self([unit::PORT_1 | unit::PORT_5, 0]);
    /// Opmask logic, and moves out of vector and opmask registers.
    pub const PORT_0: Self = Self([unit::PORT_0, 0]);
    /// A gather of 16 elements. Its loads fill two load ports for eight cycles;
    /// the reservation is for the first, and [`Units::cycles`] for the others.
    pub const GATHER_512: Self =
        Self([unit::LOAD_0 | unit::LOAD_1 | unit::LOAD_2, unit::LOAD_0 | unit::LOAD_1]);
    /// Nothing but an issue slot: an eliminated move.
    pub const NONE: Self = Self([0, 0]);

    /// Cycles from its issue on in which it occupies units.
    #[must_use]
    pub const fn cycles(self) -> u32 {
        let gather = Self::GATHER_512;
        if self.0[0] == gather.0[0] && self.0[1] == gather.0[1] { 8 } else { 1 }
    }

    /// The same with a load before it, of 512 bits or fewer.
    #[must_use]
    pub const fn with_load(self, wide: bool) -> Self {
        let load = if wide { Self::LOAD_512 } else { Self::LOAD };
        Self([self.0[0], load.0[0]])
    }
}

/// Latencies in cycles, by kind of work.
pub mod latency {
    /// Whole-number and vector logic, shuffles within lanes.
    pub const SIMPLE: u8 = 1;
    /// A comparison into an opmask register, a shuffle across lanes, a product,
    /// a move between kinds of registers.
    pub const CROSSING: u8 = 3;
    /// A shift of an opmask.
    pub const MASK_SHIFT: u8 = 4;
    /// A gather, beyond the latency of a load.
    pub const GATHER: u8 = 20;
}
