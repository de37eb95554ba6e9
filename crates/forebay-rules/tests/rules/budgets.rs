//! What building a list may take is in proportion to the list, and a list that
//! would be matched too slowly is refused.

use crate::draw::Draw;
use forebay_codegen::code::Isa;
use forebay_rules::atom::Extent;
use forebay_rules::choose::{EngineError, EngineName};
use forebay_rules::engine::Engine;
use forebay_rules::live::{Live, LiveError};
use forebay_rules::tree::{LEAST_RATE, Tree, TreeError};

/// Bytes of an engine for each rule of a long list, and for the rest.
const EACH: usize = 1024;
const FIXED: usize = 16 << 20;

#[test]
fn memory_is_in_proportion_to_the_list_whatever_its_rules() {
    for shape in crate::lists::ADVERSARIAL {
        let count = if shape == "octets" { 200 } else { 4000 };
        let list = crate::lists::adversarial(&mut Draw::Seed(1), shape, count);
        let tree = Tree::new(&list, Isa::Scalar).unwrap();
        let bytes = tree.bytes();
        assert!(bytes < EACH * count + FIXED, "{shape}: {bytes} bytes");
    }
}

#[test]
fn rules_that_would_multiply_are_matched_by_their_ranges_and_said_to_be() {
    let list = crate::lists::adversarial(&mut Draw::Seed(2), "random", 1000);
    let atoms: usize = list.rules.iter().map(|rule| Extent::of(rule).atoms).sum();
    assert!(atoms > 100_000, "{atoms}");
    let estimate = Tree::new(&list, Isa::Scalar).unwrap().estimate();
    assert!(estimate.ranged > 900 && estimate.rate > LEAST_RATE, "{estimate:?}");
    let chosen = EngineName::Auto.choose(&list, Isa::Scalar).unwrap();
    assert_eq!(chosen.name, EngineName::Tree);
    let notice = chosen.notice().unwrap();
    assert!(notice.starts_with("tree: ") && notice.contains("by their ranges"), "{notice}");
}

#[test]
fn the_choice_is_the_same_for_every_machine() {
    for shape in crate::lists::ADVERSARIAL {
        let list = crate::lists::adversarial(&mut Draw::Seed(3), shape, 100);
        let ranged = |isa| Tree::new(&list, isa).unwrap().estimate().ranged;
        let own = forebay_jit::cpu::detect();
        assert_eq!(ranged(Isa::Scalar), ranged(own), "{shape}");
    }
}

#[test]
fn prefixes_are_left_to_trees() {
    let list = crate::lists::adversarial(&mut Draw::Seed(4), "stars", 1500);
    assert_eq!(Tree::new(&list, Isa::Scalar).unwrap().estimate().ranged, 0);
}

/// Rules of open octets, each of which every packet comes near.
fn too_slow() -> forebay_rules::RuleList {
    crate::lists::adversarial(&mut Draw::Seed(5), "octets", 500)
}

#[test]
fn a_list_that_would_be_too_slow_is_refused_with_its_rate_and_worst_rule() {
    let list = too_slow();
    for isa in [Isa::Scalar, forebay_jit::cpu::detect()] {
        let error = EngineName::Auto.build(&list, isa).err().unwrap();
        let EngineError::Tree(TreeError::TooSlow { rate, ranged, rules, worst, atoms }) = error
        else {
            panic!("{error}");
        };
        assert!(rate < LEAST_RATE && ranged == 500 && rules == 500, "{rate}, {ranged}, {rules}");
        assert_eq!((worst.number, atoms), (1, 65_536));
    }
    let error = Live::new(&list, Isa::Scalar, 1).err().unwrap();
    assert!(matches!(error, TreeError::TooSlow { .. }), "{error}");
}

#[test]
fn a_list_that_has_become_too_slow_is_added_to_no_more() {
    let mut list = too_slow();
    let more = list.rules.split_off(2);
    let live = Live::new(&list, Isa::Scalar, 1).unwrap();
    let refused = more.into_iter().find_map(|rule| live.insert(0, rule).err());
    let refused = refused.expect("a list of 500 such rules is too slow");
    assert!(matches!(refused, LiveError::List(TreeError::TooSlow { .. })), "{refused}");
    // What was there is not lost, and rules can be taken out.
    let rules = live.rules();
    assert!(rules.len() > 2);
    live.delete(rules[0].0).unwrap();
    assert_eq!(live.rules().len(), rules.len() - 1);
}
