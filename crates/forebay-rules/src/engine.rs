//! What every engine does: find the first rule that matches, for many packets.

use crate::packed::{Key4, Key6};

/// No rule matches: the list's default decides.
pub const NO_RULE: u32 = u32::MAX;

/// A rule list made ready for matching.
///
/// An engine answers as [`RuleList::decide`](crate::RuleList::decide) does, for
/// every key that a packet can have.
pub trait Engine: Send + Sync {
    /// Writes for each key the index of the first rule that matches it in the
    /// list, or [`NO_RULE`].
    ///
    /// # Panics
    /// If `keys` and `rules` differ in length.
    fn classify4(&self, keys: &[Key4], rules: &mut [u32]);

    /// As [`Engine::classify4`], for IPv6.
    ///
    /// # Panics
    /// If `keys` and `rules` differ in length.
    fn classify6(&self, keys: &[Key6], rules: &mut [u32]);

    /// Bytes of memory that matching uses.
    fn bytes(&self) -> usize;
}
