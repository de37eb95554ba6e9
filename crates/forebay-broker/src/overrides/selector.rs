//! How a request names a flow: by addresses and ports, or by its Community ID.

use forebay_packet::decode::has_ports;
use forebay_packet::flow::AddressKind;
use forebay_packet::{CommunityDigest, FlowKey, read_community_id};
use forebay_rules::{Family, Key};

/// A flow that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selector {
    /// By protocol, addresses and ports.
    Key(FlowKey),
    /// By its Community ID, with seed 0.
    Community(CommunityDigest),
}

const EXPECTED: &str = "expected `tcp 10.0.0.1:1234 > 10.0.0.2:80` or a Community ID, `1:…=`";

impl Selector {
    /// Reads the flows of a request, one a line. Blank lines and those that begin with `#` are
    /// passed over.
    ///
    /// # Errors
    /// The first line that names no flow, and what was expected there.
    pub fn read_all(text: &str) -> Result<Vec<Self>, String> {
        let is_one = !text.contains('\n');
        let lines = (1..).zip(text.lines().map(str::trim));
        let flows = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let read = |(number, line): (u64, &str)| {
            Self::read(line).map_err(|why| match is_one {
                true => format!("{}: {why}", shortened(line)),
                false => format!("line {number}, {}: {why}", shortened(line)),
            })
        };
        flows.map(read).collect()
    }

    fn read(text: &str) -> Result<Self, String> {
        if text.starts_with("1:") {
            return read_community_id(text).map(Self::Community).ok_or_else(|| EXPECTED.to_owned());
        }
        let packet: Key = text.parse().map_err(|error| format!("{error}; {EXPECTED}"))?;
        key(&packet).map(Self::Key).map_err(|why| format!("{why}; {EXPECTED}"))
    }
}

/// The flow of a packet.
fn key(packet: &Key) -> Result<FlowKey, &'static str> {
    let protocol = packet.protocol.ok_or("a flow has a protocol")?;
    if packet.tcp_flags.is_some() {
        return Err("a flow has no TCP flags");
    }
    if protocol == packet.family.icmp() {
        return Err("the messages of ICMP are named by their Community ID");
    }
    if has_ports(protocol) && packet.ports.is_none() {
        return Err("a flow of this protocol has ports");
    }
    let kind = match packet.family {
        Family::Ipv4 => AddressKind::Ipv4,
        Family::Ipv6 => AddressKind::Ipv6,
    };
    let (source, destination) = packet.ports.unwrap_or_default();
    let ends = ((packet.source, source), (packet.destination, destination));
    let (key, _) = FlowKey::two_way(kind, protocol, ends.0, ends.1);
    Ok(FlowKey { has_ports: packet.ports.is_some(), ..key })
}

/// A flow as a request would name it; the addresses alone of one that has no such name.
#[must_use]
pub fn flow_text(key: &FlowKey) -> String {
    let packet = Key {
        family: if key.kind == AddressKind::Ipv6 { Family::Ipv6 } else { Family::Ipv4 },
        source: key.low,
        destination: key.high,
        protocol: Some(key.protocol),
        ports: (key.has_ports && has_ports(key.protocol)).then_some((key.port_low, key.port_high)),
        tcp_flags: None,
        icmp: None,
    };
    packet.to_string()
}

/// The beginning of a line, for an error.
fn shortened(line: &str) -> String {
    const SHOWN: usize = 60;
    let mut shown: String = line.chars().take(SHOWN).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_name_one_flow() {
        let texts =
            "tcp 10.0.0.2:80 > 10.0.0.1:1234\n# the same\n\n tcp 10.0.0.1:1234 > 10.0.0.2:80";
        let read = Selector::read_all(texts).unwrap();
        assert_eq!((read.len(), read[0]), (2, read[1]));
        let Selector::Key(key) = read[0] else { panic!("{read:?}") };
        assert_eq!(flow_text(&key), "tcp 10.0.0.1:1234 > 10.0.0.2:80");
        for text in ["udp [::1]:53 > [2001:db8::2]:1024", "gre 10.0.0.1 > 10.0.0.2"] {
            let Selector::Key(key) = Selector::read_all(text).unwrap()[0] else { panic!("{text}") };
            assert_eq!(flow_text(&key), text);
        }
        let id = Selector::read_all("1:LQU9qZlK+B5F3KDmev6m5PMibrg=").unwrap();
        assert!(matches!(id[..], [Selector::Community(_)]), "{id:?}");
    }

    #[test]
    fn errors_name_the_line_and_what_was_expected() {
        for (text, expected) in [
            ("tcp 10.0.0.1:1234", "\"tcp 10.0.0.1:1234\": column 18: found the end, expected `>`"),
            ("1:short", "\"1:short\": expected `tcp 10.0.0.1:1234 > 10.0.0.2:80` or a Community"),
            ("\ntpc 1.2.3.4:1 > 1.2.3.5:2", "line 2, \"tpc 1.2.3.4:1 > 1.2.3.5:2\": column 1: "),
            ("tcp 1.2.3.4 > 1.2.3.5", "a flow of this protocol has ports"),
            ("tcp 1.2.3.4:1 > 1.2.3.5:2 ack", "a flow has no TCP flags"),
            ("icmp 1.2.3.4 > 1.2.3.5", "ICMP are named by their Community ID"),
            ("unknown ::1 > ::2", "a flow has a protocol"),
        ] {
            let error = Selector::read_all(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
