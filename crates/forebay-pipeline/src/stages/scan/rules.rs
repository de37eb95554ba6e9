//! Rules of intrusion detection systems as what is scanned for: what is found in a packet and what
//! the packet is, as evidence that a rule may fire on its flow.
//!
//! The literals found in a flow count if a rule that has them may apply to its ends and to the
//! direction; conditions of always-forward rules are tested with the packets of flows that are not
//! suspect yet. `docs/scan-rules.md` argues why that is enough, where no text is in doubt.
//!
//! Literals around a tunnel, and headers around it, are those of another packet: there a literal
//! counts whatever the ends, and a header passes the packet if it may be met in either direction.

use std::sync::atomic::{AtomicU64, Ordering};

use forebay_packet::decode::ip_packet;
use forebay_packet::{Batch, DecodeOptions, Decoder};
use forebay_scan::rules::{
    Cause, Class, Datagram, Evidence, Field, FlowEnds, ForwardTests, Hazard, Owner, PacketFacts,
    RuleLiterals, RuleSet, Side,
};
use forebay_scan::{LiteralError, Match};

use super::compiled::MOST_COUNTED;
use super::flows::Verdict;
use super::parts::stream_of;
use super::reasons::PassReason;
use super::texts::Texts;

/// TCP, UDP, ICMP and ICMPv6.
pub(in crate::stages) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMP: u8 = 1;
pub(super) const ICMPV6: u8 = 58;

/// TCP's control bits.
pub(super) const SYN: u8 = 2;
pub(in crate::stages) const RST: u8 = 4;
const ACK: u8 = 16;

/// Whether a packet opens a TCP connection.
pub(in crate::stages) fn opens(protocol: u8, flags: u8) -> bool {
    protocol == TCP && flags & (SYN | RST | ACK) == SYN
}

/// Rules, and their counters.
#[derive(Debug)]
pub struct ScanRules {
    set: RuleSet,
    literals: RuleLiterals,
    forward: ForwardTests,
    counters: RuleCounters,
}

/// Packets and flows that rules and triggers passed.
#[derive(Debug)]
struct RuleCounters {
    /// By rule: flows that it made suspect, by a literal or by its condition.
    flows: Box<[AtomicU64]>,
    /// By rule: packets that passed by themselves.
    packets: Box<[AtomicU64]>,
    /// By [`Hazard`]: flows that its triggers made suspect, and packets of no flow.
    hazards: [[AtomicU64; 2]; Hazard::ALL.len()],
}

/// What a rule or a group of them passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Packets by themselves.
    pub packets: u64,
    /// Flows.
    pub flows: u64,
}

/// What was found of a rule's literals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleHits {
    /// The index of the rule.
    pub rule: u32,
    /// Packets with a literal of it; in a stream, those that complete it.
    pub packets: u64,
    /// Flows that its literals made suspect: those that were not before.
    pub flows: u64,
}

/// Flows and packets that rules passed, by worker.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RuleCounts {
    pub trigger_flows: u64,
    pub forward_flows: u64,
    pub forward_packets: u64,
}

/// A packet, as far as rules ask.
pub(super) struct Seen<'a> {
    pub batch: &'a Batch,
    pub i: usize,
    pub texts: &'a Texts,
    /// 0 if it came from the end that sent the first packet.
    pub direction: u8,
    /// Whether its flow has a verdict that is kept.
    pub is_of_flow: bool,
    /// The matches of its texts.
    pub found: &'a [Match],
}

impl ScanRules {
    /// The literals and tests of a set.
    ///
    /// # Errors
    /// There are too many literals.
    pub fn new(set: RuleSet) -> Result<Self, LiteralError> {
        let literals = set.literals()?;
        let zeros = || set.rules().iter().map(|_| AtomicU64::new(0)).collect();
        let counters =
            RuleCounters { flows: zeros(), packets: zeros(), hazards: Default::default() };
        Ok(Self { forward: ForwardTests::new(&set), literals, counters, set })
    }

    /// The rules.
    #[must_use]
    pub fn set(&self) -> &RuleSet {
        &self.set
    }

    /// Their literals.
    #[must_use]
    pub fn literals(&self) -> &RuleLiterals {
        &self.literals
    }

    /// The conditions of those that cannot be filtered.
    #[must_use]
    pub fn forward(&self) -> &ForwardTests {
        &self.forward
    }

    /// Whether a literal is one of a rule, and not only a trigger or a marker.
    pub(super) fn has_rule(&self, literal: u32) -> bool {
        matches!(self.literals.owners(literal).first(), Some(Owner::Rule(_)))
    }

    /// Takes a packet into the verdict of its flow, which is not suspect yet. Returns why the packet
    /// passes by itself, if it does. Why the flow passes from now on is noted in the verdict.
    pub(super) fn judge(
        &self,
        seen: &Seen<'_>,
        verdict: &mut Verdict,
        counts: &mut RuleCounts,
    ) -> Option<PassReason> {
        let key = &seen.batch.key[seen.i];
        let ends = key.ip_ends(seen.batch.reversed[seen.i]);
        let flow = ends.map(|[a, b]| FlowEnds { protocol: key.protocol, a, b });
        let sides =
            if verdict.opened { [Side::ToServer, Side::ToClient] } else { [Side::Either; 2] };
        let of_block = flow.as_ref().filter(|_| !seen.texts.is_layered);
        let evidence = &mut verdict.evidence;
        if ends.is_some() && !seen.is_of_flow {
            evidence.assume_marks();
        }
        let mut payload = seen.datagram();
        let whole = payload.as_ref().filter(|_| key.protocol == UDP);
        let mut found = self.literals.observe_packet(whole, evidence);
        if seen.texts.may_begin_http && found.is_none() {
            found = self.literals.observe_http(evidence);
        }
        if let Some(owner) = found {
            verdict.reason = self.count(owner, seen.is_of_flow, counts);
            return None;
        }
        for found in seen.found {
            let (literal, direction) = (found.literal, stream_of(found.text));
            let (flow, side) = match direction {
                Some(direction) => (flow.as_ref(), sides[direction]),
                None => (of_block, Side::Either),
            };
            let datagram = payload.as_mut();
            let found = self.literals.observe(&self.set, flow, side, literal, datagram, evidence);
            if let Some(owner) = found {
                verdict.reason = self.count(owner, seen.is_of_flow, counts);
                return None;
            }
        }
        if self.forward.is_empty() {
            return None;
        }
        let Some([source, destination]) = ends else {
            return self.pass(self.forward.of_other(), counts);
        };
        let mut passing = if seen.texts.is_layered { self.around(seen) } else { None };
        let mut facts = PacketFacts::new(key.protocol, source, destination);
        facts.direction =
            if key.protocol == TCP { sides[usize::from(seen.direction)] } else { Side::Either };
        facts.established = verdict.in_handshake.then_some(false);
        let state = 1 << (seen.direction | u8::from(verdict.in_handshake) << 1);
        let mut of_flow = None;
        if verdict.failed & state == 0 {
            of_flow = self.forward.of_flow(&facts, &mut verdict.evidence);
            verdict.failed |= if of_flow.is_none() { state } else { 0 };
        }
        let mut of_packet = None;
        if !verdict.evidence.may_match() {
            seen.add_facts(&mut facts);
            of_packet = self.forward.of_packet(&facts, &mut verdict.evidence);
        }
        for found in [of_flow, of_packet].into_iter().flatten() {
            if found.whole_flow {
                verdict.reason = self.count(Owner::Rule(found.rule), seen.is_of_flow, counts);
                return None;
            }
            passing = passing.or(Some(found.rule));
        }
        self.pass(passing, counts)
    }

    /// A rule that a header around the tunnels of a packet may meet.
    fn around(&self, seen: &Seen<'_>) -> Option<u32> {
        let (batch, i) = (seen.batch, seen.i);
        (0..seen.texts.tunnel_depth).find_map(|tunnel_depth| {
            let options = DecodeOptions { tunnel_depth, ..DecodeOptions::default() };
            let outer = Decoder::new(options).decode(batch.interface(i).link, batch.packet(i));
            let [a, b] = outer.key.ip_ends(outer.reversed)?;
            self.forward.of_layer(outer.key.protocol, a, b)
        })
    }

    /// Counts a packet that passes by itself, if a rule is met.
    fn pass(&self, rule: Option<u32>, counts: &mut RuleCounts) -> Option<PassReason> {
        let rule = rule?;
        counts.forward_packets += 1;
        self.counters.packets[rule as usize].fetch_add(1, Ordering::Relaxed);
        Some(self.reason(Owner::Rule(rule)))
    }

    /// Why something passes that a rule or trigger makes suspect.
    fn reason(&self, owner: Owner) -> PassReason {
        match owner {
            Owner::Rule(rule) => match self.class(rule) {
                Some(Class::AlwaysForward(cause)) => PassReason::forward(cause),
                Some(Class::Filterable) | None => PassReason::LITERAL,
            },
            Owner::Trigger(trigger) => {
                let trigger = self.literals.triggers().get(trigger as usize);
                trigger.map_or(PassReason::LITERAL, |found| PassReason::trigger(found.hazard))
            }
            Owner::Mark(..) => PassReason::LITERAL,
        }
    }

    /// Counts a flow, or a packet of no flow, by what makes it suspect.
    fn count(&self, owner: Owner, is_flow: bool, counts: &mut RuleCounts) -> PassReason {
        match owner {
            Owner::Rule(rule) => {
                let forward = self.class(rule) != Some(Class::Filterable);
                counts.forward_flows += u64::from(forward && is_flow);
                counts.forward_packets += u64::from(forward && !is_flow);
                let by_rule = if is_flow { &self.counters.flows } else { &self.counters.packets };
                by_rule[rule as usize].fetch_add(1, Ordering::Relaxed);
            }
            Owner::Trigger(trigger) => {
                counts.trigger_flows += u64::from(is_flow);
                if let Some(trigger) = self.literals.triggers().get(trigger as usize) {
                    let counters = &self.counters.hazards[trigger.hazard as usize];
                    counters[usize::from(is_flow)].fetch_add(1, Ordering::Relaxed);
                }
            }
            // Evidence names what waited for the mark.
            Owner::Mark(..) => {}
        }
        self.reason(owner)
    }

    fn class(&self, rule: u32) -> Option<Class> {
        self.set.rules().get(rule as usize).map(|rule| rule.class)
    }

    /// What was found of filterable rules, of `literals` with the packets that each was found in,
    /// in the order in which they were found first: at most [`MOST_COUNTED`].
    #[must_use]
    pub fn hits(&self, literals: &[(u32, u64)]) -> Vec<RuleHits> {
        let mut hits: Vec<RuleHits> = Vec::new();
        let mut places = std::collections::HashMap::new();
        for &(literal, packets) in literals {
            for owner in self.literals.owners(literal) {
                let &Owner::Rule(rule) = owner else { continue };
                if let Some(&place) = places.get(&rule) {
                    let hit: &mut RuleHits = &mut hits[place];
                    hit.packets += packets;
                } else if hits.len() < MOST_COUNTED {
                    places.insert(rule, hits.len());
                    let flows = self.counters.flows[rule as usize].load(Ordering::Relaxed);
                    hits.push(RuleHits { rule, packets, flows });
                }
            }
        }
        hits
    }

    /// What the always-forward rules passed that passed something, those with most first, at most
    /// [`MOST_COUNTED`]. Of rules with equal headers and conditions it is the first.
    #[must_use]
    pub fn forwarded(&self) -> Vec<(u32, Passed)> {
        let forward = (0..).zip(self.set.rules());
        let forward = forward.filter(|(_, rule)| rule.class != Class::Filterable);
        let mut passed: Vec<_> = forward
            .map(|(index, _)| (index, self.passed(index)))
            .filter(|(_, passed)| *passed != Passed::default())
            .collect();
        passed.sort_by_key(|&(_, Passed { packets, flows })| std::cmp::Reverse((flows, packets)));
        passed.truncate(MOST_COUNTED);
        passed
    }

    fn passed(&self, rule: u32) -> Passed {
        let RuleCounters { flows, packets, .. } = &self.counters;
        let [flows, packets] =
            [flows, packets].map(|counters| counters[rule as usize].load(Ordering::Relaxed));
        Passed { packets, flows }
    }

    /// The rules that cannot be filtered, by cause, and what they passed.
    #[must_use]
    pub fn causes(&self) -> Vec<(Cause, usize, Passed)> {
        let mut causes = Cause::ALL.map(|cause| (cause, 0, Passed::default()));
        for (index, rule) in (0..).zip(self.set.rules()) {
            let Class::AlwaysForward(cause) = rule.class else { continue };
            let passed = self.passed(index);
            for (_, rules, sum) in causes.iter_mut().filter(|(one, ..)| *one == cause) {
                *rules += 1;
                sum.packets += passed.packets;
                sum.flows += passed.flows;
            }
        }
        causes.into_iter().filter(|&(_, rules, _)| rules > 0).collect()
    }

    /// The hazards that triggers are scanned for, the number of these, and what they passed.
    #[must_use]
    pub fn hazards(&self) -> Vec<(Hazard, usize, Passed)> {
        let triggers = self.literals.triggers();
        let of = |hazard: Hazard| {
            let number = triggers.iter().filter(|trigger| trigger.hazard == hazard).count();
            let [packets, flows] = &self.counters.hazards[hazard as usize];
            let [packets, flows] = [packets, flows].map(|counter| counter.load(Ordering::Relaxed));
            (hazard, number, Passed { packets, flows })
        };
        Hazard::ALL.into_iter().map(of).filter(|&(_, number, _)| number > 0).collect()
    }
}

impl<'a> Seen<'a> {
    /// A UDP datagram or packet of ICMP over IPv4 in no tunnel, if all of it is there.
    fn datagram(&self) -> Option<Datagram<'a>> {
        let (start, len) = self.texts.block;
        let block = || &self.batch.packet(self.i)[start as usize..][..len as usize];
        match self.batch.key[self.i].protocol {
            _ if self.texts.is_layered => None,
            UDP => self.texts.payload_len.map(|_| Datagram::new(block())),
            ICMP => self.icmp().map(|icmp| Datagram::icmp(block(), icmp)),
            _ => None,
        }
    }

    /// Type and code of a packet of ICMP or ICMPv6.
    fn icmp(&self) -> Option<(u8, u8)> {
        let ip = ip_packet(self.batch.interface(self.i).link, self.batch.packet(self.i))?;
        ip.upper_layer().icmp
    }

    /// Adds what is known of the packet besides its ends.
    fn add_facts(&self, facts: &mut PacketFacts) {
        facts.set(Field::IpProtocol, u32::from(facts.protocol));
        if facts.protocol == TCP {
            facts.tcp_flags = Some(self.batch.tcp_flags[self.i]);
        }
        if let Some(len) = self.texts.payload_len {
            facts.set(Field::PayloadLen, len);
        }
        if matches!(facts.protocol, ICMP | ICMPV6)
            && !self.texts.is_layered
            && let Some((kind, code)) = self.icmp()
        {
            facts.set(Field::IcmpType, u32::from(kind));
            facts.set(Field::IcmpCode, u32::from(code));
        }
    }
}

/// Whether an IP packet that is not TCP or UDP is in a tunnel: its header is not the outermost.
pub(super) fn is_inner(batch: &Batch, i: usize) -> bool {
    let key = &batch.key[i];
    let Some(ip) = ip_packet(batch.interface(i).link, batch.packet(i)) else { return true };
    let (source, destination) = ip.addresses();
    let ends = [(source, destination), (destination, source)];
    !ends.contains(&(key.low, key.high)) || ip.upper_layer().protocol != Some(key.protocol)
}

impl Verdict {
    /// Begins anew with other rules: what was found of the old ones counts no more, and what there is of
    /// the new ones in packets before is not known.
    pub(super) fn renew(&mut self, edition: u32) {
        if self.edition != edition {
            (self.edition, self.evidence, self.failed) = (edition, Evidence::default(), 0);
            self.evidence.assume_marks();
        }
    }
}
