//! A list that is being made of a file's rules.

use super::catalogue::{Imported, NamedList, Unsupported, Untested};
use super::error::ParseError;
use crate::rule::{Action, Family, MAX_NUMBER, Rule, RuleList};
use forebay_packet::cancel;

/// The most rules that a list may become.
pub const MAX_RULES: usize = 500_000;

/// The most address and port ranges that all rules of a list may have together.
pub const MAX_RANGES: usize = 2_000_000;

/// The most conjunctions that are formed for a list of chains.
pub const MAX_WORK: usize = 2_000_000;

/// Ranges that a step may be about: one about more counts as several.
const RANGES_OF_STEP: usize = 25;

/// The deepest that groups may be within groups, and chains within chains.
pub const MAX_NESTING: usize = 32;

/// What a rule with a condition of unknown outcome becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// The condition is left out.
    Met,
    /// The rule is left out.
    Unmet,
    /// That depends on the rule's action.
    Either,
}

fn too_many_ranges(line: usize, found: &str) -> ParseError {
    let expected = format!("at most {MAX_RANGES} address and port ranges in a list");
    ParseError::at(line, found, expected)
}

/// The list that is being made of a file's rules: its budget, its numbers, and what was
/// not tested.
pub(crate) struct Making {
    unsupported: Unsupported,
    rules: Vec<Rule>,
    lines: Vec<usize>,
    untested: Vec<Untested>,
    ranges: usize,
    /// Ranges that are kept and have become no rules yet.
    kept: usize,
    work: usize,
    /// The greatest number so far, IPv4 and IPv6.
    last: [u32; 2],
}

impl Making {
    pub(crate) fn new(unsupported: Unsupported) -> Self {
        let (rules, lines, untested) = (Vec::new(), Vec::new(), Vec::new());
        Self { unsupported, rules, lines, untested, ranges: 0, kept: 0, work: 0, last: [0; 2] }
    }

    /// What becomes of a rule in `line` with `condition`, which packets do not answer.
    pub(crate) fn doubt(
        &mut self,
        line: usize,
        condition: &str,
        expected: &str,
    ) -> Result<Doubt, ParseError> {
        let doubt = match self.unsupported {
            Unsupported::Refuse => return Err(ParseError::at(line, condition, expected)),
            Unsupported::Met => Doubt::Met,
            Unsupported::Unmet => Doubt::Unmet,
            Unsupported::Pass | Unsupported::Reject => Doubt::Either,
        };
        self.untested.push(Untested { line, condition: condition.to_owned() });
        Ok(doubt)
    }

    /// The action of a rule whose target is not known, if there is one to take.
    pub(crate) fn unknown_target(
        &mut self,
        line: usize,
        target: &str,
        expected: &str,
    ) -> Result<Option<Action>, ParseError> {
        let action = match self.unsupported {
            // That a target is met does not show what it does.
            Unsupported::Refuse | Unsupported::Met => {
                return Err(ParseError::at(line, target, expected));
            }
            Unsupported::Unmet => None,
            Unsupported::Pass => Some(Action::Pass),
            Unsupported::Reject => Some(Action::Reject),
        };
        self.untested.push(Untested { line, condition: target.to_owned() });
        Ok(action)
    }

    /// Counts ranges that are kept of `line` until they become rules; all that are
    /// beyond one a field.
    pub(crate) fn keep(
        &mut self,
        line: usize,
        found: &str,
        ranges: usize,
    ) -> Result<(), ParseError> {
        self.kept += ranges;
        if self.kept > MAX_RANGES { Err(too_many_ranges(line, found)) } else { Ok(()) }
    }

    /// Counts a step of work that may add no rule, on so many ranges.
    pub(crate) fn work(
        &mut self,
        line: usize,
        found: &str,
        ranges: usize,
    ) -> Result<(), ParseError> {
        cancel::check();
        self.work += 1 + ranges / RANGES_OF_STEP;
        if self.work > MAX_WORK {
            let expected = format!("chains that take at most {MAX_WORK} steps to combine");
            return Err(ParseError::at(line, found, expected));
        }
        Ok(())
    }

    /// Adds a rule of `line`, numbered as it is or, where that is too low, by the next
    /// free number. One of doubtful outcome is added only if it decides as wanted.
    pub(crate) fn add(
        &mut self,
        line: usize,
        mut rule: Rule,
        doubtful: bool,
    ) -> Result<(), ParseError> {
        let wanted = match self.unsupported {
            Unsupported::Pass => Action::Pass,
            _ => Action::Reject,
        };
        if doubtful && rule.action != wanted {
            return Ok(());
        }
        cancel::check();
        self.ranges += rule.ranges();
        let shown = format!("rule {}", rule.number);
        if self.ranges > MAX_RANGES {
            return Err(too_many_ranges(line, &shown));
        }
        if self.rules.len() == MAX_RULES {
            return Err(ParseError::at(line, &shown, format!("at most {MAX_RULES} in a list")));
        }
        let last = &mut self.last[usize::from(rule.family == Family::Ipv6)];
        rule.number = rule.number.max(last.saturating_add(1));
        if rule.number > MAX_NUMBER {
            let expected = "room for a number behind the last";
            return Err(ParseError::at(line, &rule.number.to_string(), expected));
        }
        *last = rule.number;
        self.rules.push(rule);
        self.lines.push(line);
        Ok(())
    }

    pub(crate) fn finish(self, name: String, default: Action) -> Imported {
        let Self { rules, lines, mut untested, .. } = self;
        untested.sort_by_key(|untested| untested.line);
        untested.dedup();
        let list = NamedList { name, list: RuleList { rules, default } };
        Imported { list, lines, untested }
    }
}
