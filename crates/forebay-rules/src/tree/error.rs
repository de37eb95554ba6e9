//! Why a list has no tree, and the limits that lists have to keep.

use crate::atom::TooManyAtoms;
use crate::rule::RuleName;

/// The longest list.
pub const MAX_RULES: usize = (1 << 24) - 1;

/// Packets a second, on one core, that a list has to be matched with at least.
pub const LEAST_RATE: u64 = 500_000;

/// The most blocks. The 32-bit words of as many, of either family, can be
/// numbered in the 31 bits that vector code has for it.
pub(super) const MAX_BLOCKS: usize = 1 << 24;

/// The most children of all nodes.
pub(super) const MAX_SLOTS: usize = 1 << 28;

/// A list that could not be made into an engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// A rule has too many combinations.
    #[error(transparent)]
    Atoms(#[from] TooManyAtoms),
    /// The list would be matched too slowly.
    #[error(
        "the list would be matched at about {rate} packets a second and core, expected at least \
         {LEAST_RATE}: {ranged} of its {rules} rules overlap in too many fields to be told apart; \
         {worst} has most combinations of address and port ranges, {atoms}"
    )]
    TooSlow {
        /// Packets a second that are expected.
        rate: u64,
        /// Rules that are matched by their ranges.
        ranged: usize,
        /// Rules of the list.
        rules: usize,
        /// The rule that has most combinations.
        worst: RuleName,
        /// How many those are.
        atoms: usize,
    },
    /// The list takes too many blocks.
    #[error(
        "the list takes {blocks} blocks of rules and {slots} places to find them, \
         expected at most {} and {}",
        MAX_BLOCKS,
        MAX_SLOTS
    )]
    Blocks {
        /// Blocks of eight rules.
        blocks: usize,
        /// Children of nodes.
        slots: usize,
    },
    /// The list is too long.
    #[error("{rules} rules in a list, expected at most {MAX_RULES}")]
    Rules {
        /// How many rules there are.
        rules: usize,
    },
}
