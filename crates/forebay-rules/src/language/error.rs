//! Why a text is no rule list.

use thiserror::Error;

/// Why a rule list could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: found {found}, expected {expected}")]
pub struct ParseError {
    /// The line, counted from 1.
    pub line: usize,
    /// The text there.
    pub found: String,
    /// What could have stood there.
    pub expected: String,
}

impl ParseError {
    /// An error about `found`, a part of the input.
    pub(crate) fn at(line: usize, found: &str, expected: impl Into<String>) -> Self {
        /// Characters of the input that an error repeats.
        const SHOWN: usize = 60;
        let mut shown: String = found.chars().take(SHOWN).collect();
        if shown.len() < found.len() {
            shown.push('…');
        }
        Self { line, found: format!("{shown:?}"), expected: expected.into() }
    }

    /// An error about a line that ends too early.
    pub(crate) fn end(line: usize, expected: impl Into<String>) -> Self {
        Self { line, found: "the end of the line".into(), expected: expected.into() }
    }
}
