//! The conjunction of two rules: the packets that match both.
//!
//! A rule's fields are sets, so that both match where each field is in both sets. A rule
//! that names ports, flags or messages still fails on a packet without them.

use crate::key::has_ports;
use crate::rule::{
    Action, Family, FlagTest, IcmpTest, PortTest, ProtocolTest, Rule, TCP, TransportTest,
};
use crate::sets::{ProtocolSet, RangeSet};

impl Rule {
    /// The rule of `other`'s action that matches what both match; none if no packet does.
    #[must_use]
    pub(crate) fn and(&self, other: &Self) -> Option<Self> {
        if self.family != other.family {
            return None;
        }
        let both = Self {
            source: self.source.intersection(&other.source)?,
            destination: self.destination.intersection(&other.destination)?,
            protocol: protocols(self.family, &self.protocol, &other.protocol)?,
            source_ports: ports(&self.source_ports, &other.source_ports)?,
            destination_ports: ports(&self.destination_ports, &other.destination_ports)?,
            ..Self::any(other.number, other.family, other.action)
        };
        both.is_possible().then_some(both)
    }

    /// Whether some protocol that the rule admits has the ports that it names.
    fn is_possible(&self) -> bool {
        let names_ports =
            self.source_ports != PortTest::Any || self.destination_ports != PortTest::Any;
        match &self.protocol {
            ProtocolTest::Only(test) if names_ports => test.protocols.iter().any(has_ports),
            _ => true,
        }
    }

    /// Whether the rule matches every packet of its family.
    pub(crate) fn is_any(&self) -> bool {
        self.source == self.family.all()
            && self.destination == self.family.all()
            && self.protocol == ProtocolTest::Any
            && self.source_ports == PortTest::Any
            && self.destination_ports == PortTest::Any
    }

    /// Whether the fields are those of `other`.
    pub(crate) fn has_fields(&self, other: &Self) -> bool {
        self.family == other.family
            && self.source == other.source
            && self.destination == other.destination
            && self.protocol == other.protocol
            && self.source_ports == other.source_ports
            && self.destination_ports == other.destination_ports
    }

    /// The rules that together match what this one does not; none if no rules can say
    /// that: what lacks a port is in no set of ports.
    pub(crate) fn complement(&self) -> Option<Vec<Self>> {
        let any = Self::any(self.number, self.family, Action::Reject);
        let domain = 0..=self.family.greatest();
        let mut rest = Vec::new();
        let alike = match (&self.protocol, self.family) {
            (ProtocolTest::Any, _) => ProtocolTest::Any,
            (ProtocolTest::Only(test), Family::Ipv4)
                if test.tcp_flags.is_empty() && test.icmp.is_none() =>
            {
                let others = test.protocols.complement();
                if !others.is_empty() {
                    let protocol = ProtocolTest::Only(TransportTest::of(others));
                    rest.push(Self { protocol, ..any.clone() });
                }
                self.protocol.clone()
            }
            _ => return None,
        };
        if self.source_ports != PortTest::Any || self.destination_ports != PortTest::Any {
            return None;
        }
        // Each packet is in one of them: those after the first agree in what the first negates.
        if let Some(source) = self.source.complement(domain.clone()) {
            rest.push(Self { source, protocol: alike.clone(), ..any.clone() });
        }
        if let Some(destination) = self.destination.complement(domain) {
            rest.push(Self { source: self.source.clone(), destination, protocol: alike, ..any });
        }
        Some(rest)
    }

    /// Address and port ranges of the rule.
    #[must_use]
    pub fn ranges(&self) -> usize {
        let ports = |test: &PortTest| match test {
            PortTest::Any => 0,
            PortTest::In(set) => set.ranges().len(),
        };
        self.source.ranges().len()
            + self.destination.ranges().len()
            + ports(&self.source_ports)
            + ports(&self.destination_ports)
    }
}

fn ports(left: &PortTest, right: &PortTest) -> Option<PortTest> {
    match (left, right) {
        (PortTest::Any, other) | (other, PortTest::Any) => Some(other.clone()),
        (PortTest::In(left), PortTest::In(right)) => left.intersection(right).map(PortTest::In),
    }
}

fn protocols(family: Family, left: &ProtocolTest, right: &ProtocolTest) -> Option<ProtocolTest> {
    let (left, right) = match (left, right) {
        (ProtocolTest::Any, other) | (other, ProtocolTest::Any) => return Some(other.clone()),
        (ProtocolTest::Only(left), ProtocolTest::Only(right)) => (left, right),
    };
    let mut test = TransportTest::of(left.protocols.intersection(&right.protocols));
    if test.protocols.contains(TCP) {
        match both_flags(&left.tcp_flags, &right.tcp_flags) {
            Some(tests) => test.tcp_flags = tests,
            None => test.protocols = without(test.protocols, TCP),
        }
    }
    if test.protocols.contains(family.icmp()) {
        match both_messages(left.icmp.as_ref(), right.icmp.as_ref()) {
            Some(messages) => test.icmp = messages,
            None => test.protocols = without(test.protocols, family.icmp()),
        }
    }
    (!test.protocols.is_empty()).then_some(ProtocolTest::Only(test))
}

fn without(protocols: ProtocolSet, protocol: u8) -> ProtocolSet {
    protocols.intersection(&ProtocolSet::one(protocol).complement())
}

/// The messages of both tests, none for no test; nothing if no message meets both.
fn both_messages(left: Option<&IcmpTest>, right: Option<&IcmpTest>) -> Option<Option<IcmpTest>> {
    match (left, right) {
        (None, other) | (other, None) => Some(other.cloned()),
        (Some(left), Some(right)) => {
            let types = left.types.intersection(&right.types)?;
            let codes = left.codes.intersection(&right.codes)?;
            Some(Some(IcmpTest { types, codes }))
        }
    }
}

/// Tests of which one is met where one of `left` and one of `right` is; none if that
/// cannot be. No tests ask nothing.
fn both_flags(left: &[FlagTest], right: &[FlagTest]) -> Option<Vec<FlagTest>> {
    let (ours, theirs) = (FlagSet::of(left), FlagSet::of(right));
    let both = ours.and(theirs);
    // Tests that every value meets still ask for flags to be there.
    if both == ours && !(left.is_empty() && both == theirs) {
        return Some(left.to_vec()).filter(|_| both != FlagSet([0; 4]));
    }
    if both == theirs {
        return Some(right.to_vec()).filter(|_| both != FlagSet([0; 4]));
    }
    both.tests()
}

/// A set of the values that TCP's eight control bits can have, a bit each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlagSet([u64; 4]);

impl FlagSet {
    /// The values that meet one of `tests`; all where there are none.
    pub(crate) fn of(tests: &[FlagTest]) -> Self {
        Self::from_fn(|flags| tests.is_empty() || tests.iter().any(|test| test.admits(flags)))
    }

    /// The values that `admits`.
    pub(crate) fn from_fn(admits: impl Fn(u8) -> bool) -> Self {
        let mut set = [0; 4];
        for flags in (0..=u8::MAX).filter(|&flags| admits(flags)) {
            set[usize::from(flags / 64)] |= 1_u64 << (flags % 64);
        }
        Self(set)
    }

    fn and(self, other: Self) -> Self {
        let mut set = self.0;
        set.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
        Self(set)
    }

    fn within(self, other: Self) -> bool {
        self.and(other) == self
    }

    /// Tests that exactly the values of the set meet; none for the empty set, no tests
    /// for all values.
    pub(crate) fn tests(self) -> Option<Vec<FlagTest>> {
        let all = Self([u64::MAX; 4]);
        if self == Self([0; 4]) || self == all {
            return (self == all).then(Vec::new);
        }
        let equal = |(mask, value)| FlagTest::Equal { mask, value };
        let other = |(mask, value)| FlagTest::NotEqual { mask, value };
        let exact = cubes().map(equal).chain(cubes().map(other));
        let mut found = exact.filter(|&test| Self::of(&[test]) == self);
        if let Some(test) = found.next() {
            return Some(vec![test]);
        }
        // Cubes with few bits in their mask hold most values; each adds some value.
        let mut inside: Vec<_> =
            cubes().filter(|&cube| Self::of(&[equal(cube)]).within(self)).collect();
        inside.sort_by_key(|(mask, _)| mask.count_ones());
        let (mut tests, mut held) = (Vec::new(), Self([0; 4]));
        for cube in inside {
            let values = Self::of(&[equal(cube)]);
            if !values.within(held) {
                held.0.iter_mut().zip(values.0).for_each(|(word, other)| *word |= other);
                tests.push(equal(cube));
            }
        }
        Some(tests)
    }
}

/// All masks with the values that they can leave.
fn cubes() -> impl Iterator<Item = (u8, u8)> {
    let values = |mask: u8| (0..=u8::MAX).filter(move |value| value & !mask == 0);
    (0..=u8::MAX).flat_map(move |mask| values(mask).map(move |value| (mask, value)))
}

/// Messages of one type, and of one code where it is given.
pub(crate) fn message(kind: u8, code: Option<u8>) -> IcmpTest {
    let codes = code.map_or_else(RangeSet::full, RangeSet::one);
    IcmpTest { types: RangeSet::one(kind), codes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_test_that_flags_are_there_is_kept() {
        let there = vec![FlagTest::Equal { mask: 0, value: 0 }];
        let syn = vec![FlagTest::Equal { mask: 2, value: 2 }];
        let cases = [(&there, &[][..], &there), (&there, &there, &there), (&there, &syn, &syn)];
        for (left, right, both) in cases {
            assert_eq!(both_flags(left, right).as_ref(), Some(both));
            assert_eq!(both_flags(right, left).as_ref(), Some(both));
        }
        assert_eq!(both_flags(&[], &[]), Some(Vec::new()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn tests_of_flags_hold_the_set_that_they_were_made_of(
            drawn in prop::collection::vec(any::<(u8, u8, bool)>(), 1..4),
            others in prop::collection::vec(any::<(u8, u8, bool)>(), 1..3),
        ) {
            let tests = |drawn: &[(u8, u8, bool)]| -> Vec<FlagTest> {
                let test = |&(mask, value, equal): &(u8, u8, bool)| match equal {
                    true => FlagTest::Equal { mask, value: value & mask },
                    false => FlagTest::NotEqual { mask, value: value & mask },
                };
                drawn.iter().map(test).collect()
            };
            let (left, right) = (tests(&drawn), tests(&others));
            let both = both_flags(&left, &right);
            for flags in 0..=u8::MAX {
                let meets = |tests: &[FlagTest]| {
                    tests.is_empty() || tests.iter().any(|test| test.admits(flags))
                };
                let expected = meets(&left) && meets(&right);
                let met = both.as_ref().is_some_and(|tests| meets(tests));
                prop_assert_eq!(met, expected, "{} of {:?} {:?}", flags, left, right);
            }
        }
    }
}
