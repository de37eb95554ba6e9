//! Rules and lists as text that reads back as the same rules.

use super::protocol::{FLAG_NAMES, error_types, information_types};
use crate::language::words::addresses_text;
use crate::packet_text::protocol_text as protocol_name;
use crate::rule::{
    Action, Family, FlagTest, IcmpTest, MAX_NUMBER, PortTest, ProtocolTest, Rule, RuleList, TCP,
    TransportTest,
};
use crate::sets::{Number, RangeSet};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

/// Where a list is applied whose order its numbers do not give.
const PLACE: &str = "list";

impl fmt::Display for RuleList {
    /// A whole file, which decides of every packet as the list does: where the
    /// default passes, rules that pass everything close it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rules: Vec<_> = self.rules.iter().map(Cow::Borrowed).collect();
        if self.default == Action::Pass {
            rules.extend(FAMILIES.map(|family| {
                let number = free_number(&self.rules, family);
                Cow::Owned(Rule::any(number, family, Action::Pass))
            }));
        }
        if rules.iter().any(|rule| rule.number == 0) {
            writeln!(f, "numbers from 0")?;
        }
        for rule in &rules {
            writeln!(f, "{rule}")?;
        }
        let numbers = FAMILIES.map(|family| {
            let of_family = rules.iter().filter(|rule| rule.family == family);
            (family, of_family.map(|rule| rule.number).collect::<Vec<_>>())
        });
        if numbers.iter().all(|(_, numbers)| numbers.is_sorted()) {
            return Ok(());
        }
        for (family, numbers) in numbers.iter().filter(|(_, numbers)| !numbers.is_empty()) {
            write!(f, "{} {PLACE} secure filter in", command(*family))?;
            numbers.iter().try_for_each(|number| write!(f, " {number}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

const FAMILIES: [Family; 2] = [Family::Ipv4, Family::Ipv6];

/// A number that no rule of the family has, if possible above all of them.
fn free_number(rules: &[Rule], family: Family) -> u32 {
    let taken: BTreeSet<_> =
        rules.iter().filter(|rule| rule.family == family).map(|rule| rule.number).collect();
    let above = taken.last().map_or(1, |&number| number.saturating_add(1));
    let below = || (1..MAX_NUMBER).find(|number| !taken.contains(number)).unwrap_or(MAX_NUMBER);
    if above <= MAX_NUMBER { above } else { below() }
}

/// The word that a filter's line begins with.
fn command(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ip",
        Family::Ipv6 => "ipv6",
    }
}

impl fmt::Display for Rule {
    /// One `ip filter` or `ipv6 filter` line, without its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let command = command(self.family);
        let action = match (self.action, self.log) {
            (Action::Pass, false) => "pass",
            (Action::Pass, true) => "pass-log",
            (Action::Reject, true) => "reject",
            (Action::Reject, false) => "reject-nolog",
        };
        let source = addresses_text(self.family, &self.source);
        let destination = addresses_text(self.family, &self.destination);
        let [protocol, first, second] = self.transport_texts();
        let number = self.number;
        write!(
            f,
            "{command} filter {number} {action} {source} {destination} {protocol} {first} {second}"
        )
    }
}

impl Rule {
    /// The last three fields.
    fn transport_texts(&self) -> [String; 3] {
        let ports = [&self.source_ports, &self.destination_ports].map(|test| match test {
            PortTest::Any => "*".to_owned(),
            PortTest::In(set) => set_text(set, ","),
        });
        let portless = [&self.source_ports, &self.destination_ports]
            .into_iter()
            .all(|test| *test == PortTest::Any);
        let ProtocolTest::Only(test) = &self.protocol else {
            let [first, second] = ports;
            return ["*".into(), first, second];
        };
        let icmp_alone = test.protocols.iter().eq([self.family.icmp()]);
        if icmp_alone && portless {
            let name = icmp_name(self.family).to_owned();
            return match &test.icmp {
                None => [name, "*".into(), "*".into()],
                Some(icmp) if icmp.types.is_full() && icmp.codes.is_full() => {
                    [name, "0-255".into(), "*".into()]
                }
                Some(icmp) => [name, byte_text(&icmp.types, ","), byte_text(&icmp.codes, ",")],
            };
        }
        let [first, second] = ports;
        [protocols_text(self.family, test, icmp_alone), first, second]
    }
}

fn icmp_name(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "icmp",
        Family::Ipv6 => "icmp6",
    }
}

/// The protocol field; `explicit` if the next fields are ports although ICMP
/// stands alone.
pub(crate) fn protocols_text(family: Family, test: &TransportTest, explicit: bool) -> String {
    let mut items = Vec::new();
    for protocol in test.protocols.iter() {
        if protocol == TCP && !test.tcp_flags.is_empty() {
            items.extend(test.tcp_flags.iter().map(|&test| flag_text(test)));
        } else if protocol == family.icmp() {
            match &test.icmp {
                Some(icmp) => items.push(icmp_text(family, icmp, explicit)),
                None if explicit => items.push("icmp=*".into()),
                None => items.push(icmp_name(family).into()),
            }
        } else {
            items.push(protocol_name(family, protocol));
        }
    }
    items.join(",")
}

pub(crate) fn flag_text(test: FlagTest) -> String {
    if let Some((name, _)) = FLAG_NAMES.iter().find(|(_, named)| *named == test) {
        return (*name).to_owned();
    }
    match test {
        FlagTest::Equal { mask, value } => format!("tcpflag={value:#06x}/{mask:#06x}"),
        FlagTest::NotEqual { mask, value } => format!("tcpflag!={value:#06x}/{mask:#06x}"),
    }
}

fn icmp_text(family: Family, icmp: &IcmpTest, explicit: bool) -> String {
    let is = |types| !explicit && icmp.codes.is_full() && icmp.types.ranges() == types;
    if is(error_types(family)) {
        "icmp-error".into()
    } else if is(information_types(family)) {
        "icmp-info".into()
    } else if icmp.types.is_full() && icmp.codes.is_full() {
        "icmp=*/*".into()
    } else {
        format!("icmp={}/{}", byte_text(&icmp.types, "+"), byte_text(&icmp.codes, "+"))
    }
}

fn byte_text(set: &RangeSet<u8>, separator: &str) -> String {
    if set.is_full() { "*".into() } else { set_text(set, separator) }
}

pub(crate) fn set_text<T: Number + fmt::Display>(set: &RangeSet<T>, separator: &str) -> String {
    let text = |&(first, last): &(T, T)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    set.ranges().iter().map(text).collect::<Vec<_>>().join(separator)
}
