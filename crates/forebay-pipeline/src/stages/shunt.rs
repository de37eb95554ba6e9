//! Flows that are too big for any sensor, and what becomes of them.
//!
//! The balancer names such a flow; here it is taken out of what the balancer gives out and
//! counts, once it has had so many bytes more. There are few of them, so a packet is held
//! against each of its bucket. One that idles is forgotten, and its number is not taken up
//! again: what comes later under the same addresses and ports is another flow.

use forebay_balance::bucket_of;
use forebay_packet::{Batch, FlowKey};

/// The most flows that are shunted at a time; the oldest is forgotten for a new one.
const FLOWS: usize = 16;

/// What becomes of a flow's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShuntTo {
    /// They are dropped.
    Nowhere,
    /// One in so many goes where it would go anyway, the others are dropped.
    Sample(u32),
    /// They go to this sensor.
    Sensor(u16),
}

/// When flows are shunted, and to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShuntRule {
    /// Where to.
    pub to: ShuntTo,
    /// Bytes that a flow may have once it was named.
    pub after: u64,
    /// Nanoseconds without a packet after which it is over.
    pub idle: u64,
}

/// A flow that was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShuntedFlow {
    /// Rises with each flow that is named.
    pub number: u64,
    /// Its bucket.
    pub bucket: u16,
    /// Which it is.
    pub key: FlowKey,
}

struct Flow {
    named: ShuntedFlow,
    bytes: u64,
    packets: u64,
    last: u64,
}

/// What is to be done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    AsUsual,
    Drop,
    To(u16),
}

/// The shunted flows of a group, as one worker sees them.
#[derive(Default)]
pub(super) struct Shunt {
    rule: Option<ShuntRule>,
    flows: Vec<Flow>,
    /// The last that was named.
    number: u64,
    now: u64,
}

impl Shunt {
    /// Whether no packet need be looked at.
    pub(super) fn is_idle(&self) -> bool {
        self.flows.is_empty() || self.rule.is_none()
    }

    /// Takes a rule over, or none.
    pub(super) fn set_rule(&mut self, rule: Option<ShuntRule>) {
        self.rule = rule;
    }

    /// Takes in those of the flows that it has not heard of.
    pub(super) fn add(&mut self, flows: &[ShuntedFlow]) {
        for named in flows.iter().filter(|named| named.number > self.number) {
            if self.flows.len() == FLOWS {
                self.flows.remove(0);
            }
            self.flows.push(Flow { named: *named, bytes: 0, packets: 0, last: self.now });
        }
        let last = flows.iter().map(|named| named.number).max();
        self.number = self.number.max(last.unwrap_or(0));
    }

    /// Forgets the flows that are over.
    pub(super) fn begin(&mut self, now: u64) {
        self.now = self.now.max(now);
        if let Some(rule) = self.rule {
            self.flows.retain(|flow| self.now - flow.last <= rule.idle);
        }
    }

    /// What becomes of packet `i`, whose flow is `key()`.
    pub(super) fn judge(
        &mut self,
        batch: &Batch,
        i: usize,
        key: impl FnOnce() -> FlowKey,
    ) -> Verdict {
        let bucket = bucket_of(batch.hash[i]);
        let Some(rule) = self.rule else { return Verdict::AsUsual };
        if !self.flows.iter().any(|flow| flow.named.bucket == bucket) {
            return Verdict::AsUsual;
        }
        let key = key();
        let Some(flow) = self.flows.iter_mut().find(|flow| flow.named.key == key) else {
            return Verdict::AsUsual;
        };
        flow.last = self.now;
        flow.bytes += u64::from(batch.wire_len(i));
        if flow.bytes <= rule.after {
            return Verdict::AsUsual;
        }
        flow.packets += 1;
        match rule.to {
            ShuntTo::Nowhere => Verdict::Drop,
            ShuntTo::Sample(of) if flow.packets % u64::from(of.max(1)) == 0 => Verdict::AsUsual,
            ShuntTo::Sample(_) => Verdict::Drop,
            ShuntTo::Sensor(sensor) => Verdict::To(sensor),
        }
    }
}
