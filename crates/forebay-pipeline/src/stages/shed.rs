//! Keeps each sensor within its limit, and notes in the records of flows which sensor they have
//! and how many of their packets were shed.

use std::sync::Arc;

use forebay_flow::policy::Count;
use forebay_flow::shed::{Arrival, Limit, OnOverload, Shed as Reason, Shedder};
use forebay_flow::{FlowRecord, FlowTable};
use forebay_packet::flow::AddressKind;
use forebay_packet::{Batch, LiveMask};
use toml::Value;

use super::flows;
use crate::optional::{OptionalStage, Place, StageConfig, StageParts};
use crate::shared_flows::SharedFlows;
use crate::stage::{Outbox, Promises, Setting, Settings, Stage, StageError};

/// The key of the policy, of groups and of sensors.
pub const ON_OVERLOAD: &str = "on_overload";

/// The key `on_overload`.
pub(super) static STAGE: OptionalStage = OptionalStage {
    key: ON_OVERLOAD,
    help: "What is dropped of packets to a sensor beyond its `limit_pps` or `limit_bps`, or where\n\
           there is no limit beyond what it can take by its hellos: none | fair | red | drr |\n\
           whole-flows. Sensors may have a policy of their own; one without a limit that sends no\n\
           hellos gets everything. By default nothing is dropped.",
    example: "\"whole-flows\"",
    place: Place::BehindBalance,
    needs: &[&flows::STAGE],
    keys: true,
    read: |value| read(value).map(|policy| Arc::new(policy) as _),
};

/// FIN and RST among TCP's control bits (RFC 9293, section 3.1).
const ENDS: u8 = 1 | 4;

/// What a stage takes at most: the tables of 256 sensors' policies, and the packets of DRR's
/// queues, which are those of 5 ms.
const MOST_BYTES: u64 = 24 << 20;

/// The policy of a key. An empty table, of the stage where no key names one, is none.
fn read(value: &Value) -> Result<OnOverload, String> {
    if value.as_table().is_some_and(toml::Table::is_empty) {
        return Ok(OnOverload::None);
    }
    let policy = OnOverload::ALL.into_iter().find(|policy| value.as_str() == Some(policy.name()));
    policy.ok_or_else(|| {
        let names = OnOverload::ALL.map(|policy| format!("`{}`", policy.name()));
        format!("expected one of {}", names.join(", "))
    })
}

impl Setting for OnOverload {}

impl StageConfig for OnOverload {
    fn build(&self, parts: &StageParts) -> Option<Box<dyn Stage>> {
        Some(Box::new(Shed::new(parts.flows.clone())))
    }

    fn settings(&self) -> Settings {
        Settings::new().with(*self)
    }

    fn memory_bytes(&self) -> u64 {
        if *self == Self::None { 0 } else { MOST_BYTES }
    }
}

/// The policy and the limit of each sensor by its index, where it has them.
#[derive(Clone, Debug, Default)]
pub struct Shedding(pub Vec<Option<(OnOverload, Arc<Limit>)>>);

impl Setting for Shedding {}

/// What is shed for a sensor.
struct Sensor {
    policy: OnOverload,
    limit: Arc<Limit>,
    shedder: Shedder,
    /// What the batch has for it.
    offered: Count,
    /// Packets of the batch have to be decided on.
    decides: bool,
}

impl Sensor {
    fn is(&self, (policy, limit): &(OnOverload, Arc<Limit>)) -> bool {
        self.policy == *policy && Arc::ptr_eq(&self.limit, limit)
    }
}

/// Drops what sensors cannot take, by their policies.
pub struct Shed {
    flows: SharedFlows,
    sensors: Vec<Option<Sensor>>,
    /// The shedders that were made: each has a seed of its own.
    shedders: u64,
    now: u64,
}

impl Shed {
    /// Notes sensors in the records of `flows`, and drops nothing until it has [`Shedding`].
    #[must_use]
    pub fn new(flows: SharedFlows) -> Self {
        Self { flows, sensors: Vec::new(), shedders: 0, now: 0 }
    }

    fn set(&mut self, shedding: &Shedding) {
        let mut old = std::mem::take(&mut self.sensors);
        old.resize_with(shedding.0.len().max(old.len()), || None);
        let shedders = &mut self.shedders;
        let sensors = shedding.0.iter().zip(old).map(|(new, old)| {
            let new = new.as_ref()?;
            if let Some(old) = old.filter(|old| old.is(new)) {
                return Some(old);
            }
            let (policy, limit) = new.clone();
            *shedders += 1;
            // Nothing is shed where there is no limit.
            let shedder = Shedder::new(Arc::clone(&limit), policy, *shedders).ok()?;
            Some(Sensor { policy, limit, shedder, offered: Count::default(), decides: false })
        });
        self.sensors = sensors.collect();
        if self.sensors.iter().all(Option::is_none) {
            self.sensors.clear();
        }
    }

    /// Counts what the batch has for each sensor.
    fn offer(&mut self, batch: &Batch) {
        for i in batch.live().without(&batch.exempt).iter() {
            if let Some(sensor) = sensor_of(&mut self.sensors, batch, i) {
                sensor.offered += Count::of(batch.wire_len(i));
            }
        }
        for sensor in self.sensors.iter_mut().flatten() {
            let offered = std::mem::take(&mut sensor.offered);
            sensor.decides = offered.packets > 0 && sensor.shedder.begin(self.now, offered);
        }
    }
}

/// What is shed for the sensor of packet `i`.
fn sensor_of<'a>(
    sensors: &'a mut [Option<Sensor>],
    batch: &Batch,
    i: usize,
) -> Option<&'a mut Sensor> {
    sensors.get_mut(usize::from(*batch.output.get(i)?))?.as_mut()
}

/// The record of packet `i`, unless it has none any more: in a full table its number may be
/// another flow's by now.
pub(super) fn record_of<'a>(
    table: &'a mut Option<FlowTable>,
    batch: &Batch,
    i: usize,
) -> Option<&'a mut FlowRecord> {
    let record = table.as_mut()?.record_mut(*batch.record.get(i)?)?;
    let is_opaque = record.key.kind == AddressKind::Opaque;
    (is_opaque || record.key.is(&batch.key[i])).then_some(record)
}

/// Decides on packet `i`. Where the directions of a flow have two sensors, its state belongs to
/// the first one's policy.
fn decide(
    shedder: &mut Shedder,
    record: Option<&mut FlowRecord>,
    batch: &Batch,
    i: usize,
) -> Option<Reason> {
    let (flow, prior, label) =
        (None, Count::default(), batch.label.get(i).and_then(|label| label.rate()));
    let mut packet =
        Arrival { flow, len: batch.wire_len(i), prior, is_first: false, is_end: false, label };
    let Some(record) = record else { return shedder.packet(&packet, &mut 0) };
    // Packets without addresses of IP are no flow that could be shed whole.
    let shed = if record.key.kind == AddressKind::Opaque {
        shedder.packet(&packet, &mut 0)
    } else {
        packet.flow = batch.record.get(i).copied();
        packet.prior = Count { packets: record.total_packets(), bytes: record.total_bytes() };
        packet.is_end = batch.tcp_flags.get(i).is_some_and(|flags| flags & ENDS != 0);
        let has_two = matches!(record.outputs, [Some(one), Some(other)] if one != other);
        let is_back = batch.reversed[i] != record.a_is_high;
        packet.is_first = !is_back && batch.first.contains(i);
        let state = if has_two && is_back { &mut 0 } else { &mut record.state };
        shedder.packet(&packet, state)
    };
    record.shed = record.shed.saturating_add(shed.is_some().into());
    shed
}

impl Stage for Shed {
    fn name(&self) -> &'static str {
        "shed"
    }

    fn drop_names(&self) -> &'static [&'static str] {
        &Reason::NAMES
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn begin(&mut self, now: u64) {
        self.now = now;
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        if !self.sensors.is_empty() {
            self.offer(&batch);
        }
        let Self { flows, sensors, .. } = self;
        // Where nothing is shed, records get their sensors, and no other packet is looked at.
        let which = if sensors.is_empty() { batch.live().and(&batch.first) } else { batch.live() };
        if which.count() == 0 {
            out.emit(batch);
            return Ok(());
        }
        let table = &mut *flows.lock();
        let mut shed = LiveMask::default();
        for i in which.iter() {
            let mut record = record_of(table, &batch, i);
            if let Some(record) = record.as_mut().filter(|_| batch.first.contains(i)) {
                let direction = usize::from(batch.reversed[i] != record.a_is_high);
                record.outputs[direction] = batch.output.get(i).copied();
            }
            if batch.exempt.contains(i) {
                continue;
            }
            let sensor = sensor_of(sensors, &batch, i).filter(|sensor| sensor.decides);
            let Some(sensor) = sensor else { continue };
            if decide(&mut sensor.shedder, record, &batch, i).is_some() {
                shed.insert(i);
            } else if !batch.label.is_empty()
                && let Some(most) = sensor.shedder.fair_rate(batch.wire_len(i))
            {
                batch.label[i] = batch.label[i].at_most(most);
            }
        }
        for sensor in sensors.iter_mut().flatten().filter(|sensor| sensor.decides) {
            sensor.decides = false;
            let dropped = sensor.shedder.end();
            dropped.into_iter().enumerate().for_each(|(reason, n)| out.dropped(reason, n));
        }
        if shed.count() > 0 {
            let passed = batch.live().without(&shed);
            batch.retain(&passed);
        }
        out.emit(batch);
        Ok(())
    }

    fn reload(&mut self, settings: &Settings) {
        if let Some(shedding) = settings.get::<Shedding>() {
            self.set(shedding);
        }
    }
}
