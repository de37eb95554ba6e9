//! The statements of a rule.

use super::table::{Matched, Table};
use super::value::{Verdicts, verdict_map};
use crate::language::chains::{Step, Target};
use crate::language::error::ParseError;
use crate::language::making::{Doubt, Making};
use crate::rule::{Action, Family, Rule};
use serde_json::Value;
use serde_json::value::RawValue;

/// The most conjunctions that one rule may be of.
const MAX_ALTERNATIVES: usize = 20_000;

/// Statements that decide nothing and change nothing that a rule tests.
const ASIDE: [&str; 16] = [
    "counter",
    "log",
    "notrack",
    "set",
    "map",
    "dup",
    "flow",
    "ct helper",
    "ct timeout",
    "ct expectation",
    "secmark",
    "last",
    "comment",
    "continue",
    "meta",
    "ct",
];

/// Statements after which no other rule of the chain is tried.
const OTHER_VERDICTS: [&str; 8] =
    ["queue", "dnat", "snat", "masquerade", "redirect", "tproxy", "synproxy", "fwd"];

/// How a condition is refused.
pub(super) const EXPECTED: &str =
    "a condition on addresses, protocol, ports, TCP flags or ICMP type, which packets answer";

/// Adds the steps of a rule: one for each entry of a verdict map, else one; none for a
/// rule that decides nothing.
pub(super) fn steps(
    table: &Table,
    (line, name): (usize, &str),
    expressions: &RawValue,
    family: Family,
    making: &mut Making,
    steps: &mut Vec<Step>,
) -> Result<(), ParseError> {
    making.work(line, name, 0)?;
    let all: Vec<Value> = serde_json::from_str(expressions.get())
        .map_err(|error| table.ruleset.json(&error, Some(expressions)))?;
    let any = Rule::any(0, family, Action::Reject);
    let mut draft = Draft { line, name, alternatives: vec![any], conditions: Vec::new() };
    for statement in &all {
        let Some((key, value)) = statement.as_object().and_then(|object| object.iter().next())
        else {
            return Err(draft.error(&statement.to_string(), "a statement"));
        };
        let target = match key.as_str() {
            "match" => {
                let matched = table.matched(family, value, line)?;
                draft.narrow(&matched, value, making)?;
                continue;
            }
            "accept" => Target::Verdict(Action::Pass),
            "drop" | "reject" => Target::Verdict(Action::Reject),
            "return" => Target::Return,
            "jump" | "goto" => jump(key, value, &draft)?,
            "vmap" => {
                draft.map(table, family, value, making, steps)?;
                continue;
            }
            "mangle" if changes_key(value) => {
                return Err(
                    draft.error(&value.to_string(), "a rule that changes no address or port")
                );
            }
            "mangle" => continue,
            key if ASIDE.contains(&key) => continue,
            "xt" if is_aside(value) => continue,
            "xt" if value["type"] == "target" => {
                draft.unknown(&statement.to_string(), making, steps)?;
                return Ok(());
            }
            key if OTHER_VERDICTS.contains(&key) => {
                draft.unknown(&statement.to_string(), making, steps)?;
                return Ok(());
            }
            _ => {
                draft.conditions.push(statement.to_string());
                continue;
            }
        };
        return draft.finish(target, making, steps);
    }
    Ok(())
}

fn jump(how: &str, value: &Value, draft: &Draft) -> Result<Target, ParseError> {
    let name = value["target"].as_str();
    let name = name.ok_or_else(|| draft.error(&value.to_string(), "`target` and a chain"))?;
    let name = name.to_owned();
    Ok(if how == "jump" { Target::Jump(name) } else { Target::Goto(name) })
}

/// Whether a statement sets what rules ask for.
fn changes_key(value: &Value) -> bool {
    const ASKED: [&str; 7] = ["saddr", "daddr", "sport", "dport", "protocol", "flags", "type"];
    value["key"]["payload"]["field"].as_str().is_some_and(|field| ASKED.contains(&field))
        || value["key"]["payload"]["base"].is_string()
}

/// Targets of iptables after which the next rule is tried.
fn is_aside(value: &Value) -> bool {
    const NAMES: [&str; 10] = [
        "LOG", "NFLOG", "MARK", "CONNMARK", "TCPMSS", "CLASSIFY", "DSCP", "TOS", "CHECKSUM",
        "TRACE",
    ];
    value["type"] == "target" && value["name"].as_str().is_some_and(|name| NAMES.contains(&name))
}

/// The conditions of a rule's statements so far.
#[derive(Clone)]
struct Draft<'n> {
    line: usize,
    name: &'n str,
    /// Of which one matches.
    alternatives: Vec<Rule>,
    /// What else must hold, of unknown outcome.
    conditions: Vec<String>,
}

impl Draft<'_> {
    fn error(&self, found: &str, expected: &str) -> ParseError {
        ParseError::at(self.line, &format!("{found} in {}", self.name), expected)
    }

    fn narrow(
        &mut self,
        by: &Matched,
        value: &Value,
        making: &mut Making,
    ) -> Result<(), ParseError> {
        match by {
            Matched::Rules(rules) => self.product(rules, making),
            Matched::Unknown => {
                self.conditions.push(value.to_string());
                Ok(())
            }
        }
    }

    /// Keeps what one of `rules` matches too.
    fn product(&mut self, rules: &[Rule], making: &mut Making) -> Result<(), ParseError> {
        let mut all = Vec::new();
        for before in &self.alternatives {
            for rule in rules {
                making.work(self.line, self.name, before.ranges())?;
                all.extend(before.and(rule));
                if all.len() > MAX_ALTERNATIVES {
                    let expected = format!("at most {MAX_ALTERNATIVES} combinations in a rule");
                    return Err(self.error("sets", &expected));
                }
            }
        }
        self.alternatives = all;
        Ok(())
    }

    /// `vmap`: a step for each entry.
    fn map(
        &self,
        table: &Table,
        family: Family,
        map: &Value,
        making: &mut Making,
        steps: &mut Vec<Step>,
    ) -> Result<(), ParseError> {
        let is_certain = self.conditions.is_empty();
        match verdict_map(table, family, map, self.line, is_certain)? {
            Verdicts::Known(entries) => {
                for (rules, verdict) in entries {
                    if let Some(target) = self.verdict(&verdict)? {
                        let mut entry = self.clone();
                        entry.product(&rules, making)?;
                        entry.finish(target, making, steps)?;
                    }
                }
            }
            Verdicts::Unknown(verdicts) => {
                let said = format!("{}: {map}", self.name);
                let Some(action) = making.unknown_target(self.line, &said, EXPECTED)? else {
                    return Ok(());
                };
                let Some(verdicts) = verdicts else {
                    return self.clone().finish(Target::Verdict(action), making, steps);
                };
                // Each of them may be the one.
                for verdict in verdicts {
                    if let Some(target) = self.verdict(&verdict)? {
                        let mut entry = self.clone();
                        entry.conditions.push(map.to_string());
                        entry.finish(target, making, steps)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The target that an entry of a map gives; none for `continue`.
    fn verdict(&self, verdict: &Value) -> Result<Option<Target>, ParseError> {
        let found = verdict.as_object().and_then(|object| object.iter().next());
        let found = found.map(|(key, value)| (key.as_str(), value));
        Ok(Some(match found {
            Some(("accept", _)) => Target::Verdict(Action::Pass),
            Some(("drop", _)) => Target::Verdict(Action::Reject),
            Some(("return", _)) => Target::Return,
            Some((how @ ("jump" | "goto"), value)) => jump(how, value, self)?,
            Some(("continue", _)) => return Ok(None),
            _ => return Err(self.error(&verdict.to_string(), "a verdict")),
        }))
    }

    /// A rule whose verdict is not known.
    fn unknown(
        self,
        target: &str,
        making: &mut Making,
        steps: &mut Vec<Step>,
    ) -> Result<(), ParseError> {
        const VERDICT: &str = "a verdict: accept, drop, reject, jump, goto or return";
        let target = format!("{}: {target}", self.name);
        match making.unknown_target(self.line, &target, VERDICT)? {
            Some(action) => self.finish(Target::Verdict(action), making, steps),
            None => Ok(()),
        }
    }

    fn finish(
        self,
        target: Target,
        making: &mut Making,
        steps: &mut Vec<Step>,
    ) -> Result<(), ParseError> {
        if self.alternatives.is_empty() {
            return Ok(());
        }
        let mut doubtful = false;
        for condition in &self.conditions {
            let condition = format!("{}: {condition}", self.name);
            match making.doubt(self.line, &condition, EXPECTED)? {
                Doubt::Met => {}
                Doubt::Unmet => return Ok(()),
                Doubt::Either => doubtful = true,
            }
        }
        let Self { line, alternatives, .. } = self;
        let name = self.name.to_owned();
        steps.push(Step { line, name, alternatives, doubtful, target }.kept(making)?);
        Ok(())
    }
}
