//! Rule lists: every engine finds the same rules as the oracle, for keys drawn from the
//! list.
#![no_main]

#[path = "../../crates/forebay-rules/tests/support/contest.rs"]
mod contest;
#[path = "../../crates/forebay-rules/tests/support/draw.rs"]
mod draw;
#[path = "../../crates/forebay-rules/tests/support/headers.rs"]
mod headers;
#[path = "../../crates/forebay-rules/tests/support/lists.rs"]
mod lists;

use contest::Maker;
use draw::Draw;
use forebay_rules::atom::Atom;
use forebay_rules::choose::EngineName;
use forebay_rules::rule::{Family, Rule, RuleList};
use headers::Header;
use libfuzzer_sys::fuzz_target;

/// The most atoms of a list, and of one of its rules: coverage instrumentation of each
/// comparison makes building slow.
const ATOMS: usize = 48;
const ATOMS_EACH: usize = 16;

/// The most rules of a list of similar rules.
const ALIKE: usize = 48;

/// The most rules for which code is compiled: that takes longer than all the rest.
const COMPILED: usize = 6;

/// Keys: more than an engine processes together.
const KEYS: usize = 80;

fuzz_target!(|data: &[u8]| {
    let [choice, seed_high, seed_low, rest @ ..] = data else { return };
    let from = &mut Draw::Bytes(rest);
    let multiplying = from.one_in(4);
    let list = if multiplying { many(from) } else { list(from) };
    let draw = &mut Draw::Seed(u16::from_be_bytes([*seed_high, *seed_low]).into());
    let keys: Vec<_> = (0..KEYS).map(|_| Header::near(draw, &list).key()).collect();
    let mut makers = makers(*choice, list.rules.len());
    // Other engines expand ranges into prefixes and ports.
    makers.retain(|maker| !multiplying || maker.name == EngineName::Tree);
    contest::check(&makers, &list, &keys);
});

/// The engines at one of the levels of this machine; those that compile code only now and
/// then.
fn makers(choice: u8, rules: usize) -> Vec<Maker> {
    const OFTEN: [EngineName; 4] =
        [EngineName::Naive, EngineName::Tree, EngineName::PeGeneric, EngineName::PeOne];
    let mut makers = contest::all();
    let trees = contest::trees();
    let isa = trees[usize::from(choice) % trees.len()].isa;
    let rare = EngineName::ALL.get(usize::from(choice) / trees.len());
    makers.retain(|maker| {
        let wanted = OFTEN.contains(&maker.name) || Some(&maker.name) == rare && rules <= COMPILED;
        wanted && (maker.isa == isa || maker.name == EngineName::Naive)
    });
    makers
}

/// A list of any rules, as many as the bytes allow, or of many similar ones.
fn list(draw: &mut Draw) -> RuleList {
    let family = draw.pick(&[Family::Ipv4, Family::Ipv6]);
    let families = [family, draw.pick(&[Family::Ipv4, Family::Ipv6])];
    match draw.below(8) {
        0 => {
            let count = draw.below(ALIKE);
            lists::wildcards(draw, family, count)
        }
        1 => {
            let count = draw.below(ALIKE);
            lists::one_pair_of_addresses(draw, family, count)
        }
        2 => {
            let count = draw.below(ALIKE);
            few(lists::distinct_tests(draw, family, count).rules)
        }
        shape => {
            let next = || {
                let family = draw.pick(&families);
                (!draw.is_empty()).then(|| lists::rule(draw, family))
            };
            let list = few(std::iter::from_fn(next));
            if shape == 3 { lists::doubled(&mut Draw::Seed(0), list) } else { list }
        }
    }
}

/// A list of rules that expansion into prefixes would multiply, and of any others.
fn many(draw: &mut Draw) -> RuleList {
    let mut rules = Vec::new();
    while !draw.is_empty() && rules.len() < ALIKE {
        let shape = draw.pick(&lists::ADVERSARIAL);
        let count = 1 + draw.below(ALIKE / 2);
        rules.extend(lists::adversarial(draw, shape, count).rules);
        let family = draw.pick(&[Family::Ipv4, Family::Ipv6]);
        rules.extend(draw.one_in(2).then(|| lists::rule(draw, family)));
    }
    lists::list(rules)
}

/// The list of the first of `rules` whose atoms stay within the limits.
fn few(rules: impl IntoIterator<Item = Rule>) -> RuleList {
    let mut left = ATOMS;
    let mut kept = Vec::new();
    for rule in rules {
        let atoms = Atom::of_rule(&rule).map_or(usize::MAX, |atoms| atoms.len());
        if atoms > ATOMS_EACH {
            continue;
        }
        if atoms > left {
            break;
        }
        left -= atoms;
        kept.push(rule);
    }
    lists::list(kept)
}
