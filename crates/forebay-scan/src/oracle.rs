//! The reference engine: automata of the `aho-corasick` crate.

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind};

use crate::literal::LiteralSet;
use crate::scanner::ScanError;

/// An automaton for the literals of each kind of case, with their indices.
#[derive(Clone, Debug)]
pub struct Oracle {
    automata: Vec<(AhoCorasick, Vec<u32>)>,
}

impl Oracle {
    pub fn compile(set: &LiteralSet) -> Result<Self, ScanError> {
        let mut automata = Vec::new();
        for nocase in [false, true] {
            let (indices, texts): (Vec<u32>, Vec<&[u8]>) = (0..)
                .zip(set.literals())
                .filter(|(_, literal)| literal.nocase == nocase)
                .map(|(index, literal)| (index, &*literal.bytes))
                .unzip();
            if texts.is_empty() {
                continue;
            }
            let automaton = AhoCorasickBuilder::new()
                .match_kind(MatchKind::Standard)
                .ascii_case_insensitive(nocase)
                .build(texts)
                .map_err(|error| ScanError::TooLarge(error.to_string()))?;
            automata.push((automaton, indices));
        }
        Ok(Self { automata })
    }

    pub fn memory(&self) -> usize {
        let automaton = |(automaton, indices): &(AhoCorasick, Vec<u32>)| {
            automaton.memory_usage() + size_of_val(&**indices)
        };
        self.automata.iter().map(automaton).sum()
    }

    /// Calls `found` with the literal and the end of each occurrence.
    pub fn scan(&self, text: &[u8], mut found: impl FnMut(u32, usize)) {
        for (automaton, indices) in &self.automata {
            for found_at in automaton.find_overlapping_iter(text) {
                found(indices[found_at.pattern().as_usize()], found_at.end());
            }
        }
    }
}
