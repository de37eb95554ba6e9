//! All literals of a rule set in one [`LiteralSet`], and what a match of each means for a flow.

use std::collections::HashMap;

use super::RuleSet;
use super::buffers::Side;
use super::datagram::Datagram;
use super::header::{Application, Endpoint};
use super::pieces::Hazards;
use super::triggers::{self, Trigger};
use crate::{LiteralError, LiteralSet};

/// What a literal was put into the set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// A rule, by its index in the rule set.
    Rule(u32),
    /// A trigger, by its index in [`RuleLiterals::triggers`].
    Trigger(u32),
    /// The sign that a flow may be HTTP.
    HttpMarker,
}

/// Protocol and ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEnds {
    /// The IP protocol.
    pub protocol: u8,
    /// One end: address, and port or 0.
    pub a: Endpoint,
    /// The other end.
    pub b: Endpoint,
}

/// What the literals found in a flow so far allow to be said of it. It starts as its default, and
/// is kept for both directions together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    http: bool,
    /// What was found and counts only if the flow may be HTTP.
    pending: Option<Owner>,
    may_match: bool,
}

impl Evidence {
    /// Whether a filterable rule may fire on the flow. It stays true.
    #[must_use]
    pub fn may_match(self) -> bool {
        self.may_match
    }

    /// Whether the flow may be HTTP.
    #[must_use]
    pub fn may_be_http(self) -> bool {
        self.http
    }

    /// Whether something was found that makes the flow one that may match once it may be HTTP.
    #[must_use]
    pub fn is_pending(self) -> bool {
        self.pending.is_some()
    }

    /// Adds that a packet of the flow meets the condition of an always-forward rule, which passes
    /// the whole flow, or does so if the flow may be HTTP. Returns whether it now may match.
    pub(super) fn forward(&mut self, rule: u32, http_only: bool) -> bool {
        if http_only && !self.http {
            self.pending = self.pending.or(Some(Owner::Rule(rule)));
        } else {
            self.may_match = true;
        }
        self.may_match
    }
}

/// The literals of a rule set, with their owners.
#[derive(Clone, Debug)]
pub struct RuleLiterals {
    set: LiteralSet,
    /// Where the owners of each literal start in `owners`; one entry more than literals.
    starts: Vec<u32>,
    owners: Vec<Owner>,
    triggers: Vec<Trigger>,
}

/// Literals under construction: equal ones once.
#[derive(Default)]
struct Builder {
    set: LiteralSet,
    indices: HashMap<(Vec<u8>, bool), u32>,
    pairs: Vec<(u32, Owner)>,
}

impl Builder {
    fn add(&mut self, bytes: &[u8], nocase: bool, owner: Owner) -> Result<(), LiteralError> {
        let letters = bytes.iter().any(u8::is_ascii_alphabetic);
        let nocase = nocase && letters;
        let key = if nocase { bytes.to_ascii_lowercase() } else { bytes.to_vec() };
        let index = match self.indices.get(&(key.clone(), nocase)) {
            Some(&index) => index,
            None => {
                let index = self.set.push(&key, nocase)?;
                self.indices.insert((key, nocase), index);
                index
            }
        };
        self.pairs.push((index, owner));
        Ok(())
    }
}

impl RuleLiterals {
    pub(super) fn new(rules: &RuleSet) -> Result<Self, LiteralError> {
        let mut builder = Builder::default();
        let mut hazards = Hazards::default();
        for (index, rule) in (0..).zip(rules.rules()) {
            hazards.add(&rule.hazards);
            for (bytes, nocase) in &rule.literals {
                builder.add(bytes, *nocase, Owner::Rule(index))?;
            }
        }
        let triggers = triggers::triggers(&hazards);
        for (index, trigger) in (0..).zip(&triggers) {
            builder.add(&trigger.bytes, trigger.nocase, Owner::Trigger(index))?;
        }
        for marker in triggers::http_markers() {
            builder.add(&marker, true, Owner::HttpMarker)?;
        }
        let Builder { set, mut pairs, .. } = builder;
        pairs.sort_unstable();
        pairs.dedup();
        let starts = (0..=set.len())
            .map(|literal| pairs.partition_point(|&(index, _)| (index as usize) < literal) as u32)
            .collect();
        let owners = pairs.into_iter().map(|(_, owner)| owner).collect();
        Ok(Self { set, starts, owners, triggers })
    }

    /// The literals.
    #[must_use]
    pub fn set(&self) -> &LiteralSet {
        &self.set
    }

    /// The triggers.
    #[must_use]
    pub fn triggers(&self) -> &[Trigger] {
        &self.triggers
    }

    /// The owners of a literal; none for an index that is not of the set.
    #[must_use]
    pub fn owners(&self, literal: u32) -> &[Owner] {
        let literal = literal as usize;
        match self.starts.get(literal..literal + 2) {
            Some(&[start, end]) => &self.owners[start as usize..end as usize],
            _ => &[],
        }
    }

    /// Adds a literal that was found in a text of a flow to the evidence. Returns what makes the
    /// flow one that may match, if this literal does; where that counts for HTTP only and was found
    /// before, it is what was found first.
    ///
    /// Without `flow`, its ends are not known, and may meet every header. `direction` is that of the
    /// text. It must be [`Side::Either`] unless the first packet of the TCP connection (SYN) was
    /// seen; it counts for TCP only. `datagram` is the text if it is one.
    pub fn observe(
        &self,
        rules: &RuleSet,
        flow: Option<&FlowEnds>,
        direction: Side,
        literal: u32,
        mut datagram: Option<&mut Datagram<'_>>,
        evidence: &mut Evidence,
    ) -> Option<Owner> {
        let is_tcp = flow.is_some_and(|flow| flow.protocol == 6);
        let direction = if is_tcp { direction } else { Side::Either };
        for &owner in self.owners(literal) {
            let http_only = match owner {
                Owner::HttpMarker => {
                    evidence.http = true;
                    if let Some(first) = evidence.pending.filter(|_| !evidence.may_match) {
                        evidence.may_match = true;
                        return Some(first);
                    }
                    continue;
                }
                Owner::Rule(index) => {
                    let Some(rule) = rules.rules().get(index as usize) else { continue };
                    let admits = |flow: &FlowEnds| rule.admits_flow(flow.protocol, flow.a, flow.b);
                    if !rule.side.admits(direction) || !flow.is_none_or(admits) {
                        continue;
                    }
                    if datagram.as_mut().is_some_and(|datagram| datagram.excludes(rule)) {
                        continue;
                    }
                    rule.condition.application == Some(Application::Http)
                }
                Owner::Trigger(index) => {
                    let trigger = &self.triggers[index as usize];
                    if !trigger.side.admits(direction) {
                        continue;
                    }
                    trigger.http_only
                }
            };
            if !http_only || evidence.http {
                let first = !evidence.may_match;
                evidence.may_match = true;
                return first.then_some(owner);
            }
            evidence.pending = evidence.pending.or(Some(owner));
        }
        None
    }
}
