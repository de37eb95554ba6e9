//! Why a filter has no executable code.

use std::path::PathBuf;

use forebay_codegen::compile::CompileError;
use forebay_codegen::sliced::SlicedError;
use forebay_filter::ir::verify::IrError;
use rustix::io::Errno;

use crate::cpu::CpuError;
use crate::memory::MemoryError;

/// A filter that cannot be compiled or its code not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JitError {
    /// The instruction-set level cannot be used.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// The filter's function breaks a rule that the safety of its code rests on.
    #[error("the filter's function cannot be shown to be safe: {0}")]
    Function(#[from] IrError),
    /// The code generator failed.
    #[error(transparent)]
    Code(#[from] CompileError),
    /// Predicates of bit planes have no code.
    #[error(transparent)]
    Sliced(#[from] SlicedError),
    /// No executable memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Code whose entry is no instruction of it.
    #[error("the code's entry at byte {entry} is outside its {instructions} bytes of instructions")]
    Entry {
        /// Where the entry shall be.
        entry: usize,
        /// Bytes of instructions.
        instructions: usize,
    },
    /// Code for groups of a size that is not supported.
    #[error("groups of {lanes} packets; 1 to 8 or a multiple of 8 up to 64 are supported")]
    Lanes {
        /// Packets a group.
        lanes: usize,
    },
    /// Code that asks for too much working memory.
    #[error("the code wants {wanted} bytes of scratch memory, and at most {most} are supported")]
    Scratch {
        /// Bytes asked for.
        wanted: usize,
        /// Bytes there are.
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
