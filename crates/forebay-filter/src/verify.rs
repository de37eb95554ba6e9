//! The verifier: which instruction sequences are valid programs.
//!
//! There are two sets of rules. [`Profile::Libpcap`] has those of libpcap for
//! programs that it interprets (`bpf_validate`); [`Profile::Kernel`] has those
//! of Linux for classic filters that are attached to a socket
//! (`net/core/filter.c`, `bpf_check_classic`). Verification is one pass, in
//! time proportional to the length of the program.
//!
//! Both profiles:
//!
//! 1. There is at least one instruction, and not more than the profile's limit.
//! 2. Every code is implemented by the interpreters. `bpf_validate` accepts
//!    some others, for which `bpf_filter` then aborts the process.
//! 3. A memory cell that is loaded or stored is one of the 16.
//! 4. Division and remainder are not by the constant 0.
//! 5. Both targets of a conditional jump, and the target of an unconditional
//!    one, are instructions of the program.
//! 6. The last instruction is a return.
//!
//! libpcap takes the distance of an unconditional jump as signed, and generates
//! backward jumps for `ip protochain` and `ip6 protochain`, so under its
//! profile a program may loop; the interpreter bounds that (see
//! [`crate::Program::run`]). The kernel's profile adds:
//!
//! 7. At most 4096 instructions.
//! 8. Jumps go forward only.
//! 9. A shift by a constant is by less than 32. Under libpcap's profile such a
//!    shift is allowed, and gives 0.
//! 10. A memory cell that is loaded was stored before on every path. The kernel
//!     keeps one mask
//!     of stored cells while it walks the program from top to bottom. After a return it keeps
//!     the mask of the code above, although that code cannot fall through; so does this
//!     verifier.
//! 11. An absolute load at or above `0xfffff000` names an ancillary datum of
//!     the kernel.

use std::fmt;

use crate::program::instruction::{
    ANCILLARY, Alu, Instruction, Operand, Operation, ancillary_name,
};
use crate::program::text::MAX_INSTRUCTIONS;

/// Cells of scratch memory, M\[0\] to M\[15\].
pub const MEMORY_CELLS: usize = 16;

/// The set of rules that a program must satisfy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// libpcap's own interpreter.
    Libpcap,
    /// The Linux kernel's socket filters.
    Kernel,
}

impl Profile {
    /// The most instructions of a program.
    #[must_use]
    pub fn max_instructions(self) -> usize {
        match self {
            Self::Libpcap => MAX_INSTRUCTIONS,
            Self::Kernel => 4096,
        }
    }
}

/// A rule that an instruction violates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The code is one that the interpreters implement.
    KnownCode,
    /// The memory cell is one of the 16.
    MemoryCell,
    /// The constant divisor is not 0.
    DivisionByZero,
    /// The jump lands inside the program.
    JumpInside,
    /// The last instruction is a return.
    EndsWithReturn,
    /// The jump goes forward.
    ForwardJump,
    /// The constant shift count is below 32.
    ShiftCount,
    /// The memory cell was stored on every path to its load.
    StoredBefore,
    /// The ancillary datum exists.
    Ancillary,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KnownCode => "no classic BPF instruction has this code",
            Self::MemoryCell => "the memory cell must be 0 to 15",
            Self::DivisionByZero => "the divisor must not be the constant 0",
            Self::JumpInside => "the jump must land inside the program",
            Self::EndsWithReturn => "the last instruction must be a return",
            Self::ForwardJump => "the kernel allows forward jumps only, inside the program",
            Self::ShiftCount => "the kernel allows constant shifts by 0 to 31 only",
            Self::StoredBefore => {
                "the kernel allows a load of a memory cell only where every way there stores it"
            }
            Self::Ancillary => "the kernel has no ancillary data at this offset",
        })
    }
}

/// Why a sequence of instructions is not a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// There is no instruction.
    #[error("a program needs at least one instruction")]
    Empty,
    /// There are too many instructions.
    #[error("the program has {length} instructions, and at most {limit} are allowed")]
    TooLong {
        /// Instructions given.
        length: usize,
        /// Instructions allowed.
        limit: usize,
    },
    /// An instruction violates a rule.
    #[error("instruction {index}, `{}`: {rule}", instruction.assembly(*index))]
    Instruction {
        /// Its index, from 0.
        index: usize,
        /// The instruction itself.
        instruction: Instruction,
        /// The rule.
        rule: Rule,
    },
}

/// Checks that `instructions` are a program under `profile`.
///
/// # Errors
/// The rule violated by the first offending instruction.
pub fn verify(instructions: &[Instruction], profile: Profile) -> Result<(), VerifyError> {
    let limit = profile.max_instructions();
    let length = instructions.len();
    if length > limit {
        return Err(VerifyError::TooLong { length, limit });
    }
    let Some((last, _)) = instructions.split_last() else {
        return Err(VerifyError::Empty);
    };
    let broken = |index, rule| {
        let instruction = instructions[index];
        Err(VerifyError::Instruction { index, instruction, rule })
    };

    let mut stores = StoredCells::new(length);
    for (index, instruction) in instructions.iter().enumerate() {
        let Some(operation) = instruction.decode() else {
            return broken(index, Rule::KnownCode);
        };
        if let Some(rule) = broken_rule(operation, index, length) {
            return broken(index, rule);
        }
        if profile == Profile::Kernel {
            if let Some(rule) = broken_kernel_rule(operation, index, length) {
                return broken(index, rule);
            }
            if !stores.pass(operation, index) {
                return broken(index, Rule::StoredBefore);
            }
        }
    }
    match last.decode() {
        Some(Operation::ReturnConstant(_) | Operation::ReturnA) => Ok(()),
        _ => broken(length - 1, Rule::EndsWithReturn),
    }
}

/// Rules 3 to 5 for one instruction.
fn broken_rule(operation: Operation, index: usize, length: usize) -> Option<Rule> {
    match operation {
        Operation::LoadMemory(cell)
        | Operation::LoadXMemory(cell)
        | Operation::Store(cell)
        | Operation::StoreX(cell) => (cell as usize >= MEMORY_CELLS).then_some(Rule::MemoryCell),
        Operation::Arithmetic(Alu::Div | Alu::Mod, Operand::K(0)) => Some(Rule::DivisionByZero),
        Operation::Jump(distance) => {
            // `length` is far below 2³¹, so the sum wraps at most once.
            let target = (index as u32 + 1).wrapping_add(distance);
            (target as usize >= length).then_some(Rule::JumpInside)
        }
        Operation::Branch(_, _, jt, jf) => {
            let target = index + 1 + usize::from(jt.max(jf));
            (target >= length).then_some(Rule::JumpInside)
        }
        _ => None,
    }
}

/// Rules 8, 9 and 11 for one instruction.
fn broken_kernel_rule(operation: Operation, index: usize, length: usize) -> Option<Rule> {
    match operation {
        Operation::Jump(distance) if distance as usize >= length - index - 1 => {
            Some(Rule::ForwardJump)
        }
        Operation::Arithmetic(Alu::Lsh | Alu::Rsh, Operand::K(32..)) => Some(Rule::ShiftCount),
        Operation::LoadAbsolute(_, offset)
            if offset >= ANCILLARY && ancillary_name(offset).is_none() =>
        {
            Some(Rule::Ancillary)
        }
        _ => None,
    }
}

/// Rule 10: the cells that are stored on all paths to an instruction. As all
/// jumps go forward, one walk from the top sees every path before its target.
struct StoredCells {
    /// By instruction: the cells stored on the paths that jump to it.
    by_jump: Vec<u16>,
    /// Cells stored on the path that falls through to the next instruction.
    now: u16,
}

impl StoredCells {
    fn new(length: usize) -> Self {
        Self { by_jump: vec![u16::MAX; length], now: 0 }
    }

    /// Advances past instruction `index`, whose cells and targets exist;
    /// returns whether it loads only cells that were stored.
    fn pass(&mut self, operation: Operation, index: usize) -> bool {
        self.now &= self.by_jump[index];
        match operation {
            Operation::Store(cell) | Operation::StoreX(cell) => self.now |= 1 << cell,
            Operation::LoadMemory(cell) | Operation::LoadXMemory(cell) => {
                return self.now & 1 << cell != 0;
            }
            Operation::Jump(distance) => self.leave(&[index + 1 + distance as usize]),
            Operation::Branch(_, _, jt, jf) => {
                let next = index + 1;
                self.leave(&[next + usize::from(jt), next + usize::from(jf)]);
            }
            _ => {}
        }
        true
    }

    fn leave(&mut self, targets: &[usize]) {
        for &target in targets {
            self.by_jump[target] &= self.now;
        }
        self.now = u16::MAX;
    }
}
