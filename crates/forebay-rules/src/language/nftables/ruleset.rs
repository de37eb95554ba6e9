//! The objects of a ruleset, scanned.

use crate::language::catalogue::{Direction, Options, Unsupported};
use crate::language::error::ParseError;
use crate::rule::Action;
use forebay_packet::cancel;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;

/// Family, table and name of a chain or a set.
pub(super) type Place<'a> = (Cow<'a, str>, Cow<'a, str>, Cow<'a, str>);

/// A ruleset, scanned and not yet understood.
pub struct Ruleset<'a> {
    pub(super) text: &'a str,
    /// Where lines begin.
    pub(super) lines: Vec<usize>,
    pub(super) unsupported: Unsupported,
    pub(super) interface: Option<(String, Direction)>,
    pub(super) chains: HashMap<Place<'a>, Vec<RawRule<'a>>>,
    pub(super) sets: HashMap<Place<'a>, &'a RawValue>,
    pub(super) lists: Vec<Base<'a>>,
}

/// A chain that packets enter.
pub(super) struct Base<'a> {
    pub place: Place<'a>,
    pub policy: Action,
}

/// A rule that is not read yet.
pub(super) struct RawRule<'a> {
    pub handle: Option<u64>,
    pub expressions: &'a RawValue,
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
    pub(super) fn read_json<T: Deserialize<'a>>(&self, raw: &'a RawValue) -> Result<T, ParseError> {
        serde_json::from_str(raw.get()).map_err(|error| self.json(&error, Some(raw)))
    }

    /// The error of a part of the text, or of all.
    pub(super) fn json(&self, error: &serde_json::Error, part: Option<&RawValue>) -> ParseError {
        let before = part.map_or(0, |raw| self.line_of(raw) - 1);
        let said = error.to_string();
        let said = said.split(" at line ").next().unwrap_or(&said);
        let found = format!("column {}: {said}", error.column());
        ParseError { line: before + error.line().max(1), found, expected: EXPECTED.to_owned() }
    }

    /// The line in which a part of the text begins.
    pub(super) fn line_of(&self, raw: &RawValue) -> usize {
        let at = (raw.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        1 + self.lines.partition_point(|&end| end < at)
    }
}
