//! The vectors that [`lanes`](super::lanes) computes with, in 32-bit lanes of a packet each.

use forebay_filter::ir::Arithmetic;
use iced_x86::Code;

use super::algebra::{Accepted, Logic, Mask};
use crate::machine::{Units, latency};
use crate::mir::{Address, LoopBody, Operand, Reg, RegClass};

/// Comparisons of unsigned numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneComparison {
    Equal,
    AtLeast,
    AtMost,
}

/// An operation on two vectors: its instructions, and what they take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    /// In vectors of 512 bits.
    pub(super) wide: Code,
    /// In vectors of 256 bits.
    pub(super) narrow: Code,
    pub(super) kind: Kind,
}

/// Kinds of operations, by the ports that they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Logic,
    /// Multiplications, and shifts by the lanes of another vector.
    Multiply,
    Shuffle,
}

impl Operation {
    const BYTES: Self = Self {
        wide: Code::EVEX_Vpshufb_zmm_k1z_zmm_zmmm512,
        narrow: Code::VEX_Vpshufb_ymm_ymm_ymmm256,
        kind: Kind::Shuffle,
    };

    /// Arithmetic on lanes of 32 bits; `None` if there is no instruction for it.
    fn arithmetic(op: Arithmetic) -> Option<Self> {
        use Code::*;
        use Kind::{Logic, Multiply};
        let (wide, narrow, kind) = match op {
            Arithmetic::Add => {
                (EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32, VEX_Vpaddd_ymm_ymm_ymmm256, Logic)
            }
            Arithmetic::Sub => {
                (EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32, VEX_Vpsubd_ymm_ymm_ymmm256, Logic)
            }
            Arithmetic::Mul => {
                (EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32, VEX_Vpmulld_ymm_ymm_ymmm256, Multiply)
            }
            Arithmetic::Or => (EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, VEX_Vpor_ymm_ymm_ymmm256, Logic),
            Arithmetic::Xor => {
                (EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32, VEX_Vpxor_ymm_ymm_ymmm256, Logic)
            }
            // Shift distances from 32 up give 0 here too.
            Arithmetic::Lsh => {
                (EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32, VEX_Vpsllvd_ymm_ymm_ymmm256, Multiply)
            }
            Arithmetic::Rsh => {
                (EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32, VEX_Vpsrlvd_ymm_ymm_ymmm256, Multiply)
            }
            Arithmetic::And => {
                (EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, VEX_Vpand_ymm_ymm_ymmm256, Logic)
            }
            Arithmetic::Div | Arithmetic::Mod => return None,
        };
        Some(Self { wide, narrow, kind })
    }
}

/// Vectors of an instruction set.
pub(super) trait Vectors: Logic {
    /// Lanes of a vector.
    const LANES: u32;

    fn body(&mut self) -> &mut LoopBody;

    /// The loop, made.
    fn finish(self) -> LoopBody;

    /// A whole vector from memory.
    fn load(&mut self, address: Address) -> Reg;

    /// The same, of numbers that only [`Vectors::small_above`] compares: those above `i32::MAX` may
    /// be replaced by it.
    fn load_small(&mut self, address: Address) -> Reg;

    /// Inserts 16 bytes of memory into `vector` at `position`; the first insertion makes the vector.
    fn insert(&mut self, vector: Option<Reg>, from: Address, position: i32) -> Reg;

    /// An instruction that every level has: its codes with AVX-512 and with AVX2.
    fn instruction(
        &mut self,
        codes: [Code; 2],
        class: RegClass,
        operands: Vec<Operand>,
        cost: (Units, u8),
    ) -> Reg;

    /// Two lanes of `a` and two of `b` in each 128 bits, selected by `lanes`, as `vshufps` does.
    fn shuffle(&mut self, a: Reg, b: Reg, lanes: u32) -> Reg;

    /// The first half of both vectors of 256 bits, or the second.
    fn halves_of(&mut self, [a, b]: [Reg; 2], second: bool) -> Reg {
        let codes = [Code::VEX_Vperm2i128_ymm_ymm_ymmm256_imm8; 2];
        let halves = Operand::Immediate(if second { 0x31 } else { 0x20 });
        let operands = vec![Operand::Reg(a), Operand::Reg(b), halves];
        self.instruction(codes, RegClass::Vector, operands, (Units::PORT_5, latency::CROSSING))
    }

    /// An operation on two vectors.
    fn operation(&mut self, operation: Operation, a: Reg, b: Operand) -> Reg;

    /// A vector that repeats `element`, as an operand.
    fn repeated(&mut self, element: &[u8]) -> Operand;

    /// The same in a register.
    fn repeated_in_register(&mut self, element: &[u8]) -> Reg;

    /// Each 128 bits with the bytes in the order of `from`; 0 where that is 0x80.
    fn bytes(&mut self, vector: Reg, from: [u8; 16]) -> Reg {
        let from = self.repeated(&from);
        self.operation(Operation::BYTES, vector, from)
    }

    /// Each lane shifted left.
    fn shifted_up(&mut self, lanes: Reg, bits: u32) -> Reg {
        let codes = [Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8, Code::VEX_Vpslld_ymm_ymm_imm8];
        let operands = vec![Operand::Reg(lanes), Operand::Immediate(bits as i32)];
        self.instruction(codes, RegClass::Vector, operands, (Units::COMPARE, latency::SIMPLE))
    }

    /// A number in all lanes.
    fn number(&mut self, number: u32) -> Operand {
        self.repeated(&number.to_le_bytes())
    }

    /// The same in a register.
    fn number_in_register(&mut self, number: u32) -> Reg {
        self.repeated_in_register(&number.to_le_bytes())
    }

    /// The result in each lane; `None` if there is no instruction for it.
    fn arithmetic(&mut self, op: Arithmetic, left: Reg, right: Operand) -> Option<Reg> {
        Some(self.operation(Operation::arithmetic(op)?, left, right))
    }

    /// The lanes of `under` for which the comparison has the outcome `holds`.
    fn compare(
        &mut self,
        comparison: LaneComparison,
        operands: (Reg, Operand),
        holds: bool,
        under: Option<Reg>,
    ) -> Mask;

    /// The same for a lane that is greater than another number, both of them at most `i32::MAX`.
    fn small_above(&mut self, operands: (Reg, Operand), holds: bool, under: Option<Reg>) -> Mask;

    /// The lanes of `under` that have any bit of `bits`, or none if not `any`.
    fn any_bit(&mut self, lanes: Reg, bits: Operand, any: bool, under: Option<Reg>) -> Mask;

    /// The lanes of `then` that `mask` has, and the others of `otherwise`.
    fn choice(&mut self, mask: Reg, then: Reg, otherwise: Reg) -> Reg;

    /// A vector's lanes that `mask` has, and 0 in the others.
    fn only(&mut self, mask: Mask, vector: Operand) -> Reg;

    /// Looks for both halves of each lane among `constants`, for [`Vectors::half`].
    fn halves(&mut self, lanes: Reg, constants: &[u16]) -> Reg;

    /// The lanes of `under` whose half, the high one or the low one, was found; or those where not.
    fn half(&mut self, found: Reg, high: bool, holds: bool, under: Option<Reg>) -> Mask;

    /// Stores the verdicts of an iteration.
    fn verdicts(&mut self, outcome: Accepted, accept: u32);

    /// Stores the mask of packets left to `list`.
    fn leave(&mut self, packets: Reg);
}
