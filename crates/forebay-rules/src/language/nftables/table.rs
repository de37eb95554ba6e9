//! A table whose chains are being read, with the sets that were.

use super::ruleset::{Place, Ruleset};
use crate::language::error::ParseError;
use crate::rule::Rule;
use serde_json::Value;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The content of a condition.
pub(super) enum Matched {
    /// One of these matches.
    Rules(Vec<Rule>),
    /// Packets alone do not answer it.
    Unknown,
}

impl Matched {
    /// What keeping it takes, in ranges.
    pub(super) fn size(&self) -> usize {
        /// What a rule takes besides its ranges.
        const RULE: usize = 8;
        match self {
            Self::Rules(rules) => rules.iter().map(|rule| RULE + rule.ranges()).sum(),
            Self::Unknown => 1,
        }
    }
}

/// A table whose chains are being read for packets of one family.
pub(super) struct Table<'r, 'a> {
    pub ruleset: &'r Ruleset<'a>,
    pub family: &'r str,
    pub name: &'r str,
    pub known: RefCell<Known>,
}

/// What was read before: many rules may name one set.
#[derive(Default)]
pub(super) struct Known {
    /// The elements of named sets; none of those that packets or time change.
    pub sets: HashMap<String, Option<Rc<[Value]>>>,
    /// What conditions on named sets match, by their text.
    pub matched: HashMap<String, Rc<Matched>>,
    /// What keeping these takes, in ranges.
    pub kept: usize,
    /// Elements of named sets that conditions were made of.
    pub elements: usize,
}

/// The most elements of named sets that the conditions of a list are made of.
const MAX_ELEMENTS: usize = 20_000_000;

impl Table<'_, '_> {
    /// The elements of the set called `name`; none of one that packets or time change.
    pub(super) fn set(&self, name: &str, line: usize) -> Result<Option<Rc<[Value]>>, ParseError> {
        let mut known = self.known.borrow_mut();
        let set = match known.sets.get(name) {
            Some(set) => set.clone(),
            None => {
                let raw = self.ruleset.sets.get(&self.place_of(name));
                let error =
                    || ParseError::at(line, &format!("@{name}"), "a set that the table has");
                let mut set: Value = self.ruleset.read_json(raw.ok_or_else(error)?)?;
                let flags = set["flags"].as_array().map_or(&[][..], Vec::as_slice);
                let changes = flags.iter().any(|flag| flag == "dynamic" || flag == "timeout");
                let elements = match set["elem"].take() {
                    Value::Array(elements) => elements.into(),
                    _ => Rc::default(),
                };
                let set = (!changes).then_some(elements);
                known.sets.insert(name.to_owned(), set.clone());
                set
            }
        };
        known.elements += set.as_ref().map_or(0, |elements| elements.len());
        if known.elements > MAX_ELEMENTS {
            let expected = format!("conditions on at most {MAX_ELEMENTS} elements of sets");
            return Err(ParseError::at(line, &format!("@{name}"), expected));
        }
        Ok(set)
    }

    /// Where a chain or a set of the table is.
    pub(super) fn place_of<'n>(&'n self, name: &'n str) -> Place<'n> {
        (Cow::Borrowed(self.family), Cow::Borrowed(self.name), Cow::Borrowed(name))
    }
}
