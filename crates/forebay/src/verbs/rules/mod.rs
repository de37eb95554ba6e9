//! `forebay rules`: ordered rule lists, checked, matched, explained, imported.

mod check;
mod explain;
mod import;
mod packets;
mod tally;

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use forebay_io::text::{self, Source};
use forebay_pipeline::stages::CompiledRules;
use forebay_rules::choose::{Chosen, EngineName};
use forebay_rules::language::Imported;
use forebay_rules::language::load::{LoadError, load, load_all};
use forebay_rules::{Action, Family, Key, Rule};
use serde_json::{Value, json};

use crate::cli::{Cli, ListChoice, RulesArgs, RulesVerb};
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

/// A file of rules, in any language.
struct RuleFile<'a> {
    /// Its name in messages.
    name: String,
    path: &'a Path,
    choice: &'a ListChoice,
}

impl<'a> RuleFile<'a> {
    fn new(path: &'a Path, choice: &'a ListChoice) -> Self {
        Self { name: file_name(path), path, choice }
    }

    fn bytes(&self) -> Result<Vec<u8>, Failure> {
        text::read_bytes(self.path, Source::Any, "a file of rules", text::MOST_RULES)
            .map_err(|source| Failure::Text { file: self.name.clone(), source })
    }

    /// The list selected by the options.
    fn list(&self, cli: &Cli) -> Result<Imported, Failure> {
        let list = load(&self.bytes()?, &self.choice.selection(), &ListChoice::NAMES);
        let list = list.map_err(|error| self.refusal(error))?;
        self.warn(cli, &list);
        Ok(list)
    }

    /// The lists selected by the options, or all.
    fn lists(&self, cli: &Cli) -> Result<Vec<Imported>, Failure> {
        let lists = load_all(&self.bytes()?, &self.choice.selection(), &ListChoice::NAMES);
        let lists = lists.map_err(|error| self.refusal(error))?;
        lists.iter().for_each(|list| self.warn(cli, list));
        Ok(lists)
    }

    fn warn(&self, cli: &Cli, list: &Imported) {
        if !cli.quiet {
            for warning in list.warnings(&self.name, self.choice.unsupported) {
                // A failure to write to standard error cannot be reported.
                let _ = writeln!(io::stderr(), "warning: {warning}");
            }
        }
    }

    fn refusal(&self, error: LoadError) -> Failure {
        Failure::Rules(error.in_file(&self.name))
    }

    /// The compiled form of a list of the file.
    fn choose(&self, cli: &Cli, list: &Imported, engine: EngineName) -> Result<Chosen, Failure> {
        let isa = forebay_jit::cpu::choose(cli.isa.map(Into::into))
            .map_err(|error| Failure::Usage(error.to_string()))?;
        list.choose(engine, isa).map_err(|error| self.refusal(error))
    }

    /// The compiled list selected by the options, and its name.
    fn compiled_rules(
        &self,
        cli: &Cli,
        engine: EngineName,
    ) -> Result<(Option<String>, CompiledRules), Failure> {
        let list = self.list(cli)?;
        let chosen = self.choose(cli, &list, engine)?;
        if cli.verbose > 0 && !cli.quiet {
            // A failure to write to standard error cannot be reported.
            let _ = writeln!(io::stderr(), "{}: {chosen}", self.name);
        }
        let name = list.list.given_name().map(str::to_owned);
        Ok((name, CompiledRules::new(list.list.list.into(), chosen.engine)))
    }
}

/// The compiled list for `split`.
pub fn compiled_rules_of(
    cli: &Cli,
    path: &Path,
    choice: &ListChoice,
) -> Result<CompiledRules, Failure> {
    Ok(RuleFile::new(path, choice).compiled_rules(cli, EngineName::Auto)?.1)
}

fn action_name(action: Action) -> &'static str {
    match action {
        Action::Pass => "pass",
        Action::Reject => "reject",
    }
}

/// The name of a rule in tables.
fn rule_name(rule: &Rule) -> String {
    match rule.family {
        Family::Ipv4 => rule.number.to_string(),
        Family::Ipv6 => format!("IPv6 {}", rule.number),
    }
}

/// The identification of a rule of a list.
fn rule_json(rule: &Rule) -> Value {
    json!({"family": family_name(rule.family), "number": rule.number})
}

/// The same with the rule's text.
fn rule_text_json(rule: &Rule) -> Value {
    let mut object = rule_json(rule);
    object["text"] = json!(rule.to_string());
    object
}

/// The rule key of a packet; protocol, addresses and ports as in all JSON.
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
