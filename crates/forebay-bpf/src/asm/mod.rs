//! An assembler for BPF programs generated at run time.
//!
//! [`Assembler`] collects instructions that jump to [`Label`]s, bound before or after the
//! jump; [`Assembler::finish`] lays them out and returns [`Code`], ready to be loaded.
//! Conditional jumps have 16 bits for a distance: one that is too far goes through a 32-bit
//! jump right after it (Linux 6.6 and later), which only filters of thousands of
//! instructions need. Long jumps are found by lengthening until nothing changes; as jumps
//! only grow, this terminates.
//!
//! The assembler checks only what it needs to lay out code. Whether a program is safe is
//! decided by the kernel's verifier, whose message is part of the error if a program is
//! refused.

mod code;
mod instruction;
mod text;

use std::os::fd::{AsFd, AsRawFd};

use code::Binding;

pub use code::Code;
pub use instruction::{Alu, Condition, Helper, Instruction, Label, Operand, Register, Size, Width};

/// The most slots (8 bytes of code) of a program, a limit of the kernel's verifier
/// (`BPF_COMPLEXITY_LIMIT_INSNS`).
pub const MAX_SLOTS: usize = 1_000_000;

/// Why instructions cannot be assembled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// A jump to an unbound label.
    #[error("instruction {index} jumps to the label `{label}`, which is not bound")]
    Unbound {
        /// The instruction's index, from 0.
        index: usize,
        /// The label's name.
        label: &'static str,
    },
    /// A label is bound twice.
    #[error("the label `{label}` is bound to two places")]
    BoundTwice {
        /// The label's name.
        label: &'static str,
    },
    /// The code exceeds the kernel's limit.
    #[error("the program takes {slots} slots, and the kernel allows {MAX_SLOTS}")]
    TooLong {
        /// Slots of 8 bytes.
        slots: usize,
    },
}

/// Instructions and labels under construction.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    instructions: Vec<Instruction>,
    labels: Vec<Binding>,
    bound_twice: Option<&'static str>,
    compiled: Vec<[u8; 8]>,
}

impl Assembler {
    /// No instructions yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A new, unbound label; the name is for listings and errors.
    pub fn label(&mut self, name: &'static str) -> Label {
        self.labels.push(Binding { name, at: None });
        Label(self.labels.len() as u32 - 1)
    }

    /// Binds `label` to the next instruction.
    pub fn bind(&mut self, label: Label) {
        let at = self.instructions.len();
        let binding = &mut self.labels[label.0 as usize];
        if binding.at.replace(at).is_some() {
            self.bound_twice = Some(binding.name);
        }
    }

    /// Whether a jump to `label` exists. The kernel refuses unreachable code.
    #[must_use]
    pub fn is_used(&self, label: Label) -> bool {
        self.instructions.iter().any(|instruction| instruction.target() == Some(label))
    }

    /// Appends an instruction.
    pub fn emit(&mut self, instruction: Instruction) {
        self.instructions.push(instruction);
    }

    /// Appends compiled code, with jumps inside it only.
    pub(crate) fn append(&mut self, code: &[[u8; 8]]) {
        let first = self.compiled.len();
        self.compiled.extend(code);
        self.emit(Instruction::Compiled { first, slots: code.len() });
    }

    /// `dst = dst op src`, 64 bits.
    pub fn alu(&mut self, op: Alu, dst: Register, src: impl Into<Operand>) {
        self.emit(Instruction::Alu { width: Width::W64, op, dst, src: src.into() });
    }

    /// `dst = dst op src`, the lower 32 bits; the upper ones become 0.
    pub fn alu32(&mut self, op: Alu, dst: Register, src: impl Into<Operand>) {
        self.emit(Instruction::Alu { width: Width::W32, op, dst, src: src.into() });
    }

    /// `dst = src`, 64 bits.
    pub fn mov(&mut self, dst: Register, src: impl Into<Operand>) {
        self.alu(Alu::Mov, dst, src);
    }

    /// `dst = *(base + offset)`.
    pub fn load(&mut self, size: Size, dst: Register, base: Register, offset: i16) {
        self.emit(Instruction::Load { size, dst, base, offset });
    }

    /// `dst = *(base + offset)`, converted from network byte order.
    pub fn load_network(&mut self, size: Size, dst: Register, base: Register, offset: i16) {
        self.load(size, dst, base, offset);
        self.from_big_endian(size, dst);
    }

    /// Converts `size` bytes of `dst` from network byte order.
    pub fn from_big_endian(&mut self, size: Size, dst: Register) {
        if size != Size::Byte {
            self.emit(Instruction::FromBigEndian { size, dst });
        }
    }

    /// `*(base + offset) = src`.
    pub fn store(&mut self, size: Size, base: Register, offset: i16, src: impl Into<Operand>) {
        self.emit(Instruction::Store { size, base, offset, src: src.into() });
    }

    /// Jumps to `target`.
    pub fn jump(&mut self, target: Label) {
        self.emit(Instruction::Jump { target });
    }

    /// Jumps to `target` if the 64-bit comparison of `dst` with `src` holds.
    pub fn branch(
        &mut self,
        condition: Condition,
        dst: Register,
        src: impl Into<Operand>,
        target: Label,
    ) {
        let src = src.into();
        self.emit(Instruction::Branch { width: Width::W64, condition, dst, src, target });
    }

    /// Jumps to `target` if the comparison of the lower 32 bits of `dst` with `src` holds.
    pub fn branch32(
        &mut self,
        condition: Condition,
        dst: Register,
        src: impl Into<Operand>,
        target: Label,
    ) {
        let src = src.into();
        self.emit(Instruction::Branch { width: Width::W32, condition, dst, src, target });
    }

    /// `dst` = the map, for helpers. The map must stay open until the code is loaded.
    pub fn load_map(&mut self, dst: Register, map: &impl AsFd) {
        self.emit(Instruction::LoadMap { dst, fd: map.as_fd().as_raw_fd() });
    }

    /// `dst` = address of byte `offset` in the only element of an array map, which must
    /// stay open until the code is loaded.
    pub fn load_map_value(&mut self, dst: Register, map: &impl AsFd, offset: u32) {
        self.emit(Instruction::LoadMapValue { dst, fd: map.as_fd().as_raw_fd(), offset });
    }

    /// `R0 = helper(R1, …)`.
    pub fn call(&mut self, helper: Helper) {
        self.emit(Instruction::Call { helper });
    }

    /// Ends the program with R0.
    pub fn exit(&mut self) {
        self.emit(Instruction::Exit);
    }

    /// Ends the program with `value`.
    pub fn exit_with(&mut self, value: i32) {
        self.mov(Register::R0, value);
        self.exit();
    }

    /// Lays out the instructions.
    ///
    /// # Errors
    /// If a label is used but not bound, or bound twice, or the code is too long.
    pub fn finish(self) -> Result<Code, AssembleError> {
        if let Some(label) = self.bound_twice {
            return Err(AssembleError::BoundTwice { label });
        }
        let targets = self.targets()?;
        let (starts, long) = place(&self.instructions, &targets);
        let slots = starts[self.instructions.len()];
        if slots > MAX_SLOTS {
            return Err(AssembleError::TooLong { slots });
        }
        let mut code = Vec::with_capacity(slots);
        for (i, &instruction) in self.instructions.iter().enumerate() {
            let end = starts[i + 1];
            // At most MAX_SLOTS apart, so this fits.
            let distance = targets[i].map_or(0, |target| starts[target] as i32 - end as i32);
            if let Instruction::Compiled { first, slots } = instruction {
                code.extend(&self.compiled[first..first + slots]);
            } else if long[i] {
                // The branch skips the next jump to reach the long one; the next jump skips
                // that.
                instruction.encode(1, &mut code);
                let target = Label(0);
                Instruction::Jump { target }.encode(1, &mut code);
                Instruction::Jump { target }.encode(distance, &mut code);
            } else {
                instruction.encode(distance, &mut code);
            }
        }
        Ok(Code { slots: code, instructions: self.instructions, starts, labels: self.labels })
    }

    /// By instruction: its jump target.
    fn targets(&self) -> Result<Vec<Option<usize>>, AssembleError> {
        let target = |(index, instruction): (usize, &Instruction)| {
            let Some(Label(label)) = instruction.target() else { return Ok(None) };
            let binding = self.labels[label as usize];
            let unbound = AssembleError::Unbound { index, label: binding.name };
            binding.at.filter(|&at| at < self.instructions.len()).map(Some).ok_or(unbound)
        };
        self.instructions.iter().enumerate().map(target).collect()
    }
}

impl Instruction {
    /// The jump target.
    fn target(self) -> Option<Label> {
        match self {
            Self::Jump { target } | Self::Branch { target, .. } => Some(target),
            _ => None,
        }
    }
}

/// The first slot of each instruction and of the end, and which conditional jumps are long.
fn place(instructions: &[Instruction], targets: &[Option<usize>]) -> (Vec<usize>, Vec<bool>) {
    let mut long = vec![false; instructions.len()];
    loop {
        let mut starts = Vec::with_capacity(instructions.len() + 1);
        let mut at = 0;
        for (instruction, &long) in instructions.iter().zip(&long) {
            starts.push(at);
            at += if long { 3 } else { instruction.slots() };
        }
        starts.push(at);
        let mut changed = false;
        for (i, instruction) in instructions.iter().enumerate() {
            let (Instruction::Branch { .. }, Some(target), false) =
                (instruction, targets[i], long[i])
            else {
                continue;
            };
            let distance = starts[target] as i64 - starts[i + 1] as i64;
            if i16::try_from(distance).is_err() {
                long[i] = true;
                changed = true;
            }
        }
        if !changed {
            return (starts, long);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Register::{FP, R0, R1, R2, R3};
    use super::*;

    fn bytes(build: impl FnOnce(&mut Assembler)) -> Vec<[u8; 8]> {
        let mut asm = Assembler::new();
        build(&mut asm);
        asm.finish().unwrap().slots
    }

    #[test]
    fn encodings_are_those_of_rfc_9669() {
        let code = bytes(|asm| {
            asm.mov(R0, -2);
            asm.alu32(Alu::Add, R1, R2);
            asm.load(Size::Half, R3, R1, 12);
            asm.store(Size::Double, FP, -8, R1);
            asm.store(Size::Byte, FP, -1, 7);
            asm.from_big_endian(Size::Half, R3);
            asm.emit(Instruction::LoadMapValue { dst: R1, fd: 0x5566_7788, offset: 0x1122_3344 });
            asm.call(Helper::GetSmpProcessorId);
            asm.append(&[[0xdb, 0x21, 8, 0, 0, 0, 0, 0]]);
            asm.exit();
        });
        let expected: &[[u8; 8]] = &[
            [0xb7, 0x00, 0, 0, 0xfe, 0xff, 0xff, 0xff],
            [0x0c, 0x21, 0, 0, 0, 0, 0, 0],
            [0x69, 0x13, 12, 0, 0, 0, 0, 0],
            [0x7b, 0x1a, 0xf8, 0xff, 0, 0, 0, 0],
            [0x72, 0x0a, 0xff, 0xff, 7, 0, 0, 0],
            [0xdc, 0x03, 0, 0, 16, 0, 0, 0],
            [0x18, 0x21, 0, 0, 0x88, 0x77, 0x66, 0x55],
            [0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11],
            [0x85, 0, 0, 0, 8, 0, 0, 0],
            [0xdb, 0x21, 8, 0, 0, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(code, expected);
    }

    #[test]
    fn jumps_lead_over_longer_instructions() {
        let code = bytes(|asm| {
            let end = asm.label("end");
            asm.branch(Condition::Less, R1, 5, end);
            asm.emit(Instruction::LoadMap { dst: R0, fd: 3 });
            asm.append(&[[0; 8]; 3]);
            asm.bind(end);
            asm.exit();
        });
        assert_eq!(code[0], [0xa5, 0x01, 5, 0, 5, 0, 0, 0]);
    }

    #[test]
    fn far_jumps_take_the_long_form() {
        for (filler, long) in [(32_767, false), (32_768, true)] {
            let code = bytes(|asm| {
                let end = asm.label("end");
                asm.branch32(Condition::Equal, R1, R2, end);
                (0..filler).for_each(|_| asm.mov(R0, 0));
                asm.bind(end);
                asm.exit();
            });
            if long {
                assert_eq!(code[0], [0x1e, 0x21, 1, 0, 0, 0, 0, 0]);
                assert_eq!(code[1], [0x05, 0, 1, 0, 0, 0, 0, 0]);
                assert_eq!(code[2], [0x06, 0, 0, 0, 0x00, 0x80, 0, 0]);
            } else {
                assert_eq!(code[0], [0x1e, 0x21, 0xff, 0x7f, 0, 0, 0, 0]);
            }
        }
    }

    #[test]
    fn labels_are_bound_once_and_inside() {
        let mut asm = Assembler::new();
        let label = asm.label("nowhere");
        asm.jump(label);
        let unbound = AssembleError::Unbound { index: 0, label: "nowhere" };
        assert_eq!(asm.clone().finish().unwrap_err(), unbound);
        asm.bind(label);
        assert_eq!(asm.clone().finish().unwrap_err(), unbound, "the end is no instruction");
        asm.exit();
        asm.bind(label);
        let twice = AssembleError::BoundTwice { label: "nowhere" };
        assert_eq!(asm.finish().unwrap_err(), twice);
    }
}
