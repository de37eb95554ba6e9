//! Rules as text that reads back as the same rules.

use super::protocol::{FLAG_NAMES, error_types, information_types};
use crate::language::names;
use crate::language::words::addresses_text;
use crate::rule::{
    Action, Family, FlagTest, IcmpTest, PortTest, ProtocolTest, Rule, TCP, TransportTest,
};
use crate::sets::{Number, RangeSet};
use std::fmt;

impl fmt::Display for Rule {
    /// One `ip filter` or `ipv6 filter` line, without its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let command = match self.family {
            Family::Ipv4 => "ip",
            Family::Ipv6 => "ipv6",
        };
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
        [protocol_text(self.family, test, icmp_alone), first, second]
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
fn protocol_text(family: Family, test: &TransportTest, explicit: bool) -> String {
    let mut items = Vec::new();
    for protocol in test.protocols.iter() {
        if protocol == TCP && !test.tcp_flags.is_empty() {
            items.extend(test.tcp_flags.iter().map(|&test| flag_text(test)));
        } else if protocol == family.icmp() {
            match &test.icmp {
                Some(icmp) => items.push(icmp_text(family, icmp)),
                None if explicit => items.push("icmp=*".into()),
                None => items.push(icmp_name(family).into()),
            }
        } else if matches!(protocol, 1 | 58) {
            // The other family's ICMP: by number, as a name would be taken for ours.
            items.push(protocol.to_string());
        } else {
            let name = names::protocol_name(protocol).map(str::to_owned);
            items.push(name.unwrap_or_else(|| protocol.to_string()));
        }
    }
    items.join(",")
}

fn flag_text(test: FlagTest) -> String {
    if let Some((name, _)) = FLAG_NAMES.iter().find(|(_, named)| *named == test) {
        return (*name).to_owned();
    }
    match test {
        FlagTest::Equal { mask, value } => format!("tcpflag={value:#06x}/{mask:#06x}"),
        FlagTest::NotEqual { mask, value } => format!("tcpflag!={value:#06x}/{mask:#06x}"),
    }
}

fn icmp_text(family: Family, icmp: &IcmpTest) -> String {
    if icmp.codes.is_full() && icmp.types.ranges() == error_types(family) {
        "icmp-error".into()
    } else if icmp.codes.is_full() && icmp.types.ranges() == information_types(family) {
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

fn set_text<T: Number + fmt::Display>(set: &RangeSet<T>, separator: &str) -> String {
    let text = |&(first, last): &(T, T)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    set.ranges().iter().map(text).collect::<Vec<_>>().join(separator)
}
