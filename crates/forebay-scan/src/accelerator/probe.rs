//! A text with a known answer, the last of each batch that goes to a device.
//!
//! A device that has lost its literals, or whose logic is stuck, would report no match for any text.
//! The probe is a literal of the set, another one for each batch; an answer without it is invalid.

use crate::literal::LiteralSet;

/// The most literals that probes are taken from.
const MOST: usize = 4096;

/// The literals that are probes, in turn.
#[derive(Clone, Debug)]
pub(super) struct Probes {
    literals: Vec<(u32, Box<[u8]>)>,
    next: usize,
}

impl Probes {
    /// Takes literals at equal distances from the set.
    pub(super) fn new(set: &LiteralSet) -> Self {
        let step = set.len().div_ceil(MOST).max(1);
        let numbered = (0..).zip(set.literals()).step_by(step);
        let literals = numbered.map(|(index, literal)| (index, literal.bytes.clone()));
        Self { literals: literals.collect(), next: 0 }
    }

    /// The bytes that the longest probe has.
    pub(super) fn longest(&self) -> usize {
        self.literals.iter().map(|(_, bytes)| bytes.len()).max().unwrap_or(0)
    }

    /// The next probe and its literal; none for an empty set.
    pub(super) fn next(&mut self) -> Option<(u32, &[u8])> {
        let (literal, bytes) = self.literals.get(self.next)?;
        self.next = (self.next + 1) % self.literals.len();
        Some((*literal, bytes))
    }
}
