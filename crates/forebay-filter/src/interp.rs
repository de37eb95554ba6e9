//! The reference interpreter: the verdict of a program on a packet.
//!
//! It is the specification of every compiled form of a filter, and follows
//! libpcap's `bpf_filter` in every bit of the result:
//!
//! * A, X and M\[\] start at 0. (libpcap before 1.10.4 leaves M\[\]
//!   uninitialised; its compiler writes no program for which that matters.)
//! * A load beyond the captured bytes ends the program with 0, wherever it is
//!   in the filter's logic, and only if it is executed. Offsets do not wrap: X
//!   + k is compared as a 33-bit number.
//! * For the kernel, absolute loads from `0xfffff000` on are ancillary data; a
//!   saved packet has none, so they end the program with 0 as well.
//! * `LEN` is the length on the wire, bounds are the captured length.
//! * A shift by 32 or more gives 0. For a constant count C leaves libpcap's
//!   result undefined; its compiler refuses such expressions.
//! * Division and remainder by X = 0 end the program with 0.
//! * Comparisons are unsigned; `ldxb 4*([k]&0xf)` does not change A.
//! * The result is the number of bytes to keep, not a Boolean.
//!
//! A program may loop by a backward `ja` (see [`crate::verify`]). The loops
//! that libpcap generates walk extension headers and advance at least eight
//! bytes in each iteration, so they end with the packet. A hand-written loop
//! need not end. A run is therefore ended, with 0, at backward jump number
//! captured length + 4097: no loop that advances in the packet reaches it, and
//! a packet takes bounded time.
//!
//! Programs are decoded once into [`Op`]s. Pairs that are frequent in filters
//! become one operation: a load and the test of its result, a mask and a
//! comparison of its result, two comparisons in a row. The second of a pair
//! also stays in its own place, for jumps to it, so that operation numbers are
//! instruction numbers.

use crate::program::instruction::{ANCILLARY, Alu, Instruction, Operand, Operation, Size, Test};
use crate::verify::MEMORY_CELLS;

/// Backward jumps allowed for a packet besides one for each captured byte.
const SPARE_BACKWARD_JUMPS: usize = 4096;

/// A program decoded for interpretation.
#[derive(Debug)]
pub(crate) struct Code(Box<[Op]>);

/// The targets of a conditional jump: instructions to skip if true, if false.
#[derive(Clone, Copy, Debug)]
struct Skip {
    jt: u8,
    jf: u8,
}

/// An operation of the interpreter, dispatched by one jump. `at` is an offset
/// in the packet.
#[derive(Clone, Copy, Debug)]
enum Op {
    LoadByte(u32),
    LoadHalf(u32),
    LoadWord(u32),
    LoadByteIndirect(u32),
    LoadHalfIndirect(u32),
    LoadWordIndirect(u32),
    LoadLength,
    LoadImmediate(u32),
    LoadMemory(u8),
    LoadXLength,
    LoadXImmediate(u32),
    LoadXMemory(u8),
    LoadXHeader(u32),
    Store(u8),
    StoreX(u8),
    AndK(u32),
    ArithmeticK(Alu, u32),
    ArithmeticX(Alu),
    Negate,
    Jump(u32),
    JumpBack(u32),
    EqualK(Skip, u32),
    GreaterK(Skip, u32),
    GreaterOrEqualK(Skip, u32),
    BitsK(Skip, u32),
    BranchX(Test, Skip),
    LoadByteEqual {
        skip: Skip,
        at: u32,
        k: u32,
    },
    LoadHalfEqual {
        skip: Skip,
        at: u32,
        k: u32,
    },
    LoadWordEqual {
        skip: Skip,
        at: u32,
        k: u32,
    },
    LoadHalfBits {
        skip: Skip,
        at: u32,
        k: u32,
    },
    LoadHalfIndirectEqual {
        skip: Skip,
        at: u32,
        k: u32,
    },
    AndEqual {
        skip: Skip,
        mask: u32,
        k: u32,
    },
    /// Skips `jt` if A is `first`; else skips by `skip`, from the next
    /// operation.
    EqualElseEqual {
        jt: u8,
        skip: Skip,
        first: u32,
        second: u32,
    },
    Return(u32),
    ReturnA,
    MoveAToX,
    MoveXToA,
}

impl Code {
    /// Decodes verified instructions.
    pub(crate) fn new(instructions: &[Instruction]) -> Self {
        let decode = |index: usize| {
            let next = instructions.get(index + 1).and_then(|next| next.decode());
            let operation = instructions[index].decode();
            // Verified code has only known instructions and ends with a return.
            operation.map_or(Op::Return(0), |operation| Op::new(operation, next, index))
        };
        Self((0..instructions.len()).map(decode).collect())
    }
}

impl Op {
    fn new(operation: Operation, next: Option<Operation>, index: usize) -> Self {
        if let Some(pair) = Self::pair(operation, next) {
            return pair;
        }
        match operation {
            Operation::LoadAbsolute(size, at) => match (size, at) {
                (_, ANCILLARY..) => Self::Return(0),
                (Size::Byte, at) => Self::LoadByte(at),
                (Size::Half, at) => Self::LoadHalf(at),
                (Size::Word, at) => Self::LoadWord(at),
            },
            Operation::LoadIndirect(size, at) => match size {
                Size::Byte => Self::LoadByteIndirect(at),
                Size::Half => Self::LoadHalfIndirect(at),
                Size::Word => Self::LoadWordIndirect(at),
            },
            Operation::LoadLength => Self::LoadLength,
            Operation::LoadImmediate(k) => Self::LoadImmediate(k),
            Operation::LoadMemory(cell) => Self::LoadMemory(cell as u8),
            Operation::LoadXLength => Self::LoadXLength,
            Operation::LoadXImmediate(k) => Self::LoadXImmediate(k),
            Operation::LoadXMemory(cell) => Self::LoadXMemory(cell as u8),
            Operation::LoadXHeader(at) => Self::LoadXHeader(at),
            Operation::Store(cell) => Self::Store(cell as u8),
            Operation::StoreX(cell) => Self::StoreX(cell as u8),
            Operation::Arithmetic(Alu::And, Operand::K(k)) => Self::AndK(k),
            Operation::Arithmetic(alu, Operand::K(k)) => Self::ArithmeticK(alu, k),
            Operation::Arithmetic(alu, Operand::X) => Self::ArithmeticX(alu),
            Operation::Negate => Self::Negate,
            Operation::Jump(distance) => {
                let target = (index as u32 + 1).wrapping_add(distance);
                if target as usize > index { Self::Jump(distance) } else { Self::JumpBack(target) }
            }
            Operation::Branch(test, operand, jt, jf) => match (operand, test, Skip { jt, jf }) {
                (Operand::X, test, skip) => Self::BranchX(test, skip),
                (Operand::K(k), Test::Eq, skip) => Self::EqualK(skip, k),
                (Operand::K(k), Test::Gt, skip) => Self::GreaterK(skip, k),
                (Operand::K(k), Test::Ge, skip) => Self::GreaterOrEqualK(skip, k),
                (Operand::K(k), Test::Set, skip) => Self::BitsK(skip, k),
            },
            Operation::ReturnConstant(k) => Self::Return(k),
            Operation::ReturnA => Self::ReturnA,
            Operation::MoveAToX => Self::MoveAToX,
            Operation::MoveXToA => Self::MoveXToA,
        }
    }

    /// One operation for `operation` and the test that follows it.
    fn pair(operation: Operation, next: Option<Operation>) -> Option<Self> {
        let Some(Operation::Branch(test, Operand::K(k), jt, jf)) = next else {
            return None;
        };
        let skip = Skip { jt, jf };
        match (operation, test) {
            (Operation::LoadAbsolute(_, ANCILLARY..), _) => None,
            (Operation::LoadAbsolute(Size::Byte, at), Test::Eq) => {
                Some(Self::LoadByteEqual { skip, at, k })
            }
            (Operation::LoadAbsolute(Size::Half, at), Test::Eq) => {
                Some(Self::LoadHalfEqual { skip, at, k })
            }
            (Operation::LoadAbsolute(Size::Word, at), Test::Eq) => {
                Some(Self::LoadWordEqual { skip, at, k })
            }
            (Operation::LoadAbsolute(Size::Half, at), Test::Set) => {
                Some(Self::LoadHalfBits { skip, at, k })
            }
            (Operation::LoadIndirect(Size::Half, at), Test::Eq) => {
                Some(Self::LoadHalfIndirectEqual { skip, at, k })
            }
            (Operation::Arithmetic(Alu::And, Operand::K(mask)), Test::Eq) => {
                Some(Self::AndEqual { skip, mask, k })
            }
            (Operation::Branch(Test::Eq, Operand::K(first), jt, 0), Test::Eq) => {
                Some(Self::EqualElseEqual { jt, skip, first, second: k })
            }
            _ => None,
        }
    }
}

impl Skip {
    /// The operations to continue with, of those after the jump. Checking
    /// bounds in both branches makes the compiler keep a branch, which the
    /// processor predicts; a conditional move would wait for the packet.
    #[inline(always)]
    fn follow(self, rest: &[Op], taken: bool) -> Option<&[Op]> {
        if taken { rest.get(usize::from(self.jt)..) } else { rest.get(usize::from(self.jf)..) }
    }
}

#[inline(always)]
fn byte(packet: &[u8], x: u32, at: u32) -> Option<u32> {
    packet.get(x as usize + at as usize).map(|&byte| u32::from(byte))
}

#[inline(always)]
fn half(packet: &[u8], x: u32, at: u32) -> Option<u32> {
    let at = x as usize + at as usize;
    let bytes = packet.get(at..at + 2)?.first_chunk()?;
    Some(u32::from(u16::from_be_bytes(*bytes)))
}

#[inline(always)]
fn word(packet: &[u8], x: u32, at: u32) -> Option<u32> {
    let at = x as usize + at as usize;
    let bytes = packet.get(at..at + 4)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}

/// `a` op `b`; `None` for a division by 0.
#[inline(always)]
fn arithmetic(alu: Alu, a: u32, b: u32) -> Option<u32> {
    match alu {
        Alu::Add => Some(a.wrapping_add(b)),
        Alu::Sub => Some(a.wrapping_sub(b)),
        Alu::Mul => Some(a.wrapping_mul(b)),
        Alu::Div => a.checked_div(b),
        Alu::Mod => a.checked_rem(b),
        Alu::And => Some(a & b),
        Alu::Or => Some(a | b),
        Alu::Xor => Some(a ^ b),
        Alu::Lsh => Some(a.checked_shl(b).unwrap_or(0)),
        Alu::Rsh => Some(a.checked_shr(b).unwrap_or(0)),
    }
}

#[inline(always)]
fn holds(test: Test, a: u32, b: u32) -> bool {
    match test {
        Test::Eq => a == b,
        Test::Gt => a > b,
        Test::Ge => a >= b,
        Test::Set => a & b != 0,
    }
}

/// The memory cell of a verified instruction, below [`MEMORY_CELLS`].
#[inline(always)]
fn cell(number: u8) -> usize {
    usize::from(number) % MEMORY_CELLS
}

impl Code {
    /// The verdict; `None` if the program ended early with 0.
    pub(crate) fn run(&self, packet: &[u8], wire_len: u32) -> Option<u32> {
        let (mut a, mut x) = (0_u32, 0_u32);
        let mut memory = [0; MEMORY_CELLS];
        let mut backward_jumps_left = packet.len() + SPARE_BACKWARD_JUMPS;
        // The operations from the next one on.
        let mut rest = &*self.0;
        loop {
            let (&op, following) = rest.split_first()?;
            rest = following;
            match op {
                Op::LoadByte(at) => a = byte(packet, 0, at)?,
                Op::LoadHalf(at) => a = half(packet, 0, at)?,
                Op::LoadWord(at) => a = word(packet, 0, at)?,
                Op::LoadByteIndirect(at) => a = byte(packet, x, at)?,
                Op::LoadHalfIndirect(at) => a = half(packet, x, at)?,
                Op::LoadWordIndirect(at) => a = word(packet, x, at)?,
                Op::LoadLength => a = wire_len,
                Op::LoadImmediate(k) => a = k,
                Op::LoadMemory(number) => a = memory[cell(number)],
                Op::LoadXLength => x = wire_len,
                Op::LoadXImmediate(k) => x = k,
                Op::LoadXMemory(number) => x = memory[cell(number)],
                Op::LoadXHeader(at) => x = (byte(packet, 0, at)? & 0xf) << 2,
                Op::Store(number) => memory[cell(number)] = a,
                Op::StoreX(number) => memory[cell(number)] = x,
                Op::AndK(k) => a &= k,
                Op::ArithmeticK(alu, k) => a = arithmetic(alu, a, k)?,
                Op::ArithmeticX(alu) => a = arithmetic(alu, a, x)?,
                Op::Negate => a = a.wrapping_neg(),
                Op::Jump(distance) => rest = rest.get(distance as usize..)?,
                Op::JumpBack(target) => {
                    backward_jumps_left = backward_jumps_left.checked_sub(1)?;
                    rest = self.0.get(target as usize..)?;
                }
                Op::EqualK(skip, k) => rest = skip.follow(rest, a == k)?,
                Op::GreaterK(skip, k) => rest = skip.follow(rest, a > k)?,
                Op::GreaterOrEqualK(skip, k) => rest = skip.follow(rest, a >= k)?,
                Op::BitsK(skip, k) => rest = skip.follow(rest, a & k != 0)?,
                Op::BranchX(test, skip) => rest = skip.follow(rest, holds(test, a, x))?,
                Op::LoadByteEqual { skip, at, k } => {
                    a = byte(packet, 0, at)?;
                    rest = skip.follow(rest.get(1..)?, a == k)?;
                }
                Op::LoadHalfEqual { skip, at, k } => {
                    a = half(packet, 0, at)?;
                    rest = skip.follow(rest.get(1..)?, a == k)?;
                }
                Op::LoadWordEqual { skip, at, k } => {
                    a = word(packet, 0, at)?;
                    rest = skip.follow(rest.get(1..)?, a == k)?;
                }
                Op::LoadHalfBits { skip, at, k } => {
                    a = half(packet, 0, at)?;
                    rest = skip.follow(rest.get(1..)?, a & k != 0)?;
                }
                Op::LoadHalfIndirectEqual { skip, at, k } => {
                    a = half(packet, x, at)?;
                    rest = skip.follow(rest.get(1..)?, a == k)?;
                }
                Op::AndEqual { skip, mask, k } => {
                    a &= mask;
                    rest = skip.follow(rest.get(1..)?, a == k)?;
                }
                Op::EqualElseEqual { jt, first, .. } if a == first => {
                    rest = rest.get(usize::from(jt)..)?;
                }
                Op::EqualElseEqual { skip, second, .. } => {
                    rest = skip.follow(rest.get(1..)?, a == second)?;
                }
                Op::Return(k) => return Some(k),
                Op::ReturnA => return Some(a),
                Op::MoveAToX => x = a,
                Op::MoveXToA => a = x,
            }
        }
    }
}
