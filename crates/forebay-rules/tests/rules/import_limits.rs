//! What importing lists may take: what is within a limit is read, and what is beyond it is
//! refused where it is reached.

use std::fmt::Write as _;

use crate::nftables::{source_is, with_set};
use forebay_rules::language::ParseError;
use forebay_rules::language::{Format, Imported, Options, open};

fn read(format: Format, text: &str, name: &str) -> Result<Imported, ParseError> {
    let catalogue = open(format, text, &Options::default())?;
    let list = catalogue.lists().iter().position(|listed| listed.name == name).unwrap();
    catalogue.read(list)
}

/// A chain of so many jumps to one of so many rules, none of which a packet of the jump
/// matches.
fn combined(jumps: usize, rules: usize) -> String {
    let mut text = "*filter\n:INPUT DROP\n:c -\n".to_owned();
    for n in 0..jumps {
        let _ = writeln!(text, "-A INPUT -s 10.0.{}.{}/32 -j c", n / 256, n % 256);
    }
    for n in 0..rules {
        let _ = writeln!(text, "-A c -s 192.168.{}.{}/32 -j ACCEPT", n / 256, n % 256);
    }
    text + "COMMIT\n"
}

#[test]
fn steps_to_combine_chains_are_limited() {
    // A step for each rule and each jump that is read, and each that is tried.
    let within = combined(1000, 1996);
    assert_eq!(read(Format::Iptables, &within, "INPUT").unwrap().list.list.rules.len(), 0);
    let beyond = combined(1001, 1997);
    let error = read(Format::Iptables, &beyond, "INPUT").unwrap_err();
    assert!(error.expected.contains("at most 2000000 steps to combine"), "{error}");
}

#[test]
fn conditions_that_grow_with_each_return_count_as_several_steps() {
    let returns = |count: u32| {
        let mut text = "*filter\n:INPUT DROP\n".to_owned();
        for n in 0..count {
            let [_, a, b, c] = (n * 2).to_be_bytes();
            let _ = writeln!(text, "-A INPUT -s 10.{a}.{b}.{c}/32 -j RETURN");
        }
        text + "-A INPUT -p tcp -j ACCEPT\nCOMMIT\n"
    };
    let list = read(Format::Iptables, &returns(2_000), "INPUT").unwrap().list.list;
    assert_eq!((list.rules.len(), list.rules[0].source.ranges().len()), (1, 2_001));
    let error = read(Format::Iptables, &returns(15_000), "INPUT").unwrap_err();
    assert!(error.expected.contains("at most 2000000 steps to combine"), "{error}");
    assert!((8_000..12_000).contains(&error.line), "{error}");
}

/// A rule that asks for one of so many pairs of source address and port, and for one of so
/// many of destination address and port.
fn pairs(sources: usize, destinations: usize) -> String {
    let matched = |address: &str, port: &str, count: usize| {
        let field = |protocol: &str, field: &str| {
            format!(r#"{{"payload":{{"protocol":"{protocol}","field":"{field}"}}}}"#)
        };
        let pair = |n: usize| format!(r#"{{"concat":["10.0.{}.{}",{n}]}}"#, n / 256, n % 256);
        let elements: Vec<String> = (0..count).map(pair).collect();
        format!(
            r#"{{"match":{{"op":"==","left":{{"concat":[{},{}]}},"right":{{"set":[{}]}}}}}}"#,
            field("ip", address),
            field("tcp", port),
            elements.join(",")
        )
    };
    format!(
        r#"{{"nftables":[{{"chain":{{"family":"ip","table":"t","name":"in","hook":"input"}}}},
{{"rule":{{"family":"ip","table":"t","chain":"in","expr":[{},{},{{"drop":null}}]}}}}]}}"#,
        matched("saddr", "sport", sources),
        matched("daddr", "dport", destinations)
    )
}

#[test]
fn combinations_of_one_rule_of_nftables_are_limited() {
    let list = read(Format::Nftables, &pairs(200, 100), "in").unwrap().list.list;
    assert_eq!(list.rules.len(), 20_000);
    let error = read(Format::Nftables, &pairs(201, 100), "in").unwrap_err();
    assert_eq!(error.line, 2);
    assert_eq!(error.expected, "at most 20000 combinations in a rule");
}

#[test]
fn services_of_a_group_are_limited() {
    let group = |services: u32| {
        let mut text = "object-group service G\n".to_owned();
        for n in 0..services {
            let _ = writeln!(text, " service-object tcp destination eq {}", n * 2);
        }
        text + "access-list A extended permit object-group G any any\n"
    };
    let list = read(Format::Cisco, &group(10_000), "A").unwrap().list.list;
    assert_eq!(list.rules.len(), 2, "one for each family");
    let error = read(Format::Cisco, &group(10_001), "A").unwrap_err();
    assert_eq!((error.line, error.found.as_str()), (10_003, "\"G\""));
    assert_eq!(error.expected, "a group of at most 10000 services");
}

#[test]
fn masks_that_multiply_are_refused_where_they_become_too_many() {
    let mut text = "ip access-list extended L\n".to_owned();
    for _ in 0..600 {
        text += " permit ip 10.0.0.0 0.15.255.0 any\n";
    }
    // What is behind is not read, so that it does not have to be kept.
    text += " no such entry\n";
    let error = read(Format::Cisco, &text, "L").unwrap_err();
    assert_eq!(error.line, 490);
    assert_eq!(error.expected, "at most 2000000 address and port ranges in a list");
    let mask = r#"{"&":[{"payload":{"protocol":"ip","field":"saddr"}},"255.240.0.255"]}"#;
    let mut text =
        r#"{"nftables":[{"chain":{"family":"ip","table":"t","name":"in","hook":"input"}}"#
            .to_owned();
    for expression in (0..600).map(|at| if at < 599 { "accept" } else { "nonsense" }) {
        let _ = write!(
            text,
            ",\n{{\"rule\":{{\"family\":\"ip\",\"table\":\"t\",\"chain\":\"in\",\"expr\":\
             [{{\"match\":{{\"op\":\"==\",\"left\":{mask},\"right\":\"10.0.0.1\"}}}},\
             {{\"{expression}\":null}}]}}}}"
        );
    }
    let error = read(Format::Nftables, &(text + "]}"), "in").unwrap_err();
    assert_eq!(error.line, 490);
    assert_eq!(error.expected, "at most 2000000 address and port ranges in a list");
}

#[test]
fn a_set_that_many_rules_name_is_read_once() {
    // Were it read for each, these would be more than the elements that may be looked at.
    let rules = (0..20_000).map(|_| source_is(None, "@s") + r#",{"accept":null}"#);
    let text = with_set(2_000, rules);
    let list = read(Format::Nftables, &text, "in").unwrap().list.list;
    assert_eq!(list.rules.len(), 20_000);
}
