//! Soundness of the rules' literals: where a reference matcher fires, the evidence says so.

use std::collections::BTreeMap;

use forebay_scan::rules::{
    Class, Datagram, Evidence, FlowEnds, Owner, PacketFacts, RuleLiterals, RuleSet, Side,
    Variables, may_begin_http,
};
use forebay_scan::{Engine, LiteralSet, Matches, Scanner};
use forebay_testkit::ids_rules::reference::Traffic;
use forebay_testkit::ids_rules::{ends, lines, make, reference};

/// Rules for other ports, of which the triggers are scanned for as in a set of many rules.
const OTHER_PORTS: &str = r#"
alert http any 9 -> any 9 (flow:to_server; http.uri; content:"abcdefghijklmnopqrstuvwxyz0123456789-._~"; sid:1;)
alert http any 9 -> any 9 (flow:to_server; http.user_agent; content:"aa bb"; sid:2;)
alert http any 9 -> any 9 (http.request_body; content:"aa"; sid:3;)
alert tcp any 9 -> any 9 (file.data; content:"aa"; sid:4;)
alert tls any 9 -> any 9 (tls.sni; content:"abcdefghijklmnopqrstuvwxyz0123456789-."; sid:5;)
"#;

/// A rule of the product, the first of its set, with what scans for it.
struct Subject {
    rules: RuleSet,
    literals: RuleLiterals,
    scanner: Scanner,
    ends: FlowEnds,
}

impl Subject {
    fn new(line: &str, reference: &reference::Rule) -> Self {
        let mut rules = RuleSet::with_variables(Variables::new());
        let mut errors = Vec::new();
        rules.parse("rule", line.as_bytes(), &mut errors);
        assert!(errors.is_empty() && rules.rules().len() == 1, "{errors:?} {line}");
        rules.parse("others", OTHER_PORTS.as_bytes(), &mut errors);
        assert!(errors.is_empty() && rules.rules().len() == 6, "{errors:?}");
        let literals = rules.literals().unwrap();
        let scanner = Scanner::compile(literals.set(), Engine::Oracle).unwrap();
        let (protocol, [a, b]) = ends(reference);
        Self { rules, literals, scanner, ends: FlowEnds { protocol, a, b } }
    }

    /// With the literals of some owners deleted.
    fn without(line: &str, reference: &reference::Rule, deleted: fn(&[Owner]) -> bool) -> Self {
        let mut subject = Self::new(line, reference);
        let mut set = LiteralSet::new();
        for (index, literal) in (0..).zip(subject.literals.set().literals()) {
            let gone = deleted(subject.literals.owners(index));
            // A literal that no traffic here has keeps the indices.
            let bytes = if gone { &[0xff, 0xfe, 0xfd, 0xfc, 0xfb, 0][..] } else { &literal.bytes };
            set.push(bytes, literal.nocase).unwrap();
        }
        subject.scanner = Scanner::compile(&set, Engine::Oracle).unwrap();
        subject
    }

    /// Whether the flow passes, and whether literals of the rule alone made it so.
    fn passes(&self, traffic: &Traffic, client_first: bool) -> (bool, bool) {
        let rule = &self.rules.rules()[0];
        let FlowEnds { protocol, a, b } = self.ends;
        if rule.class != Class::Filterable {
            let packet = PacketFacts::new(protocol, a, b);
            let answer = PacketFacts::new(protocol, b, a);
            let pass = [packet, answer].iter().any(|p| rule.condition.may_match(&rule.header, p));
            return (pass, false);
        }
        let mut sides =
            [(Side::ToServer, &traffic.to_server), (Side::ToClient, &traffic.to_client)];
        if !client_first {
            sides.reverse();
        }
        // Texts are made without regard to their length, so that a rule which asks for one would be
        // excluded by it.
        let has_length = rule.features.least_payload > 0 || !rule.condition.fields.is_empty();
        let is_datagram = protocol == 17 && !has_length;
        let mut evidence = Evidence::default();
        let mut by_rule = false;
        for (side, text) in sides {
            let mut datagram = Datagram::new(text);
            let is_udp = protocol == 17;
            self.literals.observe_packet(is_udp.then_some(&datagram), &mut evidence);
            if !is_udp && may_begin_http(text) {
                self.literals.observe_http(&mut evidence);
            }
            let mut matches = Matches::new();
            self.scanner.scan(&[text], &mut self.scanner.scratch(), &mut matches);
            for found in matches.as_slice() {
                by_rule |= self.literals.owners(found.literal).contains(&Owner::Rule(0));
                let datagram = is_datagram.then_some(&mut datagram);
                let (rules, ends, literal) = (&self.rules, Some(&self.ends), found.literal);
                self.literals.observe(rules, ends, side, literal, datagram, &mut evidence);
            }
        }
        (evidence.may_match(), by_rule)
    }
}

#[test]
fn every_rule_that_fires_is_seen() {
    let Some(lines) = lines() else { return };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut failures = Vec::new();
    let (mut with_content, mut made, mut by_literal) = (0, 0, 0);
    for line in &lines {
        let reference = reference::parse(line).unwrap();
        let subject = Subject::new(line, &reference);
        if !reference.contents.iter().any(|content| !content.negated) {
            assert_ne!(subject.rules.rules()[0].class, Class::Filterable, "{line}");
            continue;
        }
        with_content += 1;
        let Some(traffic) = make::traffic(&reference) else { continue };
        made += 1;
        let (pass, by_rule) = subject.passes(&traffic, true);
        by_literal += usize::from(by_rule);
        if !pass || !subject.passes(&traffic, false).0 {
            failures.push(format!("plain: {line}"));
        }
        for (name, change) in make::MUTATIONS {
            let Some(mutant) = make::mutated(&traffic, change) else { continue };
            if reference.fires(&mutant) {
                *counts.entry(name).or_default() += 1;
                if !subject.passes(&mutant, true).0 || !subject.passes(&mutant, false).0 {
                    failures.push(format!("{name}: {line}"));
                }
            }
        }
    }
    println!(
        "{with_content} rules with contents, {made} made, {by_literal} by literal, {counts:?}"
    );
    assert!(failures.is_empty(), "{} missed:\n{}", failures.len(), failures.join("\n"));
    // The text must be made for nearly every rule, and the rule's own literals find nearly all.
    assert!(made * 100 >= with_content * 95, "{made} of {with_content}");
    assert!(by_literal * 100 >= made * 95, "{by_literal} of {made}");
    for (name, _) in make::MUTATIONS {
        assert!(counts.get(name).is_some_and(|&count| count >= 3), "{name}: {counts:?}");
    }
}

#[test]
fn a_deleted_literal_is_missed() {
    let Some(lines) = lines() else { return };
    let (mut made, mut missed) = (0, 0);
    for line in lines.iter().step_by(20) {
        let reference = reference::parse(line).unwrap();
        let subject = Subject::without(line, &reference, |owners| owners.contains(&Owner::Rule(0)));
        let filterable = subject.rules.rules()[0].class == Class::Filterable;
        let Some(traffic) = filterable.then(|| make::traffic(&reference)).flatten() else {
            continue;
        };
        made += 1;
        missed += usize::from(!subject.passes(&traffic, true).0);
    }
    assert!(made > 100, "{made}");
    assert!(missed * 100 >= made * 95, "{missed} of {made}");
}

#[test]
fn a_deleted_part_of_the_contents_is_missed() {
    let Some(lines) = lines() else { return };
    let is_part = |owners: &[Owner]| {
        owners.iter().any(|owner| matches!(owner, Owner::Mark(mark, _) if *mark > 2))
    };
    let (mut made, mut missed) = (0, 0);
    for line in lines.iter().step_by(10) {
        let reference = reference::parse(line).unwrap();
        let subject = Subject::without(line, &reference, is_part);
        let set = subject.literals.set();
        let needs_part = (0..set.len() as u32).any(|index| is_part(subject.literals.owners(index)));
        let Some(traffic) = needs_part.then(|| make::traffic(&reference)).flatten() else {
            continue;
        };
        made += 1;
        missed += usize::from(!subject.passes(&traffic, true).0);
    }
    println!("{made} need another part, {missed} are missed without it");
    assert!(made > 50, "{made}");
    assert!(missed * 100 >= made * 90, "{missed} of {made}");
}

#[test]
fn deleted_triggers_are_missed() {
    let Some(lines) = lines() else { return };
    let mut missed: BTreeMap<&str, usize> = BTreeMap::new();
    for line in &lines {
        let few = ["tls_sni", "(SMTP)"].iter().any(|word| line.contains(word));
        if !few && !line.ends_with("7;)") && !line.contains("sid:2012") {
            continue;
        }
        let reference = reference::parse(line).unwrap();
        let subject =
            // A literal may also be a part of the contents.
            Subject::without(line, &reference, |owners| {
                owners.iter().all(|owner| matches!(owner, Owner::Trigger(_)))
            });
        let Some(traffic) = make::traffic(&reference) else { continue };
        for (name, change) in make::MUTATIONS {
            let mutant = make::mutated(&traffic, change).filter(|mutant| reference.fires(mutant));
            let pass = mutant.is_none_or(|mutant| subject.passes(&mutant, true).0);
            *missed.entry(name).or_default() += usize::from(!pass);
        }
    }
    let hidden = [
        "percent-encoded",
        "%u",
        "full width",
        "overlong",
        "overlong, the second byte encoded",
        "encoded, then the first digit",
        "encoded, then the second digit",
        "mixed encodings",
        "chunked",
        "gzip",
    ];
    let mail_and_tls = ["quoted-printable", "records of one byte", "records of seven bytes"];
    for name in hidden.iter().chain(&mail_and_tls) {
        assert!(missed[name] > 0, "{name}: {missed:?}");
    }
    // What is seen by literals alone, in whatever way the message is written.
    for name in ["case", "several slashes", "dot segments", "backslashes", "absolute URI"] {
        assert_eq!(missed[name], 0, "{name}: {missed:?}");
    }
}

#[test]
fn most_rules_of_the_data_set_are_filterable() {
    let Some(lines) = lines() else { return };
    for protocols in
        [&["http"][..], &["tcp"], &["udp"], &["smb", "ftp", "dns", "tls", "ssh", "smtp"]]
    {
        let (mut all, mut filterable) = (0, 0);
        for line in &lines {
            let reference = reference::parse(line).unwrap();
            if protocols.contains(&&*reference.protocol) && !reference.contents.is_empty() {
                let mut rules = RuleSet::new();
                rules.parse("rule", line.as_bytes(), &mut Vec::new());
                all += 1;
                filterable += rules.filterable().count();
            }
        }
        println!("{protocols:?}: {filterable} of {all}");
        assert!(all > 0 && filterable * 100 >= all * 80, "{protocols:?}: {filterable} of {all}");
    }
}
