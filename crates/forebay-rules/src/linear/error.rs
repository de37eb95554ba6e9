//! Why a list has no linear engine.

use forebay_jit::JitError;

use crate::atom::TooManyAtoms;

/// A list that an engine does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinearError {
    /// More rules than the engine is for.
    #[error("{rules} rules, expected at most {most} for engine '{engine}'; 'tree' takes more")]
    TooManyRules {
        /// The engine.
        engine: &'static str,
        /// Rules of the list, of the family that has most.
        rules: usize,
        /// What the engine takes.
        most: usize,
    },
    /// Rules with lists that come to more than the engine is for.
    #[error(
        "the lists of its rules come to {size} {what}, expected at most {most} for engine \
         '{engine}'"
    )]
    TooLarge {
        /// The engine.
        engine: &'static str,
        /// What was counted.
        what: &'static str,
        /// How many there are, as far as was counted.
        size: usize,
        /// What the engine takes.
        most: usize,
    },
    /// Rules that ask for more different combinations of protocol, presence and
    /// flags than a table of rules has bits for.
    #[error(
        "more than {most} different tests of protocols and flags, which engine '{engine}' takes at most"
    )]
    TooManyTests {
        /// The engine.
        engine: &'static str,
        /// What the engine takes.
        most: usize,
    },
    /// An update of a rule that is not there.
    #[error("no rule at index {index} of {rules} rules")]
    NoSuchRule {
        /// The index asked for, from 0.
        index: usize,
        /// Rules of the list.
        rules: usize,
    },
    /// A rule is too large a union.
    #[error(transparent)]
    Atoms(#[from] TooManyAtoms),
    /// Its code cannot be made or run.
    #[error(transparent)]
    Jit(#[from] JitError),
}
