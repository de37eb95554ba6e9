//! Findings of small lists against the enumeration of all packets.

use super::enumeration::Enumerated;
use super::lists::{list, narrow_list};
use super::{UNBOUNDED, check_witness, indices};
use forebay_rules::lint::{Finding, Kind, Limits, Severity, check};
use forebay_rules::rule::RuleList;
use proptest::prelude::*;

/// What of a finding an enumeration has to say besides its kind.
fn check_finding(all: &Enumerated, finding: &Finding) {
    let rule = finding.rule.index;
    let causes = indices(&finding.causes);
    let bits = causes.iter().fold(0, |bits, &cause| bits | 1 << cause);
    let action = all.list.rules[rule].action;
    let opposed = all.of(rule).any(|bits| all.action(bits) != action);
    match finding.kind {
        Kind::Shadowed | Kind::ShadowedByUnion => {
            let severity = if opposed { Severity::Error } else { Severity::Warning };
            assert_eq!(finding.severity, severity, "{finding}");
            assert_eq!(finding.contradicts(), opposed, "{finding}");
        }
        Kind::Redundant => {
            let decided = all.of(rule).filter(|bits| bits.trailing_zeros() as usize == rule);
            let settled = decided.into_iter().all(|packet| packet & bits != 0);
            assert!(settled || finding.by_default, "{finding}");
            assert!(causes.iter().all(|&cause| cause > rule), "{finding}");
            assert_eq!(finding.witness.unwrap().decision.rule, Some(rule), "{finding}");
        }
        Kind::NeverMatches(_) | Kind::Contradictory | Kind::Exception => {}
    }
    if finding.kind == Kind::ShadowedByUnion {
        assert!(bits < 1 << rule && all.is_covered(rule, bits), "{finding}");
        for cause in causes {
            assert!(!all.is_covered(rule, bits & !(1 << cause)), "{finding}: without {cause}");
        }
    }
}

/// Compares all findings with what an enumeration of packets shows.
fn compare(list: &RuleList) {
    let report = check(list, UNBOUNDED);
    assert!(report.is_complete());
    assert_eq!(report.rules, list.rules.len());
    let all = Enumerated::new(list);
    for rule in 0..list.rules.len() {
        let of_rule = report.findings.iter().filter(|finding| finding.rule.index == rule);
        let expected = all.expected(rule);
        let kinds: Vec<_> = expected.iter().map(|(kind, _)| *kind).collect();
        let found: Vec<_> = of_rule.clone().map(|finding| finding.kind.name()).collect();
        assert_eq!(found, kinds, "rule {rule}");
        for (finding, (_, causes)) in of_rule.zip(&expected) {
            check_witness(list, finding);
            check_finding(&all, finding);
            if let Some(causes) = causes {
                assert_eq!(&indices(&finding.causes), causes, "{finding}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn findings_are_what_all_packets_show(list in list()) {
        compare(&list);
    }

    #[test]
    fn findings_are_what_all_packets_show_where_rules_overlap_much(list in narrow_list()) {
        compare(&list);
    }

    #[test]
    fn what_is_found_within_bounds_is_true(list in narrow_list(), work in 0..60_u64, each in 0..30_u64) {
        let whole = check(&list, UNBOUNDED);
        let limits = Limits { causes: 2, work_per_rule: each, work, ..UNBOUNDED };
        let report = check(&list, limits);
        prop_assert!(report.work <= work);
        for finding in &report.findings {
            check_witness(&list, finding);
            let certain = |other: &&Finding| other.rule == finding.rule && other.kind == finding.kind;
            let full = whole.findings.iter().find(certain);
            if let Some(full) = full {
                prop_assert!(finding.causes.len() <= 2);
                prop_assert!(finding.more_causes || finding.causes.len() < 2 || full.causes.len() >= 2);
            } else {
                // What is shadowed by a union is also redundant, and may contradict.
                let shadowed = |other: &Finding| {
                    other.rule == finding.rule && other.kind == Kind::ShadowedByUnion
                };
                prop_assert!(whole.findings.iter().any(shadowed), "{} is not true", finding);
            }
        }
        for missing in &whole.findings {
            let found = report.findings.iter().any(|found| {
                found.rule == missing.rule && found.kind == missing.kind
            });
            let given_up = report.unfinished.iter().any(|given_up| given_up.rule == missing.rule);
            prop_assert!(found || given_up, "{} is missing", missing);
            let certain = matches!(missing.kind, Kind::NeverMatches(_) | Kind::Shadowed);
            prop_assert!(found || !certain, "{} depends on a bound", missing);
        }
    }
}
