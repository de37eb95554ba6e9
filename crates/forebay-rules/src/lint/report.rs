//! What the lint reports, as data and as sentences.

use crate::key::Key;
use crate::matching::Decision;
use crate::rule::{Action, RuleName};
use std::fmt;
use thiserror::Error;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Often intended.
    Note,
    /// The rule does not do what it seems to do, or nothing at all.
    Warning,
    /// Packets are treated against the word of a rule, or a rule can never match.
    Error,
}

impl Severity {
    /// `note`, `warning` or `error`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why no packet at all matches a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Error)]
pub enum Impossible {
    /// No address of the rule's family is in one of its sets.
    #[error("it names no address of its family")]
    Address,
    /// It names no protocol, or only IPv6 extension headers, behind which the
    /// packet's protocol is still to come.
    #[error("no packet is of a protocol that it names")]
    Protocol,
    /// It names ports, and protocols that have none.
    #[error("it names ports, which packets of its protocols do not have")]
    Ports,
    /// No control bits meet any of its tests.
    #[error("no TCP flags meet its tests")]
    Flags,
}

/// What was found of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// No packet matches it, whatever the other rules.
    NeverMatches(Impossible),
    /// One earlier rule matches all its packets.
    Shadowed,
    /// Earlier rules match all its packets, though no one of them does alone.
    ShadowedByUnion,
    /// It decides packets, but these get the same action without it.
    Redundant,
    /// An earlier rule of the other action decides some of its packets, and matches
    /// other packets too.
    Contradictory,
    /// Earlier rules of the other action decide some of its packets, and match no
    /// others: they are exceptions to it.
    Exception,
}

impl Kind {
    /// `never-matches`, `shadowed`, `shadowed-by-union`, `redundant`,
    /// `contradictory` or `exception`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NeverMatches(_) => "never-matches",
            Self::Shadowed => "shadowed",
            Self::ShadowedByUnion => "shadowed-by-union",
            Self::Redundant => "redundant",
            Self::Contradictory => "contradictory",
            Self::Exception => "exception",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A packet that shows a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// A packet that can occur and that the finding's rule matches.
    pub key: Key,
    /// The list's decision on it.
    pub decision: Decision,
    /// What the list would say without the finding's rule; indices are still
    /// those of the list as it is.
    pub without: Decision,
}

/// Something that is the matter with a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: RuleName,
    /// Its action.
    pub action: Action,
    /// What is the matter.
    pub kind: Kind,
    /// How much it matters.
    pub severity: Severity,
    /// The rules because of which, ascending by index. Shadowed: those that cover
    /// it, each alone. By a union: a set of earlier rules that together do.
    /// Redundant: later rules that take its packets without it. Contradictory:
    /// those that contradict it. Exception: the exceptions.
    pub causes: Vec<RuleName>,
    /// Whether there are more causes than [`super::Limits::causes`].
    pub more_causes: bool,
    /// Redundant: whether the list's default, the same action, takes those of its
    /// packets, if any, that no later rule takes.
    pub by_default: bool,
    /// A packet that shows it. If shadowed or redundant: one of the rule's. If
    /// contradictory or an exception: one that the first cause decides.
    /// None where no packet matches the rule.
    pub witness: Option<Witness>,
}

impl Finding {
    /// Whether the rule never decides, and a packet that it matches gets the
    /// other action: the witness.
    #[must_use]
    pub fn contradicts(&self) -> bool {
        matches!(self.kind, Kind::Shadowed | Kind::ShadowedByUnion)
            && self.witness.is_some_and(|witness| witness.decision.action != self.action)
    }
}

fn other(action: Action) -> Action {
    match action {
        Action::Pass => Action::Reject,
        Action::Reject => Action::Pass,
    }
}

/// "pass" or "reject", for one rule with its ending.
fn verb(action: Action, one: bool) -> &'static str {
    match (action, one) {
        (Action::Pass, false) => "pass",
        (Action::Pass, true) => "passes",
        (Action::Reject, false) => "reject",
        (Action::Reject, true) => "rejects",
    }
}

/// What becomes of packets.
fn fate(action: Action) -> &'static str {
    match action {
        Action::Pass => "passed",
        Action::Reject => "rejected",
    }
}

impl fmt::Display for Finding {
    /// A sentence without a full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = self.rule;
        let causes = Names { rules: &self.causes, more: self.more_causes };
        let one = self.causes.len() == 1 && !self.more_causes;
        let would = verb(self.action, false);
        let opposes = verb(other(self.action), one);
        match self.kind {
            Kind::NeverMatches(why) => write!(f, "{rule} never matches: {why}"),
            Kind::Shadowed if one => write!(f, "{rule} is never reached: {causes} covers it"),
            Kind::Shadowed => write!(f, "{rule} is never reached: {causes} each cover it"),
            Kind::ShadowedByUnion => {
                write!(f, "{rule} is never reached: {causes} together cover it")
            }
            Kind::Redundant => {
                let stand_in = match (self.causes.is_empty(), self.by_default) {
                    (true, true) => "the default".into(),
                    (_, false) => causes.to_string(),
                    (false, true) => format!("{causes}, or else the default,"),
                };
                write!(f, "{rule} is redundant: {stand_in} would {would} its packets too")
            }
            Kind::Contradictory => write!(
                f,
                "{causes} {opposes} packets that {rule}, coming later, would {would}, and others"
            ),
            Kind::Exception => {
                write!(f, "{causes} {opposes} a part of what {rule}, coming later, would {would}")
            }
        }?;
        if self.contradicts() {
            write!(f, ", and packets that it would {would} are {}", fate(other(self.action)))?;
        }
        if self.kind == Kind::Redundant && self.severity == Severity::Note {
            f.write_str("; only the log would differ")?;
        }
        Ok(())
    }
}

/// Several rules of one family in a sentence.
struct Names<'a> {
    rules: &'a [RuleName],
    more: bool,
}

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Rules that a sentence names.
        const SHOWN: usize = 8;
        let (shown, rest) = self.rules.split_at(self.rules.len().min(SHOWN));
        let numbers: Vec<_> = shown.iter().map(|rule| rule.number.to_string()).collect();
        let Some((last, first)) = numbers.split_last() else {
            return f.write_str("other rules");
        };
        let family = self.rules[0].family.before_rule();
        match (first.is_empty(), rest.len(), self.more) {
            (true, 0, false) => write!(f, "{family}rule {last}"),
            (false, 0, false) => write!(f, "{family}rules {} and {last}", first.join(", ")),
            (_, 0, true) => write!(f, "{family}rules {} and others", numbers.join(", ")),
            (_, others, more) => {
                let least = if more { "more than " } else { "" };
                write!(f, "{family}rules {} and {least}{others} others", numbers.join(", "))
            }
        }
    }
}

/// A question about a rule that the lint examines within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Question {
    /// Whether earlier rules together cover it.
    Union,
    /// Whether a packet of the rule, which is shadowed, gets the other action.
    OtherAction,
    /// Whether it is redundant.
    Redundancy,
    /// Which earlier rules contradict it or are exceptions to it.
    Contradiction,
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Union => "whether earlier rules together shadow it",
            Self::OtherAction => "whether packets it matches get the other action",
            Self::Redundancy => "whether it is redundant",
            Self::Contradiction => "which earlier rules contradict it",
        })
    }
}

/// The bound that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bound {
    /// [`super::Limits::work_per_rule`].
    PerRule,
    /// [`super::Limits::work`].
    Total,
}

/// A question that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The rule.
    pub rule: RuleName,
    /// What is not known of it.
    pub question: Question,
    /// The bound that was reached.
    pub bound: Bound,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = match self.bound {
            Bound::PerRule => "the work allowed for one rule",
            Bound::Total => "the work allowed in all",
        };
        write!(f, "{}: {} is not known: {bound} is spent", self.rule, self.question)
    }
}

/// All that the lint has to say about a list.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Report {
    /// What was found, by rule and kind.
    pub findings: Vec<Finding>,
    /// What is not known, by rule. If empty, the findings are all there are.
    pub unfinished: Vec<Unfinished>,
    /// Rules of the list.
    pub rules: usize,
    /// Rules at its end that were not looked at.
    pub unexamined: usize,
    /// Comparisons that were made for questions within bounds.
    pub work: u64,
}

impl Report {
    /// Whether every question was answered.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unfinished.is_empty() && self.unexamined == 0
    }

    /// Number of findings of that severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}
