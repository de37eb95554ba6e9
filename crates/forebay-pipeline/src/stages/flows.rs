//! Keeps records of flows, and drops what comes of a flow behind the cutoff.
//!
//! A packet's record is found once, here; stages behind this one find it by its number, the
//! batch's column `record`. A record counts all packets of its flow that come here. Of these, it
//! counts apart the packets that were dropped.

use std::cell::Cell;
use std::sync::Arc;
use std::{mem, thread};

use forebay_flow::{EndReason, FlowRecord, FlowTable, OnFull, RecordOptions};
use forebay_packet::{Batch, LiveMask, NO_RECORD};
use serde::Deserialize;
use toml::Value;

use super::cutoff::{Cutoff, MOST_NUMBER};
use super::shed;
use crate::optional::{GroupStages, OptionalStage, Place, StageConfig, StageParts};
use crate::remarks::Remarks;
use crate::shared_flows::{ChainRecords, RecordExport, RecordSink, SharedFlows};
use crate::stage::{Outbox, Promises, Setting, Settings, Stage, StageError};
use crate::units;

/// The key `flows`.
pub(super) static STAGE: OptionalStage = OptionalStage {
    key: "flows",
    help: "Keeps a record of each flow. `max_flows` are those of a worker at a time: beyond them a\n\
           new flow ends the record of one that has long been silent. A record ends when the flow\n\
           is silent for `idle_timeout`, 5 s after the end of a TCP connection, and with the first\n\
           packet after `active_timeout`. `true` has the values shown.",
    example: "{ max_flows = 250000, idle_timeout = \"60s\", active_timeout = \"30m\" }",
    place: Place::BehindFragments,
    needs: &[&shed::STAGE],
    keys: true,
    read: |value| FlowsOptions::read(value).map(|options| Arc::new(options) as _),
};

/// The most flows of a table.
const MOST_FLOWS: u64 = 1 << 26;

const EXPECTED: &str =
    "expected true or a table with some of `max_flows`, `idle_timeout` and `active_timeout`";

/// Which records are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowsOptions {
    /// The most at a time.
    pub flows: usize,
    /// Nanoseconds of silence that end one.
    pub idle: u64,
    /// Nanoseconds after its first packet that one ends with the next packet.
    pub active: u64,
}

impl Default for FlowsOptions {
    fn default() -> Self {
        Self { flows: 250_000, idle: 60_000_000_000, active: 1_800_000_000_000 }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFlows {
    max_flows: Option<i64>,
    idle_timeout: Option<String>,
    active_timeout: Option<String>,
}

impl FlowsOptions {
    /// Reads the value of the key.
    fn read(value: &Value) -> Result<Self, String> {
        let default = Self::default();
        let raw: RawFlows = match value {
            Value::Boolean(true) => return Ok(default),
            Value::Table(table) => table
                .clone()
                .try_into()
                .map_err(|error| format!("{}; {EXPECTED}", error.message()))?,
            _ => return Err(EXPECTED.into()),
        };
        let flows = match raw.max_flows {
            None => default.flows,
            Some(flows) => match u64::try_from(flows) {
                Ok(flows @ 1..=MOST_FLOWS) => flows as usize,
                _ => return Err(format!("`max_flows` {flows}: expected 1 to {MOST_FLOWS}")),
            },
        };
        let time = |key: &str, text: Option<String>, default: u64| match text {
            None => Ok(default),
            Some(text) => match units::duration(&text) {
                Ok(time) => Ok(time.as_nanos() as u64),
                Err(error) => Err(format!("`{key}`: {error}")),
            },
        };
        Ok(Self {
            flows,
            idle: time("idle_timeout", raw.idle_timeout, default.idle)?,
            active: time("active_timeout", raw.active_timeout, default.active)?,
        })
    }

    fn table(&self) -> FlowTable {
        FlowTable::new(RecordOptions {
            idle: Some(self.idle),
            active: Some(self.active),
            // No new flow waits until a huge page is cleared.
            huge_pages: false,
            ..RecordOptions::new(self.flows, OnFull::Evict)
        })
    }
}

impl Setting for FlowsOptions {}

impl StageConfig for FlowsOptions {
    fn build(&self, parts: &StageParts) -> Option<Box<dyn Stage>> {
        Some(Box::new(Flows::new(*self, parts.flows.clone())))
    }

    fn settings(&self) -> Settings {
        Settings::new().with(*self)
    }

    fn memory_bytes(&self) -> u64 {
        FlowTable::most_bytes(self.flows)
    }
}

/// Records that have ended, by why.
#[derive(Default)]
struct EndedCounts {
    idle: u64,
    active: u64,
    closed: u64,
    evicted: u64,
}

impl EndedCounts {
    fn add(&mut self, record: &FlowRecord) {
        let Some(reason) = record.ended else { return };
        *match reason {
            EndReason::Idle => &mut self.idle,
            EndReason::Active => &mut self.active,
            EndReason::Closed => &mut self.closed,
            EndReason::Evicted => &mut self.evicted,
        } += 1;
    }
}

/// Keeps the records of a chain's flows.
pub struct Flows {
    shared: SharedFlows,
    options: FlowsOptions,
    cutoff: Option<Cutoff>,
    /// The last cutoff, and its number; never 0.
    last_cutoff: Option<Cutoff>,
    cutoff_number: u8,
    sink: Option<Arc<dyn RecordSink>>,
    counts: EndedCounts,
    unrecorded: u64,
    /// When the last batch came to any group, and the last with packets to this stage, by the
    /// clock of ticks.
    begun: u64,
    counted: u64,
}

impl Flows {
    /// Keeps records in `shared`, in a new table if there is none.
    #[must_use]
    pub fn new(options: FlowsOptions, shared: SharedFlows) -> Self {
        shared.lock().table.get_or_insert_with(|| options.table());
        Self {
            shared,
            options,
            cutoff: None,
            last_cutoff: None,
            cutoff_number: 1,
            sink: None,
            counts: EndedCounts::default(),
            unrecorded: 0,
            begun: 0,
            counted: 0,
        }
    }

    /// Hands over the records that have ended. No batch with packets of theirs is under way.
    fn hand_over(&mut self) {
        let ended = &mut self.shared.lock().ended;
        if ended.is_empty() {
            return;
        }
        ended.iter().for_each(|record| self.counts.add(record));
        if let Some(sink) = &self.sink {
            sink.offer(ended);
        }
        ended.clear();
    }

    /// Has a table in place of that there is, or none.
    fn replace(&mut self, table: Option<FlowTable>) {
        self.hand_over();
        let Some(old) = mem::replace(&mut self.shared.lock().table, table) else { return };
        match &self.sink {
            Some(sink) => sink.retire(old),
            // Packets do not wait until the system has taken so much memory back. Without a thread
            // they do.
            None => drop(thread::Builder::new().spawn(move || drop(old))),
        }
    }

    fn set(&mut self, options: FlowsOptions) {
        if options.flows != self.options.flows {
            self.replace(Some(options.table()));
        } else if let Some(table) = &mut self.shared.lock().table {
            table.set_timeouts(Some(options.idle), Some(options.active));
        }
        self.options = options;
    }
}

impl Stage for Flows {
    fn name(&self) -> &'static str {
        "flows"
    }

    fn drop_names(&self) -> &'static [&'static str] {
        &["cutoff"]
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn begin(&mut self, now: u64) {
        self.begun = now;
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        let mut numbers = mem::take(&mut batch.record);
        numbers.clear();
        numbers.resize(batch.len(), NO_RECORD);
        let [mut first, mut resumed, mut cut] = [LiveMask::EMPTY; 3];
        self.counted = self.begun;
        self.hand_over();
        let Self { shared, cutoff, cutoff_number, unrecorded, .. } = self;
        let mut records = shared.lock();
        if let ChainRecords { table: Some(table), ended } = &mut *records {
            let numbers = Cell::from_mut(&mut *numbers).as_slice_of_cells();
            table.count_each(
                &batch,
                |i, counted| match counted {
                    Some(mut counted) => {
                        numbers[i].set(counted.number);
                        if batch.suspect.contains(i) {
                            counted.record.mark_suspect();
                        }
                        if counted.is_first {
                            first.insert(i);
                        }
                        if counted.resumes {
                            resumed.insert(i);
                        }
                        let drops =
                            |cutoff: &Cutoff| cutoff.drops(*cutoff_number, &batch, i, &mut counted);
                        if cutoff.as_ref().is_some_and(drops) {
                            cut.insert(i);
                        }
                    }
                    None => *unrecorded += 1,
                },
                |number, record| {
                    let place = ChainRecords::end(ended, record);
                    for packet in numbers.iter().filter(|packet| packet.get() == number) {
                        packet.set(place);
                    }
                },
            );
        }
        drop(records);
        (batch.record, batch.first, batch.resumed) = (numbers, first, resumed);
        let dropped = cut.count();
        if dropped > 0 {
            let passed = batch.live().without(&cut);
            batch.retain(&passed);
            out.dropped(0, dropped as u64);
        }
        out.emit(batch);
        Ok(())
    }

    fn tick(&mut self, now: u64, _out: &mut Outbox) -> Result<(), StageError> {
        if let ChainRecords { table: Some(table), ended } = &mut *self.shared.lock() {
            table.pass_time(now.saturating_sub(self.counted), |_, record| ended.push(record));
        }
        self.hand_over();
        Ok(())
    }

    fn drain(&mut self, _out: &mut Outbox) -> Result<(), StageError> {
        self.replace(None);
        Ok(())
    }

    fn reload(&mut self, settings: &Settings) {
        if let Some(RecordExport(sink)) = settings.get::<RecordExport>() {
            self.sink.clone_from(sink);
        }
        if let Some(stages) = settings.get::<GroupStages>() {
            self.cutoff = stages.setting();
            if self.cutoff.is_some() && self.cutoff != self.last_cutoff {
                self.cutoff_number = self.cutoff_number % MOST_NUMBER + 1;
                self.last_cutoff = self.cutoff;
            }
        }
        if let Some(options) = settings.get::<FlowsOptions>() {
            self.set(*options);
        }
    }

    fn remarks(&self) -> Remarks {
        let EndedCounts { idle, active, closed, evicted } = self.counts;
        Remarks::from([
            ("flows_idle", idle),
            ("flows_active", active),
            ("flows_closed", closed),
            ("flows_evicted", evicted),
            ("packets_without_record", self.unrecorded),
        ])
    }
}
