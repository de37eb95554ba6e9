//! Every stage keeps its promises, and every account closes.

use std::sync::Arc;

use crate::support::*;
use forebay_balance::Assignment;
use forebay_packet::{Arena, Batch, DecodeOptions, HashKey, Interface, LinkType};
use forebay_pipeline::stages::{
    Balance, CompiledRules, DuplicateWindow, Duplicates, Expectations, Filter, Follow, Fragments,
    Limit, OPTIONAL, RuleSource, Rules, Scan, ScanMode, Timing, Window,
};
use forebay_pipeline::{Chain, Settings, SharedFlows, Stage, StageError, StageParts};
use forebay_rules::choose::EngineName;
use forebay_rules::live::{Edit, InForce, Live, Named, Place};

fn stages() -> Vec<Box<dyn Fn() -> Box<dyn Stage>>> {
    let assignment = Assignment::of_weights(&[1, 2]).unwrap();
    let optional = OPTIONAL.iter().filter_map(|stage| -> Option<Box<dyn Fn() -> Box<dyn Stage>>> {
        let example: toml::Table = toml::from_str(&format!("it = {}", stage.example)).unwrap();
        let config = (stage.read)(&example["it"]).unwrap();
        let parts = || StageParts { hash_key: HashKey::OFFLINE, flows: SharedFlows::default() };
        config.build(&parts())?;
        Some(Box::new(move || config.build(&parts()).unwrap()))
    });
    let mut stages: Vec<Box<dyn Fn() -> Box<dyn Stage>>> = vec![
        Box::new(|| Box::new(Filter::new(filter_set("udp src port 1")))),
        Box::new(|| Box::new(Filter::judge_only(filter_set("udp src port 1")))),
        Box::new(|| Box::new(Rules::new(compiled_rules("udp * 1-40000")))),
        Box::new(|| Box::new(Rules::judge_only(compiled_rules("udp * 1-40000")))),
        Box::new(|| Box::new(Duplicates::new(HashKey::OFFLINE, DuplicateWindow(50_000_000)))),
        Box::new(|| Box::new(classify())),
        Box::new(|| {
            let scan = crate::scan::compiled(ScanMode::Stream, &[&b"\x09\x09"[..]]);
            Box::new(Scan::optional(Some(scan), HashKey::OFFLINE))
        }),
        Box::new(|| {
            let mut follow = Follow::default();
            follow.add("ftp:1").unwrap();
            Box::new(Expectations::new(follow, DecodeOptions::default(), Timing::Capture))
        }),
        Box::new(|| Box::new(Fragments::new(Window::OFFLINE))),
        Box::new(move || Box::new(Balance::new(assignment.clone()))),
        Box::new(|| Box::new(Limit::new(700))),
    ];
    stages.extend(optional);
    stages
}

/// A list of one rule that passes what has this protocol and these ports.
fn compiled_rules(what: &str) -> CompiledRules {
    let text = format!("ip filter 1 pass * * {what}");
    let list = forebay_rules::language::yamaha::parse(&text).unwrap().ascending();
    let engine = EngineName::Auto.build(&list, forebay_jit::cpu::detect()).unwrap();
    CompiledRules::new(list.into(), engine)
}

/// Runs one stage, by hand, over classified batches.
fn run_stage(make: &dyn Fn() -> Box<dyn Stage>, input: Vec<Batch>) -> (Vec<Batch>, bool, Chain) {
    struct Boxed(Box<dyn Stage>, std::sync::Arc<std::sync::atomic::AtomicBool>);
    impl Stage for Boxed {
        fn name(&self) -> &'static str {
            self.0.name()
        }
        fn drop_names(&self) -> &'static [&'static str] {
            self.0.drop_names()
        }
        fn promises(&self) -> forebay_pipeline::Promises {
            self.0.promises()
        }
        fn process(
            &mut self,
            batch: Batch,
            out: &mut forebay_pipeline::Outbox,
        ) -> Result<(), forebay_pipeline::StageError> {
            self.0.process(batch, out)?;
            if self.0.held() > 0 {
                self.1.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            Ok(())
        }
        fn drain(
            &mut self,
            out: &mut forebay_pipeline::Outbox,
        ) -> Result<(), forebay_pipeline::StageError> {
            self.0.drain(out)
        }
        fn held(&self) -> u64 {
            self.0.held()
        }
    }
    let ever_held = std::sync::Arc::default();
    let mut chain = Chain::new().with(Boxed(make(), std::sync::Arc::clone(&ever_held)));
    let out = through(&mut chain, input);
    (out, ever_held.load(std::sync::atomic::Ordering::Relaxed), chain)
}

#[test]
fn stages_do_what_they_promise() {
    let input = traffic(3_000);
    for make in stages() {
        let classified = through(&mut Chain::new().with(classify()), batches(&input, 100));
        let (out, ever_held, chain) = run_stage(&*make, classified);
        let stage = make();
        let (name, promises) = (stage.name(), stage.promises());
        let row = &chain.rows()[0];
        assert!(row.closes() && row.held == 0, "{name}: {row:?}");
        assert_eq!(row.input, 3_000, "{name}");
        let mut passed = packets(&out);
        assert_eq!(passed.len() as u64, row.output, "{name}");
        if promises.holds_nothing {
            assert!(!ever_held, "{name} held packets");
        }
        if !promises.order_kept {
            passed.sort();
        }
        if promises.packets_unchanged {
            // What went out is what came in, with gaps where packets were dropped.
            let mut rest = input.iter();
            for packet in &passed {
                assert!(rest.any(|other| other == packet), "{name} changed or moved a packet");
            }
        }
    }
}

#[test]
fn the_filter_drops_what_does_not_match_and_says_so() {
    let input = traffic(1_000);
    let mut chain = Chain::new().with(Filter::new(filter_set("udp src port 1")));
    let out = through(&mut chain, batches(&input, 256));
    let expected: Vec<_> = input
        .iter()
        .filter(|(_, packet)| packet[20..22] != [0, 1] && packet[34..36] == [0, 1])
        .cloned()
        .collect();
    assert_eq!(packets(&out), expected);
    let row = &chain.rows()[0];
    assert_eq!(row.drops[0].name, "no_match");
    assert_eq!(row.drops[0].packets, 1_000 - expected.len() as u64);
}

#[test]
fn settings_take_effect_between_batches_and_lose_nothing() {
    let mut chain = Chain::new()
        .with(Filter::new(filter_set("udp src port 1")))
        .with(Rules::new(compiled_rules("udp")))
        .with(classify())
        .with(Balance::new(Assignment::of_weights(&[1]).unwrap()));
    let input = traffic(512);
    let before = through(&mut chain, batches(&input, 256));
    assert!(before.iter().all(|batch| batch.output.iter().all(|&output| output == 0)));
    let assignment = Assignment::of_weights(&[1, 1]).unwrap();
    reload(&mut chain, &Settings::new().with(Some(filter_set("udp"))).with(assignment));
    let after = through(&mut chain, batches(&input, 256));
    assert_eq!(packets(&after).len(), 512);
    assert!(after.iter().any(|batch| batch.output.contains(&1)));
    reload(&mut chain, &Settings::new().with(Some(RuleSource::from(compiled_rules("tcp")))));
    assert!(packets(&through(&mut chain, batches(&input, 256))).is_empty());
    let rejected = &chain.rows()[1].drops[0];
    assert_eq!((rejected.name, rejected.packets), ("rejected", 512));
    assert!(chain.rows().iter().all(|row| row.closes()));
}

#[test]
fn a_filter_that_does_not_compile_names_the_interface() {
    let mut chain = Chain::new().with(Filter::new(filter_set("port nonsense")));
    let batch = batches(&traffic(1), 1).remove(0);
    let error = chain.push(batch, &mut |_| Ok::<(), forebay_pipeline::StageError>(())).unwrap_err();
    assert!(error.to_string().contains("interface 0 (EN10MB)"), "{error}");
}

#[test]
fn packets_of_a_link_type_that_the_filter_is_wrong_for_need_not_stop_a_pipeline() {
    let expression = "ether src 02:00:00:00:00:01";
    let interfaces = [LinkType::ETHERNET, LinkType::RAW, LinkType::NULL];
    let interfaces =
        Arc::new(interfaces.map(|link| Interface { link, ..Interface::default() }).to_vec());
    let of = |ids: &[u16]| {
        let mut arena = Arena::new(ids.len(), 2048).unwrap();
        let packet = whole(1, 2, (1, 2));
        for id in ids {
            assert!(arena.push(&packet, packet.len() as u32, 0, *id));
        }
        arena.into_batches(&interfaces).remove(0)
    };
    let mut chain = Chain::new().with(Filter::optional(Some(filter_set(expression))));
    let out = through(&mut chain, vec![of(&[0, 1, 0, 2, 1]), of(&[2, 2]), of(&[0])]);
    assert_eq!(packets(&out).len(), 3);
    let row = &chain.rows()[0];
    assert_eq!((row.drops[1].name, row.drops[1].packets), ("wrong_link_type", 5));
    assert_eq!((row.drops[0].packets, row.closes()), (0, true));
    // Another filter may be right for them.
    reload(&mut chain, &Settings::new().with(Some(filter_set("greater 1"))));
    assert_eq!(packets(&through(&mut chain, vec![of(&[0, 1, 2])])).len(), 3);
    let mut chain = Chain::new().with(Filter::new(filter_set(expression)));
    chain.push(of(&[1]), &mut |_| Ok::<(), StageError>(())).unwrap_err();
}

#[test]
fn rules_count_what_each_decides_also_after_a_reload_of_the_same_list() {
    let text = "ip filter 1 pass * * udp 1\nip filter 2 reject * * udp 2-900\n";
    let list = forebay_rules::language::yamaha::parse(text).unwrap().ascending();
    let counted = || Live::new(&list, forebay_jit::cpu::detect(), 2).unwrap();
    let input = traffic(1_000);
    // Of each rule, and of the default.
    let mut expected = [0_u64; 3];
    for (_, packet) in &input {
        if let Some(key) = forebay_rules::Key::of_packet(LinkType::ETHERNET, packet) {
            expected[list.decide(&key).rule.unwrap_or(2)] += 1;
        }
    }
    assert!(expected.iter().all(|&packets| packets > 0), "{expected:?}");
    let assert_times = |live: &Live, times: u64, last: u64| {
        let counters = live.counters();
        let counts = [counters.total(0), counters.total(1), counters.default_total()];
        assert_eq!(counts.map(|count| count.packets), expected.map(|packets| times * packets));
        assert!(counts.iter().all(|count| count.last == last && count.bytes >= count.packets));
    };
    let live = counted();
    let mut workers = [0; 2].map(|_| Chain::new().with(Rules::new(live.reader())));
    let pass = |workers: &mut [Chain], now| {
        for chain in workers {
            chain.begin(now);
            through(chain, batches(&input, 256));
        }
    };
    pass(&mut workers, 7);
    assert_times(&live, 2, 7);
    let reload_all = |workers: &mut [Chain], live: &Live| {
        let settings = Settings::new().with(Some(RuleSource::Live(live.reader())));
        workers.iter_mut().for_each(|chain| reload(chain, &settings));
    };
    reload_all(&mut workers, &live);
    pass(&mut workers, 9);
    assert_times(&live, 4, 9);
    // A list of its own begins anew, and has all cells that it takes.
    let (old, live) = (live, counted());
    reload_all(&mut workers, &live);
    pass(&mut workers, 11);
    assert_times(&old, 4, 9);
    assert_times(&live, 2, 11);
}

#[test]
fn a_batch_is_held_against_the_list_as_it_is_then() {
    let rule = |text: &str| forebay_rules::language::yamaha::rule(text).unwrap();
    let list = forebay_rules::RuleList {
        rules: vec![rule("ip filter 1 pass *")],
        ..forebay_rules::RuleList::default()
    };
    let live = Live::new(&list, forebay_jit::cpu::detect(), 1).unwrap();
    let mut chain = Chain::new().with(Rules::new(live.reader()));
    let input: Vec<_> = traffic(500)
        .into_iter()
        .filter(|(_, packet)| {
            let key = forebay_rules::Key::of_packet(LinkType::ETHERNET, packet);
            key.is_some_and(|key| key.family == forebay_rules::Family::Ipv4)
        })
        .collect();
    let mut passing = || packets(&through(&mut chain, batches(&input, 256))).len();
    assert_eq!(passing(), input.len());
    let place = Place::Before(Named { family: forebay_rules::Family::Ipv4, number: 1 });
    let edits = vec![Edit::Insert(rule("ip filter 2 reject * * udp 2-900"), place)];
    assert_eq!(live.edit(edits), Ok(InForce::Now));
    let left = passing();
    assert!(0 < left && left < input.len(), "{left} of {}", input.len());
    let all = live.look(|view| {
        view.rules().map(|(rule, count)| (rule.number, count.packets)).collect::<Vec<_>>()
    });
    assert_eq!(all, [(2, (input.len() - left) as u64), (1, (input.len() + left) as u64)]);
}
