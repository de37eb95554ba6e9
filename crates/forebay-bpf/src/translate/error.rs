//! Why a filter cannot be translated.

use forebay_filter::program::instruction::Instruction;

/// Why a classic filter cannot be translated to BPF.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("instruction {index} of the filter, `{}`: {obstacle}", instruction.assembly(*index))]
pub struct TranslateError {
    /// The instruction's index, from 0.
    pub index: usize,
    /// The instruction.
    pub instruction: Instruction,
    /// The obstacle.
    pub obstacle: Obstacle,
}

/// An obstacle to the translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// A loop.
    #[error("the kernel's BPF allows no backward jump (`protochain` loops over headers)")]
    BackwardJump,
    /// Ancillary data.
    #[error("a load from 0xfffff000 on asks for ancillary data, which a frame does not have")]
    Ancillary,
    /// An unknown instruction code; verified programs have none.
    #[error("no classic BPF instruction has this code")]
    Unknown,
}
