//! Engines against the oracle. What differs is shown by a list made as short as
//! possible.
#![allow(dead_code, reason = "each test uses its part")]

use forebay_codegen::code::Isa;
use forebay_jit::cpu;
use forebay_rules::atom::Atom;
use forebay_rules::choose::{EngineError, EngineName};
use forebay_rules::engine::{Engine, NO_RULE};
use forebay_rules::key::Key;
use forebay_rules::linear::LinearError;
use forebay_rules::packed::{Key4, Key6, Packed};
use forebay_rules::rule::RuleList;
use std::collections::HashSet;
use std::fmt;
use std::thread;

/// An engine with the instructions of a level.
#[derive(Clone, Copy, Debug)]
pub struct Maker {
    pub name: EngineName,
    pub isa: Isa,
}

impl Maker {
    /// Rules of a list for which the engine is fast enough for tests.
    fn most(self) -> usize {
        match self.name {
            EngineName::Naive | EngineName::PeGeneric | EngineName::PeOne => 1000,
            EngineName::List | EngineName::Ems => 40,
            EngineName::Pe => 250,
            // Longer lists are the tree's.
            EngineName::Auto => 300,
            EngineName::Tree => usize::MAX,
        }
    }

    /// The engine of `list`; none if the list is too long for tests of it, or
    /// more distinct tests than a table takes.
    pub fn engine(self, list: &RuleList) -> Option<Box<dyn Engine>> {
        if list.rules.len() > self.most() {
            return None;
        }
        match self.name.build(list, self.isa) {
            Ok(engine) => Some(engine),
            Err(EngineError::Linear(LinearError::TooManyTests { most, .. }))
                if distinct_tests(list) > most =>
            {
                None
            }
            Err(error) => panic!("{self}: {error}\n{list}"),
        }
    }
}

impl fmt::Display for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.isa)
    }
}

fn distinct_tests(list: &RuleList) -> usize {
    let atoms = list.rules.iter().filter_map(|rule| Atom::of_rule(rule).ok()).flatten();
    atoms.map(|atom| atom.test).collect::<HashSet<_>>().len()
}

/// Every engine with the instructions of each level that this machine has.
pub fn all() -> Vec<Maker> {
    let levels: Vec<Isa> =
        Isa::ALL.into_iter().filter(|&isa| cpu::missing(isa).is_empty()).collect();
    let makers = EngineName::ALL.into_iter().flat_map(|name| {
        let isas = match name {
            EngineName::Naive => vec![Isa::Scalar],
            // It has no code without vectors.
            EngineName::Pe => levels.iter().copied().filter(|&isa| isa > Isa::Scalar).collect(),
            _ => levels.clone(),
        };
        isas.into_iter().map(move |isa| Maker { name, isa })
    });
    makers.collect()
}

/// The tree with the instructions of each.
pub fn trees() -> Vec<Maker> {
    all().into_iter().filter(|maker| maker.name == EngineName::Tree).collect()
}

/// Holds engines against the oracle on `keys`, and says how many of these
/// match a rule.
pub fn check(makers: &[Maker], list: &RuleList, keys: &[Key]) -> usize {
    let expected = decide(list, keys);
    compare(makers, list, keys, &expected);
    expected.iter().filter(|&&rule| rule != NO_RULE).count()
}

/// Holds engines against what is expected of them.
pub fn compare(makers: &[Maker], list: &RuleList, keys: &[Key], expected: &[u32]) {
    for &maker in makers {
        let Some(engine) = maker.engine(list) else { continue };
        let found = classify(&*engine, keys);
        if let Some(at) = (0..keys.len()).find(|&at| found[at] != expected[at]) {
            fail(maker, list, &keys[at], found[at], expected[at]);
        }
    }
}

/// What the oracle says of each key.
pub fn decide(list: &RuleList, keys: &[Key]) -> Vec<u32> {
    const THREADS: usize = 4;
    let of = |keys: &[Key]| -> Vec<u32> { keys.iter().map(|key| oracle(list, key)).collect() };
    if list.rules.len() * keys.len() < 1 << 20 {
        return of(keys);
    }
    thread::scope(|scope| {
        let parts = keys.chunks(keys.len().div_ceil(THREADS));
        let parts: Vec<_> = parts.map(|keys| scope.spawn(move || of(keys))).collect();
        parts.into_iter().flat_map(|part| part.join().expect("the oracle does not panic")).collect()
    })
}

fn oracle(list: &RuleList, key: &Key) -> u32 {
    list.decide(key).rule.map_or(NO_RULE, |rule| rule as u32)
}

/// What `engine` says of each key.
pub fn classify(engine: &dyn Engine, keys: &[Key]) -> Vec<u32> {
    // No rule that a list has, so that a place left as it was is seen.
    const UNTOUCHED: u32 = 0x5555_5555;
    let packed: Vec<Packed> = keys.iter().map(Packed::from).collect();
    let four = |key: &Packed| if let Packed::V4(key) = key { Some(*key) } else { None };
    let six = |key: &Packed| if let Packed::V6(key) = key { Some(*key) } else { None };
    let keys4: Vec<Key4> = packed.iter().filter_map(four).collect();
    let keys6: Vec<Key6> = packed.iter().filter_map(six).collect();
    let (mut rules4, mut rules6) = (vec![UNTOUCHED; keys4.len()], vec![UNTOUCHED; keys6.len()]);
    engine.classify4(&keys4, &mut rules4);
    engine.classify6(&keys6, &mut rules6);
    let (mut rules4, mut rules6) = (rules4.into_iter(), rules6.into_iter());
    let next = |key: &Packed| match key {
        Packed::V4(_) => rules4.next(),
        Packed::V6(_) => rules6.next(),
    };
    packed.iter().filter_map(next).collect()
}

/// Shows a key of which an engine says something else than expected.
fn fail(maker: Maker, list: &RuleList, key: &Key, found: u32, expected: u32) -> ! {
    let answers = |list: &RuleList| {
        let engine = maker.engine(list)?;
        let found = classify(&*engine, &[*key])[0];
        Some((found, oracle(list, key))).filter(|(found, expected)| found != expected)
    };
    let mut shown = (list.clone(), (found, expected));
    let mut seen = "only among other packets, ";
    if answers(list).is_some() {
        let short = shortest(list, |list| answers(list).is_some());
        shown = (short.clone(), answers(&short).unwrap_or((found, expected)));
        seen = "";
    }
    let (list, (found, expected)) = shown;
    let name = |rule: u32| match list.rules.get(rule as usize) {
        Some(rule) => format!("rule {}", rule.number),
        None if rule == NO_RULE => "no rule".to_owned(),
        None => format!("place {rule}, where is no rule,"),
    };
    panic!(
        "{maker}: {} where {} is expected, {seen}for\n{key}\n{key:?}\nby\n{list}\n{:#?}",
        name(found),
        name(expected),
        list.rules.iter().take(8).collect::<Vec<_>>()
    );
}

/// Takes rules away as long as what is left still `differs`: halves, then less.
fn shortest(list: &RuleList, differs: impl Fn(&RuleList) -> bool) -> RuleList {
    let mut left = list.clone();
    let mut size = left.rules.len().div_ceil(2);
    while size > 0 {
        let mut from = 0;
        while from < left.rules.len() {
            let mut shorter = left.clone();
            shorter.rules.drain(from..left.rules.len().min(from + size));
            if differs(&shorter) {
                left = shorter;
            } else {
                from += size;
            }
        }
        size /= 2;
    }
    left
}
