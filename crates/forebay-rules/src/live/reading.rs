//! What readers of a list that changes see.

use super::writers::Shared;
use crate::counters::Counters;
use crate::engine::NO_RULE;
use crate::packed::{Key4, Key6};
use crate::rule::Action;
use crate::tree::generation::{REJECTS, Version};
use arc_swap::Guard;
use std::sync::Arc;

/// Reads a list that can be changed.
#[derive(Clone)]
pub struct LiveReader(pub(super) Arc<Shared>);

/// The version of the list that was in force when it was taken. A number that it returns is not
/// given to another rule while it exists: count before it is dropped. Keep it for a batch.
pub struct Reading {
    pub(super) version: Guard<Arc<Version>>,
}

impl Reading {
    /// Writes for each key the number of the first rule that matches it, or [`NO_RULE`].
    ///
    /// # Panics
    /// If `keys` and `rules` differ in length.
    pub fn classify4(&self, keys: &[Key4], rules: &mut [u32]) {
        self.version.classify4(keys, rules);
        rules.iter_mut().for_each(|rule| *rule = Self::number(*rule));
    }

    /// As [`Reading::classify4`], for IPv6.
    ///
    /// # Panics
    /// If `keys` and `rules` differ in length.
    pub fn classify6(&self, keys: &[Key6], rules: &mut [u32]) {
        self.version.classify6(keys, rules);
        rules.iter_mut().for_each(|rule| *rule = Self::number(*rule));
    }

    /// As [`Reading::classify4`], with the action in a form for [`Reading::rejects`].
    ///
    /// # Panics
    /// If `keys` and `rules` differ in length.
    pub fn judge4(&self, keys: &[Key4], rules: &mut [u32]) {
        self.version.classify4(keys, rules);
    }

    /// As [`Reading::judge4`], for IPv6.
    ///
    /// # Panics
    /// If `keys` and `rules` differ in length.
    pub fn judge6(&self, keys: &[Key6], rules: &mut [u32]) {
        self.version.classify6(keys, rules);
    }

    /// Whether a packet with this result of [`Reading::judge4`] is rejected.
    #[inline]
    #[must_use]
    pub fn rejects(&self, judged: u32) -> bool {
        match judged {
            NO_RULE => self.version.default() == Action::Reject,
            judged => judged & REJECTS != 0,
        }
    }

    /// The number of the rule in a result of [`Reading::judge4`], or [`NO_RULE`].
    #[inline]
    #[must_use]
    pub fn number(judged: u32) -> u32 {
        if judged == NO_RULE { NO_RULE } else { judged & !REJECTS }
    }
}

impl LiveReader {
    /// The version in force.
    #[must_use]
    pub fn read(&self) -> Reading {
        Reading { version: self.0.version.load() }
    }

    /// The counters of the rules, by their numbers.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// Whether both read the same list.
    #[must_use]
    pub fn is_of_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
