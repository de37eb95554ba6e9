//! What a scan reports.

/// A literal found in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Match {
    /// The index of the text in its batch; 0 for a single text.
    pub text: u32,
    /// The index of the literal in its set.
    pub literal: u32,
}

/// The matches of a scan: each pair of a text and a literal once, ordered by text.
///
/// The order of the literals of a text is unspecified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    found: Vec<Match>,
}

impl Matches {
    /// No matches.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The matches.
    #[must_use]
    pub fn as_slice(&self) -> &[Match] {
        &self.found
    }

    /// Removes all matches, and keeps the memory.
    pub fn clear(&mut self) {
        self.found.clear();
    }

    /// Orders the matches from an index on by text.
    pub(crate) fn sort_from(&mut self, index: usize) {
        let found = &mut self.found[index..];
        if !found.is_sorted_by_key(|found| found.text) {
            found.sort_by_key(|found| found.text);
        }
    }

    pub(crate) fn push(&mut self, text: u32, literal: u32) {
        self.found.push(Match { text, literal });
    }
}
