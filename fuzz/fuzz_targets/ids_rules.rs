//! The parser of IDS rules: no text makes it panic, positions are in the text, and every rule is
//! either forwarded always or has literals, which find themselves.
#![no_main]

use std::net::IpAddr;

use forebay_scan::rules::{Class, Datagram, Evidence, FlowEnds, MAX_RULE_LEN, RuleSet, Side};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut rules = RuleSet::new();
    let mut errors = Vec::new();
    rules.parse("fuzz", data, &mut errors);
    let lines = data.split(|&byte| byte == b'\n').count();
    for error in &errors {
        assert!((1..=lines).contains(&error.line), "{error}");
        assert!((1..=data.len() + MAX_RULE_LEN).contains(&error.column), "{error}");
    }
    for rule in rules.rules() {
        assert_eq!(rule.class == Class::Filterable, !rule.literals.is_empty());
    }
    let Ok(literals) = rules.literals() else { return };
    let end = (IpAddr::from([192, 0, 2, 1]), 80);
    for literal in 0..literals.set().len() as u32 {
        let mut evidence = Evidence::default();
        for protocol in [6, 17] {
            let ends = FlowEnds { protocol, a: end, b: end };
            let mut datagram = Datagram::new(data);
            let (ends, datagram) = (Some(&ends), Some(&mut datagram));
            literals.observe(&rules, ends, Side::Either, literal, datagram, &mut evidence);
        }
        assert!(!literals.owners(literal).is_empty());
    }
});
