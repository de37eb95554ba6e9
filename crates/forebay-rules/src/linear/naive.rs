//! `naive`: the paper's figure 2, one packet against one rule after the other.
//!
//! A row of the table is a conjunction: two masked addresses, two ranges of
//! ports, a test of protocol and flags. Fields are compared in the paper's
//! order, and the first that fails ends the row.

use super::error::LinearError;
use super::table::MAX_ROWS;
use crate::atom::{Atom, Test};
use crate::engine::{Engine, NO_RULE};
use crate::packed::{Key4, Key6, words};
use crate::rule::{Family, RuleList};

/// Engine `naive`.
#[derive(Clone, Debug)]
pub struct Naive {
    ipv4: Vec<Row<1>>,
    ipv6: Vec<Row<4>>,
}

/// One conjunction, with addresses of `N` words.
#[derive(Clone, Debug)]
struct Row<const N: usize> {
    source_mask: [u32; N],
    source: [u32; N],
    destination_mask: [u32; N],
    destination: [u32; N],
    first: (u16, u16),
    second: (u16, u16),
    test: Test,
    rule: u32,
}

/// The fields of a key.
struct Fields<const N: usize> {
    source: [u32; N],
    destination: [u32; N],
    first: u16,
    second: u16,
    kind: u16,
    flags: u16,
}

impl Naive {
    /// The engine of `list`.
    ///
    /// # Errors
    /// Rules that are unions of too many conjunctions.
    pub fn new(list: &RuleList) -> Result<Self, LinearError> {
        let mut engine = Self { ipv4: Vec::new(), ipv6: Vec::new() };
        for (index, rule) in (0..).zip(&list.rules) {
            let atoms = Atom::of_rule(rule)?;
            let size = engine.ipv4.len() + engine.ipv6.len() + atoms.len();
            if size > MAX_ROWS {
                let (engine, what) = ("naive", "conjunctions");
                return Err(LinearError::TooLarge { engine, what, size, most: MAX_ROWS });
            }
            for atom in atoms {
                match rule.family {
                    Family::Ipv4 => engine.ipv4.push(Row::new(index, rule.family, &atom)),
                    Family::Ipv6 => engine.ipv6.push(Row::new(index, rule.family, &atom)),
                }
            }
        }
        Ok(engine)
    }
}

impl Engine for Naive {
    fn classify4(&self, keys: &[Key4], rules: &mut [u32]) {
        assert_eq!(keys.len(), rules.len(), "a rule for each key");
        for (key, rule) in keys.iter().zip(rules) {
            let Key4 { source, destination, first, second, kind, flags } = *key;
            let (source, destination) = ([source], [destination]);
            let fields = Fields { source, destination, first, second, kind, flags };
            *rule = first_match(&self.ipv4, &fields);
        }
    }

    fn classify6(&self, keys: &[Key6], rules: &mut [u32]) {
        assert_eq!(keys.len(), rules.len(), "a rule for each key");
        for (key, rule) in keys.iter().zip(rules) {
            let Key6 { source, destination, first, second, kind, flags } = *key;
            let fields = Fields { source, destination, first, second, kind, flags };
            *rule = first_match(&self.ipv6, &fields);
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.ipv4[..]) + size_of_val(&self.ipv6[..])
    }
}

fn first_match<const N: usize>(rows: &[Row<N>], fields: &Fields<N>) -> u32 {
    rows.iter().find(|row| row.matches(fields)).map_or(NO_RULE, |row| row.rule)
}

impl<const N: usize> Row<N> {
    fn new(rule: u32, family: Family, atom: &Atom) -> Self {
        // Of 128 bits those that the family has.
        let own = |number: u128| -> [u32; N] {
            let all = words(number);
            std::array::from_fn(|word| all[all.len() - N + word])
        };
        let mask = |length: u8| own(family.prefix(family.greatest(), length).0);
        Self {
            source_mask: mask(atom.source.length),
            source: own(atom.source.address),
            destination_mask: mask(atom.destination.length),
            destination: own(atom.destination.address),
            first: atom.first,
            second: atom.second,
            test: atom.test,
            rule,
        }
    }

    fn matches(&self, key: &Fields<N>) -> bool {
        let masked = |address: [u32; N], mask: [u32; N]| -> [u32; N] {
            std::array::from_fn(|word| address[word] & mask[word])
        };
        masked(key.source, self.source_mask) == self.source
            && masked(key.destination, self.destination_mask) == self.destination
            && self.test.admits_kind(key.kind)
            && self.first.0 <= key.first
            && key.first <= self.first.1
            && self.second.0 <= key.second
            && key.second <= self.second.1
            && self.test.admits_flags(key.flags)
    }
}
