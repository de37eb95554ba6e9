//! Rules as rows of a table that vector code reads, and that can be changed.
//!
//! A row is a conjunction; rows stand in blocks of 16, each field of 16 rows
//! side by side, so that one load takes a field of a whole block and one
//! broadcast that of a row. A row that has failed has some bit set in one of
//! these words:
//!
//! * (source ⊕ value) ∧ mask, and the same for the destination;
//! * each port less the first of its range, as far as that exceeds the range's
//!   length (both ports in one word, by saturating subtraction);
//! * the tests that the packet fails ∧ the row's own test.
//!
//! Rows that fill the last block have the test that every packet fails.

use std::collections::HashSet;

use super::error::LinearError;
use crate::atom::{self, Atom, Tests};
use crate::packed::{Key4, Key6, words};
use crate::rule::{Family, Rule, RuleList};

/// Rows of a block.
pub(super) const ROWS: usize = 16;

/// Tests that rows may ask for. The dictionary has every packet fail those that
/// are not given out, and one is kept for rows that shall never match.
const MAX_TESTS: usize = atom::MAX_TESTS - 1;

/// The most rows of a table, which then takes 64 MB, or 160 MB for IPv6. A line
/// of 400 bytes can ask for 65,536.
pub(super) const MAX_ROWS: usize = 1 << 20;

/// The bit of the test that every packet fails.
const NEVER: u32 = 1 << MAX_TESTS;

/// What rows are held against: a key with addresses of `N` words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields<const N: usize> {
    pub(super) source: [u32; N],
    pub(super) destination: [u32; N],
    /// The field `first` of the key, and `second` in the upper half.
    pub(super) ports: u32,
    /// The tests that the packet fails.
    pub(super) failed: u32,
}

/// A key whose addresses have `N` words.
pub(super) trait Key<const N: usize>: Copy {
    /// Its fields.
    fn fields(&self, tests: &Tests) -> Fields<N>;
}

fn fields<const N: usize>(
    (source, destination): ([u32; N], [u32; N]),
    (first, second): (u16, u16),
    failed: u32,
) -> Fields<N> {
    let ports = u32::from(first) | u32::from(second) << 16;
    Fields { source, destination, ports, failed }
}

impl Key<1> for Key4 {
    #[inline]
    fn fields(&self, tests: &Tests) -> Fields<1> {
        let addresses = ([self.source], [self.destination]);
        fields(addresses, (self.first, self.second), tests.failed(self.kind, self.flags))
    }
}

impl Key<4> for Key6 {
    #[inline]
    fn fields(&self, tests: &Tests) -> Fields<4> {
        let addresses = (self.source, self.destination);
        fields(addresses, (self.first, self.second), tests.failed(self.kind, self.flags))
    }
}

/// One field of the rows of a block.
pub(super) type Column = [u32; ROWS];

/// 16 rows.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Block<const N: usize> {
    pub(super) source: [Column; N],
    pub(super) source_mask: [Column; N],
    pub(super) destination: [Column; N],
    pub(super) destination_mask: [Column; N],
    /// The first port of each range.
    pub(super) low: Column,
    /// The last port of each range less the first.
    pub(super) span: Column,
    /// The bit of the row's test.
    pub(super) test: Column,
}

/// A row, before it is put into a block.
#[derive(Clone, Copy, Debug)]
struct Row<const N: usize> {
    source: [u32; N],
    source_mask: [u32; N],
    destination: [u32; N],
    destination_mask: [u32; N],
    low: u32,
    span: u32,
    test: u32,
    rule: u32,
}

/// The rows of the rules for packets of one family.
#[derive(Clone, Debug)]
pub(super) struct Rows<const N: usize> {
    rows: Vec<Row<N>>,
    blocks: Vec<Block<N>>,
    /// The rule of each row.
    rules: Vec<u32>,
}

/// A table of rules that can be changed.
#[derive(Clone, Debug)]
pub(super) struct Table {
    engine: &'static str,
    tests: Tests,
    ipv4: Rows<1>,
    ipv6: Rows<4>,
    /// Rules of the list.
    len: usize,
}

impl Table {
    /// The table of `list`, for an engine of the name `engine`.
    pub(super) fn new(list: &RuleList, engine: &'static str) -> Result<Self, LinearError> {
        let mut table = Self {
            engine,
            tests: Tests::default(),
            ipv4: Rows::default(),
            ipv6: Rows::default(),
            len: 0,
        };
        for (index, rule) in (0..).zip(&list.rules) {
            table.add(index, rule)?;
        }
        table.len = list.rules.len();
        table.ipv4.pack(0);
        table.ipv6.pack(0);
        Ok(table)
    }

    pub(super) fn tests(&self) -> &Tests {
        &self.tests
    }

    pub(super) fn ipv4(&self) -> &Rows<1> {
        &self.ipv4
    }

    pub(super) fn ipv6(&self) -> &Rows<4> {
        &self.ipv6
    }

    /// Rules of the list.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Inserts `rule` so that it is number `index` of the list, from 0.
    pub(super) fn insert(&mut self, index: usize, rule: &Rule) -> Result<(), LinearError> {
        self.check(index, self.len + 1)?;
        let first = index as u32;
        self.ipv4.shift(first, |rule| rule + 1);
        self.ipv6.shift(first, |rule| rule + 1);
        self.len += 1;
        if let Err(error) = self.add(first, rule) {
            self.remove_rows(first);
            return Err(error);
        }
        self.ipv4.pack(first);
        self.ipv6.pack(first);
        Ok(())
    }

    /// Takes out rule number `index`.
    pub(super) fn remove(&mut self, index: usize) -> Result<(), LinearError> {
        self.check(index, self.len)?;
        self.remove_rows(index as u32);
        Ok(())
    }

    /// Puts `rule` in the place of rule number `index`.
    pub(super) fn replace(&mut self, index: usize, rule: &Rule) -> Result<(), LinearError> {
        self.check(index, self.len)?;
        // The old rule goes first: the new one may need its room.
        let before = self.clone();
        self.remove_rows(index as u32);
        let done = self.insert(index, rule);
        if done.is_err() {
            *self = before;
        }
        done
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.tests.bytes() + self.ipv4.bytes() + self.ipv6.bytes()
    }

    /// Rows of both families.
    pub(super) fn rows(&self) -> usize {
        self.ipv4.rows.len() + self.ipv6.rows.len()
    }

    fn check(&self, index: usize, end: usize) -> Result<(), LinearError> {
        if index < end { Ok(()) } else { Err(LinearError::NoSuchRule { index, rules: self.len }) }
    }

    fn remove_rows(&mut self, index: u32) {
        self.len -= 1;
        self.ipv4.remove(index);
        self.ipv6.remove(index);
    }

    /// Adds the rows of a rule in front of those of later rules.
    fn add(&mut self, index: u32, rule: &Rule) -> Result<(), LinearError> {
        let atoms = Atom::of_rule(rule)?;
        let size = self.rows() + atoms.len();
        if size > MAX_ROWS {
            let (engine, what) = (self.engine, "conjunctions");
            return Err(LinearError::TooLarge { engine, what, size, most: MAX_ROWS });
        }
        let too_many = LinearError::TooManyTests { engine: self.engine, most: MAX_TESTS };
        if !self.has_room(&atoms) {
            self.forget_tests();
            if !self.has_room(&atoms) {
                return Err(too_many);
            }
        }
        let ids: Option<Vec<u8>> = atoms.iter().map(|atom| self.tests.id(&atom.test)).collect();
        let atoms = atoms.iter().zip(ids.ok_or(too_many)?);
        match rule.family {
            Family::Ipv4 => {
                self.ipv4.add(index, atoms.map(|(a, t)| Row::new(index, rule.family, a, t)))
            }
            Family::Ipv6 => {
                self.ipv6.add(index, atoms.map(|(a, t)| Row::new(index, rule.family, a, t)))
            }
        }
        Ok(())
    }

    /// Whether the dictionary has room for what is new in the tests of `atoms`.
    fn has_room(&self, atoms: &[Atom]) -> bool {
        let new = atoms.iter().map(|atom| &atom.test);
        let new: HashSet<_> = new.filter(|test| self.tests.known(test).is_none()).collect();
        self.tests.len() + new.len() <= MAX_TESTS
    }

    /// Makes the dictionary anew of the tests that rows still ask for.
    fn forget_tests(&mut self) {
        let used = self.ipv4.tests() | self.ipv6.tests();
        let mut tests = Tests::default();
        let mut bits = [0; atom::MAX_TESTS];
        for (test, old) in self.tests.iter().filter(|(_, id)| used >> id & 1 != 0) {
            bits[usize::from(old)] = tests.id(test).map_or(NEVER, |id| 1 << id);
        }
        self.tests = tests;
        self.ipv4.renumber_tests(&bits);
        self.ipv6.renumber_tests(&bits);
    }
}

impl<const N: usize> Default for Rows<N> {
    fn default() -> Self {
        Self { rows: Vec::new(), blocks: Vec::new(), rules: Vec::new() }
    }
}

impl<const N: usize> Rows<N> {
    pub(super) fn blocks(&self) -> &[Block<N>] {
        &self.blocks
    }

    /// The rule of row number `row` of all blocks.
    pub(super) fn rule(&self, row: usize) -> u32 {
        self.rules.get(row).copied().unwrap_or(crate::engine::NO_RULE)
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.blocks[..]) + size_of_val(&self.rows[..]) + size_of_val(&self.rules[..])
    }

    /// The first row of a rule that is `rule` or later.
    fn start(&self, rule: u32) -> usize {
        self.rows.partition_point(|row| row.rule < rule)
    }

    fn add(&mut self, rule: u32, rows: impl Iterator<Item = Row<N>>) {
        let at = self.start(rule);
        self.rows.splice(at..at, rows);
    }

    /// Gives the rules from `first` on other numbers, in the same order.
    fn shift(&mut self, first: u32, number: impl Fn(u32) -> u32) {
        let start = self.start(first);
        self.rows[start..].iter_mut().for_each(|row| row.rule = number(row.rule));
    }

    /// The bits of all tests that rows ask for.
    fn tests(&self) -> u32 {
        self.rows.iter().fold(0, |all, row| all | row.test)
    }

    /// Gives each test the bit that `bits` has at its number.
    fn renumber_tests(&mut self, bits: &[u32; atom::MAX_TESTS]) {
        for row in &mut self.rows {
            row.test = bits[row.test.trailing_zeros() as usize];
        }
        self.pack(0);
    }

    fn remove(&mut self, rule: u32) {
        let (start, end) = (self.start(rule), self.start(rule + 1));
        self.rows.drain(start..end);
        self.shift(rule, |rule| rule - 1);
        self.pack(rule);
    }

    /// Makes the blocks anew from the one with the first row of `rule` on.
    fn pack(&mut self, rule: u32) {
        let first = self.start(rule) / ROWS;
        self.blocks.truncate(first);
        for rows in self.rows[first * ROWS..].chunks(ROWS) {
            let column = |field: &dyn Fn(&Row<N>) -> u32| -> Column {
                std::array::from_fn(|row| rows.get(row).map_or(0, field))
            };
            let columns = |field: &dyn Fn(&Row<N>, usize) -> u32| -> [Column; N] {
                std::array::from_fn(|word| column(&|row| field(row, word)))
            };
            let test = std::array::from_fn(|row| rows.get(row).map_or(NEVER, |row| row.test));
            self.blocks.push(Block {
                source: columns(&|row, word| row.source[word]),
                source_mask: columns(&|row, word| row.source_mask[word]),
                destination: columns(&|row, word| row.destination[word]),
                destination_mask: columns(&|row, word| row.destination_mask[word]),
                low: column(&|row| row.low),
                span: column(&|row| row.span),
                test,
            });
        }
        self.rules.clear();
        self.rules.extend(self.rows.iter().map(|row| row.rule));
    }
}

impl<const N: usize> Row<N> {
    fn new(rule: u32, family: Family, atom: &Atom, test: u8) -> Self {
        // Of 128 bits those that the family has.
        let own = |number: u128| -> [u32; N] {
            let all = words(number);
            std::array::from_fn(|word| all[all.len() - N + word])
        };
        let mask = |length: u8| own(family.prefix(family.greatest(), length).0);
        let both = |first: u16, second: u16| u32::from(first) | u32::from(second) << 16;
        Self {
            source: own(atom.source.address),
            source_mask: mask(atom.source.length),
            destination: own(atom.destination.address),
            destination_mask: mask(atom.destination.length),
            low: both(atom.first.0, atom.second.0),
            span: both(atom.first.1 - atom.first.0, atom.second.1 - atom.second.0),
            test: 1 << test,
            rule,
        }
    }
}
