//! `forebay rules explain`: the rule that decides about a packet, and why earlier ones do
//! not match.

use std::fmt::Write as _;
use std::io;

use forebay_rules::language::NamedList;
use forebay_rules::{Field, Key, Rule};
use serde_json::{Value, json};

use super::file::RuleFile;
use super::naming::{action_name, key_json, rule_json, rule_name, rule_text_json};
use crate::cli::{Cli, RulesExplainArgs};
use crate::failure::Failure;
use crate::input::{print, print_json};
use crate::show::{Colour, Column, Style, Table, terminal_columns, text};

/// The most columns of a reason in the table: a rule can list thousands of addresses. JSON
/// has them all.
const REASON_COLUMNS: usize = 240;

pub fn run(cli: &Cli, args: &RulesExplainArgs) -> Result<(), Failure> {
    let key = packet(&args.packet)?;
    let NamedList { name, list } =
        RuleFile::new(&args.list.file, &args.list.choice).list(cli)?.list;
    let rules = &list.rules;
    let decision = list.decide(&key);
    let decisive = decision.rule.map(|index| &rules[index]);
    let earlier = &rules[..decision.rule.unwrap_or(rules.len())];
    let action = action_name(decision.action);
    if cli.json {
        let reasons: Vec<_> = earlier.iter().filter_map(|rule| reason_json(rule, &key)).collect();
        return print_json(&json!({
            "list": Some(name).filter(|name| !name.is_empty()),
            "packet": key.to_string(),
            "key": key_json(&key),
            "action": action,
            "rule": decisive.map(rule_text_json),
            "earlier": reasons,
        }));
    }
    let verdict = match decisive {
        Some(rule) => format!("{action} by rule {}", rule_name(rule)),
        None => format!("{action} by default: no rule matches"),
    };
    let colour = Colour::stdout();
    let mut shown = format!("{}\n", colour.paint(Style::Bold, &verdict));
    if let Some(rule) = decisive {
        // Writing to a String cannot fail.
        let _ = writeln!(shown, "    {rule}");
    }
    if !earlier.is_empty() {
        shown.push('\n');
        shown.push_str(&table(earlier, &key).render(terminal_columns(io::stdout()), colour));
    }
    print(|out| out.write_all(shown.as_bytes()))
}

fn packet(text: &str) -> Result<Key, Failure> {
    text.parse().map_err(|error| Failure::Usage(format!("--packet: {error}")))
}

/// Why the rules before the deciding one do not match.
fn table(earlier: &[Rule], key: &Key) -> Table {
    let mut table =
        Table::new(vec![Column::right("rule"), Column::wrapped("does not match because")]);
    for rule in earlier {
        if let Some(reason) = rule.reason(key) {
            let reason = text::truncate(&reason.to_string(), REASON_COLUMNS).into_owned();
            table.row([rule_name(rule), reason]);
        }
    }
    table
}

fn reason_json(rule: &Rule, key: &Key) -> Option<Value> {
    let reason = rule.reason(key)?;
    let mut object = rule_json(rule);
    object["field"] = json!(field_name(reason.mismatch.field));
    object["found"] = json!(reason.found);
    object["wanted"] = json!(reason.wanted);
    object["because"] = json!(reason.to_string());
    Some(object)
}

fn field_name(field: Field) -> &'static str {
    match field {
        Field::Family => "family",
        Field::Source => "source",
        Field::Destination => "destination",
        Field::Protocol => "protocol",
        Field::TcpFlags => "tcp_flags",
        Field::IcmpType => "icmp_type",
        Field::IcmpCode => "icmp_code",
        Field::SourcePort => "source_port",
        Field::DestinationPort => "destination_port",
    }
}
