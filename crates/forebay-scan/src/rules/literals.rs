//! All literals of a rule set in one [`LiteralSet`], and what a match of each means for a flow.

use std::collections::HashMap;

use super::buffers::Side;
use super::datagram::Datagram;
use super::evidence::{self, Evidence, Group, Needs};
use super::header::{Endpoint, Transport};
use super::marks::{Marks, RuleNeeds};
use super::pieces::Hazards;
use super::triggers::{self, Trigger};
use super::{RuleSet, applications};
use crate::{LiteralError, LiteralSet};

/// The most rules of a literal that wait for other parts of their contents.
const MOST_WAITING: usize = 256;

/// What a literal was put into the set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// A rule, by its index in the rule set.
    Rule(u32),
    /// A trigger, by its index in [`RuleLiterals::triggers`].
    Trigger(u32),
    /// What rules need besides a literal, in a direction: the sign of an application, or another part
    /// of their contents.
    Mark(u8, Side),
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

/// The literals of a rule set, with their owners.
#[derive(Clone, Debug)]
pub struct RuleLiterals {
    set: LiteralSet,
    /// Where the owners of each literal start in `owners`; one entry more than literals.
    starts: Vec<u32>,
    owners: Vec<Owner>,
    triggers: Vec<Trigger>,
    /// What each rule needs besides.
    needs: Vec<RuleNeeds>,
    groups: Vec<Group>,
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
        let marks = Marks::new(rules.rules(), &hazards);
        for (index, trigger) in (0..).zip(&triggers) {
            builder.add(&trigger.bytes, trigger.nocase, Owner::Trigger(index))?;
        }
        for upgrade in applications::UPGRADES {
            builder.add(upgrade, true, Owner::Mark(evidence::HTTP, Side::Either))?;
        }
        let is_needed = |mark: u8| marks.needs.iter().any(|needs| needs.all.marks >> mark & 1 != 0);
        for marker in applications::FTP_MARKERS.iter().filter(|_| is_needed(evidence::FTP)) {
            builder.add(marker.as_bytes(), true, Owner::Mark(evidence::FTP, Side::Either))?;
        }
        for ((literals, side), mark) in &marks.parts {
            for (bytes, nocase) in literals {
                builder.add(bytes, *nocase, Owner::Mark(*mark, *side))?;
            }
        }
        let Builder { set, mut pairs, .. } = builder;
        pairs.sort_unstable();
        pairs.dedup();
        let starts = (0..=set.len())
            .map(|literal| pairs.partition_point(|&(index, _)| (index as usize) < literal) as u32)
            .collect();
        let owners = pairs.into_iter().map(|(_, owner)| owner).collect();
        let Marks { needs, groups, .. } = marks;
        let mut literals = Self { set, starts, owners, triggers, needs, groups };
        literals.bound_waiting();
        Ok(literals)
    }

    /// Has the rules of literals that many rules share need nothing but their application, so that the first
    /// of them which admits a flow decides on it: otherwise each packet with the literal is held against all.
    fn bound_waiting(&mut self) {
        let Self { starts, owners, needs, .. } = self;
        for literal in starts.windows(2) {
            let owners = &owners[literal[0] as usize..literal[1] as usize];
            let rules = owners.iter().filter_map(|owner| match owner {
                Owner::Rule(rule) => Some(*rule as usize),
                Owner::Trigger(_) | Owner::Mark(..) => None,
            });
            if rules.clone().count() > MOST_WAITING {
                rules.for_each(|rule| needs[rule] = RuleNeeds::of_application(needs[rule]));
            }
        }
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

    /// The literals of the other parts of a rule's contents that it needs, by its index in `rules`: for each
    /// part one of them is in the traffic if the rule fires.
    pub fn parts<'a>(
        &self,
        rules: &'a RuleSet,
        rule: u32,
    ) -> impl Iterator<Item = &'a [(Vec<u8>, bool)]> {
        let needed = self.needs.get(rule as usize).map_or(0, |needs| needs.parts);
        let others = rules.rules().get(rule as usize).map(|rule| &rule.others);
        let others = (0..8).zip(others.into_iter().flatten());
        others.filter(move |(at, _)| needed >> at & 1 != 0).map(|(_, part)| &part.literals[..])
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
            let needs = match owner {
                Owner::Mark(mark, side) => {
                    if side.admits(direction)
                        && let Some(waited) = evidence.mark(mark, &self.groups)
                    {
                        return Some(waited);
                    }
                    continue;
                }
                Owner::Rule(index) => {
                    let Some(rule) = rules.rules().get(index as usize) else { continue };
                    let needs = self.needs[index as usize];
                    let needs = if flow.is_some() { needs.all } else { needs.without_flow };
                    if evidence.has_waiting(needs) {
                        continue;
                    }
                    let admits = |flow: &FlowEnds| rule.admits_flow(flow.protocol, flow.a, flow.b);
                    if !rule.side.admits(direction) || !flow.is_none_or(admits) {
                        continue;
                    }
                    if datagram.as_mut().is_some_and(|datagram| datagram.excludes(rule)) {
                        continue;
                    }
                    needs
                }
                Owner::Trigger(index) => {
                    let trigger = &self.triggers[index as usize];
                    // HTTP is over TCP only.
                    let may_be_tcp = |flow: &FlowEnds| Transport::Tcp.admits(flow.protocol);
                    let is_other = trigger.http_only && !flow.is_none_or(may_be_tcp);
                    if is_other || !trigger.side.admits(direction) {
                        continue;
                    }
                    if trigger.http_only { Needs::HTTP } else { Needs::NONE }
                }
            };
            let first = !evidence.may_match();
            if evidence.add(needs, owner) {
                return first.then_some(owner);
            }
        }
        None
    }

    /// Adds that a flow may be HTTP: one of its streams [may begin it](super::may_begin_http), or its streams
    /// are not known. Returns what makes the flow one that may match, if this does.
    pub fn observe_http(&self, evidence: &mut Evidence) -> Option<Owner> {
        evidence.mark(evidence::HTTP, &self.groups)
    }

    /// Adds a packet to the evidence of its flow, before its literals: `datagram` if it is one, all of it,
    /// in no tunnel. Returns what makes the flow one that may match, if the packet does.
    pub fn observe_packet(
        &self,
        datagram: Option<&Datagram<'_>>,
        evidence: &mut Evidence,
    ) -> Option<Owner> {
        let may_be_dns = datagram.is_none_or(Datagram::may_be_dns);
        if may_be_dns { evidence.mark(evidence::DNS, &self.groups) } else { None }
    }
}
