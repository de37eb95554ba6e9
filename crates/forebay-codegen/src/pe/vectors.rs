//! The vectors that [`lanes`](super::lanes) computes with, in 32-bit lanes of a packet each.

use forebay_filter::ir::Arithmetic;

use super::algebra::{Accepted, Mask};
use crate::mir::{Address, LoopBody, Operand, Reg};

/// Comparisons of unsigned numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneComparison {
    Equal,
    AtLeast,
    AtMost,
}

/// Vectors of an instruction set.
pub(super) trait Vectors {
    /// Lanes of a vector.
    const LANES: u32;

    /// See [`super::algebra::Masks::CHAIN`].
    const CHAIN: usize;

    /// Whether a comparison under a mask, or its negation, takes no more instructions than one of all lanes.
    const PREDICATED: bool;

    fn body(&mut self) -> &mut LoopBody;

    /// The loop, made.
    fn finish(self) -> LoopBody;

    /// Notes the purpose of the next operations, and returns the note's number.
    fn note(&mut self, text: &str) -> u32;

    /// A whole vector from memory.
    fn load(&mut self, address: Address) -> Reg;

    /// The same, of numbers that only [`Vectors::small_at_least`] compares: those above `i32::MAX` may
    /// be replaced by it.
    fn load_small(&mut self, address: Address) -> Reg;

    /// Inserts 16 bytes of memory into `vector` at `position`; the first insertion makes the vector.
    fn insert(&mut self, vector: Option<Reg>, from: Address, position: i32) -> Reg;

    /// Two lanes of `a` and two of `b` in each 128 bits, selected by `lanes`, as `vshufps` does.
    fn shuffle(&mut self, a: Reg, b: Reg, lanes: u32) -> Reg;

    /// Each 128 bits with the bytes in the order of `from`; 0 where that is 0x80.
    fn bytes(&mut self, vector: Reg, from: [u8; 16]) -> Reg;

    /// A number in all lanes.
    fn number(&mut self, number: u32) -> Operand;

    /// The same in a register.
    fn number_in_register(&mut self, number: u32) -> Reg;

    /// The result in each lane; `None` if there is no instruction for it.
    fn arithmetic(&mut self, op: Arithmetic, left: Reg, right: Operand) -> Option<Reg>;

    /// The lanes of `under` for which the comparison has the outcome `holds`.
    fn compare(
        &mut self,
        comparison: LaneComparison,
        operands: (Reg, Operand),
        holds: bool,
        under: Option<Reg>,
    ) -> Mask;

    /// The same for a lane that is at least a number, both of them at most `i32::MAX`.
    fn small_at_least(&mut self, operands: (Reg, u32), holds: bool, under: Option<Reg>) -> Mask;

    /// The lanes of `under` that have any bit of `bits`, or none if not `any`.
    fn any_bit(&mut self, lanes: Reg, bits: Operand, any: bool, under: Option<Reg>) -> Mask;

    /// `a & b` of masks.
    fn and(&mut self, a: Reg, b: Reg) -> Reg;

    /// `b & !a` of masks.
    fn and_not(&mut self, a: Reg, b: Reg) -> Reg;

    /// `a | b` of masks.
    fn or(&mut self, a: Reg, b: Reg) -> Reg;

    /// The complement of a mask.
    fn not(&mut self, a: Reg) -> Reg;

    /// The lanes of `mask`, or of its complement if not `holds`, that are among those of `under`.
    fn among(&mut self, mask: Reg, holds: bool, under: Option<Reg>) -> Mask {
        match under {
            None => Mask { reg: mask, inverted: !holds },
            Some(under) if holds => Mask::plain(self.and(mask, under)),
            Some(under) => Mask::plain(self.and_not(mask, under)),
        }
    }

    /// Stores the verdicts of a vector of packets.
    fn verdicts(&mut self, outcome: Accepted, accept: u32);

    /// Stores the mask of packets left to `list`.
    fn leave(&mut self, packets: Reg);
}
