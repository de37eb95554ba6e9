//! The loops that a filter becomes, or why there are none.

use crate::mir::LoopBody;

/// The most planes of a filter; scratch memory is sized for them.
pub const MAX_PLANES: usize = 12;

/// The loops of a filter and their requirements.
#[derive(Clone, Debug)]
pub struct Loops {
    /// The loops, to be run one after another.
    pub bodies: Vec<LoopBody>,
    /// Packets a group.
    pub lanes: usize,
    /// Bytes from a packet's start that are read, even beyond its captured
    /// length.
    pub reach: usize,
    /// Bytes of scratch memory.
    pub scratch: usize,
    /// Whether packets may be left to `list`.
    pub leaves: bool,
}

/// Why a filter has no predicated form; `list` is used instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsuited {
    /// It has loops or block parameters.
    #[error("control flow that does not end in a Boolean function")]
    ControlFlow,
    /// It has several accepting verdicts, or returns a computed value.
    #[error("it returns more than one number besides 0")]
    Returns,
    /// A predicate that no lane can evaluate.
    #[error("predicate '{0}' does not fit a lane")]
    Predicate(String),
    /// No hash function was found for a set of this many constants.
    #[error("no hash table was found for its set of {0} constants")]
    Set(usize),
    /// More predicates than signatures have room for.
    #[error("its predicates take {0} signatures of 16 bits or more, and at most {max} fit", max = MAX_PLANES)]
    TooLarge(usize),
}
