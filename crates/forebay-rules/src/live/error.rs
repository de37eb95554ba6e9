//! Why a list cannot be changed.

use super::names::{Named, RuleId};
use crate::tree::{MAX_RULES, TreeError};

/// A change that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiveError {
    /// The list cannot be built with the rule, or is already matched too slowly.
    #[error(transparent)]
    List(#[from] TreeError),
    /// The list is full.
    #[error("the list has {MAX_RULES} rules, and cannot have more")]
    Full,
    /// There is no such rule.
    #[error("there is no rule {} any more, expected one that is in the list", .0.number)]
    Unknown(RuleId),
    /// There is no rule of that name.
    #[error("there is no rule {0} in the list")]
    Missing(Named),
    /// There is a rule of that name.
    #[error("there is a rule {0} in the list: expected a number that none has")]
    Taken(Named),
    /// There is no such position.
    #[error("there is no position {position}, expected one from 0 to {last}")]
    Position {
        /// The position given.
        position: usize,
        /// The last one for this change.
        last: usize,
    },
    /// The last change is not in force yet.
    #[error(
        "the list is being built anew for the previous change: try again when that is in force"
    )]
    Busy,
    /// The list is not the one that was compared.
    #[error("the list was changed after it was compared: try again")]
    Changed,
    /// The list could not be built anew.
    #[error("the list cannot be built anew with this change: {0}")]
    Refused(String),
}
