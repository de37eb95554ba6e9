//! Why a filter has no `ems` code.

use crate::emit::assembler::EncodeError;

/// Why a filter has no code of this back end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmsError {
    /// It has loops.
    #[error("control flow with loops")]
    ControlFlow,
    /// Specialising blocks for their values takes more copies than patterns are
    /// allowed.
    #[error("its tests of different values take more than {0} copies")]
    Copies(usize),
    /// A value that cannot be computed ahead of its test in one register.
    #[error("value '{0}' cannot be computed ahead of its test")]
    Value(String),
    /// Values need so many registers that two packets do not fit.
    #[error("computing its values takes {0} registers beside those of two packets")]
    Registers(usize),
    /// No hash function was found for a set of this many constants.
    #[error("no hash table was found for its set of {0} constants")]
    Set(usize),
    /// Two packets in flight would need more patterns than allowed.
    #[error("two packets in flight take more than {0} code patterns")]
    Patterns(usize),
    /// A bug in this back end.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}
