//! A rule list as a network of predicates over the bits of a key.
//!
//! A rule's test of each field is a predicate. Those of all rules are built
//! field by field, addresses in ascending order, so that each is next to those
//! it shares its beginning with and the bits of one field are in use at a time.
//! A rule then is the conjunction of a few of them. Which rule is first is the
//! outcome of a tournament: two neighbours give the number of the first that
//! matches, two pairs again, and a last entry behind all rules always matches
//! and represents the default. So the answer is a number in binary, a bit plane
//! for each of its bits, and the work is the same whatever packets come.

use std::collections::HashMap;

use forebay_codegen::sliced::network::{Arity, Network, Signal};
use forebay_packet::cancel;

use super::error::LinearError;
use crate::packed::{HAS_ICMP, HAS_PORTS, NO_FLAGS, NOT_TCP, UNREACHABLE};
use crate::rule::{Family, FlagTest, PortTest, ProtocolTest, Rule, RuleList, TCP};
use crate::sets::{Number, ProtocolSet, RangeSet};

/// Where the bits of a packed key are: the number of each in the key, the least
/// significant bit of its first byte being number 0.
struct Bits {
    source: Vec<u32>,
    destination: Vec<u32>,
    first: u32,
    second: u32,
    kind: u32,
    flags: u32,
}

impl Bits {
    fn of(family: Family) -> Self {
        let words: u32 = match family {
            Family::Ipv4 => 1,
            Family::Ipv6 => 4,
        };
        // Words come most significant first.
        let address = |from: u32| -> Vec<u32> {
            (from..from + words)
                .flat_map(|word| (0..32).rev().map(move |bit| 32 * word + bit))
                .collect()
        };
        let rest = 64 * words;
        Self {
            source: address(0),
            destination: address(words),
            first: rest,
            second: rest + 16,
            kind: rest + 32,
            flags: rest + 48,
        }
    }
}

/// The most nodes of a family's predicates: several times what lists of the
/// most rules have that are no unions.
const MAX_NODES: usize = 1 << 18;

/// Bits of a key: the inputs of its network.
pub(super) fn key_bits(family: Family) -> u32 {
    match family {
        Family::Ipv4 => 128,
        Family::Ipv6 => 320,
    }
}

/// The predicates of a list for packets of one family.
pub(super) struct Predicates {
    pub(super) network: Network,
    /// The bits of the place of the first rule that matches, least significant
    /// first; the place behind the last is the default's.
    pub(super) place: Vec<Signal>,
    /// The index in the list of the rule at each place.
    pub(super) rules: Vec<u32>,
}

impl Predicates {
    /// The predicates of the rules of `list` that are for `family`.
    ///
    /// # Errors
    /// More than [`MAX_NODES`] nodes.
    pub(super) fn of(list: &RuleList, family: Family, arity: Arity) -> Result<Self, LinearError> {
        let rules: Vec<(u32, &Rule)> =
            (0..).zip(&list.rules).filter(|(_, rule)| rule.family == family).collect();
        let mut builder = Builder::new(family, arity);
        let Bits { source, destination, .. } = Bits::of(family);
        let of_rules = || rules.iter().map(|&(_, rule)| rule);
        let source = builder.addresses(&source, of_rules().map(|rule| &rule.source));
        let destination = builder.addresses(&destination, of_rules().map(|rule| &rule.destination));
        let services: Vec<Signal> = of_rules().map(|rule| builder.service(rule)).collect();
        let entry = |(rule, service): (&Rule, Signal)| {
            [source[&rule.source], destination[&rule.destination], service]
        };
        let default = [Signal::TRUE; 3];
        let entries: Vec<[Signal; 3]> =
            of_rules().zip(services).map(entry).chain([default]).collect();
        let place = builder.first(&entries).place;
        let rules = rules.into_iter().map(|(index, _)| index).collect();
        let size = builder.network.nodes().len();
        if size > MAX_NODES {
            let (engine, what) = ("pe", "nodes");
            return Err(LinearError::TooLarge { engine, what, size, most: MAX_NODES });
        }
        Ok(Self { network: builder.network, place, rules })
    }
}

/// The first of some rules to match.
struct First {
    /// Whether one does.
    any: Signal,
    /// Its place among them, if one does; least significant bit first.
    place: Vec<Signal>,
}

struct Builder {
    network: Network,
    family: Family,
    bits: Bits,
}

impl Builder {
    fn new(family: Family, arity: Arity) -> Self {
        let network = Network::new(key_bits(family), arity);
        Self { network, family, bits: Bits::of(family) }
    }

    /// The predicates of `sets` of addresses, whose bits are inputs `bits`.
    fn addresses<'a>(
        &mut self,
        bits: &[u32],
        sets: impl Iterator<Item = &'a RangeSet<u128>>,
    ) -> HashMap<&'a RangeSet<u128>, Signal> {
        let bits: Vec<Signal> = bits.iter().map(|&bit| self.network.input(bit)).collect();
        let mut sets: Vec<&RangeSet<u128>> = sets.collect();
        sets.sort_unstable_by_key(|set| set.ranges());
        sets.dedup();
        let predicate =
            |set: &'a RangeSet<u128>| (set, self.in_ranges(&bits, set.ranges().iter().copied()));
        sets.into_iter().map(predicate).collect()
    }

    /// Whether a number is in one of `ranges`. Those that come when there are
    /// too many nodes are left out: the list is refused in the end.
    fn in_ranges(&mut self, bits: &[Signal], ranges: impl Iterator<Item = (u128, u128)>) -> Signal {
        let mut parts = Vec::new();
        for range in ranges {
            cancel::check();
            if self.network.nodes().len() > MAX_NODES {
                break;
            }
            parts.push(self.network.within(bits, range));
        }
        self.network.any(parts)
    }

    /// `width` bits from `first` on, most significant first.
    fn number(&self, first: u32, width: u32) -> Vec<Signal> {
        (first..first + width).rev().map(|bit| self.network.input(bit)).collect()
    }

    /// The bit of a 16-bit field at `first` that has the given value there.
    fn bit(&self, first: u32, value: u16) -> Signal {
        self.network.input(first + value.trailing_zeros())
    }

    /// All tests of a rule but those of addresses.
    fn service(&mut self, rule: &Rule) -> Signal {
        cancel::check();
        let mut asked = Vec::new();
        if let ProtocolTest::Only(test) = &rule.protocol {
            asked.push(self.protocols(&test.protocols));
            if !test.tcp_flags.is_empty() && test.protocols.contains(TCP) {
                asked.push(self.tcp_flags(&test.tcp_flags, &test.protocols));
            }
            if let Some(icmp) = &test.icmp
                && test.protocols.contains(self.family.icmp())
            {
                let own = self.protocols(&ProtocolSet::one(self.family.icmp()));
                let present = self.bit(self.bits.kind, HAS_ICMP);
                let types = self.number(self.bits.first, 16);
                let types = self.in_ranges(&types, wide(&icmp.types));
                let codes = self.number(self.bits.second, 16);
                let codes = self.in_ranges(&codes, wide(&icmp.codes));
                let met = self.network.all([present, types, codes]);
                asked.push(self.network.or(!own, met));
            }
        }
        let fields =
            [(&rule.source_ports, self.bits.first), (&rule.destination_ports, self.bits.second)];
        for (test, at) in fields {
            if let PortTest::In(ports) = test {
                asked.push(self.bit(self.bits.kind, HAS_PORTS));
                let bits = self.number(at, 16);
                asked.push(self.in_ranges(&bits, wide(ports)));
            }
        }
        asked.sort_unstable();
        asked.dedup();
        self.network.all(asked)
    }

    /// Whether the protocol is known and one of the set.
    fn protocols(&mut self, set: &ProtocolSet) -> Signal {
        let known = !self.bit(self.bits.kind, UNREACHABLE);
        let bits = self.number(self.bits.kind, 8);
        let ranges = RangeSet::from_ranges(set.iter().map(|number| (number, number)));
        let within = match ranges {
            Some(ranges) => self.in_ranges(&bits, wide(&ranges)),
            None => Signal::FALSE,
        };
        self.network.and(known, within)
    }

    /// Whether one of `tests` is met, or the packet is not a TCP packet and so
    /// is not asked.
    fn tcp_flags(&mut self, tests: &[FlagTest], protocols: &ProtocolSet) -> Signal {
        let there = !self.bit(self.bits.flags, NO_FLAGS);
        let met: Vec<Signal> = tests.iter().map(|&test| self.flag_test(test)).collect();
        let met = self.network.any(met);
        let met = self.network.and(there, met);
        if *protocols == ProtocolSet::one(TCP) {
            return met;
        }
        let bits = self.number(self.bits.flags, 9);
        let not_tcp = self.network.begins(&bits, NOT_TCP.into());
        self.network.or(not_tcp, met)
    }

    fn flag_test(&mut self, test: FlagTest) -> Signal {
        let (FlagTest::Equal { mask, value } | FlagTest::NotEqual { mask, value }) = test;
        let equal = if value & !mask != 0 {
            Signal::FALSE
        } else {
            let bits = (0..8).filter(|bit| mask >> bit & 1 != 0);
            let signals: Vec<Signal> = bits
                .map(|bit| {
                    let signal = self.network.input(self.bits.flags + bit);
                    if value >> bit & 1 != 0 { signal } else { !signal }
                })
                .collect();
            self.network.all(signals)
        };
        match test {
            FlagTest::Equal { .. } => equal,
            FlagTest::NotEqual { .. } => !equal,
        }
    }

    /// The first of `entries`, conjunctions, to match.
    fn first(&mut self, entries: &[[Signal; 3]]) -> First {
        cancel::check();
        if let [entry] = entries {
            return First { any: self.network.all(*entry), place: Vec::new() };
        }
        let half = entries.len().next_power_of_two() / 2;
        let lower = self.first(&entries[..half]);
        let upper = self.first(&entries[half..]);
        let missing = std::iter::repeat(Signal::FALSE);
        let uppers = upper.place.iter().copied().chain(missing);
        let mut place = Vec::with_capacity(lower.place.len() + 1);
        for (&bit, other) in lower.place.iter().zip(uppers) {
            place.push(self.network.choose(lower.any, bit, other));
        }
        place.push(!lower.any);
        First { any: self.network.or(lower.any, upper.any), place }
    }
}

/// Ranges of small numbers as ranges of large ones.
fn wide<N: Number + Into<u128>>(set: &RangeSet<N>) -> impl Iterator<Item = (u128, u128)> {
    set.ranges().iter().map(|&(first, last)| (first.into(), last.into()))
}
