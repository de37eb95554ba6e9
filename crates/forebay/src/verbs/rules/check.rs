//! `forebay rules check`: finds rules that never decide, or that others contradict.

use std::fmt::Write as _;
use std::io;

use forebay_rules::RuleList;
use forebay_rules::choose::EngineName;
use forebay_rules::language::Imported;
use forebay_rules::lint::{self, Finding, Limits, Report, RuleName, Severity, Witness};
use serde_json::{Value, json};

use super::file::RuleFile;
use super::naming::{action_name, family_name, key_json, rule_json};
use crate::cli::{Cli, RulesCheckArgs};
use crate::failure::Failure;
use crate::input::{print, print_json};
use crate::show::{Colour, Style, human, terminal_columns, text};

/// A list and its findings.
struct Checked {
    list: Imported,
    report: Report,
    /// The engine that `auto` chooses, if that is to be reported.
    notice: Option<String>,
}

pub fn run(cli: &Cli, args: &RulesCheckArgs) -> Result<(), Failure> {
    let file = RuleFile::new(&args.list.file, &args.list.choice);
    let lists = file.lists(cli)?;
    let check = |list: Imported| {
        // Report that a list is too slow to use before checking it rule by rule.
        let notice = file.choose(cli, &list, EngineName::Auto)?.notice();
        let report = lint::check(&list.list.list, Limits::default());
        Ok(Checked { list, report, notice })
    };
    let checked: Vec<_> = lists.into_iter().map(check).collect::<Result<_, Failure>>()?;
    if cli.json {
        print_json(&as_json(&file, &checked))?;
    } else {
        let (colour, width) = (Colour::stdout(), terminal_columns(io::stdout()));
        let mut lines = Lines { file: &file, colour, width, text: String::new() };
        checked.iter().for_each(|one| lines.list(one, args.notes));
        let _ = writeln!(lines.text, "{}", summary(&checked));
        print(|out| out.write_all(lines.text.as_bytes()))?;
    }
    match count(&checked, Severity::Error) {
        0 => Ok(()),
        errors => Err(Failure::Findings { file: file.name, errors }),
    }
}

fn count(checked: &[Checked], severity: Severity) -> usize {
    checked.iter().map(|checked| checked.report.count(severity)).sum()
}

fn summary(checked: &[Checked]) -> String {
    let counted = |count: usize, what: &str| {
        let plural = if count == 1 { "" } else { "s" };
        format!("{} {what}{plural}", human::count(count as u64))
    };
    let rules = counted(checked.iter().map(|one| one.report.rules).sum(), "rule");
    let findings = [Severity::Error, Severity::Warning, Severity::Note]
        .map(|severity| counted(count(checked, severity), severity.name()));
    let [errors, warnings, notes] = findings;
    let unfinished: usize = checked.iter().map(|one| one.report.unfinished.len()).sum();
    let given_up = match unfinished {
        0 => String::new(),
        _ => format!("; gave up on {}", counted(unfinished, "question")),
    };
    let unexamined: usize = checked.iter().map(|one| one.report.unexamined).sum();
    let left = match unexamined {
        0 => String::new(),
        _ => format!("; did not examine the last {}", counted(unexamined, "rule")),
    };
    format!("{rules}: {errors}, {warnings}, {notes}{given_up}{left}")
}

/// Readable output, line by line. Writing to a string cannot fail.
struct Lines<'a> {
    file: &'a RuleFile<'a>,
    colour: Colour,
    width: Option<usize>,
    text: String,
}

impl Lines<'_> {
    fn list(&mut self, checked: &Checked, notes: bool) {
        let Checked { list, report, notice } = checked;
        if let Some(notice) = notice {
            let name = list.list.given_name().map_or_else(String::new, |name| format!("{name}: "));
            let (file, name) = (text::visible(&self.file.name), text::visible(&name));
            let _ = writeln!(self.text, "{file}: {name}{notice}");
        }
        for finding in &report.findings {
            if finding.severity == Severity::Note && !notes {
                continue;
            }
            let style = match finding.severity {
                Severity::Error => Style::Bad,
                Severity::Warning => Style::Warning,
                Severity::Note => Style::Dim,
            };
            let label = (finding.severity.name(), style);
            self.message(list, finding.rule, label, &finding.to_string());
            if let Some(witness) = &finding.witness {
                self.wrapped(&example(&list.list.list, finding.rule, witness));
            }
        }
        for unfinished in &report.unfinished {
            let label = ("unfinished", Style::Warning);
            self.message(list, unfinished.rule, label, &unfinished.to_string());
        }
    }

    /// `FILE:LINE: LABEL: LIST: MESSAGE`.
    fn message(
        &mut self,
        list: &Imported,
        rule: RuleName,
        (label, style): (&str, Style),
        message: &str,
    ) {
        let line = list.line(rule.index).map_or_else(String::new, |line| format!(":{line}"));
        let name = list.list.given_name().map_or_else(String::new, |name| format!("{name}: "));
        let (file, name) = (text::visible(&self.file.name), text::visible(&name));
        let label = self.colour.paint(style, label);
        let _ = writeln!(self.text, "{file}{line}: {label}: {name}{message}");
    }

    /// An indented remark on the previous message.
    fn wrapped(&mut self, remark: &str) {
        const INDENT: usize = 4;
        let width = self.width.map_or(usize::MAX, |width| width.saturating_sub(INDENT));
        for line in text::wrap(remark, width) {
            let _ = writeln!(self.text, "{:INDENT$}{line}", "");
        }
    }
}

/// A packet that demonstrates a finding, and its verdict.
fn example(rules: &RuleList, rule: RuleName, witness: &Witness) -> String {
    let by = |index: Option<usize>| match index {
        Some(index) => {
            let rule = &rules.rules[index];
            format!("by {}", RuleName { index, number: rule.number, family: rule.family })
        }
        None => "by default".to_owned(),
    };
    let (decision, without) = (&witness.decision, &witness.without);
    let mut text = format!(
        "for example {}: {} {}",
        witness.key,
        action_name(decision.action),
        by(decision.rule)
    );
    if decision.rule == Some(rule.index) {
        let _ = write!(text, ", else {} {}", action_name(without.action), by(without.rule));
    }
    text
}

fn as_json(file: &RuleFile, checked: &[Checked]) -> Value {
    let lists = checked.iter().map(|Checked { list, report, .. }| {
        json!({
            "list": list.list.given_name(),
            "rules": report.rules,
            "unexamined": report.unexamined,
            "complete": report.is_complete(),
        })
    });
    let findings = checked.iter().flat_map(|checked| {
        checked.report.findings.iter().map(|finding| finding_json(&checked.list, finding))
    });
    let unfinished = checked.iter().flat_map(|checked| {
        checked.report.unfinished.iter().map(|one| {
            json!({
                "list": checked.list.list.given_name(),
                "rule": name_json(one.rule),
                "message": one.to_string(),
            })
        })
    });
    json!({
        "file": file.name,
        "lists": lists.collect::<Vec<_>>(),
        "findings": findings.collect::<Vec<_>>(),
        "unfinished": unfinished.collect::<Vec<_>>(),
    })
}

fn finding_json(list: &Imported, finding: &Finding) -> Value {
    let witness = finding.witness.as_ref().map(|witness| {
        let decision = |of: &forebay_rules::Decision| {
            let rule = of.rule.map(|index| rule_json(&list.list.list.rules[index]));
            json!({"action": action_name(of.action), "rule": rule})
        };
        json!({
            "packet": witness.key.to_string(),
            "key": key_json(&witness.key),
            "decision": decision(&witness.decision),
            "without": decision(&witness.without),
        })
    });
    json!({
        "list": list.list.given_name(),
        "line": list.line(finding.rule.index),
        "rule": name_json(finding.rule),
        "kind": finding.kind.name(),
        "severity": finding.severity.name(),
        "causes": finding.causes.iter().copied().map(name_json).collect::<Vec<_>>(),
        "more_causes": finding.more_causes,
        "by_default": finding.by_default,
        "message": finding.to_string(),
        "witness": witness,
    })
}

fn name_json(rule: RuleName) -> Value {
    json!({"family": family_name(rule.family), "number": rule.number})
}
