//! What `nft -j list ruleset` prints: tables, chains, sets and maps as JSON.
//!
//! The base chains of tables become lists, IPv4 rules before IPv6 rules where a table is
//! for both, their default the chain's policy. Jumps are followed
//! (`chains.rs`), verdict maps become rules, sets become lists of addresses
//! and ports. Only the chain that is asked for is read, and those it leads to, so that
//! everything else may hold anything.
//!
//! Read are addresses, with masks, `meta l4proto`, `ip protocol`, ports, TCP flags, ICMP
//! types and codes, `meta nfproto`, concatenations of these, named and anonymous sets
//! that packets do not change; `accept`, `drop`, `reject`, `jump`, `goto`, `return` and
//! `vmap`. Counters, logs, comments and marks decide nothing. Other conditions (`ct`,
//! `limit`, `fib`, interfaces unless the packets' interface is given …) are refused, or
//! decided by [`Unsupported`].

mod fields;
mod rule;
mod value;

use super::ParseError;
use super::chains::{Chains, Step, flatten};
use super::source::{
    Catalogue, Direction, Imported, Listed, MAX_RANGES, Making, Options, Unsupported,
};
use crate::rule::{Action, Family};
use forebay_packet::cancel;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use value::{Matched, matched};

/// Family, table and name of a chain or a set.
type Place<'a> = (Cow<'a, str>, Cow<'a, str>, Cow<'a, str>);

/// A ruleset, scanned and not yet understood.
pub struct Ruleset<'a> {
    text: &'a str,
    /// Where lines begin.
    lines: Vec<usize>,
    unsupported: Unsupported,
    interface: Option<(String, Direction)>,
    chains: HashMap<Place<'a>, Vec<RawRule<'a>>>,
    sets: HashMap<Place<'a>, &'a RawValue>,
    lists: Vec<Base<'a>>,
}

/// A chain that packets enter.
struct Base<'a> {
    place: Place<'a>,
    policy: Action,
}

/// A rule that is not read yet.
struct RawRule<'a> {
    handle: Option<u64>,
    expressions: &'a RawValue,
}

#[derive(Deserialize)]
struct Top<'a> {
    #[serde(borrow)]
    nftables: Vec<Object<'a>>,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, default)]
    chain: Option<&'a RawValue>,
    #[serde(borrow, default)]
    rule: Option<&'a RawValue>,
    #[serde(borrow, default)]
    set: Option<&'a RawValue>,
    #[serde(borrow, default)]
    map: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ChainObject<'a> {
    #[serde(borrow)]
    family: Cow<'a, str>,
    #[serde(borrow)]
    table: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default)]
    hook: Option<String>,
    #[serde(default)]
    policy: Option<String>,
}

#[derive(Deserialize)]
struct RuleObject<'a> {
    #[serde(borrow)]
    family: Cow<'a, str>,
    #[serde(borrow)]
    table: Cow<'a, str>,
    #[serde(borrow)]
    chain: Cow<'a, str>,
    #[serde(default)]
    handle: Option<u64>,
    #[serde(borrow)]
    expr: &'a RawValue,
}

#[derive(Deserialize)]
struct SetObject<'a> {
    #[serde(borrow)]
    family: Cow<'a, str>,
    #[serde(borrow)]
    table: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// What the text as a whole must be.
const EXPECTED: &str = "what `nft -j list ruleset` prints";

impl<'a> Ruleset<'a> {
    /// Scans a ruleset for the tables that `options` name.
    ///
    /// # Errors
    /// If the text is not JSON, or not of a ruleset.
    pub fn scan(text: &'a str, options: &Options) -> Result<Self, ParseError> {
        let starts = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let mut ruleset = Self {
            text,
            lines: starts.map(|(at, _)| at).collect(),
            unsupported: options.unsupported,
            interface: options.interface.clone(),
            chains: HashMap::new(),
            sets: HashMap::new(),
            lists: Vec::new(),
        };
        let top: Top = serde_json::from_str(text).map_err(|error| ruleset.json(&error, None))?;
        for object in top.nftables {
            cancel::check();
            ruleset.object(&object)?;
        }
        if let Some(table) = &options.table {
            let is_of = |base: &Base| {
                *table == base.place.1 || *table == format!("{} {}", base.place.0, base.place.1)
            };
            ruleset.lists.retain(is_of);
        }
        Ok(ruleset)
    }

    fn object(&mut self, object: &Object<'a>) -> Result<(), ParseError> {
        if let Some(raw) = object.chain {
            let chain: ChainObject = self.read_json(raw)?;
            let place = (chain.family, chain.table, chain.name);
            self.chains.entry(place.clone()).or_default();
            if chain.hook.is_some() {
                let drops = chain.policy.as_deref() == Some("drop");
                let policy = if drops { Action::Reject } else { Action::Pass };
                self.lists.push(Base { place, policy });
            }
        }
        if let Some(raw) = object.rule {
            let rule: RuleObject = self.read_json(raw)?;
            let place = (rule.family, rule.table, rule.chain);
            let (handle, expressions) = (rule.handle, rule.expr);
            self.chains.entry(place).or_default().push(RawRule { handle, expressions });
        }
        if let Some(raw) = object.set.or(object.map) {
            let set: SetObject = self.read_json(raw)?;
            self.sets.insert((set.family, set.table, set.name), raw);
        }
        Ok(())
    }

    /// A part of the text as it is needed.
    fn read_json<T: Deserialize<'a>>(&self, raw: &'a RawValue) -> Result<T, ParseError> {
        serde_json::from_str(raw.get()).map_err(|error| self.json(&error, Some(raw)))
    }

    /// The error of a part of the text, or of all.
    fn json(&self, error: &serde_json::Error, part: Option<&RawValue>) -> ParseError {
        let before = part.map_or(0, |raw| self.line_of(raw) - 1);
        let said = error.to_string();
        let said = said.split(" at line ").next().unwrap_or(&said);
        let found = format!("column {}: {said}", error.column());
        ParseError { line: before + error.line().max(1), found, expected: EXPECTED.to_owned() }
    }

    /// The line in which a part of the text begins.
    fn line_of(&self, raw: &RawValue) -> usize {
        let at = (raw.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        1 + self.lines.partition_point(|&end| end < at)
    }
}

impl Catalogue for Ruleset<'_> {
    fn lists(&self) -> Vec<Listed> {
        let listed = |base: &Base| {
            let (family, table, name) = &base.place;
            Listed {
                name: name.to_string(),
                full_name: format!("{family} {table} {name}"),
                entries: self.chains.get(&base.place).map_or(0, Vec::len),
            }
        };
        self.lists.iter().map(listed).collect()
    }

    fn read(&self, list: usize) -> Result<Imported, ParseError> {
        let base = &self.lists[list];
        let (family, table, name) = &base.place;
        let families: &[Family] = match family.as_ref() {
            "ip" => &[Family::Ipv4],
            "ip6" => &[Family::Ipv6],
            "inet" | "bridge" | "netdev" => &[Family::Ipv4, Family::Ipv6],
            _ => {
                let expected = "a table of `ip`, `ip6`, `inet`, `bridge` or `netdev`";
                return Err(ParseError::at(1, family, expected));
            }
        };
        let mut making = Making::new(self.unsupported);
        for &of in families {
            let known = RefCell::default();
            let table = Table { ruleset: self, family, name: table, known };
            flatten(&table, name, of, base.policy, &mut making)?;
        }
        Ok(making.finish(name.to_string(), base.policy))
    }
}

/// A table whose chains are being read for packets of one family.
struct Table<'r, 'a> {
    ruleset: &'r Ruleset<'a>,
    family: &'r str,
    name: &'r str,
    known: RefCell<Known>,
}

/// What was read before: many rules may name one set.
#[derive(Default)]
struct Known {
    /// The elements of named sets; none of those that packets or time change.
    sets: HashMap<String, Option<Rc<[Value]>>>,
    /// What conditions on named sets match, by their text.
    matched: HashMap<String, Rc<Matched>>,
    /// What keeping these takes, in ranges.
    kept: usize,
    /// Elements of named sets that conditions were made of.
    elements: usize,
}

/// The most elements of named sets that the conditions of a list are made of.
const MAX_ELEMENTS: usize = 20_000_000;

impl Table<'_, '_> {
    /// What a condition matches of packets of `family`.
    fn matched(
        &self,
        family: Family,
        condition: &Value,
        line: usize,
    ) -> Result<Rc<Matched>, ParseError> {
        let names_set = condition["right"].as_str().is_some_and(|text| text.starts_with('@'));
        let text = if names_set { condition.to_string() } else { String::new() };
        if let Some(known) = self.known.borrow().matched.get(&text) {
            return Ok(known.clone());
        }
        let matched = Rc::new(matched(self, family, condition, line)?);
        if names_set {
            let mut known = self.known.borrow_mut();
            let kept = known.kept + matched.size();
            // Beyond the limit a condition is read again each time.
            if kept <= MAX_RANGES {
                known.kept = kept;
                known.matched.insert(text, matched.clone());
            }
        }
        Ok(matched)
    }

    /// The elements of the set called `name`; none of one that packets or time change.
    fn set(&self, name: &str, line: usize) -> Result<Option<Rc<[Value]>>, ParseError> {
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
    fn place_of<'n>(&'n self, name: &'n str) -> Place<'n> {
        (Cow::Borrowed(self.family), Cow::Borrowed(self.name), Cow::Borrowed(name))
    }
}

impl Chains for Table<'_, '_> {
    fn steps(
        &self,
        name: &str,
        family: Family,
        making: &mut Making,
    ) -> Result<Option<Vec<Step>>, ParseError> {
        let place = self.place_of(name);
        let Some(rules) = self.ruleset.chains.get(&place) else { return Ok(None) };
        let mut steps = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            let handle = rule.handle.map_or_else(String::new, |n| format!(" (handle {n})"));
            let name = format!("rule {} of {name}{handle}", index + 1);
            let line = self.ruleset.line_of(rule.expressions);
            rule::steps(self, (line, &name), rule.expressions, family, making, &mut steps)?;
        }
        Ok(Some(steps))
    }
}
