//! The lint against enumeration: of small lists all packets that rules can tell
//! apart, of the ClassBench seeds all pairs of rules.

mod enumeration;
mod examples;
mod lists;
mod properties;
mod sets;

use forebay_rules::lint::{Finding, Kind, Limits, RuleName};
use forebay_rules::rule::RuleList;
use forebay_rules::{Decision, Key};

/// Limits that no test list reaches.
const UNBOUNDED: Limits =
    Limits { causes: usize::MAX, work_per_rule: u64::MAX, work: u64::MAX, rules: usize::MAX };

/// What a list says without one of its rules.
fn decide_without(list: &RuleList, key: &Key, removed: usize) -> Decision {
    let rules = list.rules.iter().enumerate();
    let rule = rules.clone().find(|(index, rule)| *index != removed && rule.matches(key));
    let rule = rule.map(|(index, _)| index);
    Decision { rule, action: rule.map_or(list.default, |index| list.rules[index].action) }
}

fn indices(names: &[RuleName]) -> Vec<usize> {
    names.iter().map(|name| name.index).collect()
}

/// Holds the witness of a finding against the oracle.
fn check_witness(list: &RuleList, finding: &Finding) {
    let Some(witness) = finding.witness else {
        assert!(matches!(finding.kind, Kind::NeverMatches(_)), "{finding} has no witness");
        return;
    };
    let rule = finding.rule.index;
    assert!(list.rules[rule].matches(&witness.key), "{finding}: {witness:?}");
    assert_eq!(witness.decision, list.decide(&witness.key), "{finding}");
    assert_eq!(witness.without, decide_without(list, &witness.key, rule), "{finding}");
    match finding.kind {
        Kind::NeverMatches(_) => panic!("{finding}: {witness:?}"),
        Kind::Shadowed | Kind::ShadowedByUnion => {
            assert!(witness.decision.rule.unwrap() < rule, "{finding}");
        }
        Kind::Redundant => {
            assert_eq!(witness.decision.action, witness.without.action, "{finding}");
        }
        Kind::Contradictory | Kind::Exception => {
            assert_eq!(witness.decision.rule, Some(finding.causes[0].index), "{finding}");
        }
    }
}
