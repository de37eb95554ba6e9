//! Sorted tests of always-forward rules pass what testing all conditions one by one passes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use forebay_packet::random::Random;
use forebay_scan::rules::{
    Application, Applications, Class, Endpoint, Evidence, Field, ForwardTests, MOST_TESTS, Owner,
    PacketFacts, RuleSet, Side, Variables,
};

fn parse(text: &str) -> RuleSet {
    let mut variables = Variables::new();
    variables.set("HOME", "[10.0.0.0/8,!10.9.0.0/16,2001:db8::/32]");
    let (mut rules, mut errors) = (RuleSet::with_variables(variables), Vec::new());
    rules.parse("rules", text.as_bytes(), &mut errors);
    assert!(errors.is_empty(), "{errors:?}");
    rules
}

/// A rule without contents.
fn line(random: &mut Random, sid: usize) -> String {
    let mut one = |from: &[&str]| from[random.below(from.len() as u64) as usize].to_owned();
    let protocols = ["tcp", "udp", "icmp", "ip", "http", "tls", "dns", "sctp"];
    let hosts = [
        "any",
        "$HOME",
        "!$HOME",
        "$OTHER",
        "10.1.2.3",
        "[10.1.2.0/24,192.0.2.0/30]",
        "![10.1.2.3]",
        "[2001:db8::1,10.9.0.0/16]",
        "0.0.0.0/0",
    ];
    let ports = ["any", "80", "[80,443]", "!80", "1024:", "[1000:1020,!1010]", "$PORTS"];
    let options = [
        "",
        "flow:established,to_server; ",
        "flow:to_client; ",
        "flow:not_established; ",
        "flags:S; ",
        "flags:SA+; ",
        "dsize:>100; ",
        "dsize:0; flow:established; ",
        "itype:8; ",
        "ip_proto:47; ",
        "flowbits:isset,a; ",
    ];
    let arrows = ["->", "->", "<>"];
    format!(
        "alert {} {} {} {} {} {} ({}sid:{sid};)",
        one(&protocols),
        one(&hosts),
        one(&ports),
        one(&arrows),
        one(&hosts),
        one(&ports),
        one(&options),
    )
}

fn end(random: &mut Random) -> Endpoint {
    let address: IpAddr = match random.below(8) {
        0 => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, random.below(3) as u16).into(),
        1 => Ipv4Addr::new(192, 0, 2, random.below(6) as u8).into(),
        2 => Ipv4Addr::new(10, 9, 0, random.below(4) as u8).into(),
        3 => Ipv4Addr::new(255, 255, 255, 255).into(),
        _ => Ipv4Addr::new(10, 1, 2, random.below(5) as u8).into(),
    };
    let ports = [80, 443, 81, 1000, 1010, 1020, 1021, 1023, 1024, 65_535, 0, 53];
    (address, ports[random.below(ports.len() as u64) as usize])
}

fn facts(random: &mut Random) -> PacketFacts {
    let protocol = [6, 6, 6, 17, 17, 1, 58, 132, 47, 44][random.below(10) as usize];
    let mut facts = PacketFacts::new(protocol, end(random), end(random));
    facts.set(Field::IpProtocol, u32::from(protocol));
    facts.set(Field::PayloadLen, [0, 50, 150][random.below(3) as usize]);
    if protocol == 6 {
        facts.direction = [Side::ToServer, Side::ToClient, Side::Either][random.below(3) as usize];
        facts.tcp_flags = Some([2, 0x12, 0x10, 0x18][random.below(4) as usize]);
        facts.established = [None, Some(false)][random.below(2) as usize];
    }
    if protocol == 1 {
        facts.set(Field::IcmpType, [8, 0][random.below(2) as usize]);
    }
    facts
}

#[test]
fn sorted_tests_pass_what_each_condition_passes() {
    let mut random = Random::new(11);
    for rounds in 0..60 {
        let number = [1, 3, 20, 120][rounds % 4];
        let lines: Vec<String> = (1..=number).map(|sid| line(&mut random, sid)).collect();
        let rules = parse(&lines.join("\n"));
        let tests = ForwardTests::new(&rules);
        // A rule with `<>` may be in two lists.
        assert!(tests.longest() <= 2 * number);
        for _ in 0..300 {
            let facts = facts(&mut random);
            let forward = || rules.always_forward().map(|(rule, _)| rule);
            let mut without_http = facts.clone();
            without_http.applications = Applications::ALL.without(Application::Http);
            let met = |facts: &PacketFacts, whole: bool| {
                forward().any(|rule| {
                    rule.condition.whole_flow == whole
                        && rule.condition.may_match(&rule.header, facts)
                })
            };
            let mut evidence = Evidence::default();
            let found =
                [tests.of_flow(&facts, &mut evidence), tests.of_packet(&facts, &mut evidence)];
            let found = found.into_iter().flatten();
            let whole_flow = met(&without_http, true);
            assert_eq!(evidence.may_match(), whole_flow, "{facts:?} {lines:#?}");
            assert_eq!(found.clone().any(|one| one.whole_flow), whole_flow);
            let expected = whole_flow || met(&without_http, false);
            assert_eq!(found.clone().count() > 0, expected, "{facts:?} {lines:#?}");
            for found in found {
                let rule = &rules.rules()[found.rule as usize];
                assert!(rule.condition.may_match(&rule.header, &facts));
            }
            if !whole_flow {
                assert_eq!(evidence.is_pending(), met(&facts, true), "{facts:?} {lines:#?}");
            }
            let (a, b) = (facts.source, facts.destination);
            let around = forward().any(|rule| rule.header.admits_flow(facts.protocol, a, b));
            assert_eq!(tests.of_layer(facts.protocol, a, b).is_some(), around);
        }
    }
}

#[test]
fn a_rule_for_http_waits_for_a_marker() {
    let rules = parse("alert http any any -> any any (http.method; content:!\"GET\"; sid:1;)");
    assert!(matches!(rules.rules()[0].class, Class::AlwaysForward(_)));
    let (tests, literals) = (ForwardTests::new(&rules), rules.literals().unwrap());
    let (a, b) = (("10.0.0.1".parse().unwrap(), 5), ("10.0.0.2".parse().unwrap(), 80));
    let mut evidence = Evidence::default();
    assert_eq!(tests.of_flow(&PacketFacts::new(6, a, b), &mut evidence), None);
    assert!(evidence.is_pending() && !evidence.may_match());
    let owner = literals.observe_http(&mut evidence);
    assert_eq!((owner, evidence.may_match()), (Some(Owner::Rule(0)), true));
}

#[test]
fn a_packet_takes_a_bounded_number_of_tests() {
    // None of these can be told from another by ports or by few addresses.
    let lines: Vec<String> =
        (1..2000).map(|n| format!("alert tcp any any -> any any (dsize:{n}; sid:{n};)")).collect();
    let rules = parse(&lines.join("\n"));
    let tests = ForwardTests::new(&rules);
    assert_eq!(tests.longest(), MOST_TESTS + 1);
    let (a, b) = (("10.0.0.1".parse().unwrap(), 5), ("10.0.0.2".parse().unwrap(), 80));
    let mut packet = PacketFacts::new(6, a, b);
    packet.set(Field::PayloadLen, 5000);
    // Those beyond the limit pass everything.
    let found = tests.of_packet(&packet, &mut Evidence::default()).unwrap();
    assert!(found.rule as usize == MOST_TESTS && found.whole_flow);
    // Many addresses are found in a few steps.
    let lines: Vec<String> = (0..4000)
        .map(|n| format!("alert ip 192.0.{}.{} any -> $HOME any (sid:{n};)", n / 250, n % 250))
        .collect();
    let tests = ForwardTests::new(&parse(&lines.join("\n")));
    assert_eq!(tests.longest(), 1);
}
