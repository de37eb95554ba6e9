//! `forebay rules import`: converts lists of any language to ours.

use forebay_rules::language::Imported;
use serde_json::{Value, json};

use super::file::RuleFile;
use super::naming::rule_text_json;
use crate::cli::{Cli, ListArgs};
use crate::failure::Failure;
use crate::input::{print, print_json};

pub fn run(cli: &Cli, args: &ListArgs) -> Result<(), Failure> {
    let imported = RuleFile::new(&args.file, &args.choice).list(cli)?;
    if cli.json {
        return print_json(&as_json(&imported));
    }
    print(|out| write!(out, "{}", imported.list.list))
}

fn as_json(imported: &Imported) -> Value {
    let rules = imported.list.list.rules.iter().enumerate();
    let rules: Vec<_> = rules
        .map(|(index, rule)| {
            let mut object = rule_text_json(rule);
            object["line"] = json!(imported.line(index));
            object
        })
        .collect();
    let untested: Vec<_> = imported
        .untested
        .iter()
        .map(|found| json!({"line": found.line, "condition": found.condition}))
        .collect();
    let name = imported.list.given_name();
    let text = imported.list.list.to_string();
    json!({"list": name, "rules": rules, "text": text, "untested": untested})
}
