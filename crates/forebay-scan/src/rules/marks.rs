//! What each rule needs besides one of its literals, as marks of [`Evidence`](super::Evidence).
//!
//! Rules need other parts of their contents, those that are likely to be rarest. Where a set
//! has more of these parts than there are marks, the most ordinary ones have a mark each, and of the
//! others those share one that are about as rare. A rule for which there is no group left needs less.

use std::collections::HashMap;

use super::buffers::Side;
use super::evidence::{DNS, FIRST_PART, FTP, GROUPS, Group, HTTP, MARKS, Needs};
use super::extract::Other;
use super::header::Application;
use super::literals::Owner;
use super::pieces::Hazards;
use super::rule::Rule;

/// The marks of parts, and those of the most ordinary parts, which have one each.
const PART_MARKS: usize = (MARKS - FIRST_PART as u32) as usize;
const OWN_MARKS: usize = 75;

/// Groups that are kept for rules with one part.
const SINGLE_GROUPS: usize = 160;

/// The most other parts that a rule needs.
const MOST_PARTS: usize = 2;

/// Literals of a part, and the direction that they stand in.
type Part = (Vec<(Vec<u8>, bool)>, Side);

/// The needs of a rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleNeeds {
    /// All that it needs.
    pub all: Needs,
    /// What it needs where the ends of the flow are not known.
    pub without_flow: Needs,
    /// Which of its other parts it needs, as a bit set.
    pub parts: u8,
}

impl RuleNeeds {
    /// Without other parts.
    pub fn of_application(self) -> Self {
        Self { all: self.without_flow, parts: 0, ..self }
    }
}

/// The needs of the rules of a set.
pub(super) struct Marks {
    /// By rule.
    pub needs: Vec<RuleNeeds>,
    pub groups: Vec<Group>,
    /// The literals of parts, with their marks.
    pub parts: Vec<(Part, u8)>,
}

/// The mark of an application, if there is one.
fn of_application(rule: &Rule) -> u128 {
    match rule.condition.application {
        Some(Application::Http) => 1 << HTTP,
        Some(Application::Dns) => 1 << DNS,
        Some(Application::Ftp) => 1 << FTP,
        _ => 0,
    }
}

/// The other parts of a rule that it is to need, by their indices: those that only triggers for
/// `hazards` could hide.
fn wanted(rule: &Rule, hazards: &Hazards) -> Vec<usize> {
    let usable = rule.others.iter().enumerate().filter(|(_, part)| hazards.covers(&part.hazards));
    usable.map(|(index, _)| index).take(MOST_PARTS).collect()
}

fn key_of(part: &Other) -> Part {
    (part.literals.clone(), part.side)
}

/// The marks of parts, of which the rarities are given.
fn numbered(rarities: HashMap<Part, u32>) -> HashMap<Part, u8> {
    let mut parts: Vec<(Part, u32)> = rarities.into_iter().collect();
    parts.sort_by(|(a, rarity), (b, other)| (rarity, a).cmp(&(other, b)));
    let len = parts.len();
    let number = |at: usize| match at.checked_sub(OWN_MARKS) {
        Some(beyond) if len > PART_MARKS => {
            OWN_MARKS + beyond * (PART_MARKS - OWN_MARKS) / (len - OWN_MARKS)
        }
        _ => at,
    };
    let marks = (0..).zip(parts).map(|(at, (part, _))| (part, FIRST_PART + number(at) as u8));
    marks.collect()
}

impl Marks {
    /// Those of rules, of which all triggers for `hazards` are scanned for.
    pub fn new(rules: &[Rule], hazards: &Hazards) -> Self {
        let wanted: Vec<_> = rules.iter().map(|rule| wanted(rule, hazards)).collect();
        let mut rarities = HashMap::new();
        for (rule, wanted) in rules.iter().zip(&wanted) {
            let parts = wanted.iter().map(|&index| &rule.others[index]);
            rarities.extend(parts.map(|part| (key_of(part), part.rarity)));
        }
        let marks = numbered(rarities);
        let nothing = RuleNeeds { all: Needs::NONE, without_flow: Needs::NONE, parts: 0 };
        let is_http = |rule: &Rule| rule.condition.application == Some(Application::Http);
        let first_http = rules.iter().position(is_http).unwrap_or_default();
        let owner = Owner::Rule(first_http as u32);
        let http = Group { marks: Needs::HTTP.marks, owner };
        let mut built =
            Self { needs: vec![nothing; rules.len()], groups: vec![http], parts: Vec::new() };
        // Groups are given to the rules with the weakest literals first.
        let mut order: Vec<usize> = (0..rules.len()).collect();
        order.sort_by_key(|&index| rules[index].rarity);
        for index in order {
            let rule = &rules[index];
            let mark = |part: &usize| 1 << marks[&key_of(&rule.others[*part])];
            // With as many parts as there is a group for.
            let found = (0..=wanted[index].len()).rev().find_map(|len| {
                let parts = &wanted[index][..len];
                let reserved = if len == MOST_PARTS { SINGLE_GROUPS } else { 0 };
                let all = parts.iter().map(mark).fold(of_application(rule), |all, bit| all | bit);
                let needs = built.group(all, Owner::Rule(index as u32), reserved)?;
                Some((needs, parts.iter().fold(0, |set, part| set | 1 << part)))
            });
            let (all, parts) = found.unwrap_or((Needs::NONE, 0));
            let without_flow = if is_http(rule) { Needs::HTTP } else { Needs::NONE };
            built.needs[index] = RuleNeeds { all, without_flow, parts };
        }
        built.parts = marks.into_iter().collect();
        built.parts.sort_unstable();
        built
    }

    /// The group of these marks, if there is one or room for it and so many others.
    fn group(&mut self, marks: u128, owner: Owner, reserved: usize) -> Option<Needs> {
        if marks == 0 {
            return Some(Needs::NONE);
        }
        let known = self.groups.iter().position(|group| group.marks == marks);
        let group = known.or_else(|| {
            let has_room = self.groups.len() + reserved < GROUPS;
            has_room.then(|| {
                self.groups.push(Group { marks, owner });
                self.groups.len() - 1
            })
        })?;
        Some(Needs { marks, group: group as u8 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Datagram, Evidence, FlowEnds, RuleLiterals, RuleSet};

    fn parse(text: &str) -> (RuleSet, RuleLiterals) {
        let (mut rules, mut errors) = (RuleSet::new(), Vec::new());
        rules.parse("rules", text.as_bytes(), &mut errors);
        assert!(errors.is_empty(), "{errors:?}");
        let literals = rules.literals().unwrap();
        (rules, literals)
    }

    /// What the evidence says after each of these literals, found from the server or the client.
    fn answers(text: &str, protocol: u8, found: &[(&str, Side)]) -> Vec<Option<Owner>> {
        let (rules, literals) = parse(text);
        let end = ("10.0.0.1".parse().unwrap(), 2000);
        let ends = FlowEnds { protocol, a: end, b: end };
        let mut evidence = Evidence::default();
        let observe = |&(text, side): &(&str, Side)| {
            let mut all = literals.set().literals().iter();
            let index = all.position(|one| *one.bytes == *text.as_bytes()).unwrap() as u32;
            literals.observe(&rules, Some(&ends), side, index, None, &mut evidence)
        };
        found.iter().map(observe).collect()
    }

    #[test]
    fn a_rule_waits_for_other_parts_in_any_order() {
        use Side::{ToClient, ToServer};
        let rule = r#"alert tcp any any -> any any (flow:to_server; content:"abcdefgh"; content:"ijklmn"; content:"opqr"; sid:1;)"#;
        let [a, b, c] = ["abcdefgh", "ijklmn", "opqr"].map(|text| (text, ToServer));
        let fires = Some(Owner::Rule(0));
        for order in [[a, b, c], [c, b, a], [b, a, c]] {
            assert_eq!(answers(rule, 6, &order), [None, None, fires], "{order:?}");
        }
        assert_eq!(answers(rule, 6, &[a, b, a, b]), [None; 4]);
        // In the other direction a part does not count.
        assert_eq!(answers(rule, 6, &[a, b, ("opqr", ToClient)]), [None; 3]);
    }

    #[test]
    fn applications_have_marks() {
        let of = |protocol: &str| {
            format!(r#"alert {protocol} any any -> any any (content:"abcdefgh"; sid:1;)"#)
        };
        let [literal, user] = ["abcdefgh", "user "].map(|text| (text, Side::Either));
        let fires = Some(Owner::Rule(0));
        assert_eq!(answers(&of("ftp"), 6, &[literal, user]), [None, fires]);
        assert_eq!(answers(&of("ftp"), 6, &[user, literal]), [None, fires]);
        assert_eq!(answers(&of("tcp"), 6, &[literal]), [fires]);
        let http = of("http");
        assert_eq!(answers(&http, 6, &[literal, ("starttls", Side::ToServer)]), [None, fires]);
        let (rules, literals) = parse(&http);
        let end = ("10.0.0.1".parse().unwrap(), 2000);
        let ends = FlowEnds { protocol: 6, a: end, b: end };
        let mut evidence = Evidence::default();
        let found = literals.observe(&rules, Some(&ends), Side::Either, 0, None, &mut evidence);
        assert_eq!((found, literals.observe_http(&mut evidence)), (None, fires));
    }

    #[test]
    fn a_rule_for_dns_waits_for_a_datagram_that_may_be_dns() {
        let (rules, literals) =
            parse(r#"alert dns any any -> any any (dns.query; content:"abcdefgh"; sid:1;)"#);
        let end = ("10.0.0.1".parse().unwrap(), 2000);
        let ends = FlowEnds { protocol: 17, a: end, b: end };
        let random = [0x55; 100];
        let query = [0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 0, 0, 1, 0, 1];
        let mut evidence = Evidence::default();
        let mut datagram = Datagram::new(&random);
        assert_eq!(literals.observe_packet(Some(&datagram), &mut evidence), None);
        let side = Side::Either;
        let found =
            literals.observe(&rules, Some(&ends), side, 0, Some(&mut datagram), &mut evidence);
        assert_eq!((found, evidence.may_match()), (None, false));
        let mut tunnel = evidence;
        let query = Datagram::new(&query);
        let found = literals.observe_packet(Some(&query), &mut evidence);
        assert_eq!((found, evidence.may_match()), (Some(Owner::Rule(0)), true));
        let mut without_flow = Evidence::default();
        without_flow.assume_marks();
        let found =
            literals.observe(&rules, Some(&ends), side, 0, Some(&mut datagram), &mut without_flow);
        assert_eq!(found, Some(Owner::Rule(0)));
        // Of what is in a tunnel, or not all there, it is not known.
        assert_eq!(literals.observe_packet(None, &mut tunnel), Some(Owner::Rule(0)));
    }

    #[test]
    fn more_rules_than_there_are_marks_or_groups_need_less() {
        let mut state = 1u64;
        let mut word = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (0..6)
                .map(|n| char::from(b'a' + (state >> (20 + 5 * n)) as u8 % 26))
                .collect::<String>()
        };
        let line = |sid: usize, [a, b, c]: [String; 3]| {
            format!(
                r#"alert tcp any any -> any any (content:"{a}"; content:"{b}"; content:"{c}"; sid:{sid};)"#
            )
        };
        let lines: Vec<String> = (1..2000).map(|sid| line(sid, [word(), word(), word()])).collect();
        let (rules, literals) = parse(&lines.join("\n"));
        let all_marks: Vec<u8> = (0..literals.set().len() as u32)
            .flat_map(|index| literals.owners(index).to_vec())
            .filter_map(|owner| if let Owner::Mark(mark, _) = owner { Some(mark) } else { None })
            .collect();
        assert!(all_marks.iter().all(|&mark| u32::from(mark) < MARKS));
        // With all contents of a rule in a flow, it may match.
        let end = ("10.0.0.1".parse().unwrap(), 2000);
        let ends = FlowEnds { protocol: 6, a: end, b: end };
        let number =
            |text: &[u8]| literals.set().literals().iter().position(|one| *one.bytes == *text);
        let mut waited = 0;
        for (index, rule) in rules.rules().iter().enumerate().step_by(37) {
            let mut evidence = Evidence::default();
            let mut observe = |bytes: &[u8]| {
                let literal = number(bytes).unwrap() as u32;
                literals.observe(&rules, Some(&ends), Side::Either, literal, None, &mut evidence);
                evidence.may_match()
            };
            waited += usize::from(!observe(&rule.literals[0].0));
            let parts = literals.parts(&rules, index as u32);
            let all = parts.fold(false, |_, part| observe(&part[0].0));
            assert!(all || observe(&rule.literals[0].0), "{rule:?}");
        }
        assert!(waited > 40, "{waited}");
    }
}
