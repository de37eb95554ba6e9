//! What a packet must be for a rule to fire on it, apart from contents.
//!
//! These conditions decide which packets and flows an always-forward rule passes. Each is necessary:
//! [`Condition::may_match`] is false only if the rule cannot fire on the packet. Keywords that are
//! not known here, and facts that the caller does not have, exclude nothing.

use super::buffers::Side;
use super::header::{Application, Endpoint, Header};

/// A property of a packet with a number for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// Bytes of payload by the lengths in the headers (`dsize`).
    PayloadLen,
    /// `ttl`.
    Ttl,
    /// `id`.
    IpId,
    /// `ip_proto`.
    IpProtocol,
    /// `seq`.
    TcpSequence,
    /// `ack`.
    TcpAcknowledgment,
    /// `window`.
    TcpWindow,
    /// `itype`.
    IcmpType,
    /// `icode`.
    IcmpCode,
    /// `icmp_id`.
    IcmpId,
    /// `icmp_seq`.
    IcmpSequence,
}

/// A range, both ends included, that a field must be in, or must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldTest {
    /// The field.
    pub field: Field,
    /// The least value.
    pub first: u32,
    /// The greatest value.
    pub last: u32,
    /// Whether the field must be outside of the range.
    pub negated: bool,
}

impl FieldTest {
    /// Whether a value passes the test.
    #[must_use]
    pub fn admits(&self, value: u32) -> bool {
        (self.first <= value && value <= self.last) != self.negated
    }

    /// Whether some value from `least` to `most` passes the test.
    pub(super) fn admits_some(&self, least: u32, most: u32) -> bool {
        if self.negated {
            least < self.first || self.last < most
        } else {
            self.first <= most && least <= self.last
        }
    }
}

/// How the flags of `flags` are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagsComparison {
    /// Exactly these.
    Equal,
    /// These, and perhaps others.
    All,
    /// One of these.
    Any,
    /// Not exactly these.
    NotEqual,
}

/// A test of TCP flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlagsTest {
    /// The flags, as in the TCP header (FIN is 1).
    pub flags: u8,
    /// The flags that are compared; the others are ignored.
    pub mask: u8,
    /// How.
    pub comparison: FlagsComparison,
}

impl FlagsTest {
    /// Whether a packet with these flags passes the test.
    #[must_use]
    pub fn admits(self, flags: u8) -> bool {
        let flags = flags & self.mask;
        match self.comparison {
            FlagsComparison::Equal => flags == self.flags,
            FlagsComparison::All => flags & self.flags == self.flags,
            FlagsComparison::Any => flags & self.flags != 0,
            FlagsComparison::NotEqual => flags != self.flags,
        }
    }
}

/// Facts about a packet. What is `None` is not known, or the packet has no such field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketFacts {
    /// The IP protocol.
    pub protocol: u8,
    /// Source address and port.
    pub source: Endpoint,
    /// Destination address and port.
    pub destination: Endpoint,
    /// The direction in the flow.
    pub direction: Side,
    /// Whether the TCP connection is established.
    pub established: Option<bool>,
    /// Flags of TCP.
    pub tcp_flags: Option<u8>,
    /// Whether the flow may be of an application protocol. [`Applications::ALL`] if not known.
    pub applications: Applications,
    /// Fields with their values. A missing one excludes nothing.
    pub fields: [Option<u32>; 11],
}

impl PacketFacts {
    /// Facts about a packet of which only protocol and ends are known.
    #[must_use]
    pub fn new(protocol: u8, source: Endpoint, destination: Endpoint) -> Self {
        Self {
            protocol,
            source,
            destination,
            direction: Side::Either,
            established: None,
            tcp_flags: None,
            applications: Applications::ALL,
            fields: [None; 11],
        }
    }

    /// Sets a field.
    pub fn set(&mut self, field: Field, value: u32) {
        self.fields[field as usize] = Some(value);
    }
}

/// Application protocols that a flow may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applications(u8);

impl Applications {
    /// All.
    pub const ALL: Self = Self(u8::MAX);

    /// Without one.
    #[must_use]
    pub fn without(self, application: Application) -> Self {
        Self(self.0 & !(1 << application as u8))
    }

    /// Whether one is possible.
    #[must_use]
    pub fn may_be(self, application: Application) -> bool {
        self.0 & 1 << application as u8 != 0
    }
}

/// What a packet must be for a rule to fire on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// The application protocol of the flow.
    pub application: Option<Application>,
    /// The direction of the packet.
    pub side: Option<Side>,
    /// Whether the connection must be established, or must not.
    pub established: Option<bool>,
    /// Tests of TCP flags.
    pub flags: Vec<FlagsTest>,
    /// Tests of fields.
    pub fields: Vec<FieldTest>,
    /// Whether the rule keeps or uses state of the flow, so that packets of the flow other than the
    /// one it fires on matter: then the whole flow is passed.
    pub whole_flow: bool,
}

impl Condition {
    /// Whether only the first packet of a TCP connection can meet it: SYN without ACK. A sensor that
    /// sees no other packet of the flow takes its direction from this one, as it would otherwise.
    #[must_use]
    pub fn first_packets_only(&self) -> bool {
        self.established != Some(true)
            && self.application.is_none()
            && self.flags.iter().any(|test| {
                test.comparison == FlagsComparison::Equal
                    && test.flags == 2
                    && test.mask & 0x10 != 0
            })
    }

    /// Whether a rule with this header and condition may fire on a packet.
    #[must_use]
    pub fn may_match(&self, header: &Header, packet: &PacketFacts) -> bool {
        // Lists of addresses are what takes longest.
        self.flags.iter().all(|test| packet.tcp_flags.is_none_or(|flags| test.admits(flags)))
            && self.fields.iter().all(|test| {
                packet.fields[test.field as usize].is_none_or(|value| test.admits(value))
            })
            && self.side.is_none_or(|side| side.admits(packet.direction))
            && (self.established.is_none()
                || packet.established.is_none_or(|is| self.established == Some(is)))
            && self.application.is_none_or(|application| {
                packet.applications.may_be(application)
                    && may_carry(
                        application,
                        packet.protocol,
                        packet.source.1,
                        packet.destination.1,
                    )
            })
            && header.admits(packet.protocol, packet.source, packet.destination)
    }
}

/// Whether packets of a protocol between these ports may carry an application protocol: DNS over
/// TCP is detected by its port (Suricata's default), the others in flows of every port. Port 0 is not
/// known.
#[must_use]
pub fn may_carry(application: Application, protocol: u8, a: u16, b: u16) -> bool {
    application != Application::Dns
        || protocol != 6
        || [a, b].iter().any(|port| [0, 53].contains(port))
}

/// Adds the condition of an option. Whether the option was one.
pub fn add(condition: &mut Condition, name: &str, value: &str) -> Option<()> {
    let field = match name {
        "dsize" => Field::PayloadLen,
        "ttl" => Field::Ttl,
        "id" => Field::IpId,
        "ip_proto" => Field::IpProtocol,
        "seq" | "tcp.seq" => Field::TcpSequence,
        "ack" | "tcp.ack" => Field::TcpAcknowledgment,
        "window" | "tcp.window" => Field::TcpWindow,
        "itype" => Field::IcmpType,
        "icode" => Field::IcmpCode,
        "icmp_id" => Field::IcmpId,
        "icmp_seq" => Field::IcmpSequence,
        "flags" | "tcp.flags" => {
            condition.flags.extend(flags(value));
            return Some(());
        }
        "flow" => {
            flow(condition, value);
            return Some(());
        }
        _ => return None,
    };
    condition.fields.extend(field_test(field, value));
    Some(())
}

fn flow(condition: &mut Condition, value: &str) {
    condition.whole_flow = true;
    for word in value.split(',') {
        match word.trim().to_ascii_lowercase().as_str() {
            "to_server" | "from_client" => condition.side = Some(Side::ToServer),
            "to_client" | "from_server" => condition.side = Some(Side::ToClient),
            "established" => condition.established = Some(true),
            "not_established" => condition.established = Some(false),
            "stateless" => {}
            _ => {}
        }
    }
}

/// A test of a number: `5`, `!5`, `<5`, `>5`, `1<>5`, `1-5`. None for what is not known to be one.
fn field_test(field: Field, value: &str) -> Option<FieldTest> {
    let value = value.trim().trim_matches('"');
    let (negated, value) = match value.strip_prefix('!') {
        Some(rest) => (true, rest.trim()),
        None => (false, value),
    };
    let number = |text: &str| {
        let text = text.trim().trim_start_matches('=');
        match text.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => text.parse::<u32>().ok().or_else(|| protocol_number(field, text)),
        }
    };
    // Whether the ends of `a<>b` belong to it differs between programs: they do here.
    let range = value.split_once("<>").or_else(|| value.split_once('-'));
    let (first, last) = if let Some((first, last)) = range.filter(|(first, _)| !first.is_empty()) {
        // The greater set is to be excluded by neither, so a negated range is not used.
        if negated {
            return None;
        }
        (number(first)?, number(last)?)
    } else if let Some(rest) = value.strip_prefix('<') {
        let last = number(rest)?;
        (0, if rest.starts_with('=') || last == 0 { last } else { last - 1 })
    } else if let Some(rest) = value.strip_prefix('>') {
        let first = number(rest)?;
        (if rest.starts_with('=') { first } else { first.saturating_add(1) }, u32::MAX)
    } else {
        let exact = number(value)?;
        (exact, exact)
    };
    Some(FieldTest { field, first, last, negated })
}

fn protocol_number(field: Field, name: &str) -> Option<u32> {
    if field != Field::IpProtocol {
        return None;
    }
    let names = [("icmp", 1), ("igmp", 2), ("tcp", 6), ("udp", 17), ("gre", 47), ("esp", 50)];
    names.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|&(_, number)| number)
}

/// A test of TCP flags: `S`, `SA,12`, `+F`, `*SF`, `!A`, `0`.
fn flags(value: &str) -> Option<FlagsTest> {
    let (value, ignored) = value.split_once(',').unwrap_or((value, ""));
    let bits = |text: &str| {
        text.chars().try_fold(0u8, |bits, letter| {
            let bit = match letter.to_ascii_uppercase() {
                'F' => 1,
                'S' => 2,
                'R' => 4,
                'P' => 8,
                'A' => 0x10,
                'U' => 0x20,
                'E' | '2' => 0x40,
                'C' | '1' => 0x80,
                '0' | '+' | '*' | '!' | ' ' | ':' => 0,
                _ => return None,
            };
            Some(bits | bit)
        })
    };
    let comparison = match value.chars().find(|letter| "+*!".contains(*letter)) {
        Some('+') => FlagsComparison::All,
        Some('*') => FlagsComparison::Any,
        Some(_) => FlagsComparison::NotEqual,
        None => FlagsComparison::Equal,
    };
    let mask = !bits(ignored)?;
    Some(FlagsTest { flags: bits(value)? & mask, mask, comparison })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(name: &str, value: &str, number: u32) -> bool {
        let header =
            super::super::header::parse("alert ip any any -> any any", &Default::default());
        let mut condition = Condition::default();
        add(&mut condition, name, value).unwrap();
        let end = ("10.0.0.1".parse().unwrap(), 1);
        let mut packet = PacketFacts::new(6, end, end);
        match name {
            "flags" => packet.tcp_flags = Some(number as u8),
            _ => packet.set(condition.fields.first().map_or(Field::Ttl, |test| test.field), number),
        }
        condition.may_match(&header.unwrap(), &packet)
    }

    #[test]
    fn numbers_are_compared() {
        for (value, number, expected) in [
            ("5", 5, true),
            ("5", 6, false),
            ("!5", 5, false),
            ("<5", 4, true),
            ("<5", 5, false),
            (">5", 6, true),
            (">5", 5, false),
            (">=5", 5, true),
            ("2<>5", 5, true),
            ("2<>5", 6, false),
            ("0x10", 16, true),
            ("word", 7, true),
        ] {
            assert_eq!(admits("dsize", value, number), expected, "{value} {number}");
        }
        assert!(admits("ip_proto", "GRE", 47));
        assert!(!admits("ip_proto", "gre", 6));
    }

    #[test]
    fn flags_are_compared() {
        for (value, flags, expected) in [
            ("S", 2, true),
            ("S", 0x12, false),
            ("S,12", 0xc2, true),
            ("S", 0xc2, false),
            ("SA+", 0x1a, true),
            ("*SF", 1, true),
            ("*SF", 4, false),
            ("!S", 2, false),
            ("0", 0, true),
            ("?", 9, true),
        ] {
            assert_eq!(admits("flags", value, flags), expected, "{value} {flags}");
        }
    }

    #[test]
    fn unknown_facts_exclude_nothing() {
        let header =
            super::super::header::parse("alert tcp any any -> any any", &Default::default());
        let header = header.unwrap();
        let mut condition = Condition::default();
        add(&mut condition, "flow", "established,to_server").unwrap();
        add(&mut condition, "flags", "S").unwrap();
        condition.application = Some(Application::Http);
        let end = ("10.0.0.1".parse().unwrap(), 1);
        let mut packet = PacketFacts::new(6, end, end);
        assert!(condition.may_match(&header, &packet));
        packet.direction = Side::ToClient;
        assert!(!condition.may_match(&header, &packet));
        packet.direction = Side::ToServer;
        packet.applications = Applications::ALL.without(Application::Http);
        assert!(!condition.may_match(&header, &packet));
        packet.applications = Applications::ALL;
        packet.established = Some(false);
        assert!(!condition.may_match(&header, &packet));
    }
}
