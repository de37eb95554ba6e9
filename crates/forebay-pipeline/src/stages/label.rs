//! Labels packets with the rates of their flows: the edge of core-stateless fair queueing (Stoica,
//! Shenker and Zhang, SIGCOMM 1998), or the reader of the labels that another edge has written.
//!
//! Rates are estimated as `forebay-flow`'s `Csfq` does, with two bytes of state a flow. The label
//! is a column of the batch. The policy `fair` decides by it and lowers it to the fair share;
//! outputs write it to a header.

use std::sync::Arc;

use forebay_flow::policy::{Csfq, CsfqOptions, Ecn, Packet};
use forebay_packet::decode::ip_packet;
use forebay_packet::flow::AddressKind;
use forebay_packet::random::Random;
use forebay_packet::{Batch, HashKey, LabelField, RateLabel};
use serde::Deserialize;
use toml::Value;

use super::flow_states::{self, FlowStates};
use super::flows;
use crate::optional::{OptionalStage, Place, StageConfig, StageParts};
use crate::shared_flows::SharedFlows;
use crate::stage::{Outbox, Promises, Setting, Settings, Stage, StageError};
use crate::units;

/// The key `label`.
pub(super) static STAGE: OptionalStage = OptionalStage {
    key: "label",
    help: "Labels packets with the rates of their flows, by which `on_overload = \"fair\"` decides\n\
           then. `from`: `flows`, whose rates are averaged over `window`, or the field of the IP\n\
           header that another broker has written: `dscp`, `flow-label`. `to`: the field that the\n\
           labels are written to, of all packets to the group's sensors; by default none is.",
    example: "{ from = \"flows\", to = \"dscp\", window = \"100ms\" }",
    place: Place::BehindFragments,
    needs: &[&flows::STAGE],
    keys: true,
    read: |value| Labels::read(value).map(|labels| Arc::new(labels) as _),
};

const EXPECTED: &str = "expected a table with `from`, and some of `to` and `window`";

/// The rate in bits a second in relation to which states have rates: from 15 kbit/s to 16 Gbit/s.
const UNIT: u64 = 1_000_000_000;

/// Where labels come from, and where they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Labels {
    /// The field that has them; without one, rates are estimated.
    pub from: Option<LabelField>,
    /// The field that outputs write them to.
    pub to: Option<LabelField>,
    /// The averaging time of rates that are estimated.
    pub estimate: CsfqOptions,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLabels {
    from: String,
    to: Option<String>,
    window: Option<String>,
}

impl Labels {
    /// Reads the value of the key.
    fn read(value: &Value) -> Result<Self, String> {
        let Value::Table(table) = value else { return Err(EXPECTED.into()) };
        let raw: RawLabels =
            table.clone().try_into().map_err(|error| format!("{}; {EXPECTED}", error.message()))?;
        let field = |name: &str| LabelField::ALL.into_iter().find(|field| field.name() == name);
        let from = match (raw.from.as_str(), field(&raw.from)) {
            ("flows", _) => None,
            (_, Some(field)) => Some(field),
            (other, None) => {
                let expected = "expected one of `flows`, `dscp`, `flow-label`";
                return Err(format!("`from` `{other}`: {expected}"));
            }
        };
        let to = raw.to.map(|name| {
            field(&name)
                .ok_or_else(|| format!("`to` `{name}`: expected one of `dscp`, `flow-label`"))
        });
        let mut estimate = CsfqOptions::default();
        if let Some(text) = raw.window {
            if from.is_some() {
                return Err("`window` with labels from a header: expected none".into());
            }
            let window = units::duration(&text).map_err(|error| format!("`window`: {error}"))?;
            estimate.window = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        }
        Csfq::new(estimate, UNIT).map_err(|error| format!("`window`: {error}"))?;
        Ok(Self { from, to: to.transpose()?, estimate })
    }
}

impl Setting for Labels {}

impl StageConfig for Labels {
    fn build(&self, parts: &StageParts) -> Option<Box<dyn Stage>> {
        Some(Box::new(Label::new(*self, parts.flows.clone(), parts.hash_key)?))
    }

    fn settings(&self) -> Settings {
        Settings::new().with(*self)
    }

    fn memory_bytes(&self) -> u64 {
        flow_states::MOST_BYTES
    }
}

/// Writes the batch's column of labels.
pub struct Label {
    labels: Labels,
    csfq: Csfq,
    flows: SharedFlows,
    states: FlowStates,
    random: Random,
    now: u64,
}

impl Label {
    /// Estimates the rates of flows with records in `flows`, or reads labels. None for an averaging
    /// time out of bounds. `key` is secret: chance decides how rates are rounded.
    #[must_use]
    pub fn new(labels: Labels, flows: SharedFlows, key: HashKey) -> Option<Self> {
        let csfq = Csfq::new(labels.estimate, UNIT).ok()?;
        let (states, random) = (FlowStates::default(), Random::new(key.0[0]));
        Some(Self { labels, csfq, flows, states, random, now: 0 })
    }

    /// Labels packets with the rates of their flows. Those without a record have no label, nor have
    /// those without addresses of IP.
    fn estimate(&mut self, batch: &Batch, labels: &mut [RateLabel]) {
        let Self { csfq, flows, states, random, now, .. } = self;
        let records = &mut *flows.lock();
        for i in batch.live().iter() {
            let Some(record) = records.of(batch, i) else { continue };
            if record.key.kind == AddressKind::Opaque {
                continue;
            }
            let Some(state) = states.of(batch, i, record, 0, |_| true) else { continue };
            let (len, flow) = (batch.wire_len(i), batch.record[i]);
            let packet =
                Packet { at: *now, flow, len, ecn: Ecn::NotCapable, weight: 1, label: None };
            let rate = csfq.label(&packet, state, random);
            labels[i] = RateLabel::new(rate, random.next() as u32);
        }
    }

    /// Reads the labels of packets.
    fn read(&mut self, field: LabelField, batch: &Batch, labels: &mut [RateLabel]) {
        for i in batch.live().iter() {
            if let Some(ip) = ip_packet(batch.interface(i).link, batch.packet(i)) {
                labels[i] = field.read(&ip, self.random.next() as u32);
            }
        }
    }
}

impl Stage for Label {
    fn name(&self) -> &'static str {
        "label"
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn begin(&mut self, now: u64) {
        self.now = now;
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        let mut labels = std::mem::take(&mut batch.label);
        labels.clear();
        labels.resize(batch.len(), RateLabel::NONE);
        match self.labels.from {
            None => self.estimate(&batch, &mut labels),
            Some(field) => self.read(field, &batch, &mut labels),
        }
        batch.label = labels;
        out.emit(batch);
        Ok(())
    }

    fn reload(&mut self, settings: &Settings) {
        let Some(&labels) = settings.get::<Labels>() else { return };
        if labels != self.labels
            && let Ok(csfq) = Csfq::new(labels.estimate, UNIT)
        {
            // States have times in units of the averaging time, and say nothing of times at which
            // labels came from elsewhere.
            (self.csfq, self.states) = (csfq, FlowStates::default());
        }
        self.labels = labels;
    }
}
