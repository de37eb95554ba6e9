//! The languages that rule lists are written in.
//!
//! [`yamaha`] is Forebay's own: what the others are imported into, and the one
//! that can be printed. A line that cannot be carried over exactly is an error
//! that names it; no line is ever left out in silence.

mod chains;
pub mod cisco;
pub mod classbench;
mod conjunction;
pub mod iptables;
pub mod load;
pub mod masks;
pub(crate) mod names;
pub mod nftables;
pub mod source;
pub(crate) mod words;
pub mod yamaha;

use crate::rule::RuleList;
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
    fn at(line: usize, found: &str, expected: impl Into<String>) -> Self {
        /// Characters of the input that an error repeats.
        const SHOWN: usize = 60;
        let mut shown: String = found.chars().take(SHOWN).collect();
        if shown.len() < found.len() {
            shown.push('…');
        }
        Self { line, found: format!("{shown:?}"), expected: expected.into() }
    }

    /// An error about a line that ends too early.
    fn end(line: usize, expected: impl Into<String>) -> Self {
        Self { line, found: "the end of the line".into(), expected: expected.into() }
    }
}

/// One of several lists of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedList {
    /// Its name in the file; empty if the file gives none.
    pub name: String,
    /// The rules.
    pub list: RuleList,
}

impl NamedList {
    /// Its name, if the file gives one.
    #[must_use]
    pub fn given_name(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|name| !name.is_empty())
    }
}
