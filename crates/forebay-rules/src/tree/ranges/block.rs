//! Blocks of sixteen boxes, which a packet is held against at once.

use super::boxes::{Cuboid, FIELDS};
use crate::tree::labels::NO_LABEL;

/// Boxes of a block.
pub(crate) const LANES: usize = 16;

/// In a reference: to a block of boxes, not of blocks.
pub(crate) const LEAF: u32 = 1 << 31;

/// A field of the boxes of a block.
pub(crate) type Column = [u32; LANES];

/// Sixteen boxes, of rules or of what is below.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Block {
    /// The least number: source, destination, and both ports in one word.
    pub low: [Column; 3],
    /// How far the greatest is from it.
    pub span: [Column; 3],
    /// The tests of which a packet must meet one.
    pub tests: Column,
    /// The least label, ascending.
    pub labels: Column,
    /// The reference to what is below; of a rule's box the number of its check.
    pub next: Column,
}

impl Block {
    /// A block that nothing matches: there is no test to meet.
    pub const EMPTY: Self = Self {
        low: [[0; LANES]; 3],
        span: [[0; LANES]; 3],
        tests: [0; LANES],
        labels: [NO_LABEL; LANES],
        next: [0; LANES],
    };

    /// Puts a box into a lane, which leads to `next`.
    pub fn put(&mut self, lane: usize, of: &Cuboid, next: u32) {
        let ports = |ends: [u32; FIELDS]| ends[2] | ends[3] << 16;
        let spans = std::array::from_fn(|field| of.high[field] - of.low[field]);
        for (columns, ends) in [(&mut self.low, of.low), (&mut self.span, spans)] {
            let words = [ends[0], ends[1], ports(ends)];
            columns.iter_mut().zip(words).for_each(|(column, word)| column[lane] = word);
        }
        self.tests[lane] = of.tests;
        self.labels[lane] = of.label;
        self.next[lane] = next;
    }
}
