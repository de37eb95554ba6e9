//! What is wrong with a configuration, and where.

use std::fmt;
use std::ops::Range;

/// A place in a configuration file, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl Place {
    /// Where byte `at` of `text` is.
    pub(super) fn of(text: &str, at: usize) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self { line: before.matches('\n').count() + 1, column: before[start..].chars().count() + 1 }
    }
}

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file.
    pub file: String,
    /// Where in it, unless it concerns the file as a whole.
    pub place: Option<Place>,
    /// What is there and what was expected.
    pub what: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, place, what } = self;
        match place {
            Some(Place { line, column }) => write!(f, "{file}:{line}:{column}: {what}"),
            None => write!(f, "{file}: {what}"),
        }
    }
}

/// What is wrong with the bytes of a range.
#[derive(Debug)]
pub(super) struct Fault {
    pub at: Range<usize>,
    pub what: String,
}

impl Fault {
    pub fn new(at: Range<usize>, what: impl fmt::Display) -> Self {
        Self { at, what: what.to_string() }
    }

    pub fn in_file(self, file: &str, text: &str) -> ConfigError {
        let place = Some(Place::of(text, self.at.start));
        ConfigError { file: file.to_owned(), place, what: self.what }
    }
}
