//! Rules of intrusion detection systems: which flows can no rule fire on?
//!
//! A [`RuleSet`] is read from files in the language of Suricata (and most of Snort's). For each
//! rule it has the class: a [`Class::Filterable`] rule cannot fire on a flow in which neither one
//! of its literals nor a trigger stands; an always-forward rule can fire on every packet that meets
//! its header and [`Condition`]. [`RuleSet::literals`] puts the literals of all filterable rules,
//! and the triggers into one set; [`RuleLiterals::observe`] turns what a scan
//! finds in a flow into [`Evidence`]. [`ForwardTests`] are the conditions of the always-forward
//! rules, sorted for many packets.
//!
//! Invariant: if a rule fires on a flow of which the scanned texts are complete, then the evidence
//! of the flow says so, or a packet of it meets the condition of an always-forward rule. What
//! "complete" demands, and the argument for each kind of rule, is in `docs/scan-rules.md`.
//!
//! Reference: Suricata User Guide, chapter "Suricata Rules"; the normalisation of HTTP is that of
//! its parser libhtp.

pub mod addresses;
mod applications;
mod buffers;
mod condition;
mod datagram;
mod evidence;
mod extract;
mod forward;
mod header;
mod header_lines;
mod keywords;
mod literals;
mod marks;
mod options;
mod pieces;
mod rule;
mod source;
mod triggers;

pub use addresses::Variables;
pub use applications::may_begin_http;
pub use buffers::{Buffer, Form, Side};
pub use condition::{
    Applications, Condition, Field, FieldTest, FlagsComparison, FlagsTest, PacketFacts,
};
pub use datagram::Datagram;
pub use evidence::Evidence;
pub use extract::{Cause, Class};
pub use forward::{ForwardTests, Forwarded, MOST_TESTS};
pub use header::{Application, Endpoint, Header, Protocol, Transport};
pub use literals::{FlowEnds, Owner, RuleLiterals};
pub use pieces::Hazards;
pub use rule::{Content, Features, MAX_CONTENTS, Rule};
pub use source::{MAX_RULE_LEN, RuleError};
pub use triggers::{Hazard, Trigger, triggers};

use crate::LiteralError;

/// The most rules of a set.
pub const MAX_RULES: usize = 1 << 18;

/// The most errors that are kept; further ones are counted only.
pub const MAX_ERRORS: usize = 10_000;

/// Rules in the order of their files.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    files: Vec<String>,
    rules: Vec<Rule>,
    variables: Variables,
    refused: usize,
}

impl RuleSet {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty set with values for variables. A variable without a value admits everything.
    #[must_use]
    pub fn with_variables(variables: Variables) -> Self {
        Self { variables, ..Self::default() }
    }

    /// Adds the rules of a file. Rules with errors are left out and counted, and their errors
    /// appended to `errors`, up to [`MAX_ERRORS`]; the rest of the file is read.
    pub fn parse(&mut self, name: &str, text: &[u8], errors: &mut Vec<RuleError>) {
        let file = self.files.len() as u32;
        self.files.push(name.to_owned());
        for line in source::logical_lines(text) {
            let parsed = if self.rules.len() == MAX_RULES {
                Err(source::Fault::new(0, format!("a set has at most {MAX_RULES} rules")))
            } else {
                rule::parse(&line.text, &self.variables)
            };
            match parsed {
                Ok(rule) => {
                    let (line, _) = line.position(0);
                    self.rules.push(Rule { file, line, ..rule });
                }
                Err(fault) => {
                    self.refused += 1;
                    if errors.len() < MAX_ERRORS {
                        let (line, column) = line.position(fault.at);
                        let file = name.to_owned();
                        errors.push(RuleError { file, line, column, message: fault.message });
                    }
                }
            }
        }
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The number of rules that were left out because of errors.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.refused
    }

    /// Whether another set has the same rules with the same values of variables, wherever they
    /// stand in its files, and has left out as many.
    #[must_use]
    pub fn has_same_rules(&self, other: &Self) -> bool {
        self.refused == other.refused
            && self.rules.len() == other.rules.len()
            && self.rules.iter().zip(&other.rules).all(|(one, other)| one.is_same(other))
    }

    /// The name of a rule's file.
    #[must_use]
    pub fn file_of(&self, rule: &Rule) -> &str {
        self.files.get(rule.file as usize).map_or("", String::as_str)
    }

    /// The rules that can be filtered.
    pub fn filterable(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| rule.class == Class::Filterable)
    }

    /// The rules that cannot be filtered, with the cause.
    pub fn always_forward(&self) -> impl Iterator<Item = (&Rule, Cause)> {
        self.rules.iter().filter_map(|rule| match rule.class {
            Class::AlwaysForward(cause) => Some((rule, cause)),
            Class::Filterable => None,
        })
    }

    /// The literals of the filterable rules with the triggers they need, each once, and their owners.
    ///
    /// # Errors
    /// There are too many literals.
    pub fn literals(&self) -> Result<RuleLiterals, LiteralError> {
        RuleLiterals::new(self)
    }
}
