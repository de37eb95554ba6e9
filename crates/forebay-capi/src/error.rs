//! Why a call failed, and its status in C.

use forebay_filter::{CompileError, VerifyError};
use forebay_jit::cpu::CpuError;
use forebay_jit::{JitError, PacketsError, SetError};
use forebay_rules::choose::{EngineError, UnknownEngine};
use forebay_rules::language::load::LoadError;
use forebay_rules::linear::LinearError;

/// The result of a function of the header: its `enum forebay_status`, as C's `int`.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// Invalid arguments.
    InvalidArgument = 1,
    /// An expression, link type or program is refused.
    BadFilter = 2,
    /// The machine or its settings do not allow it.
    Unavailable = 3,
    /// A bug in the library.
    Internal = 4,
    /// A rule list is refused.
    BadRules = 5,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0} is a null pointer")]
    Null(&'static str),
    #[error("{0} is not aligned to the size of its elements")]
    Unaligned(&'static str),
    #[error("{0} has {1} elements, more than memory can hold")]
    TooMany(&'static str, usize),
    #[error("{0} shares memory with {1}")]
    Overlap(&'static str, &'static str),
    #[error("the expression is not in UTF-8")]
    Encoding,
    #[error(transparent)]
    Packets(PacketsError),
    #[error(transparent)]
    Expression(#[from] CompileError),
    #[error(transparent)]
    Program(#[from] VerifyError),
    #[error(transparent)]
    Rules(#[from] LoadError),
    #[error(transparent)]
    EngineName(#[from] UnknownEngine),
    #[error(transparent)]
    Cpu(#[from] CpuError),
    #[error(transparent)]
    Code(#[from] JitError),
    #[error("a mistake in libforebay: {0}")]
    Panic(String),
}

impl From<SetError> for Error {
    fn from(error: SetError) -> Self {
        match error {
            SetError::Expression(error) => Self::Expression(error),
            SetError::Code(error) => Self::Code(error),
        }
    }
}

impl Error {
    /// The status shows who can fix the problem: the programmer, the author of the filter
    /// or the rules, the machine's administrator, or this library's authors.
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Null(_)
            | Self::Unaligned(_)
            | Self::TooMany(..)
            | Self::Overlap(..)
            | Self::EngineName(_)
            | Self::Packets(_) => Status::InvalidArgument,
            Self::Encoding | Self::Program(_) => Status::BadFilter,
            Self::Expression(error) => match error {
                CompileError::TooLong { .. }
                | CompileError::TooMany { .. }
                | CompileError::Nul { .. }
                | CompileError::Expression(_)
                | CompileError::LinkType { .. } => Status::BadFilter,
                CompileError::Handle(_) | CompileError::Thread(_) => Status::Unavailable,
                CompileError::Program(_) | CompileError::Text(_) => Status::Internal,
            },
            Self::Cpu(_) => Status::Unavailable,
            Self::Code(error) => code_status(error),
            Self::Rules(LoadError::Engine { source: EngineError::Linear(error), .. }) => {
                linear_status(error)
            }
            Self::Rules(_) => Status::BadRules,
            Self::Panic(_) => Status::Internal,
        }
    }
}

fn code_status(error: &JitError) -> Status {
    match error {
        JitError::Cpu(_) | JitError::Memory(_) | JitError::PerfMap { .. } => Status::Unavailable,
        JitError::Function(_)
        | JitError::Code(_)
        | JitError::Sliced(_)
        | JitError::Entry { .. }
        | JitError::Lanes { .. }
        | JitError::Scratch { .. } => Status::Internal,
    }
}

fn linear_status(error: &LinearError) -> Status {
    match error {
        LinearError::TooManyRules { .. }
        | LinearError::TooLarge { .. }
        | LinearError::TooManyTests { .. }
        | LinearError::Atoms(_) => Status::BadRules,
        LinearError::NoSuchRule { .. } => Status::Internal,
        LinearError::Jit(error) => code_status(error),
    }
}
