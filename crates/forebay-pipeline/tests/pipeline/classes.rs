//! Classes of packets get no more than their limits, and other packets lose nothing.

use std::sync::Arc;

use crate::support::*;
use forebay_balance::Assignment;
use forebay_flow::shed::{Limit, OnOverload, Rates, Shed, WINDOW};
use forebay_gen::{Config, Generator};
use forebay_packet::decode::ip_packet;
use forebay_packet::{Batch, DecodeOptions, Decoder, HashKey, LinkType};
use forebay_pipeline::stages::{
    Balance, Class, ClassMembers, ClassShedding, Classes, Classify, CompiledRules, LiveFragments,
    MembersText, OPTIONAL,
};
use forebay_pipeline::{Chain, GroupStages, LedgerRow, Place, Settings, StageError};
use forebay_rules::RuleList;
use forebay_rules::choose::EngineName;
use forebay_rules::language::yamaha;

const OFFLINE: HashKey = HashKey::OFFLINE;

/// Packets a second of the traffic, and what a class has.
const RATE: u64 = 40_000;
const LIMIT: u64 = 4_000;

/// TCP in untagged frames, fragments too.
const TCP: &str = "ip proto 6 or ip6 proto 6";

const KEY: &str =
    "class = [{ name = \"a\", filter = \"tcp\", limit_pps = 4000, on_overload = \"red\" }]";

fn stages(keys: &str) -> GroupStages {
    let mut stages = GroupStages::default();
    for (key, value) in toml::from_str::<toml::Table>(keys).unwrap() {
        let kind = OPTIONAL.iter().find(|stage| stage.key == key).unwrap();
        stages.add(kind, value).unwrap();
    }
    stages
}

fn class(members: ClassMembers, on_overload: OnOverload) -> Class {
    let limit = Arc::new(Limit::new(Rates { pps: Some(LIMIT), bps: None }));
    Class { members, on_overload, limit }
}

fn filter(text: &str) -> ClassMembers {
    ClassMembers::Filter(filter_set(text))
}

fn chain(classes: Vec<Class>) -> Chain {
    Chain::new()
        .with(Classify::hashing(Decoder::new(DecodeOptions::default()), OFFLINE))
        .with(LiveFragments::new(OFFLINE))
        .with_optional(Place::BehindFragments, OFFLINE)
        .with(Balance::new(Assignment::of_weights(&[1, 1]).unwrap()))
        .with_optional(Place::BehindBalance, OFFLINE)
        .configured(&Settings::new().with(stages(KEY)).with(ClassShedding(classes)))
}

fn mix(packets: u64) -> Vec<Batch> {
    let config =
        Config { packets, flows: packets / 20, rate_pps: RATE, seed: 3, ..Config::default() };
    let mut generator = Generator::new(config).unwrap();
    std::iter::from_fn(|| generator.next_batch().unwrap()).collect()
}

/// IP's protocol of a frame without tags or extension headers.
fn protocol(frame: &[u8]) -> u8 {
    match frame[12..14] {
        [8, 0] => frame[23],
        [0x86, 0xdd] => frame[20],
        _ => 255,
    }
}

/// TCP in an untagged frame; UDP in any; others.
fn kind(frame: &[u8]) -> usize {
    let ip = ip_packet(LinkType::ETHERNET, frame);
    match ip.and_then(|ip| ip.upper_layer().protocol) {
        Some(17) => 1,
        _ if protocol(frame) == 6 => 0,
        _ => 2,
    }
}

/// The times of packets by kind.
type Passed = [Vec<u64>; 3];

fn push(chain: &mut Chain, batches: &[Batch]) -> Passed {
    let mut passed = Passed::default();
    for batch in batches {
        let now = batch.nanos(batch.len() - 1).unsigned_abs();
        let mut count = |batch: Batch| {
            for i in batch.live().iter() {
                passed[kind(batch.packet(i))].push(now);
            }
            Ok::<(), StageError>(())
        };
        chain.begin(now);
        chain.push(batch.clone(), &mut count).unwrap();
    }
    assert!(chain.rows().iter().all(LedgerRow::closes), "{:?}", chain.rows());
    passed
}

/// The most of the times in any 100 ms.
fn most_in_a_window(times: &[u64]) -> usize {
    let end = |&begin: &u64| times.partition_point(|&at| at < begin + WINDOW);
    times.iter().enumerate().map(|(i, begin)| end(begin) - i).max().unwrap_or(0)
}

/// Packets that were dropped, by the ledger.
fn drops(chain: &Chain) -> Vec<(&'static str, u64)> {
    let rows = chain.rows();
    let row = rows.iter().find(|row| row.stage == "classes").unwrap();
    let dropped = row.drops.iter().filter(|drop| drop.packets > 0);
    dropped.map(|drop| (drop.name, drop.packets)).collect()
}

#[test]
fn a_class_is_within_its_limit_and_others_lose_nothing() {
    let batches = mix(60_000);
    let all = push(&mut chain(Vec::new()), &batches);
    assert!(all[0].len() > 20_000 && all[1].len() > 5_000, "{} {}", all[0].len(), all[1].len());
    for policy in &OnOverload::ALL[1..] {
        let class = class(filter(TCP), *policy);
        let limit = Arc::clone(&class.limit);
        let mut chain = chain(vec![class]);
        let passed = push(&mut chain, &batches);
        assert_eq!((&passed[1], &passed[2]), (&all[1], &all[2]), "{policy:?}");
        assert!(most_in_a_window(&passed[0]) <= LIMIT as usize / 10, "{policy:?}");
        let shed = (all[0].len() - passed[0].len()) as u64;
        assert!(shed > 10_000, "{policy:?}: {shed}");
        let drops = drops(&chain);
        assert_eq!(drops.iter().map(|(_, packets)| packets).sum::<u64>(), shed);
        let named = Shed::NAMES.iter().zip(limit.shed()).filter(|(_, packets)| *packets > 0);
        let named = named.map(|(name, packets)| (name.replace("shed_", "class_"), packets));
        assert!(named.eq(drops.iter().map(|&(name, packets)| (name.to_owned(), packets))));
        let table = chain.flows().lock();
        let records = table.table.as_ref().unwrap().records();
        assert_eq!(records.map(|record| u64::from(record.shed)).sum::<u64>(), shed);
    }
}

#[test]
fn the_first_class_counts_and_a_rule_list_is_one() {
    let batches = mix(60_000);
    let all = push(&mut chain(Vec::new()), &batches);
    let rules = ["ip filter 1 pass * * udp", "ipv6 filter 1 pass * * udp"];
    let rules = rules.map(|rule| yamaha::rule(rule).unwrap()).to_vec();
    let list = RuleList { rules, ..RuleList::default() };
    let engine = EngineName::Auto.build(&list, forebay_jit::cpu::detect()).unwrap();
    let rules = ClassMembers::Rules(CompiledRules::new(Arc::new(list), engine));
    let classes = [
        class(rules, OnOverload::Fair),
        class(filter(&format!("udp or {TCP}")), OnOverload::WholeFlows),
    ];
    let limits = classes.each_ref().map(|class| Arc::clone(&class.limit));
    let mut chain = chain(classes.to_vec());
    let passed = push(&mut chain, &batches);
    assert_eq!(passed[2], all[2]);
    for (kind, limit) in [(1, &limits[0]), (0, &limits[1])] {
        let shed: u64 = limit.shed().iter().sum();
        assert_eq!(shed, (all[kind].len() - passed[kind].len()) as u64, "{kind}");
        assert!(shed > 1_000 && most_in_a_window(&passed[kind]) <= LIMIT as usize / 10, "{kind}");
    }
    // A reload without classes ends it.
    let none = Settings::new().with(stages(KEY)).with(ClassShedding::default());
    reload(&mut chain, &none);
    let before = drops(&chain);
    push(&mut chain, &batches);
    assert_eq!(drops(&chain), before);
}

#[test]
fn the_key_is_read_or_refused() {
    let stage = OPTIONAL.iter().find(|stage| stage.key == "class").unwrap();
    let read = |text: &str| {
        let table: toml::Table = toml::from_str(&format!("it = {text}")).unwrap();
        (stage.read)(&table["it"]).map(|config| config.settings().get::<Classes>().cloned())
    };
    let classes = read(stage.example).unwrap().unwrap().0;
    assert_eq!(classes[0].name, "dns");
    assert_eq!(classes[0].members, MembersText::Filter("udp port 53".into()));
    assert_eq!(classes[0].rates, Rates { pps: Some(50_000), bps: None });
    let one = "name = \"a\", filter = \"tcp\", limit_bps = \"2M\", on_overload = \"drr\"";
    for (wrong, part) in [
        ("true".to_owned(), "expected a list of tables"),
        ("[]".to_owned(), "0 classes: expected 1 to 16"),
        (format!("[{{ {one} }}, {{ {one} }}]"), "a second class named `a`"),
        (
            format!("[{{ {one}, rules = \"b\" }}]"),
            "class `a`: expected one of `filter` and `rules`",
        ),
        (format!("[{{ {one}, weight = 2 }}]"), "class 1: unknown field `weight`"),
        (
            format!("[{{ {one}, rule_list = \"a\" }}]"),
            "keys of a rule list, but no file of `rules`",
        ),
        (
            format!("[{{ {one}, rules_direction = \"up\" }}]"),
            "`rules_direction` `up`: expected one of `in`, `out`",
        ),
        (format!("[{{ {} }}]", one.replace("\"a\"", "\"a b\"")), "expected a name of 1 to 32"),
        (format!("[{{ {} }}]", one.replace("2M", "fast")), "`limit_bps`: `fast` is no rate"),
        (format!("[{{ {} }}]", one.replace("2M", "2k")), "`limit_bps` 2000: expected at least"),
        (format!("[{{ {} }}]", one.replace("drr", "none")), "expected one of `fair`, `red`, `drr`"),
        (format!("[{{ {} }}]", one.replace("limit_bps = \"2M\", ", "")), "expected `limit_pps` or"),
    ] {
        let error = read(&wrong).unwrap_err();
        assert!(error.contains(part), "{wrong}: {error}");
    }
}
