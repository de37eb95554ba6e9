//! Why a rule does not match a packet, in words and values.

use crate::key::Key;
use crate::language::words::{address_text, addresses_text};
use crate::language::yamaha::print::{flag_text, set_text};
use crate::matching::{Cause, Field, Mismatch};
use crate::packet_text::{flags_text, protocol_text};
use crate::rule::{Family, IcmpTest, PortTest, ProtocolTest, Rule};
use crate::sets::RangeSet;
use std::fmt;

/// The field that failed, what the packet has there, and what the rule requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The field that failed, and whether the packet has it at all.
    pub mismatch: Mismatch,
    /// What the packet has; nothing if it has none.
    pub found: Option<String>,
    /// What the rule requires, as its language writes it.
    pub wanted: String,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (field, wanted) = (self.mismatch.field, &self.wanted);
        let several = wanted.contains(',');
        match (field, &self.found) {
            (Field::Family, Some(found)) => write!(f, "the packet is {found}, not {wanted}"),
            (_, None) => write!(f, "the packet has no {field}, and the rule asks for {wanted}"),
            (Field::TcpFlags, Some(found)) => {
                let verb = if several { "meet none of" } else { "do not meet" };
                write!(f, "{field} {found} {verb} {wanted}")
            }
            (Field::Protocol, Some(found)) => {
                let verb = if several { "is none of" } else { "is not" };
                write!(f, "{field} {found} {verb} {wanted}")
            }
            (_, Some(found)) if several || wanted.contains(['-', '/']) => {
                write!(f, "{field} {found} is not in {wanted}")
            }
            (_, Some(found)) => write!(f, "{field} {found} is not {wanted}"),
        }
    }
}

impl Rule {
    /// Why the rule does not match `key`; none if it does.
    #[must_use]
    pub fn reason(&self, key: &Key) -> Option<Reason> {
        let mismatch = self.check(key).err()?;
        let found = match mismatch.cause {
            Cause::Differs => value(key, mismatch.field),
            Cause::Absent => None,
        };
        Some(Reason { mismatch, found, wanted: self.wanted(mismatch.field) })
    }

    /// What the rule requires of a field, `*` if nothing.
    fn wanted(&self, field: Field) -> String {
        let test = match &self.protocol {
            ProtocolTest::Any => None,
            ProtocolTest::Only(test) => Some(test),
        };
        let icmp = test.and_then(|test| test.icmp.as_ref());
        let asked = match field {
            Field::Family => Some(family_text(self.family).to_owned()),
            Field::Source => Some(addresses_text(self.family, &self.source)),
            Field::Destination => Some(addresses_text(self.family, &self.destination)),
            Field::Protocol => test.map(|test| {
                let names = test.protocols.iter().map(|number| protocol_text(self.family, number));
                names.collect::<Vec<_>>().join(",")
            }),
            Field::TcpFlags => test.map(|test| {
                let tests = test.tcp_flags.iter().map(|&test| flag_text(test));
                tests.collect::<Vec<_>>().join(",")
            }),
            Field::IcmpType => icmp.map(|IcmpTest { types, .. }| set_text(types, ",")),
            Field::IcmpCode => icmp.map(|IcmpTest { codes, .. }| set_text(codes, ",")),
            Field::SourcePort => ports(&self.source_ports).map(|set| set_text(set, ",")),
            Field::DestinationPort => ports(&self.destination_ports).map(|set| set_text(set, ",")),
        };
        asked.unwrap_or_else(|| "*".into())
    }
}

fn ports(test: &PortTest) -> Option<&RangeSet<u16>> {
    match test {
        PortTest::Any => None,
        PortTest::In(set) => Some(set),
    }
}

/// What the packet has in a field.
fn value(key: &Key, field: Field) -> Option<String> {
    match field {
        Field::Family => Some(family_text(key.family).into()),
        Field::Source => Some(address_text(key.family, key.source)),
        Field::Destination => Some(address_text(key.family, key.destination)),
        Field::Protocol => key.protocol.map(|number| protocol_text(key.family, number)),
        Field::TcpFlags => key.tcp_flags.map(flags_text),
        Field::IcmpType => key.icmp.map(|(kind, _)| kind.to_string()),
        Field::IcmpCode => key.icmp.map(|(_, code)| code.to_string()),
        Field::SourcePort => key.ports.map(|(source, _)| source.to_string()),
        Field::DestinationPort => key.ports.map(|(_, destination)| destination.to_string()),
    }
}

fn family_text(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "IPv4",
        Family::Ipv6 => "IPv6",
    }
}

#[cfg(test)]
mod tests {
    use crate::language::yamaha;

    #[test]
    fn reasons_name_field_and_values() {
        let cases = [
            (
                "tcp 10.0.0.1:9 > 10.0.0.2:80 syn",
                &[
                    ("pass 192.168.0.0/16", "source address 10.0.0.1 is not in 192.168.0.0/16"),
                    ("pass * 10.0.0.3", "destination address 10.0.0.2 is not 10.0.0.3"),
                    (
                        "pass 10.0.0.4,10.0.0.9",
                        "source address 10.0.0.1 is not in 10.0.0.4,10.0.0.9",
                    ),
                    ("pass * * udp", "protocol tcp is not udp"),
                    ("pass * * 50,51", "protocol tcp is none of esp,ah"),
                    ("pass * * established", "TCP flags syn do not meet established"),
                    ("pass * * tcpfin,tcprst", "TCP flags syn meet none of tcpfin,tcprst"),
                    ("pass * * tcp 10-", "source port 9 is not in 10-65535"),
                    ("pass * * tcp * 443", "destination port 80 is not 443"),
                ][..],
            ),
            (
                "icmp 10.0.0.1 > 10.0.0.2 type 3 code 4",
                &[
                    ("pass * * icmp 8", "ICMP type 3 is not 8"),
                    ("pass * * icmp 3 0-1", "ICMP code 4 is not in 0-1"),
                    (
                        "pass * * * * 53",
                        "the packet has no destination port, and the rule asks for 53",
                    ),
                ],
            ),
            (
                "tcp 10.0.0.1 > 10.0.0.2",
                &[
                    (
                        "pass * * tcpsyn",
                        "the packet has no TCP flags, and the rule asks for tcpsyn",
                    ),
                    ("pass * * tcp 1", "the packet has no source port, and the rule asks for 1"),
                ],
            ),
            ("unknown ::1 > ::2", &[("pass *", "the packet is IPv6, not IPv4")]),
        ];
        for (packet, reasons) in cases {
            let key = packet.parse().unwrap();
            for (rule, reason) in reasons {
                let list = yamaha::parse(&format!("ip filter 1 {rule}")).unwrap().ascending();
                let found = list.rules[0].reason(&key).map(|reason| reason.to_string());
                assert_eq!(found.as_deref(), Some(*reason), "{packet}: {rule}");
            }
        }
        let six = yamaha::parse("ipv6 filter 1 pass * * icmp").unwrap().ascending();
        let reason = six.rules[0].reason(&"unknown ::1 > ::2".parse().unwrap()).unwrap();
        assert_eq!(reason.to_string(), "the packet has no protocol, and the rule asks for icmp6");
        assert_eq!(six.rules[0].reason(&"icmp ::1 > ::2".parse().unwrap()), None);
    }
}
