//! `pe-generic` and `pe-1`: one table for both, and no code made at run time.
//!
//! `pe-generic` has packets in lanes and broadcasts one row after another;
//! `pe-1` has rows in lanes and broadcasts the fields of one packet, so that a
//! step tries 16 rules. The table is changed in place: after an insertion or a
//! removal the rows behind it are packed anew.

use forebay_codegen::code::Isa;
use forebay_jit::{JitError, cpu};

use super::error::LinearError;
use super::kernel::row_matcher::RowMatcher;
use super::kernel::rows::LaneContent;
use super::table::{Key, Rows, Table};
use crate::engine::Engine;
use crate::packed::{Key4, Key6};
use crate::rule::{Rule, RuleList};

/// Engines `pe-generic` and `pe-1`.
#[derive(Clone, Debug)]
pub struct Generic {
    table: Table,
    matcher: RowMatcher,
    lanes: LaneContent,
}

impl Generic {
    /// The engine of `list` for a machine of level `isa`.
    ///
    /// # Errors
    /// A level that this machine lacks, rules that are unions of too many
    /// conjunctions, or too many different tests of protocols and flags.
    pub fn new(list: &RuleList, lanes: LaneContent, isa: Isa) -> Result<Self, LinearError> {
        cpu::require(isa).map_err(JitError::from)?;
        let engine = match lanes {
            LaneContent::Packets => "pe-generic",
            LaneContent::Rules => "pe-1",
        };
        Ok(Self { table: Table::new(list, engine)?, matcher: RowMatcher::new(isa)?, lanes })
    }

    /// Rules of the list.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is no rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Conjunctions that its rules are unions of.
    pub(super) fn rows(&self) -> usize {
        self.table.rows()
    }

    /// Inserts `rule` as number `index` of the list, from 0; those from there on
    /// move up.
    ///
    /// # Errors
    /// An index beyond the end of the list, or a rule that the engine does not
    /// take; nothing has changed then.
    pub fn insert(&mut self, index: usize, rule: &Rule) -> Result<(), LinearError> {
        self.table.insert(index, rule)
    }

    /// Takes out rule number `index`; those behind it move down.
    ///
    /// # Errors
    /// No such rule.
    pub fn remove(&mut self, index: usize) -> Result<(), LinearError> {
        self.table.remove(index)
    }

    /// Puts `rule` in the place of rule number `index`.
    ///
    /// # Errors
    /// No such rule, or one that the engine does not take; nothing has changed
    /// then.
    pub fn replace(&mut self, index: usize, rule: &Rule) -> Result<(), LinearError> {
        self.table.replace(index, rule)
    }

    fn classify<K: Key<N>, const N: usize>(&self, rows: &Rows<N>, keys: &[K], rules: &mut [u32]) {
        assert_eq!(keys.len(), rules.len(), "a rule for each key");
        self.matcher.classify(self.lanes, rows, self.table.tests(), keys, rules);
    }
}

impl Engine for Generic {
    fn classify4(&self, keys: &[Key4], rules: &mut [u32]) {
        self.classify(self.table.ipv4(), keys, rules);
    }

    fn classify6(&self, keys: &[Key6], rules: &mut [u32]) {
        self.classify(self.table.ipv6(), keys, rules);
    }

    fn bytes(&self) -> usize {
        self.table.bytes()
    }
}
