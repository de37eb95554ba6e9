//! Lists that people could have written, and what is said of them.

use super::{UNBOUNDED, check_witness};
use forebay_rules::language::yamaha;
use forebay_rules::lint::{Bound, Impossible, Kind, Limits, Question, Report, Severity, check};
use forebay_rules::rule::{
    Action, Family, FlagTest, ICMP, PortTest, ProtocolTest, Rule, RuleList, TCP, TransportTest,
};
use forebay_rules::sets::{ProtocolSet, RangeSet};

fn list(text: &str) -> RuleList {
    yamaha::parse(text).unwrap().ascending()
}

fn report(list: &RuleList) -> Report {
    let report = check(list, Limits::default());
    report.findings.iter().for_each(|finding| check_witness(list, finding));
    assert!(report.is_complete());
    report
}

/// Severity and sentence of all findings.
fn sentences(text: &str) -> Vec<String> {
    let findings = report(&list(text)).findings;
    findings.iter().map(|finding| format!("{}: {finding}", finding.severity)).collect()
}

#[test]
fn nothing_is_said_of_lists_without_fault() {
    let rules = "ip filter 1 reject 192.0.2.9 *\n\
                 ip filter 2 pass 10.0.0.0/8 * tcp * 80\n\
                 ip filter 3 pass 192.0.2.0/23 *\n\
                 ipv6 filter 2 pass 2001:db8::/32 *\n";
    let notes = ["note: rule 1 rejects a part of what rule 3, coming later, would pass"];
    assert_eq!(sentences(rules), notes);
    assert_eq!(report(&RuleList::default()), Report::default());
}

#[test]
fn a_rule_inside_an_earlier_one_is_shadowed() {
    let rules = "ip filter 1 pass-log 192.0.2.0/24 * tcp,udp\n\
                 ip filter 2 pass 192.0.2.7 * udp * 53\n\
                 ip filter 3 reject 192.0.2.0/25 * tcp * 22-23\n\
                 ip filter 4 pass 192.0.2.7 * udp * 53\n";
    assert_eq!(
        sentences(rules),
        [
            "warning: rule 2 is never reached: rule 1 covers it",
            "error: rule 3 is never reached: rule 1 covers it, and packets that it would reject \
             are passed",
            "warning: rule 4 is never reached: rules 1 and 2 each cover it",
        ]
    );
}

#[test]
fn rules_together_shadow_one() {
    let rules = "ip filter 1 reject 192.0.2.0/25 * tcp\n\
                 ip filter 2 pass 10.0.0.0/8 * tcp\n\
                 ip filter 3 reject 192.0.2.128/25 * tcp,udp\n\
                 ip filter 4 pass 192.0.2.0/24 * tcp * 443\n";
    // Nor is 1 or 3 redundant, though their action is the default's: without one of
    // them, 4 would pass some packets.
    assert_eq!(
        sentences(rules),
        ["error: rule 4 is never reached: rules 1 and 3 together cover it, and packets that \
             it would pass are rejected"]
    );
}

#[test]
fn a_cut_packet_has_no_flags_for_either_of_two_opposite_tests() {
    let rules = "ip filter 1 pass * * tcpflag=0x02/0x02\n\
                 ip filter 2 pass * * tcpflag!=0x02/0x02\n\
                 ip filter 3 pass * * tcp\n";
    let report = report(&list(rules));
    let kinds: Vec<_> = report.findings.iter().map(|finding| finding.kind.name()).collect();
    assert_eq!(kinds, ["redundant", "redundant"]);
    let with_flags = rules.replace("* * tcp\n", "* * tcpflag!=0x03/0x03\n");
    let report = self::report(&list(&with_flags));
    let shadowed: Vec<_> =
        report.findings.iter().filter(|finding| finding.kind == Kind::ShadowedByUnion).collect();
    assert_eq!(shadowed.len(), 1);
    assert_eq!(shadowed[0].rule.number, 3);
}

#[test]
fn only_five_protocols_have_ports() {
    let rules = "ip filter 1 pass 192.0.2.1 * tcp,udp,33,132,136\n\
                 ip filter 2 pass 192.0.2.1 * * * 80\n\
                 ip filter 3 pass 192.0.2.2 * * * *\n\
                 ip filter 4 pass 192.0.2.2 * * 0-65535 *\n";
    assert_eq!(
        sentences(rules),
        [
            "warning: rule 2 is never reached: rule 1 covers it",
            "warning: rule 4 is never reached: rule 3 covers it",
        ]
    );
}

#[test]
fn a_rule_without_which_nothing_changes_is_redundant() {
    let rules = "ip filter 1 pass 192.0.2.1 * tcp * 80\n\
                 ip filter 2 pass 192.0.2.2 * tcp * 80\n\
                 ip filter 3 reject 192.0.2.2 *\n\
                 ip filter 4 pass 192.0.2.0/24 *\n\
                 ip filter 5 reject * *\n";
    let findings = report(&list(rules)).findings;
    let said: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "rule 1 is redundant: rule 4 would pass its packets too",
            "rule 2 passes a part of what rule 3, coming later, would reject",
            "rule 3 rejects a part of what rule 4, coming later, would pass",
            "rule 5 is redundant: the default would reject its packets too; only the log would \
             differ",
            "rules 1, 2 and 4 pass a part of what rule 5, coming later, would reject",
        ]
    );
    assert!(findings[3].by_default && findings[3].causes.is_empty());
    assert_eq!(findings[0].severity, Severity::Warning);
    assert_eq!(findings[1].severity, Severity::Note);
}

#[test]
fn order_decides_where_rules_of_two_actions_cross() {
    let rules = "ip filter 1 pass * * tcp * 80\n\
                 ip filter 2 reject 10.0.0.0/8 *\n\
                 ip filter 3 pass * *\n\
                 ipv6 filter 1 pass * * tcp * 80\n\
                 ipv6 filter 2 reject 2001:db8::/32 *\n\
                 ipv6 filter 3 pass * *\n";
    let [v4, v6] = ["", "IPv6 "].map(|family| {
        [
            format!(
                "warning: {family}rule 1 passes packets that {family}rule 2, coming later, would \
                 reject, and others"
            ),
            format!(
                "note: {family}rule 2 rejects a part of what {family}rule 3, coming later, would \
                 pass"
            ),
        ]
    });
    assert_eq!(sentences(rules), [v4, v6].concat());
}

#[test]
fn rules_do_not_contradict_over_packets_that_an_earlier_one_takes() {
    let rules = "ip filter 1 pass 10.0.0.0/8 * tcp * 80\n\
                 ip filter 2 reject * * tcp * 80\n\
                 ip filter 3 pass 10.0.0.0/8 * tcp,gre\n\
                 ip filter 4 pass * * tcp\n";
    let notes = [
        "note: rule 1 passes a part of what rule 2, coming later, would reject",
        "note: rule 2 rejects a part of what rule 4, coming later, would pass",
    ];
    assert_eq!(sentences(rules), notes);
    // Nor if several rules take them, each a part.
    let parts = rules.replacen(
        "pass 10.0.0.0/8 * tcp * 80",
        "pass 10.0.0.0/9 * tcp * 80\nip filter 5 pass 10.128.0.0/9 * tcp * 80-81",
        1,
    );
    let order = "ip a secure filter in 1 5 2 3 4\n";
    let list = yamaha::parse(&format!("{parts}{order}")).unwrap().only_list().unwrap();
    let findings = report(&list).findings;
    let contradicted: Vec<_> = findings.iter().map(|finding| finding.rule.number).collect();
    assert_eq!(contradicted, [2, 2, 4], "{findings:?}");
}

#[test]
fn a_rule_that_no_packet_matches_says_why() {
    let only = |protocols: &[u8]| TransportTest::of(protocols.iter().copied().collect());
    let any = |family| Rule::any(1, family, Action::Pass);
    let port = || PortTest::In(RangeSet::one(53));
    let flags = vec![FlagTest::Equal { mask: 1, value: 3 }, FlagTest::set(4)];
    let impossible = vec![flags[0]];
    let with = |family, test| Rule { protocol: ProtocolTest::Only(test), ..any(family) };
    let tcp = |tcp_flags| TransportTest { tcp_flags, ..only(&[TCP]) };
    let beyond = RangeSet::one(1_u128 << 40);
    let ports_of =
        |protocol| Rule { destination_ports: port(), ..with(Family::Ipv4, only(&[protocol])) };
    let cases = [
        (ports_of(ICMP), Some(Impossible::Ports)),
        (ports_of(47), Some(Impossible::Ports)),
        (ports_of(TCP), None),
        (with(Family::Ipv4, tcp(impossible.clone())), Some(Impossible::Flags)),
        (with(Family::Ipv4, tcp(flags)), None),
        (with(Family::Ipv4, TransportTest { tcp_flags: impossible, ..only(&[TCP, 47]) }), None),
        (with(Family::Ipv4, only(&[])), Some(Impossible::Protocol)),
        (with(Family::Ipv6, only(&[0, 43, 44, 51, 60])), Some(Impossible::Protocol)),
        (with(Family::Ipv4, only(&[0, 43, 44, 51, 60])), None),
        (Rule { source: beyond.clone(), ..any(Family::Ipv4) }, Some(Impossible::Address)),
        (Rule { source: beyond, ..any(Family::Ipv6) }, None),
    ];
    for (rule, why) in cases {
        let report = report(&RuleList { rules: vec![rule.clone()], default: Action::Reject });
        let kinds: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, Vec::from_iter(why.map(Kind::NeverMatches)), "{rule:?}");
    }
}

/// Rules of single ports, then one of all these ports.
fn many(ports: u16) -> RuleList {
    let rule = |number: u32, range| Rule {
        destination_ports: PortTest::In(RangeSet::range(range).unwrap()),
        protocol: ProtocolTest::Only(TransportTest::of(ProtocolSet::one(TCP))),
        ..Rule::any(number, Family::Ipv4, Action::Pass)
    };
    let singles = (0..ports).map(|port| rule(u32::from(port) + 1, port..=port));
    let all = rule(u32::from(ports) + 1, 0..=ports - 1);
    RuleList { rules: singles.chain([all]).collect(), default: Action::Reject }
}

#[test]
fn a_union_of_many_is_found_and_named_as_far_as_allowed() {
    let list = many(500);
    let report = check(&list, UNBOUNDED);
    let found: Vec<_> =
        report.findings.iter().filter(|finding| finding.kind == Kind::ShadowedByUnion).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].causes.len(), 500);
    let report = check(&list, Limits { causes: 10, ..UNBOUNDED });
    let last = report.findings.last().unwrap();
    assert_eq!((last.causes.len(), last.more_causes), (10, true));
    assert_eq!(
        last.to_string(),
        "rule 501 is never reached: rules 1, 2, 3, 4, 5, 6, 7, 8 and more than 2 others together \
         cover it"
    );
}

#[test]
fn what_is_given_up_is_said_and_why() {
    let list = many(500);
    let questions = |limits| {
        let unfinished = check(&list, limits).unfinished;
        let last = *unfinished.last().unwrap();
        let first = unfinished.iter().find(|first| first.rule == last.rule).unwrap();
        assert_eq!(first.question, Question::Union);
        (first.bound, first.to_string())
    };
    let (bound, sentence) = questions(Limits { work_per_rule: 100, ..UNBOUNDED });
    assert_eq!(bound, Bound::PerRule);
    assert_eq!(
        sentence,
        "rule 501: whether earlier rules together shadow it is not known: the work allowed for one \
         rule is spent"
    );
    let (bound, sentence) = questions(Limits { work: 100, ..UNBOUNDED });
    assert_eq!(bound, Bound::Total);
    assert!(sentence.ends_with("the work allowed in all is spent"), "{sentence}");
}

#[test]
fn sentences_do_without_names_where_none_are_asked_for() {
    let text = "ip filter 1 pass 192.0.2.0/24 *\n\
                ip filter 2 pass 192.0.2.1 *\n\
                ip filter 3 pass * *\n";
    let findings = check(&list(text), Limits { causes: 0, ..UNBOUNDED }).findings;
    let said: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "rule 1 is redundant: other rules would pass its packets too",
            "rule 2 is never reached: other rules each cover it",
        ]
    );
    assert!(findings.iter().all(|finding| finding.more_causes));
}

#[test]
fn rules_behind_the_most_are_not_looked_at_and_said_not_to_be() {
    let text = "ip filter 1 pass 10.0.0.0/8 *\n\
                ip filter 2 reject 10.1.0.0/16 *\n\
                ip filter 3 reject 192.0.2.1 *\n\
                ip filter 4 reject 192.0.2.0/24 *\n\
                ip filter 5 pass 10.2.0.0/16 *\n";
    let list = list(text);
    let rules = |report: &Report| -> Vec<_> {
        report.findings.iter().map(|finding| (finding.rule.number, finding.kind)).collect()
    };
    let whole = check(&list, UNBOUNDED);
    assert!(rules(&whole).contains(&(5, Kind::Shadowed)) && whole.is_complete());
    assert!(rules(&whole).contains(&(3, Kind::Redundant)));
    let part = check(&list, Limits { rules: 3, ..UNBOUNDED });
    assert_eq!((part.rules, part.unexamined, part.is_complete()), (5, 2, false));
    // What the rest could still decide is left open.
    assert_eq!(rules(&part), [(2, Kind::Shadowed)]);
}
