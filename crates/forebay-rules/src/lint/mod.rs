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

/// How much work to do and how much to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most causes that a finding names.
    pub causes: usize,
    /// The most comparisons of two rules made for one question about one rule. A
    /// rule of many address or port ranges counts as many.
    pub work_per_rule: u64,
    /// The most comparisons made for all such questions.
    pub work: u64,
    /// The most rules that are looked at, from the first. What is behind them
    /// is reported as unexamined; and as it could stand in for what is before,
    /// redundancy is not reported then.
    pub rules: usize,
}

impl Default for Limits {
    /// Enough for lists of ten thousand rules, in seconds.
    fn default() -> Self {
        Self { causes: 100, work_per_rule: 1_000_000, work: 300_000_000, rules: 1 << 17 }
    }
}

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
