//! Assembled code.

use super::instruction::Instruction;

/// Assembled code, for [`crate::program::Program::load`].
#[derive(Clone, Debug)]
pub struct Code {
    pub(super) slots: Vec<[u8; 8]>,
    pub(super) instructions: Vec<Instruction>,
    /// The first slot of each instruction, and the end of the code.
    pub(super) starts: Vec<usize>,
    pub(super) labels: Vec<Binding>,
}

impl Code {
    /// The code as passed to `bpf(2)`: `struct bpf_insn`, one after another.
    #[must_use]
    pub fn slots(&self) -> &[[u8; 8]] {
        &self.slots
    }
}

/// The position of a label.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding {
    pub(super) name: &'static str,
    /// Index of the instruction that follows it.
    pub(super) at: Option<usize>,
}
