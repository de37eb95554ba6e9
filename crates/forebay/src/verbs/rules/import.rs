//! `forebay rules import`: lists of other languages as ours.

use forebay_rules::language::source::{
    Applied, Direction, Format, Imported, Listed, Options, Unsupported, Untested, open,
};
use forebay_rules::{Action, Family, Rule, RuleList};
use serde_json::{Value, json};

use super::{read_bytes, read_text, rule_text_json, unreadable};
use crate::cli::{Cli, RuleLanguage, RulesImportArgs, UnsupportedCondition, Way};
use crate::failure::Failure;
use crate::input::{file_name, print, print_json};

/// Conditions that are told one by one.
const TOLD: usize = 20;

/// Lists whose names a message tells.
const NAMED: usize = 40;

pub fn run(cli: &Cli, args: &RulesImportArgs) -> Result<(), Failure> {
    check(args)?;
    let text = text(args)?;
    let file = file_name(&args.file);
    let format = format(args.from);
    let options = options(args);
    let catalogue = open(format, &text, &options).map_err(|e| unreadable(&args.file, e))?;
    let read = |list| catalogue.read(list).map_err(|error| unreadable(&args.file, error));
    let imported = match &args.interface {
        Some(interface) if format == Format::Cisco => {
            let applied = applied(args, &file, interface, catalogue.applied())?;
            let of = |found: &Applied| Some((read(found.list?), found.family));
            joined(applied.iter().filter_map(of).collect())?
        }
        _ => read(chosen(&file, &catalogue.lists(), args.list.as_deref())?)?,
    };
    if !cli.quiet {
        tell(&file, args.unsupported, &imported.untested);
    }
    if cli.json {
        return print_json(&as_json(&imported));
    }
    print(|out| write!(out, "{}", imported.list.list))
}

/// Options that say nothing about the language.
fn check(args: &RulesImportArgs) -> Result<(), Failure> {
    let is_chains = matches!(args.from, RuleLanguage::Iptables | RuleLanguage::Nftables);
    let message = if args.ipv6 && args.from != RuleLanguage::Iptables {
        "--ipv6 is for --from iptables: the other languages say so themselves"
    } else if args.table.is_some() && !is_chains {
        "--table is for --from iptables and --from nftables: the other languages have no tables"
    } else if args.interface.is_some() && args.from == RuleLanguage::Classbench {
        "--interface is for the other languages: ClassBench has no interfaces"
    } else if args.interface.is_some() && args.list.is_some() && !is_chains {
        "--interface takes the list that it applies, and --list another: give one of them"
    } else {
        return Ok(());
    };
    Err(Failure::Usage(message.to_owned()))
}

/// The file's text. Configurations of Cisco devices may have descriptions in any character
/// set, which do not matter: bytes that are not UTF-8 are taken as ISO 8859-1.
fn text(args: &RulesImportArgs) -> Result<String, Failure> {
    if args.from != RuleLanguage::Cisco {
        return read_text(&args.file);
    }
    let latin = |bytes: &[u8]| bytes.iter().copied().map(char::from).collect();
    let bytes = read_bytes(&args.file)?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| latin(error.as_bytes())))
}

fn format(language: RuleLanguage) -> Format {
    match language {
        RuleLanguage::Classbench => Format::Classbench,
        RuleLanguage::Cisco => Format::Cisco,
        RuleLanguage::Iptables => Format::Iptables,
        RuleLanguage::Nftables => Format::Nftables,
    }
}

fn options(args: &RulesImportArgs) -> Options {
    let unsupported = match args.unsupported {
        UnsupportedCondition::Refuse => Unsupported::Refuse,
        UnsupportedCondition::Met => Unsupported::Met,
        UnsupportedCondition::Unmet => Unsupported::Unmet,
        UnsupportedCondition::Pass => Unsupported::Pass,
        UnsupportedCondition::Reject => Unsupported::Reject,
    };
    let way = direction(args.direction.unwrap_or(Way::In));
    Options {
        unsupported,
        family: args.ipv6.then_some(Family::Ipv6),
        table: args.table.clone(),
        interface: args.interface.clone().map(|name| (name, way)),
    }
}

fn direction(way: Way) -> Direction {
    match way {
        Way::In => Direction::In,
        Way::Out => Direction::Out,
    }
}

/// The list of that name, or the only one.
fn chosen(file: &str, lists: &[Listed], name: Option<&str>) -> Result<usize, Failure> {
    let fits =
        |listed: &Listed| name.is_none_or(|name| listed.name == name || listed.full_name == name);
    let mut fitting = (0..lists.len()).filter(|&index| fits(&lists[index]));
    let (first, second) = (fitting.next(), fitting.next());
    let names = |lists: &[&Listed]| {
        let full = |listed: &Listed| lists.iter().filter(|l| l.name == listed.name).count() > 1;
        let name = |listed: &&Listed| {
            let name = if full(listed) { &listed.full_name } else { &listed.name };
            let plural = if listed.entries == 1 { "" } else { "s" };
            format!("{name} ({} rule{plural})", listed.entries)
        };
        let mut names: Vec<_> = lists.iter().take(NAMED).map(name).collect();
        if lists.len() > NAMED {
            names.push(format!("and {} more", lists.len() - NAMED));
        }
        names.join(", ")
    };
    let message = match (first, second, name) {
        (Some(only), None, _) => return Ok(only),
        (Some(_), Some(_), None) => {
            let all: Vec<_> = lists.iter().collect();
            format!("{file} has several lists: choose with --list: {}", names(&all))
        }
        (Some(_), Some(_), Some(name)) => {
            let those: Vec<_> = lists.iter().filter(|listed| fits(listed)).collect();
            format!("--list {name}: {file} has several of that name: {}", names(&those))
        }
        (None, _, Some(name)) if !lists.is_empty() => {
            let all: Vec<_> = lists.iter().collect();
            format!("--list {name}: no such list: {file} has {}", names(&all))
        }
        (None, ..) => format!("{file}: no list of rules is in it"),
    };
    Err(Failure::Usage(message))
}

/// The lists that an interface applies to packets of one direction.
fn applied(
    args: &RulesImportArgs,
    file: &str,
    interface: &str,
    applied: Vec<Applied>,
) -> Result<Vec<Applied>, Failure> {
    let usage = |message: String| Err(Failure::Usage(message));
    let is = |name: &str| name.eq_ignore_ascii_case(interface);
    let of = |found: &Applied| is(&found.interface) || found.aliases.iter().any(|name| is(name));
    let (mut here, elsewhere): (Vec<_>, Vec<_>) = applied.into_iter().partition(of);
    if here.is_empty() {
        let mut others: Vec<_> = elsewhere.into_iter().map(|found| found.interface).collect();
        others.sort();
        others.dedup();
        others.truncate(NAMED);
        let others = if others.is_empty() { "none does".to_owned() } else { others.join(", ") };
        let message =
            format!("--interface {interface} applies no list of {file}; these do: {others}");
        return usage(message);
    }
    let way = match args.direction.map(direction) {
        Some(way) => way,
        None if here.iter().all(|found| found.direction == here[0].direction) => here[0].direction,
        None => {
            let each = here.iter().map(|found| format!("{} {}", found.name, found.direction));
            let each = each.collect::<Vec<_>>().join(", ");
            return usage(format!(
                "--interface {interface} applies {each}: choose with --direction"
            ));
        }
    };
    here.retain(|found| found.direction == way);
    if here.is_empty() {
        return usage(format!("--interface {interface} applies no list to packets that go {way}"));
    }
    for (index, found) in here.iter().enumerate() {
        if found.list.is_none() {
            let name = &found.name;
            return usage(format!("--interface {interface} applies {name}, which {file} lacks"));
        }
        let clashes = |other: &Applied| other.family == found.family && other.name != found.name;
        if here[..index].iter().any(clashes) {
            let message = format!("--interface {interface} applies several lists to packets {way}");
            return usage(format!("{message}: choose with --list"));
        }
    }
    here.dedup_by(|left, right| left.list == right.list);
    Ok(here)
}

/// The lists of one interface as one. Packets of a family for which it applies none pass.
fn joined(read: Vec<(Result<Imported, Failure>, Option<Family>)>) -> Result<Imported, Failure> {
    let filtered: Vec<_> = read.iter().map(|(_, family)| *family).collect();
    let mut all: Option<Imported> = None;
    for (imported, _) in read {
        let imported = imported?;
        match &mut all {
            None => all = Some(imported),
            Some(all) => {
                all.list.list.rules.extend(imported.list.list.rules);
                all.lines.extend(imported.lines);
                all.untested.extend(imported.untested);
            }
        }
    }
    let mut all = all.ok_or_else(|| Failure::Usage("no list is applied".to_owned()))?;
    for family in [Family::Ipv4, Family::Ipv6] {
        if !filtered.iter().any(|of| of.is_none_or(|of| of == family)) {
            all.list.list.rules.push(Rule::any(10, family, Action::Pass));
            all.lines.push(0);
        }
    }
    let RuleList { rules, .. } = &mut all.list.list;
    // Stable: the order within a family stays.
    let mut numbered: Vec<_> = rules.drain(..).zip(all.lines.drain(..)).collect();
    numbered.sort_by_key(|(rule, _)| rule.family);
    (*rules, all.lines) = numbered.into_iter().unzip();
    Ok(all)
}

/// Says which conditions were not imported, and what that means.
fn tell(file: &str, meaning: UnsupportedCondition, untested: &[Untested]) {
    let meaning = match meaning {
        UnsupportedCondition::Refuse => return,
        UnsupportedCondition::Met => "taken as met by every packet",
        UnsupportedCondition::Unmet => "taken as met by no packet",
        UnsupportedCondition::Pass => "taken so that packets pass",
        UnsupportedCondition::Reject => "taken so that packets are rejected",
    };
    for Untested { line, condition } in untested.iter().take(TOLD) {
        eprintln!("warning: {file}:{line}: {condition}: not tested, {meaning}");
    }
    if untested.len() > TOLD {
        let more = untested.len() - TOLD;
        eprintln!("warning: {file}: {more} more conditions: not tested, {meaning}");
    }
}

fn as_json(imported: &Imported) -> Value {
    let rules = imported.list.list.rules.iter().zip(&imported.lines);
    let rules: Vec<_> = rules
        .map(|(rule, line)| {
            let mut object = rule_text_json(rule);
            // A rule for packets that no list is applied to comes from no line.
            object["line"] = if *line == 0 { Value::Null } else { json!(line) };
            object
        })
        .collect();
    let untested: Vec<_> = imported
        .untested
        .iter()
        .map(|found| json!({"line": found.line, "condition": found.condition}))
        .collect();
    let name = Some(&imported.list.name).filter(|name| !name.is_empty());
    let text = imported.list.list.to_string();
    json!({"list": name, "rules": rules, "text": text, "untested": untested})
}
