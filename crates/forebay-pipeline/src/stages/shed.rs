//! Keeps each sensor within its limit, and notes in the records of flows which sensor they have
//! and how many of their packets were shed.

use std::sync::Arc;

use forebay_flow::shed::{Limit, OnOverload, Shed as Reason};
use forebay_packet::{Batch, LiveMask};
use toml::Value;

use super::flows;
use super::shedders::Shedders;
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

/// What a stage takes at most: the tables of 256 sensors' policies, and the packets of DRR's
/// queues, which are those of 5 ms.
pub(super) const MOST_BYTES: u64 = 24 << 20;

/// The policy of a key. An empty table, of the stage where no key names one, is none.
fn read(value: &Value) -> Result<OnOverload, String> {
    if value.as_table().is_some_and(toml::Table::is_empty) {
        return Ok(OnOverload::None);
    }
    value.as_str().and_then(named).ok_or_else(|| format!("expected {}", names(&OnOverload::ALL)))
}

/// The policy of a name.
pub(super) fn named(name: &str) -> Option<OnOverload> {
    OnOverload::ALL.into_iter().find(|policy| policy.name() == name)
}

/// The names of policies, for messages.
pub(super) fn names(policies: &[OnOverload]) -> String {
    let names: Vec<String> = policies.iter().map(|policy| format!("`{}`", policy.name())).collect();
    format!("one of {}", names.join(", "))
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

/// Drops what sensors cannot take, by their policies.
pub struct Shed {
    flows: SharedFlows,
    shedders: Shedders,
    now: u64,
}

impl Shed {
    /// Notes sensors in the records of `flows`, and drops nothing until it has [`Shedding`].
    #[must_use]
    pub fn new(flows: SharedFlows) -> Self {
        Self { flows, shedders: Shedders::default(), now: 0 }
    }
}

/// The sensor of packet `i`.
fn sensor_of(batch: &Batch, i: usize) -> Option<usize> {
    batch.output.get(i).map(|&sensor| sensor.into())
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
        let Self { flows, shedders, now } = self;
        if !shedders.is_empty() {
            shedders.begin(*now, &batch, |i| sensor_of(&batch, i));
        }
        // Where nothing is shed, records get their sensors, and no other packet is looked at.
        let which = if shedders.is_empty() { batch.live().and(&batch.first) } else { batch.live() };
        if which.count() == 0 {
            out.emit(batch);
            return Ok(());
        }
        let records = &mut *flows.lock();
        let mut shed = LiveMask::default();
        for i in which.iter() {
            let mut record = records.of(&batch, i);
            if let Some(record) = record.as_mut().filter(|_| batch.first.contains(i)) {
                let direction = usize::from(batch.reversed[i] != record.a_is_high());
                record.set_output(direction, batch.output.get(i).copied());
            }
            if shedders.sheds(sensor_of(&batch, i), record, None, &mut batch, i) {
                shed.insert(i);
            }
        }
        shedders.end(&shed, &mut batch, out);
        out.emit(batch);
        Ok(())
    }

    fn reload(&mut self, settings: &Settings) {
        if let Some(Shedding(limits)) = settings.get() {
            self.shedders.set(limits.iter().map(Option::as_ref));
        }
    }
}
