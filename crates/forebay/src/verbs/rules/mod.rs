//! `forebay rules`: ordered rule lists, checked, matched, explained, imported.

mod check;
mod explain;
mod import;
mod packets;
mod tally;

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use forebay_io::text::{self, Source, TextError};
use forebay_pipeline::stages::Ruling;
use forebay_rules::choose::{EngineError, EngineName};
use forebay_rules::language::yamaha::{self, Lines};
use forebay_rules::{Action, Family, Key, ParseError, Rule, RuleList};
use serde_json::{Value, json};

use crate::cli::{Cli, ListArgs, RulesArgs, RulesVerb};
use crate::failure::Failure;
use crate::input::file_name;
use crate::naming;

pub fn run(cli: &Cli, args: &RulesArgs) -> Result<(), Failure> {
    match &args.verb {
        RulesVerb::Check(args) => check::run(cli, args),
        RulesVerb::Match(args) => packets::run(cli, args),
        RulesVerb::Explain(args) => explain::run(cli, args),
        RulesVerb::Import(args) => import::run(cli, args),
    }
}

/// One of a file's lists.
#[derive(Clone)]
struct NamedList {
    /// Its name in the file; none if the file names none and all its rules are
    /// one list.
    name: Option<String>,
    rules: RuleList,
}

/// A file of rules in our own language, whose lists are kept elsewhere.
struct RuleFile {
    name: String,
    lines: Lines,
}

impl RuleFile {
    /// The file, and the lists that it applies or the one that all its filters are.
    fn read(path: &Path) -> Result<(Self, Vec<NamedList>), Failure> {
        let document = yamaha::parse(&read_text(path)?).map_err(|error| unreadable(path, error))?;
        let file = Self { name: file_name(path), lines: document.lines() };
        let named = |name: &str| {
            let rules = document.list(name)?;
            Some(NamedList { name: Some(name.to_owned()), rules })
        };
        let lists: Vec<_> = document.names().filter_map(named).collect();
        if lists.is_empty() {
            return Ok((file, vec![NamedList { name: None, rules: document.into_ascending() }]));
        }
        Ok((file, lists))
    }

    /// That an engine does not take a list of the file.
    fn refusal(&self, list: Option<&str>, error: EngineError) -> Failure {
        let line = error.rule().and_then(|(family, number)| self.lines.of(family, number));
        let line = line.map_or_else(String::new, |line| format!(":{line}"));
        let list = list.map_or_else(String::new, |name| format!(": {name}"));
        Failure::Engine { place: format!("{}{line}{list}", self.name), error }
    }
}

/// The list that the options choose, and its file.
fn one_list(args: &ListArgs) -> Result<(RuleFile, NamedList), Failure> {
    let (file, lists) = RuleFile::read(&args.file)?;
    let list = only(&file.name, asked(&file.name, lists, args.list.as_deref())?)?;
    Ok((file, list))
}

/// The list that `split` is to hold packets against.
pub fn ruling_of(cli: &Cli, args: &ListArgs, engine: EngineName) -> Result<Ruling, Failure> {
    let (file, list) = one_list(args)?;
    ruling(cli, &file, list, engine)
}

/// A list of `file` made ready for matching.
fn ruling(
    cli: &Cli,
    file: &RuleFile,
    list: NamedList,
    engine: EngineName,
) -> Result<Ruling, Failure> {
    let isa = forebay_jit::cpu::choose(cli.isa.map(Into::into))
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let refused = |error| file.refusal(list.name.as_deref(), error);
    let chosen = engine.choose(&list.rules, isa).map_err(refused)?;
    if cli.verbose > 0 && !cli.quiet {
        // Nobody is there to be told of a standard error that takes nothing.
        let _ = writeln!(io::stderr(), "{}: {chosen}", file.name);
    }
    Ok(Ruling::new(list.rules.into(), chosen.engine))
}

/// The lists of that name; all where none is asked for.
fn asked(file: &str, lists: Vec<NamedList>, name: Option<&str>) -> Result<Vec<NamedList>, Failure> {
    let Some(name) = name else { return Ok(lists) };
    let names = names(&lists);
    let chosen: Vec<_> =
        lists.into_iter().filter(|list| list.name.as_deref() == Some(name)).collect();
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let there = match names.as_str() {
        "" => "names no list, so that all its rules are one".to_owned(),
        names => format!("has {names}"),
    };
    Err(Failure::Usage(format!("--list {name}: no such list: {file} {there}")))
}

/// The one list, where there are no others to choose from.
fn only(file: &str, mut lists: Vec<NamedList>) -> Result<NamedList, Failure> {
    match (lists.pop(), lists.is_empty()) {
        (Some(list), true) => Ok(list),
        (None, _) => Err(Failure::Usage(format!("{file}: no list of rules is in it"))),
        (Some(last), false) => {
            lists.push(last);
            let names = names(&lists);
            Err(Failure::Usage(format!("{file} has several lists: choose with --list: {names}")))
        }
    }
}

/// The lists' names, for messages.
fn names(lists: &[NamedList]) -> String {
    let mut names: Vec<_> = lists.iter().filter_map(|list| list.name.as_deref()).collect();
    names.dedup();
    names.join(", ")
}

fn read_text(path: &Path) -> Result<String, Failure> {
    let read = text::read(path, Source::Any, "a file of rules", text::MOST_RULES);
    read.map_err(|error| match error {
        TextError::NotText { line, byte } => {
            let (found, expected) = (format!("byte {byte:#04x}"), "text in UTF-8".to_owned());
            unreadable(path, ParseError { line, found, expected })
        }
        source => Failure::Text { file: file_name(path), source },
    })
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    text::read_bytes(path, Source::Any, "a file of rules", text::MOST_RULES)
        .map_err(|source| Failure::Text { file: file_name(path), source })
}

fn unreadable(path: &Path, error: ParseError) -> Failure {
    Failure::Rules { file: file_name(path), error }
}

fn action_name(action: Action) -> &'static str {
    match action {
        Action::Pass => "pass",
        Action::Reject => "reject",
    }
}

/// A rule as a table refers to it.
fn rule_name(rule: &Rule) -> String {
    match rule.family {
        Family::Ipv4 => rule.number.to_string(),
        Family::Ipv6 => format!("IPv6 {}", rule.number),
    }
}

/// What identifies a rule of a list.
fn rule_json(rule: &Rule) -> Value {
    json!({"family": family_name(rule.family), "number": rule.number})
}

/// The same with the rule's text.
fn rule_text_json(rule: &Rule) -> Value {
    let mut object = rule_json(rule);
    object["text"] = json!(rule.to_string());
    object
}

/// A packet as rules see it; protocol, addresses and ports as in all JSON.
fn key_json(key: &Key) -> Value {
    let address = |bits: u128| match key.family {
        Family::Ipv4 => Ipv4Addr::from_bits(bits as u32).to_string(),
        Family::Ipv6 => Ipv6Addr::from_bits(bits).to_string(),
    };
    let protocol = key.protocol.map(naming::protocol_name);
    json!({
        "proto": protocol,
        "protocol": protocol,
        "source_address": address(key.source),
        "source_port": key.ports.map(|(source, _)| source),
        "destination_address": address(key.destination),
        "destination_port": key.ports.map(|(_, destination)| destination),
    })
}

fn family_name(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ipv4",
        Family::Ipv6 => "ipv6",
    }
}
