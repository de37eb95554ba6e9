//! Flows that an operator or a sensor handles by hand: shunted, or exempt from shedding.

mod search;
mod table;

use std::sync::Arc;

use forebay_packet::{Affinity, Batch, Decoder, HashKey, LiveMask};

use super::live_balance::flow_of;
use crate::stage::{Outbox, Promises, Setting, Settings, Stage, StageError};
use search::Searching;

pub use search::{FlowSearch, FoundFlow};
pub use table::{FlowOverride, OverriddenFlow, OverrideEntry, OverrideTable};

/// The flows that are handled by hand.
impl Setting for Arc<OverrideTable> {}

/// The flows that are searched for, or none any more.
impl Setting for Option<Arc<FlowSearch>> {}

/// Drops the packets of shunted flows, and marks those of flows that are to pass.
///
/// The caller must keep a table that it replaces until no stage has it any more, so that no worker
/// frees it.
pub struct Overrides {
    decoder: Decoder,
    affinity: Affinity,
    hash_key: HashKey,
    table: Arc<OverrideTable>,
    searching: Option<Searching>,
    now: u64,
}

impl Overrides {
    /// No flows; `decoder` and `hash_key` are those of the classifier before it, whose hashes
    /// are of `affinity`.
    #[must_use]
    pub fn new(decoder: Decoder, affinity: Affinity, hash_key: HashKey) -> Self {
        let table = Arc::default();
        Self { decoder, affinity, hash_key, table, searching: None, now: 0 }
    }

    /// Handles all packets of a batch; returns how many it dropped.
    fn apply(&self, batch: &mut Batch) -> u64 {
        let hits = self.table.candidates(&batch.hash).and(&batch.live());
        let dropped: u64 = hits.iter().map(|i| self.apply_to(batch, i, batch.hash[i])).sum();
        let rehashed = batch.rehashed.and(&batch.live());
        let of_own_hash = rehashed.iter().map(|i| {
            let key = flow_of(&self.decoder, batch, i);
            let [hash, other] = self.affinity.hashes(&key, &self.hash_key);
            // Where it has two hashes, the flow is in the table under both.
            if hash == batch.hash[i] || other == batch.hash[i] {
                return 0;
            }
            self.apply_to(batch, i, hash)
        });
        dropped + of_own_hash.sum::<u64>()
    }

    /// Handles packet `i`, whose flow has a hash; returns how many packets it dropped.
    fn apply_to(&self, batch: &mut Batch, i: usize, hash: u64) -> u64 {
        let entries = self.table.with_hash(hash);
        if entries.is_empty() {
            return 0;
        }
        let key = flow_of(&self.decoder, batch, i);
        let Some(flow) = table::of_key(entries, &key).filter(|flow| flow.until() > self.now) else {
            return 0;
        };
        flow.count(batch.wire_len(i));
        match flow.action {
            FlowOverride::Shunt => {
                batch.drop_packet(i);
                1
            }
            FlowOverride::Pass => {
                batch.exempt.insert(i);
                0
            }
        }
    }

    /// Tries the flows of a batch that were not tried yet.
    fn search(&mut self, batch: &Batch) {
        let Self { decoder, affinity, hash_key, searching: Some(searching), .. } = self else {
            return;
        };
        for i in batch.live().iter() {
            let key = || flow_of(decoder, batch, i);
            if batch.rehashed.contains(i) {
                let key = key();
                searching.look(affinity.hashes(&key, hash_key)[0], || key);
            } else {
                searching.look(batch.hash[i], key);
            }
        }
    }
}

impl Stage for Overrides {
    fn name(&self) -> &'static str {
        "overrides"
    }

    fn drop_names(&self) -> &'static [&'static str] {
        &["shunted_by_hand"]
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        batch.exempt = LiveMask::EMPTY;
        self.search(&batch);
        if !self.table.is_empty() {
            let dropped = self.apply(&mut batch);
            out.dropped(0, dropped);
        }
        out.emit(batch);
        Ok(())
    }

    fn reload(&mut self, settings: &Settings) {
        if let Some(table) = settings.get::<Arc<OverrideTable>>() {
            self.table = Arc::clone(table);
        }
        match (settings.get::<Option<Arc<FlowSearch>>>(), &mut self.searching) {
            (Some(Some(search)), Some(searching)) => searching.follow(search),
            (Some(Some(search)), none) => *none = Some(Searching::new(Arc::clone(search))),
            (Some(None), searching) => *searching = None,
            (None, _) => {}
        }
    }

    fn begin(&mut self, now: u64) {
        self.now = self.now.max(now);
    }
}
