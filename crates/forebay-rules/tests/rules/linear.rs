//! Linear engines against the oracle.

use forebay_codegen::code::{Backend, Isa};
use forebay_jit::cpu;
use forebay_rules::engine::{Engine, NO_RULE};
use forebay_rules::key::Key;
use forebay_rules::language::classbench;
use forebay_rules::linear::{Compiled, Generic, LaneContent, LinearError, Naive, Pe};
use forebay_rules::packed::{Key4, Key6, Packed};
use forebay_rules::rule::{
    Action, Family, FlagTest, ICMP, ICMPV6, IcmpTest, PortTest, ProtocolTest, Rule, RuleList, TCP,
    TransportTest, UDP,
};
use forebay_rules::sets::{ProtocolSet, RangeSet};
use proptest::prelude::*;

type Engines = Vec<(String, Box<dyn Engine>)>;

/// Every engine in every form that this machine runs.
fn engines(list: &RuleList) -> Engines {
    let mut engines: Engines = vec![("naive".to_owned(), Box::new(Naive::new(list).unwrap()))];
    for isa in Isa::ALL.into_iter().filter(|&isa| cpu::require(isa).is_ok()) {
        for backend in [Backend::List, Backend::Ems] {
            let engine = Compiled::new(list, backend, isa).unwrap();
            engines.push((format!("{backend} {isa}"), Box::new(engine)));
        }
        for (name, lanes) in [("pe-generic", LaneContent::Packets), ("pe-1", LaneContent::Rules)] {
            let engine = Generic::new(list, lanes, isa).unwrap();
            engines.push((format!("{name} {isa}"), Box::new(engine)));
        }
        let pe = Pe::new(list, isa).unwrap();
        engines.push((format!("pe {isa}"), Box::new(pe)));
    }
    engines
}

/// Holds every engine against the oracle on `keys`.
fn check(list: &RuleList, keys: &[Key]) {
    check_engines(list, keys, engines(list));
}

fn check_engines(list: &RuleList, keys: &[Key], engines: Engines) {
    let expected = |keys: &[&Key]| -> Vec<u32> {
        let decide = |key: &&Key| list.decide(key).rule.map_or(NO_RULE, |rule| rule as u32);
        keys.iter().map(decide).collect()
    };
    let of = |family| keys.iter().filter(move |key| key.family == family).collect::<Vec<&Key>>();
    let (keys4, keys6) = (of(Family::Ipv4), of(Family::Ipv6));
    let packed4: Vec<Key4> = keys4
        .iter()
        .filter_map(|key| match Packed::from(*key) {
            Packed::V4(key) => Some(key),
            Packed::V6(_) => None,
        })
        .collect();
    let packed6: Vec<Key6> = keys6
        .iter()
        .filter_map(|key| match Packed::from(*key) {
            Packed::V6(key) => Some(key),
            Packed::V4(_) => None,
        })
        .collect();
    let (expected4, expected6) = (expected(&keys4), expected(&keys6));
    for (name, engine) in engines {
        let mut rules = vec![7; packed4.len()];
        engine.classify4(&packed4, &mut rules);
        for (at, key) in keys4.iter().enumerate() {
            assert_eq!(rules[at], expected4[at], "{name}: {key:?}\n{:?}", list.rules);
        }
        let mut rules = vec![7; packed6.len()];
        engine.classify6(&packed6, &mut rules);
        for (at, key) in keys6.iter().enumerate() {
            assert_eq!(rules[at], expected6[at], "{name}: {key:?}\n{:?}", list.rules);
        }
    }
}

/// A key of `family` that is as a packet's can be, from numbers.
fn key(family: Family, addresses: (u128, u128), numbers: (u8, u8, u16, u16)) -> Key {
    let mask = family.greatest();
    let (shape, detail, first, second) = numbers;
    let mut key = Key {
        family,
        source: addresses.0 & mask,
        destination: addresses.1 & mask,
        protocol: None,
        ports: None,
        tcp_flags: None,
        icmp: None,
    };
    let protocol = match shape % 8 {
        0 => return key,
        1..=3 => TCP,
        4 => UDP,
        5 => family.icmp(),
        6 => [ICMP, ICMPV6, 132][usize::from(detail) % 3],
        _ => detail,
    };
    key.protocol = Some(protocol);
    // A later fragment, or a packet cut short, has no more.
    if shape & 8 != 0 {
        return key;
    }
    if matches!(protocol, TCP | UDP | 33 | 132 | 136) {
        key.ports = Some((first, second));
    }
    if protocol == TCP && shape & 16 == 0 {
        key.tcp_flags = Some(detail);
    }
    if protocol == family.icmp() {
        key.icmp = Some((first as u8, second as u8));
    }
    key
}

/// Keys at and beside what rules ask for.
fn keys_of(list: &RuleList, seed: u64, count: usize) -> Vec<Key> {
    let mut state = seed;
    let mut next = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    let mut keys = Vec::with_capacity(count);
    for _ in 0..count {
        let family = if next() % 8 == 0 { Family::Ipv6 } else { Family::Ipv4 };
        let number = next();
        let rule = list.rules.get(number as usize % list.rules.len().max(1));
        let family = rule.map_or(family, |rule| if number % 9 == 0 { family } else { rule.family });
        let mut pick = |ranges: &[(u128, u128)]| {
            let (first, last) = ranges[next() as usize % ranges.len()];
            let inside = u128::from(next()) << (next() % 97) | u128::from(next());
            match next() % 6 {
                0 => first.wrapping_sub(1),
                1 => last.wrapping_add(1),
                2 => first,
                3 => last,
                4 => inside,
                _ => first + inside.checked_rem((last - first).saturating_add(1)).unwrap_or(0),
            }
        };
        let all = vec![(0, family.greatest())];
        let addresses = (
            pick(rule.map_or(&all, |rule| rule.source.ranges())),
            pick(rule.map_or(&all, |rule| rule.destination.ranges())),
        );
        let ports = |test: Option<&PortTest>| -> Vec<(u128, u128)> {
            match test {
                Some(PortTest::In(set)) => {
                    set.ranges().iter().map(|&(a, b)| (a.into(), b.into())).collect()
                }
                _ => vec![(0, 300), (0, 65535)],
            }
        };
        let first = pick(&ports(rule.map(|rule| &rule.source_ports))) as u16;
        let second = pick(&ports(rule.map(|rule| &rule.destination_ports))) as u16;
        keys.push(key(family, addresses, (next() as u8, next() as u8, first, second)));
    }
    keys
}

fn address(family: Family) -> impl Strategy<Value = RangeSet<u128>> {
    let few = prop::sample::select(vec![
        0x0a00_0000_u128,
        0x0a00_0001,
        0x0a00_01ff,
        0xc0a8_0000,
        0xc0a8_0010,
        0x2001_0db8 << 96,
        (0x2001_0db8 << 96) | 0xffff,
        u128::MAX,
    ]);
    let range =
        (few, any::<u128>(), 0..=128_u8, 0..4_u8).prop_map(move |(base, noise, length, kind)| {
            let base = base & family.greatest();
            match kind {
                0 => family.prefix(base, family.bits()),
                1 => family.prefix(base, length % (family.bits() + 1)),
                2 => (base, base.saturating_add(noise % 5000).min(family.greatest())),
                _ => (0, family.greatest()),
            }
        });
    prop::collection::vec(range, 1..3)
        .prop_map(move |ranges| RangeSet::from_ranges(ranges).unwrap_or_else(|| family.all()))
}

fn ports() -> impl Strategy<Value = PortTest> {
    let range = prop_oneof![
        prop::sample::select(vec![
            (25, 25),
            (53, 53),
            (80, 80),
            (5000, 6000),
            (1024, 65535),
            (0, 65535)
        ]),
        any::<(u16, u16)>(),
    ];
    prop_oneof![
        2 => Just(PortTest::Any),
        3 => prop::collection::vec(range, 1..3).prop_map(|ranges| {
            RangeSet::from_ranges(ranges).map_or(PortTest::Any, PortTest::In)
        }),
    ]
}

fn protocol() -> impl Strategy<Value = ProtocolTest> {
    let flags = any::<(bool, u8, u8)>().prop_map(|(equal, mask, value)| match (equal, mask % 4) {
        (_, 0) => FlagTest::ESTABLISHED_CISCO,
        (_, 1) => FlagTest::ESTABLISHED_YAMAHA,
        (true, _) => FlagTest::Equal { mask, value },
        (false, _) => FlagTest::NotEqual { mask, value: value & mask },
    });
    let protocols = prop_oneof![
        Just(ProtocolSet::one(TCP)),
        Just(ProtocolSet::one(UDP)),
        Just([TCP, UDP].into_iter().collect()),
        Just([TCP, ICMP, ICMPV6].into_iter().collect()),
        Just([ICMP].into_iter().collect()),
        Just([ICMPV6].into_iter().collect()),
        prop::collection::vec(any::<u8>(), 1..5).prop_map(|p| p.into_iter().collect()),
        any::<u8>().prop_map(|p| ProtocolSet::one(p).complement()),
    ];
    let sets = || prop::collection::vec(any::<(u8, u8)>(), 1..3).prop_map(RangeSet::from_ranges);
    let icmp = (sets(), sets()).prop_map(|(types, codes)| {
        Some(IcmpTest { types: types?, codes: codes.unwrap_or_else(RangeSet::full) })
    });
    let only = (protocols, prop::collection::vec(flags, 0..3), prop_oneof![Just(None), icmp]);
    prop_oneof![
        Just(ProtocolTest::Any),
        only.prop_map(|(protocols, tcp_flags, icmp)| {
            ProtocolTest::Only(TransportTest { protocols, tcp_flags, icmp })
        }),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    prop_oneof![3 => Just(Family::Ipv4), 1 => Just(Family::Ipv6)].prop_flat_map(|family| {
        (address(family), address(family), protocol(), ports(), ports()).prop_map(
            move |(source, destination, protocol, source_ports, destination_ports)| Rule {
                source,
                destination,
                protocol,
                source_ports,
                destination_ports,
                ..Rule::any(1, family, Action::Pass)
            },
        )
    })
}

fn list(rules: Vec<Rule>) -> RuleList {
    let rules = (1..).zip(rules).map(|(number, rule)| Rule { number, ..rule }).collect();
    RuleList { rules, default: Action::Reject }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn engines_agree_with_the_oracle_on_any_list(
        rules in prop::collection::vec(rule(), 0..24),
        again in any::<prop::sample::Index>(),
        seed: u64,
        count in prop::sample::select(vec![0_usize, 1, 9, 60, 100, 300, 700, 1500]),
    ) {
        let mut rules = rules;
        if !rules.is_empty() {
            let again = again.index(rules.len());
            rules.insert(again / 2, rules[again].clone());
        }
        let list = list(rules);
        check(&list, &keys_of(&list, seed, count));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn tables_that_were_changed_are_as_tables_made_anew(
        rules in prop::collection::vec(rule(), 0..12),
        changes in prop::collection::vec((0..3_u8, any::<prop::sample::Index>(), rule()), 1..20),
        seed: u64,
    ) {
        let mut rules = rules;
        let isa = cpu::detect();
        let mut tables = [LaneContent::Packets, LaneContent::Rules]
            .map(|lanes| Generic::new(&list(rules.clone()), lanes, isa).unwrap());
        for (kind, place, rule) in changes {
            let place = place.index(rules.len() + 1);
            let exists = place < rules.len();
            for table in &mut tables {
                let done = match kind {
                    0 => table.insert(place, &rule),
                    1 => table.remove(place),
                    _ => table.replace(place, &rule),
                };
                match done {
                    Err(LinearError::TooManyTests { .. }) => return Ok(()),
                    done => prop_assert_eq!(done.is_ok(), kind == 0 || exists),
                }
            }
            match kind {
                0 => rules.insert(place, rule),
                1 if exists => drop(rules.remove(place)),
                _ if exists => rules[place] = rule,
                _ => {}
            }
        }
        let list = list(rules);
        let engines: Engines = tables
            .map(|table| (format!("{} rules", table.len()), Box::new(table) as Box<dyn Engine>))
            .into();
        check_engines(&list, &keys_of(&list, seed, 700), engines);
    }
}

#[test]
fn lists_of_no_rule_and_of_one_that_matches_all() {
    let empty = list(Vec::new());
    let keys = keys_of(&empty, 3, 900);
    check(&empty, &keys);
    check(&list(vec![Rule::any(1, Family::Ipv6, Action::Pass)]), &keys);
    let any = Rule::any(1, Family::Ipv4, Action::Pass);
    check(&list(vec![any.clone()]), &keys);
    check(&list(vec![any; 5]), &keys);
}

#[test]
fn packets_without_what_a_rule_names_do_not_match_it() {
    let ports = PortTest::In(RangeSet::one(80));
    let tcp = |flags| {
        let test = TransportTest { tcp_flags: flags, ..TransportTest::of(ProtocolSet::one(TCP)) };
        Rule { protocol: ProtocolTest::Only(test), ..Rule::any(1, Family::Ipv4, Action::Pass) }
    };
    let list = list(vec![
        Rule { destination_ports: ports.clone(), ..tcp(Vec::new()) },
        tcp(vec![FlagTest::ESTABLISHED_YAMAHA]),
        Rule { source_ports: ports, ..Rule::any(1, Family::Ipv4, Action::Pass) },
        tcp(Vec::new()),
        Rule::any(1, Family::Ipv4, Action::Pass),
    ]);
    let mut keys = Vec::new();
    for shape in 0..32 {
        for detail in [0, 0x10, 0x12, 1, 17] {
            for ports in [(80, 80), (80, 1), (1, 80), (1, 1)] {
                keys.push(key(Family::Ipv4, (1, 2), (shape, detail, ports.0, ports.1)));
            }
        }
    }
    check(&list, &keys);
}

#[test]
fn the_start_of_every_classbench_set() {
    let Some(data) = crate::support::data() else { return };
    let folder = data.join("classbench/neurocuts");
    let mut sets = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.to_string_lossy().ends_with("1k") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let start: String = text.lines().take(200).map(|line| format!("{line}\n")).collect();
        let list = classbench::parse(&start).unwrap();
        check(&list, &keys_of(&list, 11, 2000));
        sets += 1;
    }
    assert!(sets > 0, "no sets");
}

#[test]
fn long_lists_and_large_unions_are_refused_by_engines_that_branch() {
    let long = list(vec![Rule::any(1, Family::Ipv4, Action::Pass); 1025]);
    let error = Compiled::new(&long, Backend::List, Isa::Scalar).unwrap_err();
    assert!(matches!(error, LinearError::TooManyRules { rules: 1025, most: 1024, .. }), "{error}");
    assert!(error.to_string().contains("'tree' takes more"), "{error}");
    let error = Compiled::new(&list(vec![union(200)]), Backend::List, Isa::Scalar).unwrap_err();
    assert!(matches!(error, LinearError::TooLarge { size: 40_000, .. }), "{error}");
}

/// A rule of so many ports that their combinations are `count` squared.
fn union(count: u16) -> Rule {
    let ports = RangeSet::from_ranges((0..count).map(|n| (2 * n, 2 * n)));
    let ports = ports.map_or(PortTest::Any, PortTest::In);
    Rule {
        source_ports: ports.clone(),
        destination_ports: ports,
        ..Rule::any(1, Family::Ipv4, Action::Pass)
    }
}

#[test]
fn lists_of_more_conjunctions_than_tables_hold_are_left_to_planes() {
    let unions = list(vec![union(256); 17]);
    let isa = cpu::detect();
    let most = 1 << 20;
    // Not by `unwrap_err`: it would print a million rows.
    let refused = |error: Option<LinearError>| {
        let Some(LinearError::TooLarge { size, most: limit, .. }) = error else {
            panic!("{error:?}")
        };
        assert_eq!((size, limit), (most + (1 << 16), most));
    };
    refused(Naive::new(&unions).err());
    for lanes in [LaneContent::Packets, LaneContent::Rules] {
        refused(Generic::new(&unions, lanes, isa).err());
        let mut table = Generic::new(&list(Vec::new()), lanes, isa).unwrap();
        (0..16).for_each(|at| table.insert(at, &union(256)).unwrap());
        refused(table.insert(3, &union(256)).err());
        table.replace(3, &union(256)).unwrap();
        assert_eq!(table.len(), 16);
    }
    // A few packets, too: of rows there are too many to try them one by one.
    for rules in [1, 17].into_iter().filter(|_| isa >= Isa::Avx2) {
        let unions = list(vec![union(256); rules]);
        let pe = Pe::new(&unions, isa).unwrap();
        assert!(pe.bytes() < 1 << 20, "{} bytes", pe.bytes());
        let keys = keys_of(&unions, 5, 20);
        check_engines(&unions, &keys, vec![("pe".to_owned(), Box::new(pe))]);
    }
}

#[test]
fn planes_of_too_many_nodes_are_given_up_where_there_are_too_many() {
    let isa = cpu::detect();
    if isa < Isa::Avx2 {
        return;
    }
    let mut state = 1_u128;
    let mut next = || {
        state = state.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(1);
        state ^ (state >> 64)
    };
    let mut ends: Vec<u128> = (0..20_000).map(|_| next()).collect();
    ends.sort_unstable();
    let ranges = RangeSet::from_ranges(ends.chunks(2).map(|pair| (pair[0], pair[1])));
    let source = ranges.unwrap();
    let rule = Rule { source, ..Rule::any(1, Family::Ipv6, Action::Pass) };
    let error = Pe::new(&list(vec![rule; 2]), isa).unwrap_err();
    let LinearError::TooLarge { size, most, .. } = error else { panic!("{error}") };
    assert!(size < most + most / 4, "{error}");
}

#[test]
fn planes_of_the_longest_lists() {
    let tcp = ProtocolTest::Only(TransportTest::of(ProtocolSet::one(TCP)));
    let rule = |n: u32| {
        let family = if n % 15 == 7 { Family::Ipv6 } else { Family::Ipv4 };
        let address = u128::from(n.wrapping_mul(2_654_435_761));
        let address = address | address << (family.bits() - 32);
        let source = RangeSet::from_ranges([family.prefix(address, 20 + (n % 9) as u8)]);
        let protocol = if n.is_multiple_of(3) { tcp.clone() } else { ProtocolTest::Any };
        Rule { source: source.unwrap(), protocol, ..Rule::any(n, family, Action::Pass) }
    };
    let most = list((0..4389).map(rule).collect());
    let ipv4 = most.rules.iter().filter(|rule| rule.family == Family::Ipv4).count();
    assert_eq!(ipv4, 4096);
    let keys = keys_of(&most, 13, 1800);
    let found = |from: usize| {
        let decided = keys.iter().filter_map(|key| most.decide(key).rule);
        decided.filter(|&rule| rule >= from).count()
    };
    assert!(found(0) > 600 && found(4000) > 20, "{} and {}", found(0), found(4000));
    let levels = Isa::ALL.into_iter().filter(|&isa| isa >= Isa::Avx2 && cpu::require(isa).is_ok());
    for isa in levels {
        let pe: Box<dyn Engine> = Box::new(Pe::new(&most, isa).unwrap());
        check_engines(&most, &keys, vec![(format!("pe {isa}"), pe)]);
        let long = list((0..4390).map(rule).collect());
        let error = Pe::new(&long, isa).unwrap_err();
        let LinearError::TooManyRules { engine, rules, most } = error else { panic!("{error}") };
        assert_eq!((engine, rules, most), ("pe", 4097, 4096));
    }
}

#[test]
fn tables_forget_tests_that_no_rule_asks_for_any_more() {
    let of = |number: u8| {
        let protocol = ProtocolTest::Only(TransportTest::of(ProtocolSet::one(number)));
        Rule { protocol, ..Rule::any(1, Family::Ipv4, Action::Pass) }
    };
    let mut rules: Vec<Rule> = (0..30).map(of).collect();
    let isa = cpu::detect();
    let mut tables = [LaneContent::Packets, LaneContent::Rules]
        .map(|lanes| Generic::new(&list(rules.clone()), lanes, isa).unwrap());
    rules.push(of(255));
    for table in &mut tables {
        for number in 30..=255 {
            table.insert(7, &of(number)).unwrap();
            table.remove(7).unwrap();
        }
        table.insert(30, &of(255)).unwrap();
        let error = table.insert(3, &of(100)).unwrap_err();
        assert!(matches!(error, LinearError::TooManyTests { most: 31, .. }), "{error}");
        // What was there makes room for what comes.
        table.replace(3, &of(100)).unwrap();
        let error = table.replace(40, &of(100)).unwrap_err();
        assert!(matches!(error, LinearError::NoSuchRule { index: 40, rules: 31 }), "{error}");
    }
    rules[3] = of(100);
    let list = list(rules);
    let engines: Engines = tables
        .map(|table| (format!("{} rules", table.len()), Box::new(table) as Box<dyn Engine>))
        .into();
    check_engines(&list, &keys_of(&list, 9, 700), engines);
}

#[test]
fn lists_with_more_tests_than_tables_hold_are_refused_by_tables_alone() {
    let of = |number: u8| {
        let test = TransportTest::of(ProtocolSet::one(number));
        let protocol = ProtocolTest::Only(test);
        Rule { protocol, ..Rule::any(1, Family::Ipv4, Action::Pass) }
    };
    let many = list((0..40).map(of).collect());
    let isa = cpu::detect();
    let error = Generic::new(&many, LaneContent::Packets, isa).unwrap_err();
    assert!(matches!(error, LinearError::TooManyTests { most: 31, .. }), "{error}");
    let keys = keys_of(&many, 5, 600);
    let pe = Pe::new(&many, isa).unwrap();
    check_engines(&many, &keys[..20], vec![("pe of a few".to_owned(), Box::new(pe))]);
    let pe = Pe::new(&many, isa).unwrap();
    check_engines(&many, &keys, vec![("pe".to_owned(), Box::new(pe))]);
}
