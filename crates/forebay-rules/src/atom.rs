//! Rules taken apart for engines: conjunctions of intervals.
//!
//! A rule's fields are sets. An *atom* has one prefix an address, one range a
//! port and one [`Test`] of everything else, and a rule is the union of its
//! atoms. ICMP types and codes are ranges over the port fields, under a test
//! that only ICMP packets meet. A list's tests of protocols, of what a
//! packet has, and of TCP flags come in few combinations; they are kept in a
//! dictionary, so that a packet is held against all of them by two look-ups.

use crate::packed::{
    FLAG_VALUES, HAS_ICMP, HAS_PORTS, KINDS, Key4, Key6, NO_FLAGS, NOT_TCP, UNREACHABLE, words,
};
use crate::rule::{Family, FlagTest, IcmpTest, PortTest, ProtocolTest, Rule, TransportTest};
use crate::sets::{Number, ProtocolSet, RangeSet};
use forebay_packet::cancel;
use std::collections::HashMap;
use std::iter;

/// The most atoms that one rule may have.
pub const MAX_ATOMS: usize = 1 << 16;

/// A rule is a union of too many intervals for an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}rule {number}: its lists make {atoms} combinations, expected at most {MAX_ATOMS}; \
     write it as several rules",
    family.before_rule()
)]
pub struct TooManyAtoms {
    /// The rule's family.
    pub family: Family,
    /// The rule's number.
    pub number: u32,
    /// How many atoms it would have.
    pub atoms: usize,
}

/// An address prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The address; bits behind the prefix are 0.
    pub address: u128,
    /// Leading bits that count.
    pub length: u8,
}

/// The tests of an atom but those of addresses and ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Test {
    /// The protocols; none of them where any packet will do.
    protocols: Option<ProtocolSet>,
    /// [`HAS_PORTS`], [`HAS_ICMP`] or 0: what the packet must have.
    needs: u16,
    /// The values of the control bits that a TCP packet may have, a bit each;
    /// none where it is not asked.
    flags: Option<[u64; 4]>,
}

impl Test {
    /// Whether packets of `kind` meet the test, but for TCP's control bits.
    #[must_use]
    pub fn admits_kind(&self, kind: u16) -> bool {
        let protocol = kind & (2 * UNREACHABLE - 1);
        let known = |set: &ProtocolSet| u8::try_from(protocol).is_ok_and(|p| set.contains(p));
        self.protocols.as_ref().is_none_or(known) && kind & self.needs == self.needs
    }

    /// Whether packets with `flags` in their key meet the test, but for the rest.
    #[must_use]
    pub fn admits_flags(&self, flags: u16) -> bool {
        match (&self.flags, flags) {
            (None, _) | (Some(_), NOT_TCP) => true,
            (Some(_), NO_FLAGS) => false,
            (Some(set), flags) => set[usize::from(flags / 64) % 4] >> (flags % 64) & 1 != 0,
        }
    }

    /// The bits of a protocol number that all protocols of the test agree in,
    /// and their value.
    #[must_use]
    pub fn common_protocol_bits(&self) -> (u16, u16) {
        let Some(protocols) = &self.protocols else { return (0, 0) };
        let mut numbers = protocols.iter().map(u16::from);
        let Some(first) = numbers.next() else { return (0, 0) };
        let differing = numbers.fold(0, |bits, number| bits | (number ^ first));
        let agreed = (UNREACHABLE | 0xff) & !differing;
        (agreed, first & agreed)
    }
}

/// One conjunction of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Atom {
    /// Source addresses.
    pub source: Prefix,
    /// Destination addresses.
    pub destination: Prefix,
    /// Source ports, or ICMP types: first and last.
    pub first: (u16, u16),
    /// Destination ports, or ICMP codes: first and last.
    pub second: (u16, u16),
    /// The rest.
    pub test: Test,
}

impl Atom {
    /// The atoms of a rule; none if no packet can match it.
    ///
    /// # Errors
    /// If there are more than [`MAX_ATOMS`].
    pub fn of_rule(rule: &Rule) -> Result<Vec<Self>, TooManyAtoms> {
        let [sources, destinations] =
            [&rule.source, &rule.destination].map(|set| prefixes(rule.family, set));
        let parts = parts(rule);
        // Counted before they are kept: a range can be hundreds of prefixes.
        let Extent { atoms, .. } = Extent::of_parts(rule, &parts);
        if atoms > MAX_ATOMS {
            return Err(TooManyAtoms { family: rule.family, number: rule.number, atoms });
        }
        let sources: Vec<Prefix> = sources.collect();
        let destinations: Vec<Prefix> = destinations.collect();
        let mut all = Vec::with_capacity(atoms);
        for part in &parts {
            for &first in &part.first {
                cancel::check();
                for &second in &part.second {
                    for &source in &sources {
                        let of = |&destination| Self {
                            source,
                            destination,
                            first,
                            second,
                            test: part.test,
                        };
                        all.extend(destinations.iter().map(of));
                    }
                }
            }
        }
        Ok(all)
    }

    /// Whether an IPv4 packet matches.
    #[must_use]
    pub fn matches4(&self, key: &Key4) -> bool {
        in_prefix(Family::Ipv4, self.source, key.source.into())
            && in_prefix(Family::Ipv4, self.destination, key.destination.into())
            && self.matches_rest(key.first, key.second, key.kind, key.flags)
    }

    /// Whether an IPv6 packet matches.
    #[must_use]
    pub fn matches6(&self, key: &Key6) -> bool {
        let joined = |words: [u32; 4]| words.iter().fold(0, |all, &w| all << 32 | u128::from(w));
        in_prefix(Family::Ipv6, self.source, joined(key.source))
            && in_prefix(Family::Ipv6, self.destination, joined(key.destination))
            && self.matches_rest(key.first, key.second, key.kind, key.flags)
    }

    fn matches_rest(&self, first: u16, second: u16, kind: u16, flags: u16) -> bool {
        self.first.0 <= first
            && first <= self.first.1
            && self.second.0 <= second
            && second <= self.second.1
            && self.test.admits_kind(kind)
            && self.test.admits_flags(flags)
    }
}

fn in_prefix(family: Family, prefix: Prefix, address: u128) -> bool {
    let (first, last) = family.prefix(prefix.address, prefix.length);
    first <= address && address <= last
}

/// How much a rule is for engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its atoms.
    pub atoms: usize,
    /// The same if address ranges were not taken apart into prefixes.
    pub ranges: usize,
}

impl Extent {
    /// Counted, not made.
    #[must_use]
    pub fn of(rule: &Rule) -> Self {
        Self::of_parts(rule, &parts(rule))
    }

    fn of_parts(rule: &Rule, parts: &[Part]) -> Self {
        cancel::check();
        let others: usize = parts
            .iter()
            .map(|part| part.first.len().saturating_mul(part.second.len()))
            .fold(0, usize::saturating_add);
        let all = |of: fn(&Rule, &RangeSet<u128>) -> usize| {
            of(rule, &rule.source)
                .saturating_mul(of(rule, &rule.destination))
                .saturating_mul(others)
        };
        Self {
            atoms: all(|rule, set| prefixes(rule.family, set).count()),
            ranges: all(|_, set| set.ranges().len()),
        }
    }
}

/// The prefixes that `set` is the union of.
fn prefixes(family: Family, set: &RangeSet<u128>) -> impl Iterator<Item = Prefix> + Clone {
    set.ranges().iter().flat_map(move |&(first, last)| {
        let last = last.min(family.greatest());
        let mut next = (first <= last).then_some(first);
        iter::from_fn(move || {
            // The largest block that starts at `first` and does not pass `last`.
            let first = next?;
            let aligned = first.trailing_zeros().min(family.bits().into());
            let fits = (last - first).checked_add(1).map_or(128, u128::ilog2);
            let host_bits = aligned.min(fits);
            let behind = 1_u128.checked_shl(host_bits).and_then(|size| first.checked_add(size));
            next = behind.filter(|&behind| behind <= last);
            Some(Prefix { address: first, length: family.bits() - host_bits as u8 })
        })
    })
}

/// The ranges of a rule that go with one test.
pub(crate) struct Part {
    /// The test.
    pub test: Test,
    /// Source ports, or ICMP types.
    pub first: Vec<(u16, u16)>,
    /// Destination ports, or ICMP codes.
    pub second: Vec<(u16, u16)>,
}

const ALL: (u16, u16) = (0, u16::MAX);

/// The tests of a rule but those of addresses: one part, or two.
pub(crate) fn parts(rule: &Rule) -> Vec<Part> {
    let ports = |test: &PortTest| match test {
        PortTest::Any => vec![ALL],
        PortTest::In(set) => set.ranges().to_vec(),
    };
    let named = rule.source_ports != PortTest::Any || rule.destination_ports != PortTest::Any;
    let (first, second) = (ports(&rule.source_ports), ports(&rule.destination_ports));
    let ProtocolTest::Only(transport) = &rule.protocol else {
        let needs = if named { HAS_PORTS } else { 0 };
        return vec![Part { test: Test { protocols: None, needs, flags: None }, first, second }];
    };
    let flags = (!transport.tcp_flags.is_empty()).then(|| admitted(&transport.tcp_flags));
    let test = Test { protocols: Some(transport.protocols), needs: 0, flags };
    if named {
        // Nothing has both ports and an ICMP type: that test need not be asked.
        return vec![Part { test: Test { needs: HAS_PORTS, ..test }, first, second }];
    }
    match &transport.icmp {
        Some(icmp) if transport.protocols.contains(rule.family.icmp()) => {
            by_icmp(rule.family.icmp(), transport, icmp, test)
        }
        _ => vec![Part { test, first, second }],
    }
}

/// A part for ICMP, whose types and codes are asked, and one for the rest.
fn by_icmp(number: u8, transport: &TransportTest, icmp: &IcmpTest, test: Test) -> Vec<Part> {
    let messages = Part {
        test: Test { protocols: Some(ProtocolSet::one(number)), needs: HAS_ICMP, flags: None },
        first: wide(&icmp.types),
        second: wide(&icmp.codes),
    };
    let rest: ProtocolSet = transport.protocols.iter().filter(|&p| p != number).collect();
    if rest.is_empty() {
        return vec![messages];
    }
    let test = Test { protocols: Some(rest), ..test };
    vec![messages, Part { test, first: vec![ALL], second: vec![ALL] }]
}

/// Ranges of bytes as ranges of 16-bit fields; what is any stays any.
fn wide(set: &RangeSet<u8>) -> Vec<(u16, u16)> {
    let top = |last: u8| if last == u8::GREATEST { u16::MAX } else { last.into() };
    set.ranges().iter().map(|&(first, last)| (first.into(), top(last))).collect()
}

/// The values that meet at least one of `tests`.
fn admitted(tests: &[FlagTest]) -> [u64; 4] {
    let mut set = [0; 4];
    for flags in 0..=u8::MAX {
        if tests.iter().any(|test| test.admits(flags)) {
            set[usize::from(flags / 64)] |= 1 << (flags % 64);
        }
    }
    set
}

/// Tests that fit one word of bits.
pub const MAX_TESTS: usize = 32;

/// Places for flags: all that keys have, and some that none has.
pub(crate) const FLAG_PLACES: usize = FLAG_VALUES.next_power_of_two();

/// Where the tests of a kind are, and those of flags; also for values that no key has.
#[inline]
pub(crate) fn places(kind: u16, flags: u16) -> (usize, usize) {
    (usize::from(kind) % KINDS, usize::from(flags) % FLAG_PLACES)
}

/// The dictionary of distinct tests, by which a packet is held against all at
/// once.
#[derive(Clone, Debug)]
pub struct Tests {
    ids: HashMap<Test, u8>,
    /// For each kind, the tests that such packets fail. Those that are not yet given out, all fail: an
    /// older copy of the dictionary matches nothing that is newer.
    by_kind: Box<[u32; KINDS]>,
    /// For each value of `flags`, the tests that such packets fail.
    by_flags: Box<[u32; FLAG_PLACES]>,
}

impl Default for Tests {
    fn default() -> Self {
        let ids = HashMap::new();
        Self { ids, by_kind: Box::new([u32::MAX; KINDS]), by_flags: Box::new([0; FLAG_PLACES]) }
    }
}

impl Tests {
    /// How many tests are in the dictionary.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The tests with their numbers, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Test, u8)> {
        self.ids.iter().map(|(test, &id)| (test, id))
    }

    /// The number of `test`, if it is in the dictionary.
    #[must_use]
    pub fn known(&self, test: &Test) -> Option<u8> {
        self.ids.get(test).copied()
    }

    /// The number of `test`, which is entered if need be; none if the
    /// dictionary is full.
    pub fn id(&mut self, test: &Test) -> Option<u8> {
        if let Some(&id) = self.ids.get(test) {
            return Some(id);
        }
        let id = self.ids.len();
        if id == MAX_TESTS {
            return None;
        }
        for protocol in (0..2 * UNREACHABLE).filter(|p| test.admits_kind(p | test.needs)) {
            let present = [0, HAS_PORTS, HAS_ICMP, HAS_PORTS | HAS_ICMP].into_iter();
            for present in present.filter(|present| present & test.needs == test.needs) {
                self.by_kind[usize::from(protocol | present)] &= !(1 << id);
            }
        }
        for (flags, failed) in (0..).zip(&mut self.by_flags[..FLAG_VALUES]) {
            *failed |= u32::from(!test.admits_flags(flags)) << id;
        }
        self.ids.insert(*test, id as u8);
        Some(id as u8)
    }

    /// The tests that a packet fails, a bit each. What values that no
    /// key has fail is not said.
    #[inline]
    #[must_use]
    pub fn failed(&self, kind: u16, flags: u16) -> u32 {
        let (kind, flags) = places(kind, flags);
        self.by_kind[kind] | self.by_flags[flags]
    }

    /// Bytes of the tables.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&self.by_kind[..]) + size_of_val(&self.by_flags[..])
    }
}

/// A word of the key, as a value and the bits of it that an atom tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ternary {
    /// The bits that are asked for.
    pub care: u64,
    /// Their value; 0 elsewhere.
    pub value: u64,
}

impl Atom {
    /// The key's words as far as the atom fixes their bits: addresses
    /// exactly, ranges by the leading bits in which all their numbers agree,
    /// protocols likewise.
    #[must_use]
    pub fn ternary(&self, family: Family) -> Vec<Ternary> {
        let mut words = match family {
            Family::Ipv4 => {
                let [source, destination] = [self.source, self.destination].map(|prefix| {
                    let care = family.prefix(u128::MAX, prefix.length).0 as u32;
                    (u64::from(care), prefix.address as u64 & u64::from(care))
                });
                vec![Ternary {
                    care: source.0 | destination.0 << 32,
                    value: source.1 | destination.1 << 32,
                }]
            }
            Family::Ipv6 => {
                let halves = |prefix: Prefix| {
                    let mask = words(family.prefix(u128::MAX, prefix.length).0);
                    let address = words(prefix.address);
                    [0, 2].map(|at| {
                        let pair = |w: [u32; 4]| u64::from(w[at]) | u64::from(w[at + 1]) << 32;
                        Ternary { care: pair(mask), value: pair(address) & pair(mask) }
                    })
                };
                [halves(self.source), halves(self.destination)].concat()
            }
        };
        let range = |(first, last): (u16, u16)| {
            let care = u64::from(
                !(u32::from(first ^ last).wrapping_add(1).next_power_of_two() - 1) as u16,
            );
            (care, u64::from(first) & care)
        };
        let (first, second) = (range(self.first), range(self.second));
        let protocol = self.test.common_protocol_bits();
        words.push(Ternary {
            care: first.0 | second.0 << 16 | u64::from(protocol.0) << 32,
            value: first.1 | second.1 << 16 | u64::from(protocol.1) << 32,
        });
        words
    }
}
