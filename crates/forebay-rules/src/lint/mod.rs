//! Lint: what is the matter with the rules of a list.
//!
//! The kinds of findings follow the anomalies of Al-Shaer and Hamed (Discovery of
//! policy anomalies in distributed firewalls, INFOCOM 2004), extended from pairs
//! of rules to whole lists as far as that can be done within bounds:
//!
//! * *Never matches*: no packet matches the rule, whatever the others.
//! * *Shadowed*: one earlier rule matches all its packets. Found without fail.
//! * *Shadowed by a union*: several earlier rules together do.
//! * *Redundant*: it decides some packets, but without it each of them would get
//!   the same action, from later rules or the default. At the end of a list, rules
//!   whose action is the default's are redundant. Each rule is judged against the
//!   list as it is: of two rules that make each other redundant only one can go,
//!   so look again after each removal.
//! * *Contradictory* (their "correlation"): an earlier rule of the other action
//!   decides some of its packets and matches others too, so their order matters.
//! * *Exception* (their "generalization"): an earlier rule of the other action
//!   decides some of its packets and matches no others. Usually meant so.
//!
//! The first that applies of the first four is reported; of a rule that is never
//! reached, nothing else is. Two rules neither contradict each other nor are one
//! the other's exception if rules before both take all packets that they share.
//!
//! Every statement is about packets that can occur ([`crate::Key::of_packet`]):
//! `*` with ports is shadowed by `tcp,udp,sctp,dccp,udplite` without, since no
//! other packets have ports. Rules become sets of points (`space`); pairs are
//! found by bitmaps (`index`); questions about many rules are answered by a
//! search with a bound (`search`). Each witness is held against
//! [`crate::Rule::matches`] before it is reported.

mod contradiction;
mod examination;
mod index;
mod kinds;
mod redundancy;
mod region;
mod report;
mod search;
mod shadowing;
mod space;

pub use crate::rule::RuleName;
pub use report::{
    Bound, Finding, Impossible, Kind, Question, Report, Severity, Unfinished, Witness,
};

use crate::rule::{Family, RuleList};
use examination::Examination;
pub use examination::Limits;
use shadowing::Reach;
use space::impossible;

/// Looks at the rules of `list`: at every one, unless they are too many.
#[must_use]
pub fn check(list: &RuleList, limits: Limits) -> Report {
    let rules = list.rules.len();
    let unexamined = rules.saturating_sub(limits.rules);
    let mut report = Report { rules, unexamined, ..Report::default() };
    let first;
    let list = if unexamined == 0 {
        list
    } else {
        first = RuleList { rules: list.rules[..limits.rules].to_vec(), ..*list };
        &first
    };
    for family in [Family::Ipv4, Family::Ipv6] {
        Examination::new(list, family, limits, &mut report).run();
    }
    report.findings.sort_by_key(|finding| (finding.rule.index, finding.kind));
    report.unfinished.sort_by_key(|unfinished| (unfinished.rule.index, unfinished.question));
    report
}

impl Examination<'_> {
    /// Looks at each rule. What most likely exceeds the bound on all work is asked
    /// last.
    fn run(mut self) {
        let reached: Vec<_> = (0..self.space.places.len()).map(|place| self.reach(place)).collect();
        let is_unreached = |reach: &Reach| matches!(reach, Reach::Impossible | Reach::Shadowed(..));
        self.unreached = reached.iter().map(is_unreached).collect();
        let mut others = Vec::new();
        for (place, reach) in reached.iter().enumerate() {
            match reach {
                Reach::Impossible => {
                    let why = impossible(self.rule(place));
                    self.add(place, Kind::NeverMatches(why), Severity::Error, &[], None);
                }
                Reach::Shadowed(kind, covering) => self.shadowed(place, *kind, covering),
                Reach::Decides(point) | Reach::Unknown(point) => others.push((place, point)),
            }
        }
        others.iter().for_each(|&(place, _)| self.contradictory(place));
        if self.report.unexamined == 0 {
            others.iter().for_each(|&(place, point)| self.redundant(place, point));
        }
    }
}
