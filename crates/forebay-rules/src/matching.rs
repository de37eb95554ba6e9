//! What it means for a rule to match: a linear scan, written to be read.
//!
//! This is the specification of every engine. It tries the rules of a list in
//! order and the fields of a rule in the order of [`Field`], and can say of
//! each rule which field failed first and why. No care is taken for speed.

use crate::key::Key;
use crate::rule::{Action, PortTest, ProtocolTest, Rule, RuleList, TCP, TransportTest};
use std::fmt;

/// A field of a rule, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// Whether the rule is for IPv4 or for IPv6.
    Family,
    /// Source address.
    Source,
    /// Destination address.
    Destination,
    /// IP protocol.
    Protocol,
    /// TCP control bits.
    TcpFlags,
    /// ICMP type.
    IcmpType,
    /// ICMP code.
    IcmpCode,
    /// Source port.
    SourcePort,
    /// Destination port.
    DestinationPort,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Family => "address family",
            Self::Source => "source address",
            Self::Destination => "destination address",
            Self::Protocol => "protocol",
            Self::TcpFlags => "TCP flags",
            Self::IcmpType => "ICMP type",
            Self::IcmpCode => "ICMP code",
            Self::SourcePort => "source port",
            Self::DestinationPort => "destination port",
        })
    }
}

/// Why a field failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The packet has a value that the rule does not admit.
    Differs,
    /// The packet has no such value: it is of a protocol without it, a fragment
    /// other than the first, or cut short.
    Absent,
}

/// The first field of a rule that a packet fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mismatch {
    /// The field.
    pub field: Field,
    /// Why it fails.
    pub cause: Cause,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Cause::Differs => write!(f, "{} differs", self.field),
            Cause::Absent => write!(f, "the packet has no {}", self.field),
        }
    }
}

/// The decision of a list on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// Index of the first rule that matches; none if the default decides.
    pub rule: Option<usize>,
    /// What becomes of the packet.
    pub action: Action,
}

impl RuleList {
    /// The first rule that matches `key`, or the default.
    #[must_use]
    pub fn decide(&self, key: &Key) -> Decision {
        let rule = self.rules.iter().position(|rule| rule.check(key).is_ok());
        Decision { rule, action: rule.map_or(self.default, |index| self.rules[index].action) }
    }

    /// As [`RuleList::decide`], with what kept `key` from matching each rule
    /// before the one that decides.
    #[must_use]
    pub fn explain(&self, key: &Key) -> (Decision, Vec<Mismatch>) {
        let decision = self.decide(key);
        let tried = &self.rules[..decision.rule.unwrap_or(self.rules.len())];
        (decision, tried.iter().filter_map(|rule| rule.check(key).err()).collect())
    }
}

impl Rule {
    /// Whether the rule matches `key`.
    #[must_use]
    pub fn matches(&self, key: &Key) -> bool {
        self.check(key).is_ok()
    }

    /// Tries the fields one after the other.
    ///
    /// # Errors
    /// The first field that fails, if the rule does not match `key`.
    pub fn check(&self, key: &Key) -> Result<(), Mismatch> {
        require(Field::Family, Some(self.family == key.family))?;
        require(Field::Source, Some(self.source.contains(key.source)))?;
        require(Field::Destination, Some(self.destination.contains(key.destination)))?;
        if let ProtocolTest::Only(test) = &self.protocol {
            require(Field::Protocol, key.protocol.map(|number| test.protocols.contains(number)))?;
            self.check_transport(test, key)?;
        }
        if let PortTest::In(ports) = &self.source_ports {
            require(Field::SourcePort, key.ports.map(|(source, _)| ports.contains(source)))?;
        }
        if let PortTest::In(ports) = &self.destination_ports {
            require(Field::DestinationPort, key.ports.map(|(_, port)| ports.contains(port)))?;
        }
        Ok(())
    }

    /// The tests of the protocol's own header, for a packet of a named protocol.
    fn check_transport(&self, test: &TransportTest, key: &Key) -> Result<(), Mismatch> {
        if key.protocol == Some(TCP) && !test.tcp_flags.is_empty() {
            let met = |flags| test.tcp_flags.iter().any(|test| test.admits(flags));
            require(Field::TcpFlags, key.tcp_flags.map(met))?;
        }
        if key.protocol == Some(self.family.icmp())
            && let Some(icmp) = &test.icmp
        {
            require(Field::IcmpType, key.icmp.map(|(kind, _)| icmp.types.contains(kind)))?;
            require(Field::IcmpCode, key.icmp.map(|(_, code)| icmp.codes.contains(code)))?;
        }
        Ok(())
    }
}

/// Fails unless the field's test is met; `None` is a value the packet lacks.
fn require(field: Field, met: Option<bool>) -> Result<(), Mismatch> {
    match met {
        Some(true) => Ok(()),
        Some(false) => Err(Mismatch { field, cause: Cause::Differs }),
        None => Err(Mismatch { field, cause: Cause::Absent }),
    }
}
