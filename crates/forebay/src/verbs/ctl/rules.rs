//! `forebay ctl rules`: shows, changes and saves the list in force.

use std::io::{self, Write as _};
use std::path::Path;

use forebay_broker::control::{Request, RuleEdit, RulePage, RulePlace, ask};
use forebay_io::{Placement, WholeFile};
use forebay_rules::language::yamaha;
use forebay_rules::{Action, RuleList};
use serde_json::{Value, json};

use super::answer::{items, number, shown as rendered, text};
use crate::cli::{Cli, RulePlaceArgs, RulesAsk};
use crate::failure::Failure;
use crate::input::print_json;
use crate::show::{Column, Table, human, text as cells};

/// How often a list is read again if it changes meanwhile.
const ATTEMPTS: usize = 5;

/// The request of a command; for `save`, the first page.
pub(super) fn request(ask: &RulesAsk) -> Request {
    let edits = match ask {
        RulesAsk::Show { from, limit, hit } => {
            let page = RulePage { from: *from, limit: *limit, hit: *hit, whole: false };
            return Request::Rules { page };
        }
        RulesAsk::Save { .. } => return Request::Rules { page: whole(1) },
        RulesAsk::Insert { place: at, text } => {
            vec![RuleEdit::Insert { text: text.join(" "), place: place(at) }]
        }
        RulesAsk::Delete { rules } => {
            rules.iter().map(|rule| RuleEdit::Delete { rule: rule.clone() }).collect()
        }
        RulesAsk::Move { rule, place: at } => {
            vec![RuleEdit::Move { rule: rule.clone(), place: place(at) }]
        }
        RulesAsk::Replace { rule, text } => {
            vec![RuleEdit::Replace { rule: rule.clone(), text: text.join(" ") }]
        }
    };
    Request::EditRules { edits }
}

fn place(args: &RulePlaceArgs) -> RulePlace {
    let RulePlaceArgs { before, after, start, .. } = args;
    match (before, after) {
        (Some(rule), _) => RulePlace::Before(rule.clone()),
        (None, Some(rule)) => RulePlace::After(rule.clone()),
        (None, None) if *start => RulePlace::Start,
        (None, None) => RulePlace::End,
    }
}

/// The rules in force with their counters, as a table.
pub(super) fn shown(answer: &Value) -> String {
    /// The most of a rule's text that is shown.
    const TEXT: usize = 240;
    let mut table = Table::new(vec![
        Column::right("rule"),
        Column::right("packets"),
        Column::right("bytes"),
        Column::right("last"),
        Column::wrapped("filter"),
    ]);
    let mut row = |name: String, of: &Value, filter: &str| {
        let last = of["last_s_ago"].as_f64().map(|ago| human::duration((ago * 1e9) as u64));
        table.row([
            name,
            human::count(number(&of["packets"])),
            human::bytes(number(&of["bytes"])),
            last.map_or("-".to_owned(), |ago| format!("{ago} ago")),
            cells::truncate(filter, TEXT).into_owned(),
        ]);
    };
    for rule in items(&answer["rules"]) {
        let prefix = if rule["family"] == "ipv6" { "IPv6 " } else { "" };
        row(format!("{prefix}{}", number(&rule["number"])), rule, &text(&rule["text"]));
    }
    let default = &answer["default"];
    row("-".to_owned(), default, &format!("{} by default", text(&default["action"])));
    let count = human::count(number(&answer["count"]));
    let more = answer["next"].as_u64().map(|next| format!("; more by --from {next}"));
    format!("{}{count} rules{}\n", rendered(&table), more.unwrap_or_default())
}

/// Writes the list in force to a file, which is replaced when the list is complete.
pub(super) fn save(cli: &Cli, socket: &Path, file: &Path) -> Result<(), Failure> {
    let list = whole_list(socket)?;
    let write = || {
        let mut out = io::BufWriter::new(WholeFile::create(file, Placement::Hidden)?);
        write!(out, "{list}")?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.finish(file)
    };
    write().map_err(|source| {
        let (doing, file) = ("write", file.display().to_string());
        Failure::File { doing, file, source }
    })?;
    let count = list.rules.len();
    if cli.json {
        return print_json(&json!({ "file": file, "rules": count }));
    }
    if !cli.quiet {
        // A failure to write to standard error cannot be reported.
        let _ = writeln!(io::stderr(), "{}: {} rules", file.display(), human::count(count as u64));
    }
    Ok(())
}

/// The list in force, read page by page.
fn whole_list(socket: &Path) -> Result<RuleList, Failure> {
    for _ in 0..ATTEMPTS {
        let (mut list, mut edition, mut next) = (RuleList::default(), None, Some(1));
        while let Some(from) = next {
            let page = ask(socket, &Request::Rules { page: whole(from) })?;
            if *edition.get_or_insert_with(|| page["edition"].clone()) != page["edition"] {
                break;
            }
            for rule in items(&page["rules"]) {
                let read = yamaha::rule(&text(&rule["text"]));
                list.rules.push(read.map_err(|error| Failure::Live(error.to_string()))?);
            }
            let passes = page["default"]["action"] == "pass";
            list.default = if passes { Action::Pass } else { Action::Reject };
            next = page["next"].as_u64().map(|next| next as usize);
        }
        if next.is_none() {
            return Ok(list);
        }
    }
    Err(Failure::Live(format!(
        "cannot read the list: it has changed {ATTEMPTS} times meanwhile. Try again"
    )))
}

fn whole(from: usize) -> RulePage {
    RulePage { from, limit: usize::MAX, hit: false, whole: true }
}
