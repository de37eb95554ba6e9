//! Every engine finds what the oracle finds.

use crate::contest::{Maker, all, check, classify, compare, decide, trees};
use crate::draw::Draw;
use crate::headers::{Header, at_and_beside};
use forebay_rules::engine::NO_RULE;
use forebay_rules::key::Key;
use forebay_rules::packed::{Key4, Key6};
use forebay_rules::rule::{Action, Family, Rule, RuleList};
use std::panic::{AssertUnwindSafe, catch_unwind};

const BOTH: [Family; 2] = [Family::Ipv4, Family::Ipv6];

/// Kinds of generated sets.
const KINDS: [&str; 3] = ["acl1", "fw1", "ipc1"];

/// Keys at and beside the borders of every rule, or of as many, evenly spread,
/// as make about `most` keys.
fn borders(draw: &mut Draw, list: &RuleList, most: usize) -> Vec<Key> {
    // A rule makes about so many.
    const EACH: usize = 32;
    let step = (list.rules.len() * EACH).div_ceil(most).max(1);
    let first = draw.below(step);
    list.rules.iter().skip(first).step_by(step).flat_map(|rule| at_and_beside(draw, rule)).collect()
}

/// Keys near the rules of a list.
fn near(draw: &mut Draw, list: &RuleList, count: usize) -> Vec<Key> {
    (0..count).map(|_| Header::near(draw, list).key()).collect()
}

/// Both.
fn keys(draw: &mut Draw, list: &RuleList, most: usize) -> Vec<Key> {
    let mut keys = borders(draw, list, most / 2);
    keys.extend(near(draw, list, most / 2));
    keys
}

#[test]
fn the_twelve_seeds_at_and_beside_every_border() {
    let Some(data) = crate::support::data() else { return };
    let makers = all();
    let seeds = crate::sets::seeds(&data);
    assert_eq!(seeds.len(), 12);
    for (name, list) in seeds {
        let draw = &mut Draw::Seed(1);
        let keys = borders(draw, &list, usize::MAX);
        let matching = check(&makers, &list, &keys);
        assert!(matching > keys.len() / 4, "{name}: {matching} of {}", keys.len());
    }
}

#[test]
fn the_start_of_every_seed_by_engines_for_short_lists() {
    let Some(data) = crate::support::data() else { return };
    let makers = all();
    let mut matching = 0;
    for (_, mut list) in crate::sets::seeds(&data) {
        list.rules.truncate(40);
        let keys = borders(&mut Draw::Seed(2), &list, usize::MAX);
        matching += check(&makers, &list, &keys);
    }
    assert!(matching > 2000, "only {matching} keys match a rule");
}

#[test]
fn generated_sets_at_and_beside_borders_and_on_their_traces() {
    let Some(data) = crate::support::data() else { return };
    let makers = all();
    for (size, borders_of, headers) in [("1k", 40_000, 2000), ("10k", 10_000, 1000)] {
        for kind in KINDS {
            let (list, trace) = crate::sets::generated(&data, &format!("{kind}_{size}"));
            let mut keys = borders(&mut Draw::Seed(3), &list, borders_of);
            keys.extend(trace.into_iter().take(headers));
            let matching = check(&makers, &list, &keys);
            assert!(matching > keys.len() / 3, "{kind}_{size}: {matching} of {}", keys.len());
        }
    }
}

#[test]
fn generated_sets_over_ipv6() {
    let Some(data) = crate::support::data() else { return };
    for kind in KINDS {
        let list = crate::lists::over_ipv6(&crate::sets::generated(&data, &format!("{kind}_1k")).0);
        let keys = keys(&mut Draw::Seed(4), &list, 20_000);
        let matching = check(&trees(), &list, &keys);
        assert!(matching > keys.len() / 4, "{kind}: {matching} of {}", keys.len());
    }
}

/// All of `makers`; without optimisation, where large lists take long, one,
/// another for each `turn`.
fn in_turn(mut makers: Vec<Maker>, turn: usize) -> Vec<Maker> {
    if cfg!(debug_assertions) {
        makers = vec![makers.swap_remove(turn % makers.len())];
    }
    makers
}

#[test]
fn sets_of_100_000_rules() {
    let Some(data) = crate::support::data() else { return };
    for (turn, kind) in KINDS.into_iter().enumerate() {
        let (list, trace) = crate::sets::generated(&data, &format!("{kind}_100k"));
        let mut keys = borders(&mut Draw::Seed(5), &list, 800);
        keys.extend(trace.into_iter().take(100));
        check(&in_turn(trees(), turn), &list, &keys);
    }
}

#[test]
fn the_first_matches_that_another_program_found() {
    let Some(data) = crate::support::data() else { return };
    for size in ["1k", "10k", "100k"] {
        for (turn, kind) in KINDS.into_iter().enumerate() {
            let name = format!("{kind}_{size}");
            let (list, keys, expected) = crate::sets::five_tuples(&data, &name);
            assert!(keys.len() > 500, "{name}: {} headers", keys.len());
            let makers = if size == "100k" { in_turn(trees(), turn + 1) } else { all() };
            compare(&makers, &list, &keys, &expected);
        }
    }
}

#[test]
fn random_lists_of_few_rules() {
    let makers = all();
    let mut matching = 0;
    for seed in 0..24 {
        let draw = &mut Draw::Seed(seed);
        let families = [&BOTH[..1], &BOTH[1..], &BOTH[..]][seed as usize % 3];
        let count = draw.below(36);
        let mut list = crate::lists::overlapping(draw, families, count);
        if seed % 4 == 3 {
            list.rules.truncate(18);
            list = crate::lists::doubled(draw, list);
        }
        let keys = keys(draw, &list, 2000);
        matching += check(&makers, &list, &keys);
    }
    assert!(matching > 10_000, "only {matching} keys match a rule");
}

#[test]
fn random_lists_by_the_tree() {
    let makers = trees();
    let mut matching = 0;
    for (seed, count) in (100..).zip([2, 3, 8, 9, 10, 17, 30, 60, 100, 150, 300, 600, 1200]) {
        for families in [&BOTH[..1], &BOTH[1..], &BOTH[..]] {
            let draw = &mut Draw::Seed(seed);
            let list = crate::lists::overlapping(draw, families, count);
            let list = if seed % 2 == 0 { list } else { crate::lists::doubled(draw, list) };
            let keys = keys(draw, &list, 4000);
            matching += check(&makers, &list, &keys);
        }
    }
    assert!(matching > 40_000, "only {matching} keys match a rule");
}

#[test]
fn lists_of_no_rule_and_of_one() {
    let makers = all();
    let draw = &mut Draw::Seed(200);
    let mut anything = |count| -> Vec<Key> {
        (0..count).map(|at| Header::any(draw, BOTH[at % 2]).key()).collect()
    };
    let any = anything(1000);
    assert_eq!(check(&makers, &RuleList::default(), &any), 0);
    for family in BOTH {
        let rule = Rule::any(1, family, Action::Pass);
        assert_eq!(check(&makers, &crate::lists::list([rule.clone()]), &any), 500);
        assert_eq!(
            check(&makers, &crate::lists::list([rule.clone(), rule.clone(), rule]), &any),
            500
        );
    }
    for seed in 0..40 {
        let draw = &mut Draw::Seed(seed);
        let list = crate::lists::overlapping(draw, &BOTH, 1);
        let keys = keys(draw, &list, 300);
        check(&makers, &list, &keys);
    }
}

#[test]
fn rules_that_never_match() {
    let makers = all();
    for family in BOTH {
        let never = crate::lists::never(family);
        let draw = &mut Draw::Seed(300);
        let keys = keys(draw, &never, 2000);
        assert_eq!(check(&makers, &never, &keys), 0);
        // They are no hindrance to others.
        let mut rules = never.rules;
        rules.push(Rule::any(0, family, Action::Pass));
        assert_eq!(check(&makers, &crate::lists::list(rules), &keys), keys.len());
    }
}

#[test]
fn more_distinct_tests_than_a_dictionary_holds() {
    for family in BOTH {
        for count in [31, 32, 33, 64, 65, 100, 700] {
            let draw = &mut Draw::Seed(400);
            let list = crate::lists::distinct_tests(draw, family, count);
            let keys = keys(draw, &list, 6000);
            assert!(check(&trees(), &list, &keys) > 1000, "{count}");
        }
    }
}

#[test]
fn rules_that_say_little_of_addresses() {
    for family in BOTH {
        for count in [1, 63, 64, 65, 511, 512, 513, 1025, 2047, 2048, 2049, 3000] {
            let draw = &mut Draw::Seed(500);
            let list = crate::lists::wildcards(draw, family, count);
            let keys = keys(draw, &list, 3000);
            assert!(check(&trees(), &list, &keys) > keys.len() / 3, "{count}");
        }
    }
}

#[test]
fn thousands_of_rules_of_the_same_addresses() {
    for family in BOTH {
        for count in [9, 16, 17, 500, 3000] {
            let draw = &mut Draw::Seed(600);
            let list = crate::lists::one_pair_of_addresses(draw, family, count);
            let keys = keys(draw, &list, 3000);
            assert!(check(&trees(), &list, &keys) > keys.len() / 3, "{count}");
        }
    }
}

#[test]
fn rules_that_prefixes_and_cuts_would_multiply() {
    for (seed, shape) in (650..).zip(crate::lists::ADVERSARIAL) {
        for count in [1, 3, 17, 300, 2000] {
            let count = if shape == "octets" { count.min(40) } else { count };
            let draw = &mut Draw::Seed(seed);
            let list = crate::lists::adversarial(draw, shape, count);
            let mut keys = keys(draw, &list, 1500);
            // With a number of one rule and the rest of another.
            for at in 0..keys.len() / 2 {
                let other = keys[draw.below(keys.len())];
                match draw.below(3) {
                    0 => keys[at].source = other.source,
                    1 => keys[at].destination = other.destination,
                    _ if keys[at].protocol == other.protocol => keys[at].ports = other.ports,
                    _ => {}
                }
            }
            assert!(check(&trees(), &list, &keys) > 20, "{shape}, {count}");
        }
    }
}

#[test]
fn among_rules_that_multiply_others_stay_in_trees() {
    let draw = &mut Draw::Seed(680);
    let mut rules = crate::lists::overlapping(draw, &BOTH, 400).rules;
    for shape in crate::lists::ADVERSARIAL {
        for rule in crate::lists::adversarial(draw, shape, 12).rules {
            rules.insert(draw.below(rules.len()), rule);
        }
    }
    let list = crate::lists::list(rules);
    let keys = keys(draw, &list, 6000);
    assert!(check(&trees(), &list, &keys) > keys.len() / 3);
}

#[test]
fn the_same_rule_many_times() {
    for family in BOTH {
        let draw = &mut Draw::Seed(700);
        let rule = crate::lists::rule(draw, family);
        for count in [8, 9, 33, 2000] {
            let list = crate::lists::list(vec![rule.clone(); count]);
            let keys = keys(draw, &list, 200);
            check(&trees(), &list, &keys);
        }
    }
}

#[test]
fn any_number_of_keys() {
    let draw = &mut Draw::Seed(800);
    let mut list = crate::lists::overlapping(draw, &BOTH, 30);
    list.rules.extend(crate::lists::wildcards(draw, Family::Ipv4, 4).rules);
    let list = crate::lists::list(list.rules);
    for maker in all() {
        let Some(engine) = maker.engine(&list) else { continue };
        for count in [0, 1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 200, 512, 700] {
            for families in [&BOTH[..1], &BOTH[1..], &BOTH[..]] {
                let header = |at: usize, draw: &mut Draw| loop {
                    let header = Header::near(draw, &list);
                    if header.family == families[at % families.len()] {
                        return header.key();
                    }
                };
                let keys: Vec<_> = (0..count).map(|at| header(at, draw)).collect();
                assert_eq!(classify(&*engine, &keys), decide(&list, &keys), "{maker}");
            }
        }
    }
}

#[test]
fn keys_and_answers_that_differ_in_number_are_refused() {
    let list = crate::lists::list([Rule::any(1, Family::Ipv4, Action::Pass)]);
    for maker in all() {
        let Some(engine) = maker.engine(&list) else { continue };
        for (keys, answers) in [(1, 0), (0, 1), (64, 65), (65, 64)] {
            let (keys4, keys6) = (vec![Key4::default(); keys], vec![Key6::default(); keys]);
            let mut rules = vec![NO_RULE; answers];
            let panics = |call: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(call)).is_err();
            assert!(panics(&mut || engine.classify4(&keys4, &mut rules)), "{maker}");
            assert!(panics(&mut || engine.classify6(&keys6, &mut rules)), "{maker}");
        }
    }
}
