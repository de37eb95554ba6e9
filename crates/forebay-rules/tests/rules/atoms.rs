//! Atoms say what their rules say, and keys in words what keys say.

use crate::draw::Draw;
use crate::headers::{Cut, Header, at_and_beside};
use forebay_rules::atom::{Atom, MAX_ATOMS, MAX_TESTS, Test, Tests};
use forebay_rules::key::Key;
use forebay_rules::packed::{
    FLAG_VALUES, HAS_ICMP, HAS_PORTS, KINDS, Key4, Key6, NO_FLAGS, NOT_TCP, Packed, UNREACHABLE,
};
use forebay_rules::rule::{
    Action, Family, ICMP, ICMPV6, PortTest, ProtocolTest, Rule, TCP, TransportTest, UDP,
};
use forebay_rules::sets::{ProtocolSet, RangeSet};
use std::mem::offset_of;

const BOTH: [Family; 2] = [Family::Ipv4, Family::Ipv6];

/// Calls `check` with many rules, their atoms, and keys at and beside their
/// borders.
fn for_rules(check: impl Fn(&Rule, &[Atom], &[Key])) {
    for seed in 0..600 {
        let draw = &mut Draw::Seed(seed);
        let rule = crate::lists::rule(draw, BOTH[seed as usize % 2]);
        let atoms = Atom::of_rule(&rule).unwrap();
        let mut keys = at_and_beside(draw, &rule);
        keys.extend((0..20).map(|_| Header::any(draw, rule.family).key()));
        keys.extend((0..20).map(|_| Header::inside(draw, &rule).key()));
        check(&rule, &atoms, &keys);
    }
}

fn matches(atom: &Atom, key: &Packed) -> bool {
    match key {
        Packed::V4(key) => atom.matches4(key),
        Packed::V6(key) => atom.matches6(key),
    }
}

/// The last words of a key.
fn rest(key: &Packed) -> [u16; 4] {
    match key {
        Packed::V4(key) => [key.first, key.second, key.kind, key.flags],
        Packed::V6(key) => [key.first, key.second, key.kind, key.flags],
    }
}

/// A key's 64-bit words, the first 32-bit word of each in its low half.
fn words(key: &Packed) -> Vec<u64> {
    let mut words: Vec<u64> = match key {
        Packed::V4(key) => vec![key.source.into(), key.destination.into()],
        Packed::V6(key) => key.source.into_iter().chain(key.destination).map(u64::from).collect(),
    };
    let [first, second, kind, flags] = rest(key).map(u64::from);
    words.extend([first | second << 16, kind | flags << 16]);
    words.chunks_exact(2).map(|pair| pair[0] | pair[1] << 32).collect()
}

#[test]
fn a_rule_matches_what_one_of_its_atoms_matches() {
    let (met, all) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    for_rules(|rule, atoms, keys| {
        for key in keys {
            let packed = Packed::from(key);
            let any = atoms.iter().any(|atom| matches(atom, &packed));
            assert_eq!(any, rule.matches(key), "{rule}\n{key}\n{rule:?}\n{key:?}");
            met.set(met.get() + usize::from(any));
            all.set(all.get() + 1);
        }
    });
    assert!(met.get() > all.get() / 4, "{} of {} match", met.get(), all.get());
}

#[test]
fn what_an_atom_asks_of_a_keys_bits_its_packets_have() {
    for_rules(|rule, atoms, keys| {
        for atom in atoms {
            let ternary = atom.ternary(rule.family);
            for word in &ternary {
                assert_eq!(word.value & !word.care, 0, "{rule}");
            }
            for key in keys {
                let key = Packed::from(key);
                let words = words(&key);
                assert_eq!(ternary.len(), words.len());
                let agrees = |at: usize| words[at] & ternary[at].care == ternary[at].value;
                if matches(atom, &key) {
                    assert!((0..words.len()).all(agrees), "{rule}\n{key:?}\n{atom:?}");
                }
                // Of addresses the bits say all.
                let addresses = Atom { first: (0, u16::MAX), second: (0, u16::MAX), ..*atom };
                let test = atom.test;
                let [_, _, kind, flags] = rest(&key);
                if test.admits_kind(kind) && test.admits_flags(flags) {
                    let agree = (0..words.len() - 1).all(agrees);
                    assert_eq!(matches(&addresses, &key), agree, "{rule}\n{key:?}\n{atom:?}");
                }
            }
        }
    });
}

/// A dictionary of `count` tests of rules, and these.
fn dictionary(draw: &mut Draw, family: Family, count: usize) -> (Tests, Vec<Test>) {
    let mut dictionary = Tests::default();
    let mut known: Vec<Test> = Vec::new();
    while known.len() < count {
        let rule = crate::lists::rule(draw, family);
        let test = Atom::of_rule(&rule).unwrap()[0].test;
        let before = known.iter().position(|known| *known == test);
        assert_eq!(dictionary.known(&test).map(usize::from), before);
        assert_eq!(dictionary.id(&test).map(usize::from), Some(before.unwrap_or(known.len())));
        if before.is_none() {
            known.push(test);
        }
    }
    (dictionary, known)
}

/// Every kind that packets of `family` can have, with every value of flags.
fn kinds_and_flags(family: Family) -> Vec<(u16, u16)> {
    let protocols = (0..UNREACHABLE).flat_map(|protocol| {
        let present = match protocol as u8 {
            icmp if icmp == family.icmp() => vec![0, HAS_ICMP],
            // Of no meaning in the other family.
            ICMP | ICMPV6 => vec![0],
            _ => vec![0, HAS_PORTS],
        };
        present.into_iter().map(move |present| protocol | present)
    });
    let of_tcp = |kind: u16| kind & 0xff == u16::from(TCP);
    let flags = |kind| if of_tcp(kind) { 0..=NO_FLAGS } else { NOT_TCP..=NOT_TCP };
    let pairs = protocols.flat_map(|kind| flags(kind).map(move |flags| (kind, flags)));
    pairs.chain([(UNREACHABLE, NOT_TCP)]).collect()
}

#[test]
fn the_dictionary_says_which_tests_a_packet_fails() {
    for count in 0..=MAX_TESTS {
        let family = BOTH[count % 2];
        let (dictionary, known) = dictionary(&mut Draw::Seed(count as u64), family, count);
        for (kind, flags) in kinds_and_flags(family) {
            let failed = dictionary.failed(kind, flags);
            for id in 0..MAX_TESTS {
                // What is not given out yet, all fail.
                let met = known
                    .get(id)
                    .is_some_and(|test| test.admits_kind(kind) && test.admits_flags(flags));
                assert_eq!(failed >> id & 1 == 0, met, "{id}: {kind} {flags} {:?}", known.get(id));
            }
        }
    }
}

#[test]
fn a_full_dictionary_takes_no_other_test() {
    let (mut dictionary, known) = dictionary(&mut Draw::Seed(7), Family::Ipv4, MAX_TESTS);
    let one = |number| {
        let protocol = ProtocolTest::Only(TransportTest::of(ProtocolSet::one(number)));
        let rule = Rule { protocol, ..Rule::any(1, Family::Ipv4, Action::Pass) };
        Atom::of_rule(&rule).unwrap()[0].test
    };
    let other = (0..=u8::MAX).map(one).find(|test| !known.contains(test)).unwrap();
    assert_eq!(dictionary.id(&other), None);
    assert_eq!(dictionary.id(&known[31]), Some(31));
}

#[test]
fn words_that_no_key_has_are_looked_up_too() {
    let any = Atom::of_rule(&Rule::any(1, Family::Ipv4, Action::Pass)).unwrap()[0].test;
    let mut dictionary = Tests::default();
    assert_eq!(dictionary.id(&any), Some(0));
    for kind in [0, UNREACHABLE, KINDS as u16 - 1, KINDS as u16, u16::MAX] {
        for flags in [0, NO_FLAGS, NOT_TCP, FLAG_VALUES as u16, u16::MAX] {
            assert_eq!(dictionary.failed(kind, flags), !1);
        }
    }
}

#[test]
fn a_rule_of_too_many_combinations_is_refused() {
    let every_second = |count: u16| {
        PortTest::In(RangeSet::from_ranges((0..count).map(|at| (2 * at, 2 * at))).unwrap())
    };
    let any = Rule::any(9, Family::Ipv4, Action::Pass);
    let rule = |count| Rule {
        source_ports: every_second(256),
        destination_ports: every_second(count),
        ..any.clone()
    };
    assert_eq!(Atom::of_rule(&rule(256)).unwrap().len(), MAX_ATOMS);
    let error = Atom::of_rule(&rule(257)).unwrap_err();
    assert_eq!((error.number, error.atoms), (9, 256 * 257));
    assert!(error.to_string().contains("rule 9"), "{error}");
}

#[test]
fn the_protocol_bits_in_which_a_test_agrees() {
    let bits = |protocols: &[u8]| {
        let set: ProtocolSet = protocols.iter().copied().collect();
        let protocol = ProtocolTest::Only(TransportTest::of(set));
        let rule = Rule { protocol, ..Rule::any(1, Family::Ipv4, Action::Pass) };
        Atom::of_rule(&rule).unwrap()[0].test.common_protocol_bits()
    };
    assert_eq!(bits(&[TCP]), (0x1ff, 6));
    assert_eq!(bits(&[TCP, UDP]), (0x1ff & !(6 ^ 17), 6 & 17));
    assert_eq!(bits(&[6, 7]), (0x1fe, 6));
    let any = Atom::of_rule(&Rule::any(1, Family::Ipv4, Action::Pass)).unwrap();
    assert_eq!(any[0].test.common_protocol_bits(), (0, 0));
}

#[test]
fn the_layout_of_keys() {
    assert_eq!((size_of::<Key4>(), align_of::<Key4>()), (16, 16));
    let offsets = [
        offset_of!(Key4, source),
        offset_of!(Key4, destination),
        offset_of!(Key4, first),
        offset_of!(Key4, second),
        offset_of!(Key4, kind),
        offset_of!(Key4, flags),
    ];
    assert_eq!(offsets, [0, 4, 8, 10, 12, 14]);
    assert_eq!((size_of::<Key6>(), align_of::<Key6>()), (48, 16));
    let offsets = [
        offset_of!(Key6, source),
        offset_of!(Key6, destination),
        offset_of!(Key6, first),
        offset_of!(Key6, second),
        offset_of!(Key6, kind),
        offset_of!(Key6, flags),
    ];
    assert_eq!(offsets, [0, 16, 32, 34, 36, 38]);
}

#[test]
fn the_words_of_keys() {
    let header = Header {
        family: Family::Ipv4,
        source: 0x0a00_0001,
        destination: 0xc0a8_0102,
        protocol: Some(TCP),
        ports: (1234, 80),
        flags: 0x12,
        message: (3, 1),
        cut: Cut::Whole,
    };
    let of = |protocol, cut| rest(&Packed::from(&Header { protocol, cut, ..header }.key()));
    let tcp = u16::from(TCP);
    let cases = [
        (Some(TCP), Cut::Whole, [1234, 80, tcp | HAS_PORTS, 0x12]),
        (Some(TCP), Cut::BeforeFlags, [1234, 80, tcp | HAS_PORTS, NO_FLAGS]),
        (Some(TCP), Cut::Before, [0, 0, tcp, NO_FLAGS]),
        (Some(UDP), Cut::Whole, [1234, 80, 17 | HAS_PORTS, NOT_TCP]),
        (Some(UDP), Cut::Before, [0, 0, 17, NOT_TCP]),
        (Some(ICMP), Cut::Whole, [3, 1, 1 | HAS_ICMP, NOT_TCP]),
        (Some(ICMP), Cut::Before, [0, 0, 1, NOT_TCP]),
        (Some(ICMPV6), Cut::Whole, [0, 0, 58, NOT_TCP]),
        (Some(47), Cut::Whole, [0, 0, 47, NOT_TCP]),
        (None, Cut::Before, [0, 0, UNREACHABLE, NOT_TCP]),
    ];
    for (protocol, cut, words) in cases {
        assert_eq!(of(protocol, cut), words, "{protocol:?} {cut:?}");
    }
    let Packed::V4(key) = Packed::from(&header.key()) else { panic!("of IPv4") };
    assert_eq!((key.source, key.destination), (0x0a00_0001, 0xc0a8_0102));
    let (source, destination) = (0x2001_0db8_0000_0001_0002_0003_0004_0005, 1);
    let header = Header { family: Family::Ipv6, source, destination, ..header };
    let Packed::V6(key) = Packed::from(&header.key()) else { panic!("of IPv6") };
    assert_eq!(key.source, [0x2001_0db8, 1, 0x0002_0003, 0x0004_0005]);
    assert_eq!(key.destination, [0, 0, 0, 1]);
    let message = Header { protocol: Some(ICMPV6), ..header }.key();
    assert_eq!(rest(&Packed::from(&message)), [3, 1, 58 | HAS_ICMP, NOT_TCP]);
}
