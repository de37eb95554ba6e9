//! The property of every language: a parsed list prints in our syntax as an equivalent
//! list.

use forebay_rules::language::{Format, Options, Unsupported, open};
use forebay_rules::language::yamaha;
use forebay_rules::rule::{Action, Family, PortTest, ProtocolTest, Rule, RuleList, TCP};
use forebay_rules::{Key, RangeSet};

/// The most rules of a list that are compared packet by packet.
const COMPARED: usize = 16;

/// The most lists of a file that are parsed.
const LISTS: usize = 8;

/// The most rules of a list that is compared at all: printing long ones is not tested here.
const PRINTED: usize = 2_000;

/// Parses the lists of a file with each treatment of unsupported conditions, and checks
/// each. If nothing is refused, the treatments must not differ.
#[allow(dead_code, reason = "not every target reads other languages")]
pub fn check_source(format: Format, data: &[u8], options: &Options) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let ways = [
        Unsupported::Refuse,
        Unsupported::Met,
        Unsupported::Unmet,
        Unsupported::Pass,
        Unsupported::Reject,
    ];
    let mut exact = Vec::new();
    for unsupported in ways {
        let options = Options { unsupported, ..options.clone() };
        let Ok(catalogue) = open(format, text, &options) else { return };
        let _ = catalogue.applied();
        for at in 0..catalogue.lists().len().min(LISTS) {
            let Ok(read) = catalogue.read(at) else { continue };
            assert_eq!(read.lines.len(), read.list.list.rules.len());
            if unsupported == Unsupported::Refuse {
                assert!(read.untested.is_empty());
                exact.push((at, read.clone()));
            }
            if let Some((_, exact)) = exact.iter().find(|(place, _)| *place == at) {
                assert_eq!(*exact, read);
            } else if read.list.list.rules.len() < PRINTED {
                check(&read.list.list, data);
            }
        }
    }
    for (_, read) in exact.iter().filter(|(_, read)| read.list.list.rules.len() < PRINTED) {
        check(&read.list.list, data);
    }
}

/// Prints `list`, parses the result, and compares both on packets drawn from the rules,
/// with TCP flags and ICMP messages from `data`.
pub fn check(list: &RuleList, data: &[u8]) {
    let printed = list.to_string();
    let again = yamaha::parse(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    let again = again.only_list().unwrap_or_else(|| panic!("several lists: {printed}"));
    let closing = if list.default == Action::Pass { 2 } else { 0 };
    assert_eq!(again.rules.len(), list.rules.len() + closing, "{printed}");
    for rule in list.rules.iter().take(COMPARED) {
        for key in keys(rule, data) {
            let [before, after] = [list, &again].map(|list| list.decide(&key));
            assert_eq!(before.action, after.action, "{key}: {printed}");
            let number = |list: &RuleList, index: usize| list.rules[index].number;
            if let Some(index) = before.rule {
                let found = after.rule.map(|index| number(&again, index));
                assert_eq!(found, Some(number(list, index)), "{key}: {printed}");
            }
        }
    }
}

/// Packets at the bounds of the rule's conditions.
fn keys(rule: &Rule, data: &[u8]) -> Vec<Key> {
    let pick = |at: usize| data.get(at).copied().unwrap_or_default();
    let mut protocols = vec![Some(1), Some(TCP), Some(17), Some(58), Some(pick(0))];
    if let ProtocolTest::Only(test) = &rule.protocol {
        protocols.extend(test.protocols.iter().take(3).map(Some));
    }
    if rule.family == Family::Ipv6 {
        protocols.push(None);
    }
    let mut keys = Vec::new();
    for (at, protocol) in protocols.into_iter().enumerate() {
        let has_ports = matches!(protocol, Some(TCP | 17 | 33 | 132 | 136));
        let icmp = protocol == Some(rule.family.icmp());
        for last in [false, true] {
            let ports = (port(&rule.source_ports, last), port(&rule.destination_ports, last));
            let key = Key {
                family: rule.family,
                source: bound(&rule.source, last),
                destination: bound(&rule.destination, last),
                protocol,
                ports: has_ports.then_some(ports),
                tcp_flags: (protocol == Some(TCP)).then(|| pick(1 + at)),
                icmp: icmp.then(|| (pick(2 + at), pick(3 + at))),
            };
            keys.push(key);
            keys.push(Key { ports: None, tcp_flags: None, icmp: None, ..key });
        }
    }
    keys
}

fn bound<T: forebay_rules::sets::Number>(set: &RangeSet<T>, last: bool) -> T {
    let ranges = set.ranges();
    if last { ranges[ranges.len() - 1].1 } else { ranges[0].0 }
}

fn port(test: &PortTest, last: bool) -> u16 {
    match test {
        PortTest::Any => 53,
        PortTest::In(set) => bound(set, last),
    }
}
