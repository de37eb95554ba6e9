//! `forebay rules import`: lists of other languages as ours.

use forebay_rules::Family;
use forebay_rules::language::{self, cisco, classbench, iptables};
use serde_json::json;

use super::{NamedList, asked, only, read_text, rule_text_json, unreadable};
use crate::cli::{Cli, RuleLanguage, RulesImportArgs};
use crate::failure::Failure;
use crate::input::{file_name, print, print_json};

pub fn run(cli: &Cli, args: &RulesImportArgs) -> Result<(), Failure> {
    if args.ipv6 && args.from != RuleLanguage::Iptables {
        let message = "--ipv6 is for --from iptables: the other languages say so themselves";
        return Err(Failure::Usage(message.to_owned()));
    }
    let text = read_text(&args.file)?;
    let lists = lists(args, &text)?;
    let file = file_name(&args.file);
    let list = only(&file, asked(&file, lists, args.list.as_deref())?)?;
    if cli.json {
        let rules: Vec<_> = list.rules.rules.iter().map(rule_text_json).collect();
        let text = list.rules.to_string();
        return print_json(&json!({"list": list.name, "rules": rules, "text": text}));
    }
    print(|out| write!(out, "{}", list.rules))
}

fn lists(args: &RulesImportArgs, text: &str) -> Result<Vec<NamedList>, Failure> {
    let named = |list: language::NamedList| NamedList { name: Some(list.name), rules: list.list };
    let lists = match args.from {
        RuleLanguage::Classbench => {
            classbench::parse(text).map(|rules| vec![NamedList { name: None, rules }])
        }
        RuleLanguage::Cisco => {
            cisco::parse(text).map(|lists| lists.into_iter().map(named).collect())
        }
        RuleLanguage::Iptables => iptables::parse(text, family(args, text))
            .map(|lists| lists.into_iter().map(named).collect()),
    };
    lists.map_err(|error| unreadable(&args.file, error))
}

/// ip6tables-save, also as ip6tables-nft-save or ip6tables-legacy-save, says in its first
/// line that it is it.
fn family(args: &RulesImportArgs, text: &str) -> Family {
    let first = text.lines().next().unwrap_or_default();
    if args.ipv6 || first.contains("ip6tables") { Family::Ipv6 } else { Family::Ipv4 }
}
