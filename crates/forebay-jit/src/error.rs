//! Why a filter has no executable code.

use std::path::PathBuf;

use forebay_codegen::compile::CompileError;
use forebay_codegen::sliced::SlicedError;
use forebay_filter::ir::verify::IrError;
use rustix::io::Errno;

use crate::cpu::CpuError;
use crate::memory::MemoryError;

/// Why a filter cannot be compiled, or its code cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JitError {
    /// The instruction-set level is not usable.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// The filter's function violates a rule on which the safety of its code
    /// rests.
    #[error("the filter's function fails verification: {0}")]
    Function(#[from] IrError),
    /// The code generator failed.
    #[error(transparent)]
    Code(#[from] CompileError),
    /// Predicates of bit planes could not be compiled.
    #[error(transparent)]
    Sliced(#[from] SlicedError),
    /// No executable memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The entry is outside the instructions.
    #[error("the code's entry at byte {entry} is outside its {instructions} bytes of instructions")]
    Entry {
        /// The entry.
        entry: usize,
        /// Bytes of instructions.
        instructions: usize,
    },
    /// An unsupported group size.
    #[error("groups of {lanes} packets; 1 to 8 or a multiple of 8 up to 64 are supported")]
    Lanes {
        /// Packets a group.
        lanes: usize,
    },
    /// The code needs too much scratch memory.
    #[error("the code needs {wanted} bytes of scratch memory, and at most {most} are supported")]
    Scratch {
        /// Bytes needed.
        wanted: usize,
        /// Bytes available.
        most: usize,
    },
    /// The map for profilers cannot be written.
    #[error("perf map {}: {error}", .path.display())]
    PerfMap {
        /// The map.
        path: PathBuf,
        /// The system's reason.
        error: Errno,
    },
}

/// Why a link type has no filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// The expression does not compile for it.
    #[error(transparent)]
    Expression(#[from] forebay_filter::CompileError),
    /// The program has no executable code.
    #[error(transparent)]
    Code(#[from] JitError),
}
