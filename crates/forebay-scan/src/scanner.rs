//! Sets compiled for an engine.

use std::fmt;
use std::str::FromStr;

use crate::literal::LiteralSet;
use crate::matches::Matches;
use crate::oracle::Oracle;

/// How literals are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Automata of the `aho-corasick` crate, the reference.
    Oracle,
}

impl Engine {
    /// All engines.
    pub const ALL: [Self; 1] = [Self::Oracle];

    /// The engine's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Oracle => "oracle",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Engine {
    type Err = ScanError;

    fn from_str(name: &str) -> Result<Self, ScanError> {
        let engine = Self::ALL.into_iter().find(|engine| engine.name() == name);
        engine.ok_or_else(|| ScanError::NoSuchEngine(name.to_owned()))
    }
}

/// Why a set was not compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// The engine has no room for the set.
    #[error("the literals are too many for the engine: {0}")]
    TooLarge(String),
    /// No engine has this name.
    #[error("expected an engine (oracle), found {0:?}")]
    NoSuchEngine(String),
}

/// A set compiled for an engine. It does not change, and threads share it.
#[derive(Clone, Debug)]
pub struct Scanner {
    oracle: Oracle,
    literals: usize,
}

/// Memory of one thread for scans by one [`Scanner`].
#[derive(Clone, Debug)]
pub struct Scratch {
    /// For each literal, the number of the text that it was last found in.
    last_text: Vec<u64>,
    text: u64,
}

impl Scanner {
    /// Compiles a set.
    ///
    /// # Errors
    /// The engine has no room for it.
    pub fn compile(set: &LiteralSet, engine: Engine) -> Result<Self, ScanError> {
        match engine {
            Engine::Oracle => Ok(Self { oracle: Oracle::compile(set)?, literals: set.len() }),
        }
    }

    /// Memory for a thread that scans.
    #[must_use]
    pub fn scratch(&self) -> Scratch {
        Scratch { last_text: vec![0; self.literals], text: 0 }
    }

    /// Appends the matches of each text of a batch to `matches`.
    ///
    /// # Panics
    /// `scratch` is of a scanner with fewer literals.
    pub fn scan(&self, texts: &[&[u8]], scratch: &mut Scratch, matches: &mut Matches) {
        for (number, text) in (0..).zip(texts) {
            scratch.text += 1;
            self.oracle.scan(text, |literal, _| {
                let last = &mut scratch.last_text[literal as usize];
                if *last != scratch.text {
                    *last = scratch.text;
                    matches.push(number, literal);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_is_reported_once() {
        let mut set = LiteralSet::new();
        for (text, nocase) in [("ab", true), ("b", false), ("ab", false), ("ab", true)] {
            set.push(text.as_bytes(), nocase).unwrap();
        }
        let scanner = Scanner::compile(&set, Engine::Oracle).unwrap();
        let mut matches = Matches::new();
        scanner.scan(&[b"ABab", b"", b"aB"], &mut scanner.scratch(), &mut matches);
        let mut found: Vec<_> =
            matches.as_slice().iter().map(|found| (found.text, found.literal)).collect();
        found.sort_unstable();
        assert_eq!(found, [(0, 0), (0, 1), (0, 2), (0, 3), (2, 0), (2, 3)]);
    }
}
