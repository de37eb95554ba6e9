//! A list that changes is matched as the oracle matches what it has become:
//! rules of all kinds, of both families.

use crate::contest::{classify, decide, trees};
use crate::draw::Draw;
use crate::headers::Header;
use forebay_codegen::code::Isa;
use forebay_packet::cancel::Watch;
use forebay_rules::engine::{Engine, NO_RULE};
use forebay_rules::language::yamaha;
use forebay_rules::live::{Edit, InForce, Live, LiveError, Place, RuleId};
use forebay_rules::packed::{Key4, Key6};
use forebay_rules::rule::{Family, Rule, RuleList};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A list that changes, and what it should have become.
struct Changing {
    live: Live,
    ids: Vec<RuleId>,
    list: RuleList,
}

impl Changing {
    fn new(list: RuleList, isa: Isa) -> Self {
        let live = Live::new(&list, isa, 1).unwrap();
        let ids = live.rules().into_iter().map(|(id, _)| id).collect();
        Self { live, ids, list }
    }

    fn insert(&mut self, at: usize, rule: Rule) {
        let id = self.live.insert(at, rule.clone()).unwrap();
        assert!(!self.ids.contains(&id), "{id:?} is another rule's");
        self.ids.insert(at, id);
        self.list.rules.insert(at, rule);
    }

    fn delete(&mut self, at: usize) {
        self.live.delete(self.ids.remove(at)).unwrap();
        self.list.rules.remove(at);
    }

    fn relocate(&mut self, from: usize, to: usize) {
        let (id, rule) = (self.ids.remove(from), self.list.rules.remove(from));
        self.live.relocate(id, to).unwrap();
        self.ids.insert(to, id);
        self.list.rules.insert(to, rule);
    }

    /// Any change, with a rule drawn by `rule`.
    fn change(&mut self, draw: &mut Draw, rule: &dyn Fn(&mut Draw) -> Rule) {
        let len = self.ids.len();
        match draw.below(if len == 0 { 1 } else { 5 }) {
            0 | 1 => {
                let at = draw.below(len + 1);
                let rule = if len > 0 && draw.one_in(4) {
                    self.list.rules[draw.below(len)].clone()
                } else {
                    rule(draw)
                };
                self.insert(at, rule);
            }
            2 | 3 => self.delete(draw.below(len)),
            _ => self.relocate(draw.below(len), draw.below(len)),
        }
    }

    /// Holds the list against the oracle, and says how many keys match.
    fn check(&self, draw: &mut Draw, keys: usize) -> usize {
        let keys: Vec<_> = (0..keys).map(|_| Header::near(draw, &self.list).key()).collect();
        let expected = decide(&self.list, &keys);
        let found = classify(self, &keys);
        for (at, key) in keys.iter().enumerate() {
            assert_eq!(found[at], expected[at], "{key}\n{key:?}\n{}", self.list);
        }
        expected.iter().filter(|&&rule| rule != NO_RULE).count()
    }

    /// Rules' places in the list in the stead of their ids.
    fn places(&self, rules: &mut [u32]) {
        for rule in rules.iter_mut().filter(|rule| **rule != NO_RULE) {
            let place = self.ids.iter().position(|id| id.number == *rule);
            *rule = place.unwrap_or_else(|| panic!("{rule} is not in the list")) as u32;
        }
    }
}

impl Engine for Changing {
    fn classify4(&self, keys: &[Key4], rules: &mut [u32]) {
        self.live.read().classify4(keys, rules);
        self.places(rules);
    }

    fn classify6(&self, keys: &[Key6], rules: &mut [u32]) {
        self.live.read().classify6(keys, rules);
        self.places(rules);
    }

    fn bytes(&self) -> usize {
        self.list.rules.len() * size_of::<Rule>()
    }
}

const BOTH: [Family; 2] = [Family::Ipv4, Family::Ipv6];

#[test]
fn rules_of_all_kinds_come_go_and_move() {
    let levels: Vec<_> = trees().into_iter().map(|maker| maker.isa).collect();
    let mut matching = 0;
    for (seed, count) in [0, 1, 5, 8, 9, 30, 31, 100, 300, 600].into_iter().enumerate() {
        let draw = &mut Draw::Seed(seed as u64);
        let families = [&BOTH[..1], &BOTH[1..], &BOTH[..]][seed % 3];
        let list = crate::lists::overlapping(draw, families, count);
        let mut changing = Changing::new(list, levels[seed % levels.len()]);
        let rule = |draw: &mut Draw| {
            let family = draw.pick(families);
            crate::lists::rule(draw, family)
        };
        for _ in 0..40 {
            for _ in 0..draw.below(12) {
                changing.change(draw, &rule);
            }
            matching += changing.check(draw, 130);
        }
        while !changing.ids.is_empty() {
            let at = draw.below(changing.ids.len());
            changing.delete(at);
        }
        assert_eq!(changing.check(draw, 100), 0);
    }
    assert!(matching > 20_000, "only {matching} keys match a rule");
}

#[test]
fn more_distinct_tests_come_than_a_dictionary_holds() {
    for (family, isa) in BOTH.into_iter().zip(trees().into_iter().rev().map(|maker| maker.isa)) {
        let draw = &mut Draw::Seed(90);
        let later = crate::lists::distinct_tests(draw, family, 120).rules;
        let mut changing = Changing::new(crate::lists::distinct_tests(draw, family, 20), isa);
        for (at, rule) in later.into_iter().enumerate() {
            let place = draw.below(changing.ids.len() + 1);
            changing.insert(place, rule);
            if at % 3 == 0 {
                changing.delete(draw.below(changing.ids.len()));
            }
            changing.check(draw, 70);
        }
    }
}

#[test]
fn rules_that_say_little_of_addresses_come_and_go() {
    for (family, isa) in BOTH.into_iter().zip(trees().into_iter().rev().map(|maker| maker.isa)) {
        let draw = &mut Draw::Seed(91);
        let later = crate::lists::wildcards(draw, family, 300).rules;
        let mut changing = Changing::new(crate::lists::wildcards(draw, family, 500), isa);
        for rules in later.chunks(10) {
            for rule in rules {
                let place = draw.below(changing.ids.len() + 1);
                changing.insert(place, rule.clone());
                changing.delete(draw.below(changing.ids.len()));
            }
            changing.check(draw, 130);
        }
    }
}

#[test]
fn rules_of_the_same_addresses_come_and_go() {
    for (family, isa) in BOTH.into_iter().zip(trees().into_iter().rev().map(|maker| maker.isa)) {
        let draw = &mut Draw::Seed(92);
        let all = crate::lists::one_pair_of_addresses(draw, family, 800).rules;
        let (first, later) = all.split_at(400);
        let mut changing = Changing::new(crate::lists::list(first.to_vec()), isa);
        for rules in later.chunks(10) {
            for rule in rules {
                let place = draw.below(changing.ids.len() + 1);
                changing.insert(place, rule.clone());
                changing.relocate(draw.below(changing.ids.len()), place);
            }
            changing.check(draw, 130);
        }
    }
}

#[test]
fn rules_that_prefixes_would_multiply_come_and_go() {
    for (seed, shape) in (900..).zip(crate::lists::ADVERSARIAL) {
        let draw = &mut Draw::Seed(seed);
        let isa = trees()[seed as usize % trees().len()].isa;
        let mut changing = Changing::new(crate::lists::adversarial(draw, shape, 20), isa);
        let rule = |draw: &mut Draw| {
            let shape = draw.pick(&[shape, "random", "stars"]);
            crate::lists::adversarial(draw, shape, 1).rules[0].clone()
        };
        let mut matching = 0;
        for _ in 0..25 {
            (0..3).for_each(|_| changing.change(draw, &rule));
            matching += changing.check(draw, 60);
        }
        assert!(matching > 100, "{shape}: {matching}");
    }
}

#[test]
fn a_change_whose_list_cannot_be_built_is_undone() {
    let host = |n: u32| format!("ip filter {n} pass 10.{}.{}.1\n", n / 256, n % 256);
    let parse = |text: &str| yamaha::parse(text).unwrap().ascending();
    let list = parse(&(1..=5_000).map(host).collect::<String>());
    let may_end = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&may_end);
    let watch = move || -> Watch {
        let may_end = Arc::clone(&watched);
        Box::new(move || {
            while !may_end.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            Err("no memory".to_owned())
        })
    };
    let made = Live::automatic(list.clone(), Isa::Scalar, 1, Box::new(watch));
    let (live, _) = made.map_err(|(error, _)| error).unwrap();
    // More atoms than are kept outside the trees.
    let ports: String = (0..40).map(|n| format!("{},", 2 * n)).collect();
    let ports = ports.trim_end_matches(',');
    let wide = format!("ip filter 9999 reject * * tcp {ports} {ports}");
    let wide = yamaha::rule(&wide).unwrap();
    let insert = |number: u32| {
        let rule = yamaha::rule(&format!("ip filter {number} reject *")).unwrap();
        vec![Edit::Insert(rule, Place::End)]
    };
    let edited = live.edit(vec![Edit::Insert(wide, Place::Start)]);
    assert_eq!(edited, Ok(InForce::Later));
    assert_eq!(live.edit(insert(9_998)), Err(LiveError::Busy));
    // Found of the list with the change.
    let difference = live.difference(&list, 1).unwrap();
    assert_eq!(difference.changes(), 1);
    may_end.store(true, Ordering::Relaxed);
    let outcome = loop {
        if let Some(outcome) = live.outcome() {
            break outcome;
        }
        std::thread::yield_now();
    };
    assert_eq!(outcome, Err(LiveError::Refused("no memory".to_owned())));
    assert!(live.rules().iter().map(|(_, rule)| &**rule).eq(&list.rules));
    assert_eq!(live.follow(difference), Err(LiveError::Changed));
    assert_eq!(live.difference(&list, 0).map(|same| same.changes()), Some(0));
}
