//! Lists under change: what readers see, in order, in a storm, and counted.

use forebay_jit::cpu;
use forebay_packet::cancel::Watch;
use forebay_rules::engine::NO_RULE;
use forebay_rules::language::yamaha;
use forebay_rules::live::{Live, LiveError, RuleId};
use forebay_rules::packed::{Key4, Packed};
use forebay_rules::{Key, Rule, RuleList};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A small generator of numbers (xorshift64*), so that a seed says everything.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 20) % end
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}

/// A rule of either family that overlaps many others.
fn rule(numbers: &mut Numbers) -> Rule {
    let mut address = || match numbers.below(6) {
        0 => "*".to_owned(),
        1 => format!("{}.0.0.0/{}", numbers.below(4) * 64, 1 + numbers.below(7)),
        2 => format!("10.{}.0.0/16", numbers.below(8)),
        3 => format!("10.{}.{}.0/24", numbers.below(8), numbers.below(8)),
        _ => format!("10.{}.{}.{}", numbers.below(8), numbers.below(8), numbers.below(8)),
    };
    let (source, destination) = (address(), address());
    let rest = *numbers.one_of(&[
        "* * *",
        "tcp * 80",
        "udp * 53",
        "tcp 1024-65535 *",
        "established * *",
        "icmp 8 *",
        "tcpsyn * 22",
        "udp,tcp * 100-200",
        "tcpflag=0x0002/0x0012 * *",
        "47",
        "icmp 3 0-1,4",
    ]);
    let action = *numbers.one_of(&["pass", "reject"]);
    parse(&format!("ip filter 1 {action} {source} {destination} {rest}"))
}

fn parse(line: &str) -> Rule {
    let list = yamaha::parse(line).unwrap_or_else(|error| panic!("{line}: {error}")).ascending();
    list.rules[0].clone()
}

fn key(numbers: &mut Numbers) -> Key {
    let mut address = || match numbers.below(4) {
        0 => numbers.below(1 << 32).into(),
        _ => {
            0x0a00_0000
                + u128::from(numbers.below(8) << 16 | numbers.below(8) << 8 | numbers.below(8))
        }
    };
    let (source, destination) = (address(), address());
    let protocol = *numbers.one_of(&[6, 6, 6, 17, 17, 1, 47]);
    let port = |numbers: &mut Numbers| *numbers.one_of(&[22, 53, 80, 150, 1023, 1024, 65535]);
    let ports = matches!(protocol, 6 | 17) && numbers.below(10) != 0;
    Key {
        family: forebay_rules::Family::Ipv4,
        source,
        destination,
        protocol: Some(protocol),
        ports: ports.then(|| (port(numbers), port(numbers))),
        tcp_flags: (ports && protocol == 6).then(|| *numbers.one_of(&[2, 16, 18, 4])),
        icmp: (protocol == 1).then(|| (*numbers.one_of(&[3, 8]), numbers.below(6) as u8)),
    }
}

fn packed(keys: &[Key]) -> Vec<Key4> {
    let four = |key| match Packed::from(key) {
        Packed::V4(key) => key,
        Packed::V6(_) => panic!("keys of IPv4 only"),
    };
    keys.iter().map(four).collect()
}

/// The list as it should be: rules with their numbers, in order.
type Model = Vec<(RuleId, Rule)>;

fn decide(model: &Model, key: &Key) -> u32 {
    model.iter().find(|(_, rule)| rule.matches(key)).map_or(NO_RULE, |(id, _)| id.number)
}

fn start(rules: usize, numbers: &mut Numbers) -> (Live, Model) {
    let list =
        RuleList { rules: (0..rules).map(|_| rule(numbers)).collect(), ..RuleList::default() };
    let live = Live::new(&list, cpu::detect(), 1).unwrap();
    let ids: Vec<_> = live.rules().into_iter().map(|(id, _)| id).collect();
    (live, ids.into_iter().zip(list.rules).collect())
}

/// One change, made on both.
fn change(live: &Live, model: &mut Model, numbers: &mut Numbers) {
    let len = model.len() as u64;
    match numbers.below(if len == 0 { 1 } else { 4 }) {
        0 | 1 => {
            let position = match numbers.below(3) {
                0 => 0,
                1 => model.len(),
                _ => numbers.below(len + 1) as usize,
            };
            let rule = rule(numbers);
            let id = live.insert(position, rule.clone()).unwrap();
            assert!(model.iter().all(|(other, _)| *other != id), "numbers are unique");
            model.insert(position, (id, rule));
        }
        2 => {
            let (id, _) = model.remove(numbers.below(len) as usize);
            live.delete(id).unwrap();
        }
        _ => {
            let moved = model.remove(numbers.below(len) as usize);
            let position = numbers.below(len) as usize;
            live.relocate(moved.0, position).unwrap();
            model.insert(position, moved);
        }
    }
}

fn assert_same(live: &Live, model: &Model, numbers: &mut Numbers) {
    let keys: Vec<_> = (0..200).map(|_| key(numbers)).collect();
    let mut rules = vec![0; keys.len()];
    live.read().classify4(&packed(&keys), &mut rules);
    for (key, rule) in keys.iter().zip(rules) {
        assert_eq!(rule, decide(model, key), "{key:?}");
    }
}

#[test]
fn a_list_that_is_scanned_is_changed_at_once() {
    let mut numbers = Numbers(77);
    for rules in [200, 700] {
        let list = RuleList {
            rules: (0..rules).map(|_| rule(&mut numbers)).collect(),
            ..RuleList::default()
        };
        let watch = Box::new(|| -> Watch { Box::new(|| Ok(())) });
        let (live, _) = Live::automatic(list.clone(), cpu::detect(), 1, watch).unwrap();
        let ids = live.rules().into_iter().map(|(id, _)| id);
        let mut model: Model = ids.zip(list.rules).collect();
        for round in 0..6 {
            assert_same(&live, &model, &mut numbers);
            (0..3).for_each(|_| change(&live, &mut model, &mut numbers));
            assert_same(&live, &model, &mut numbers);
            if round % 2 == 0 {
                // Scanned again.
                std::thread::sleep(Duration::from_millis(700));
            }
        }
    }
}

#[test]
fn one_thread_does_the_work_of_a_list_and_ends_with_it() {
    let mut numbers = Numbers(78);
    let rules = (0..200).map(|_| rule(&mut numbers)).collect();
    let list = RuleList { rules, ..RuleList::default() };
    let held = Arc::new(Mutex::new(Vec::new()));
    let threads = Arc::clone(&held);
    let watch = Box::new(move || -> Watch {
        threads.lock().unwrap().push(std::thread::current().id());
        Box::new(|| Ok(()))
    });
    let (live, _) = Live::automatic(list, cpu::detect(), 1, watch).unwrap();
    let wait = |what: &str, is_done: &dyn Fn() -> bool| {
        for _ in 0..2000 {
            if is_done() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("{what}");
    };
    for round in 1..=2 {
        live.insert(0, rule(&mut numbers)).unwrap();
        wait("a change has an engine built", &|| held.lock().unwrap().len() >= round);
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(live);
    wait("the thread lets go of the list", &|| Arc::strong_count(&held) == 1);
    assert!(held.lock().unwrap().windows(2).all(|works| works[0] == works[1]), "one thread");
}

#[test]
fn a_list_is_what_its_changes_make_of_it() {
    for (seed, rules) in [(1, 0), (2, 1), (3, 40), (4, 1200)] {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15 ^ seed);
        let (live, mut model) = start(rules, &mut numbers);
        for _ in 0..150 {
            for _ in 0..numbers.below(8) {
                change(&live, &mut model, &mut numbers);
            }
            assert_same(&live, &model, &mut numbers);
        }
        let listed: Vec<_> = live.rules().into_iter().map(|(id, _)| id).collect();
        assert_eq!(listed, model.iter().map(|(id, _)| *id).collect::<Vec<_>>());
    }
}

/// Bit vectors cannot take a rule of wildcards where ranges match all rules of its family.
#[test]
fn a_rule_of_wildcards_is_matched_beside_rules_of_ranges_alone() {
    let mut numbers = Numbers(5);
    let mut list = RuleList::default();
    list.rules.extend((0..600).map(|_| rule(&mut numbers)));
    list.rules.push(parse("ipv6 filter 1 pass 2001:db8::1-2001:db8:ffff::fffe * tcp * 80"));
    let extent = forebay_rules::atom::Extent::of(&list.rules[600]);
    assert!(extent.atoms > 64 * extent.ranges, "{extent:?} of ranges");
    let live = Live::new(&list, cpu::detect(), 1).unwrap();
    live.insert(0, parse("ipv6 filter 2 reject * * tcp * 23")).unwrap();
    let packet = Key {
        family: forebay_rules::Family::Ipv6,
        source: 1 << 64,
        destination: 2 << 64,
        protocol: Some(6),
        ports: Some((1024, 23)),
        tcp_flags: Some(0x10),
        icmp: None,
    };
    let Packed::V6(packet) = Packed::from(&packet) else { panic!("a key of IPv6") };
    // Longer than the work in the background takes.
    for _ in 0..200 {
        let mut rules = [NO_RULE];
        live.read().classify6(&[packet], &mut rules);
        assert_ne!(rules[0], NO_RULE);
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn rules_put_in_at_one_place_without_end_keep_their_order() {
    let mut numbers = Numbers(77);
    let (live, mut model) = start(100, &mut numbers);
    for round in 0..3000 {
        let position = [50, 50 + round, model.len(), 0][round % 4];
        let rule = rule(&mut numbers);
        let id = live.insert(position, rule.clone()).unwrap();
        model.insert(position, (id, rule));
    }
    assert_same(&live, &model, &mut numbers);
    assert!(live.merges() > 0);
}

/// In a storm, each packet is matched against the list from before a change or
/// from after: a packet that only the rule being moved can take is always
/// taken, and one that it never takes, never.
#[test]
fn readers_see_the_list_from_before_or_after() {
    let mut numbers = Numbers(5);
    let (live, mut model) = start(1500, &mut numbers);
    let all = live.insert(model.len(), parse("ip filter 1 pass * *")).unwrap();
    model.push((all, parse("ip filter 1 pass * *")));
    let roaming =
        live.insert(0, parse("ip filter 1 pass 192.0.2.0/24 198.51.100.7 tcp * 443")).unwrap();
    let stop = AtomicBool::new(false);
    let looked = [AtomicU64::new(0), AtomicU64::new(0)];
    std::thread::scope(|scope| {
        let readers = [(11, &looked[0]), (12, &looked[1])].map(|(seed, looked)| {
            let (live, stop) = (&live, &stop);
            scope.spawn(move || {
                let mut numbers = Numbers(seed);
                let taken = Key {
                    source: 0xc000_0205,
                    destination: 0xc633_6407,
                    protocol: Some(6),
                    ports: Some((1, 443)),
                    tcp_flags: Some(2),
                    icmp: None,
                    ..key(&mut numbers)
                };
                let keys = packed(&vec![taken; 100]);
                let mut rules = vec![0; keys.len()];
                while !stop.load(Ordering::Relaxed) {
                    live.read().classify4(&keys, &mut rules);
                    assert!(rules.iter().all(|&rule| rule == roaming.number), "{rules:?}");
                    looked.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        // Where other programs run, all changes could be made before a reader starts.
        let has_begun = |looks: &AtomicU64| looks.load(Ordering::Relaxed) > 0;
        while !looked.iter().all(has_begun) && !readers.iter().any(|one| one.is_finished()) {
            std::thread::yield_now();
        }
        // Only rules that do not match the packet change; the one that does
        // moves among them.
        let others = |rule: &Rule| !rule.source.contains(0xc000_0205);
        let mut numbers = Numbers(99);
        let mut own: Vec<RuleId> = Vec::new();
        for (id, rule) in &model {
            if !others(rule) && *id != all {
                live.delete(*id).unwrap();
            }
        }
        for round in 0..200 {
            let rule = rule(&mut numbers);
            if round % 3 == 0 {
                let last = live.rules().len() - 2;
                live.relocate(roaming, numbers.below(last as u64) as usize).unwrap();
            } else if others(&rule) {
                own.push(
                    live.insert(numbers.below(1000) as usize % live.rules().len(), rule).unwrap(),
                );
            } else if let Some(id) = own.pop() {
                live.delete(id).unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let (live, _) = start(3, &mut Numbers(9));
    let rule = parse("ip filter 1 pass * *");
    let error = live.insert(4, rule.clone()).unwrap_err();
    assert_eq!(error, LiveError::Position { position: 4, last: 3 });
    assert_eq!(error.to_string(), "there is no position 4, expected one from 0 to 3");
    let ids: Vec<_> = live.rules().into_iter().map(|(id, _)| id).collect();
    live.delete(ids[1]).unwrap();
    assert_eq!(live.delete(ids[1]), Err(LiveError::Unknown(ids[1])));
    assert_eq!(live.relocate(ids[0], 2), Err(LiveError::Position { position: 2, last: 1 }));
    assert_eq!(live.relocate(ids[1], 0), Err(LiveError::Unknown(ids[1])));
}

#[test]
fn a_rules_count_begins_with_the_rule() {
    let list = RuleList { rules: vec![parse("ip filter 1 pass * * tcp")], ..RuleList::default() };
    let live = Live::new(&list, cpu::detect(), 2).unwrap();
    let keys = packed(&[key(&mut Numbers(1)); 10]);
    let mut rules = vec![0; keys.len()];
    let first = live.rules()[0].0;
    let all = live.insert(0, parse("ip filter 1 pass * *")).unwrap();
    let reading = live.read();
    reading.classify4(&keys, &mut rules);
    let counter = live.counters().worker(1);
    rules.iter().for_each(|&rule| counter.count(rule, 60, 7));
    drop(reading);
    let count = live.count(all);
    assert_eq!((count.packets, count.bytes, count.last), (10, 600, 7));
    assert_eq!(live.count(first).packets, 0);
    // The number is given out again, to another rule that begins at nothing.
    live.delete(all).unwrap();
    let again = (0..5000).map(|_| live.insert(0, parse("ip filter 1 pass 10.1.1.1 *")).unwrap());
    let again = again.map(|id| live.delete(id).map(|()| id).unwrap());
    let again = again.take_while(|id| id.number != all.number).count();
    assert!(again < 5000, "the number comes again");
    assert_eq!(live.delete(all), Err(LiveError::Unknown(all)), "as another rule's");
}

/// Rules for one source or one destination, in trees of their own.
fn hosts(numbers: &mut Numbers, count: usize) -> Vec<Rule> {
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        let host = |numbers: &mut Numbers| {
            let byte = |numbers: &mut Numbers| numbers.below(250);
            let (a, b, c, d) = (byte(numbers), byte(numbers), byte(numbers), byte(numbers));
            format!("{a}.{b}.{c}.{d}/{}", numbers.one_of(&[16, 24, 32]))
        };
        let (a, b) = (host(numbers), host(numbers));
        let both = *numbers.one_of(&[(true, false), (false, true), (true, true)]);
        let pick = |named: bool, host: String| if named { host } else { "*".to_owned() };
        all.push(parse(&format!("ip filter 1 pass {} {}", pick(both.0, a), pick(both.1, b))));
    }
    all
}

/// A packet that a rule matches, with what the rule leaves open taken from another.
fn between(rule: &Rule, other: &Rule) -> Key {
    let address = |of: fn(&Rule) -> &forebay_rules::RangeSet<u128>| {
        let (first, last) = of(rule).ranges()[0];
        if last - first > 1 << 30 { of(other).ranges()[0].0 } else { first }
    };
    Key {
        family: forebay_rules::Family::Ipv4,
        source: address(|rule| &rule.source),
        destination: address(|rule| &rule.destination),
        protocol: Some(47),
        ports: None,
        tcp_flags: None,
        icmp: None,
    }
}

#[test]
fn a_rule_that_was_deleted_matches_nothing_whichever_tree_a_packet_goes_by() {
    for (seed, rules) in [(1, 40), (2, 100), (3, 300), (4, 700)] {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15 ^ seed);
        let list = RuleList { rules: hosts(&mut numbers, rules), ..RuleList::default() };
        let live = Live::new(&list, cpu::detect(), 1).unwrap();
        let mut model: Model =
            live.rules().into_iter().map(|(id, rule)| (id, (*rule).clone())).collect();
        while model.len() > 2 {
            let (id, gone) = model.remove(numbers.below(model.len() as u64) as usize);
            live.delete(id).unwrap();
            let keys: Vec<_> = (0..20).map(|_| between(&gone, &numbers.one_of(&model).1)).collect();
            let mut got = vec![0; keys.len()];
            live.read().classify4(&packed(&keys), &mut got);
            for (key, got) in keys.iter().zip(got) {
                assert_eq!(got, decide(&model, key), "{rules} rules, without {id:?}: {key:?}");
            }
        }
    }
}

/// Puts A in, takes B out, puts B in, takes A out: one of them is always there.
fn one_of_two_is_always_there(a: &str, b: &str, others: Vec<Rule>) {
    let (a, b) = (parse(a), parse(b));
    let list = RuleList { rules: [vec![b.clone()], others].concat(), ..RuleList::default() };
    let live = Live::new(&list, cpu::detect(), 1).unwrap();
    let keys = packed(&vec![between(&b, &a); 2000]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rules = vec![0; keys.len()];
            while !stop.load(Ordering::Relaxed) {
                live.read().classify4(&keys, &mut rules);
                assert!(rules.iter().all(|&rule| rule != NO_RULE), "neither was there");
            }
        });
        let mut second = live.rules()[0].0;
        for _ in 0..300 {
            let first = live.insert(0, a.clone()).unwrap();
            live.delete(second).unwrap();
            second = live.insert(0, b.clone()).unwrap();
            live.delete(first).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn nobody_meets_half_of_two_changes() {
    let mut numbers = Numbers(78);
    let others = hosts(&mut numbers, 500);
    one_of_two_is_always_there(
        "ip filter 1 pass 192.0.2.1 *",
        "ip filter 1 pass * 198.51.100.1",
        others.clone(),
    );
    one_of_two_is_always_there(
        "ip filter 1 pass * *",
        "ip filter 1 pass 192.0.2.1 198.51.100.1",
        others,
    );
}

/// A rule in more leaves than one is put into when it is moved.
#[test]
fn a_rule_is_somewhere_while_it_is_moved() {
    let mut numbers = Numbers(79);
    let host = |numbers: &mut Numbers| {
        format!("10.{}.{}.{}", numbers.below(256), numbers.below(256), numbers.below(256))
    };
    let mut rules: Vec<_> = (0..4000)
        .map(|_| parse(&format!("ip filter 1 pass {} {}", host(&mut numbers), host(&mut numbers))))
        .collect();
    rules.push(parse("ip filter 1 pass 10.0.0.0/8 *"));
    let list = RuleList { rules, ..RuleList::default() };
    let live = Live::new(&list, cpu::detect(), 1).unwrap();
    let keys: Vec<_> = (0..2000)
        .map(|_| Key {
            source: 0x0a00_0000 | u128::from(numbers.below(1 << 24)),
            destination: 0x0b00_0000,
            ..key(&mut numbers)
        })
        .collect();
    let keys = packed(&keys);
    let wide = live.rules().last().unwrap().0;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rules = vec![0; keys.len()];
            while !stop.load(Ordering::Relaxed) {
                live.read().classify4(&keys, &mut rules);
                assert!(rules.iter().all(|&rule| rule == wide.number), "it was nowhere");
            }
        });
        for round in 0..60 {
            live.relocate(wide, (round % 2) * 4000).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
}
