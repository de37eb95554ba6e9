//! Stages in a row, counted from outside.
//!
//! The chain counts the live packets it hands to a stage and those the stage gives
//! back. Only drops, copies, injections and what is held are the stage's own word;
//! the ledger closes only if that word is true.

use forebay_packet::{Batch, HashKey};

use crate::ledger::{DropCount, LedgerRow};
use crate::optional::{GroupStages, OptionalStage, Place, StageParts};
use crate::remarks::Remarks;
use crate::shared_flows::SharedFlows;
use crate::stage::{Outbox, Settings, Stage, StageError};
use crate::stages::OPTIONAL;

/// The place of a stage. The place of an optional stage has none while the stage is off, and
/// keeps its counters.
#[derive(Default)]
struct Link {
    optional: Option<(&'static OptionalStage, StageParts)>,
    stage: Option<Box<dyn Stage>>,
    name: &'static str,
    drop_names: &'static [&'static str],
    outbox: Outbox,
    input: u64,
    output: u64,
    /// Of stages that were turned off.
    remarks: Remarks,
}

/// Stages that packets pass one after another.
#[derive(Default)]
pub struct Chain {
    links: Vec<Link>,
    flows: SharedFlows,
    /// Packets that came out at the end.
    output: u64,
}

/// What is done to a stage.
#[derive(Clone, Copy)]
enum Call {
    Tick(u64),
    Drain,
}

impl Chain {
    /// A chain without stages: packets pass through.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a stage at the end.
    #[must_use]
    pub fn with(mut self, stage: impl Stage + 'static) -> Self {
        let mut link = Link::default();
        link.put(Box::new(stage));
        self.links.push(link);
        self
    }

    /// Adds the optional stages of a place, which are off until [`GroupStages`] are set.
    #[must_use]
    pub fn with_optional(mut self, place: Place, hash_key: HashKey) -> Self {
        for &stage in OPTIONAL.iter().filter(|stage| stage.place == place) {
            let parts = StageParts { hash_key, flows: self.flows.clone() };
            self.links.push(Link { optional: Some((stage, parts)), ..Link::default() });
        }
        self
    }

    /// The records of its flows.
    #[must_use]
    pub fn flows(&self) -> &SharedFlows {
        &self.flows
    }

    /// The chain with its first settings, before any packet.
    #[must_use]
    pub fn configured(mut self, settings: &Settings) -> Self {
        for link in &mut self.links {
            // Only a stage that is turned off can fail, and here none is.
            let _ = link.reload(settings);
        }
        self
    }

    /// Whether several chains like this may share the work, each taking some of the
    /// batches: no stage holds packets back.
    #[must_use]
    pub fn is_parallel(&self) -> bool {
        self.stages().all(|stage| stage.promises().holds_nothing)
    }

    /// Sends a batch through; what comes out at the end goes to `deliver`.
    ///
    /// # Errors
    /// The error of a stage or of `deliver`. The batch is then lost half-way, and the
    /// chain of no further use but for its ledger.
    pub fn push<E: From<StageError>>(
        &mut self,
        batch: Batch,
        deliver: &mut dyn FnMut(Batch) -> Result<(), E>,
    ) -> Result<(), E> {
        let live = batch.live().count() as u64;
        self.push_from(0, batch, live, deliver)
    }

    fn push_from<E: From<StageError>>(
        &mut self,
        first: usize,
        batch: Batch,
        live: u64,
        deliver: &mut dyn FnMut(Batch) -> Result<(), E>,
    ) -> Result<(), E> {
        if live == 0 {
            return Ok(());
        }
        for i in first..self.links.len() {
            let Link { stage: Some(stage), outbox, input, .. } = &mut self.links[i] else {
                continue;
            };
            *input += live;
            stage.process(batch, outbox)?;
            return self.forward(i, deliver);
        }
        self.output += live;
        deliver(batch)
    }

    /// Moves what lies in a stage's outbox on to the next stage.
    fn forward<E: From<StageError>>(
        &mut self,
        from: usize,
        deliver: &mut dyn FnMut(Batch) -> Result<(), E>,
    ) -> Result<(), E> {
        let link = &mut self.links[from];
        // Taken out while the stages behind it run, and put back for its capacity.
        let mut batches = std::mem::take(&mut link.outbox.batches);
        for batch in batches.drain(..) {
            let live = batch.live().count() as u64;
            self.links[from].output += live;
            self.push_from(from + 1, batch, live, deliver)?;
        }
        self.links[from].outbox.batches = batches;
        Ok(())
    }

    fn call_all<E: From<StageError>>(
        &mut self,
        call: Call,
        deliver: &mut dyn FnMut(Batch) -> Result<(), E>,
    ) -> Result<(), E> {
        for i in 0..self.links.len() {
            let Link { stage: Some(stage), outbox, .. } = &mut self.links[i] else { continue };
            match call {
                Call::Tick(now) => stage.tick(now, outbox)?,
                Call::Drain => stage.drain(outbox)?,
            }
            self.forward(i, deliver)?;
        }
        Ok(())
    }

    /// Tells the stages that a batch is about to come; `now` is monotonic, in nanoseconds.
    pub fn begin(&mut self, now: u64) {
        self.links.iter_mut().filter_map(|link| link.stage.as_mut()).for_each(|s| s.begin(now));
    }

    /// Tells the stages that no batch may come for a while.
    pub fn rest(&mut self) {
        self.links.iter_mut().filter_map(|link| link.stage.as_mut()).for_each(|s| s.rest());
    }

    /// Tells the stages that time passes; `now` is monotonic, in nanoseconds.
    ///
    /// # Errors
    /// As [`Chain::push`].
    pub fn tick<E: From<StageError>>(
        &mut self,
        now: u64,
        deliver: &mut dyn FnMut(Batch) -> Result<(), E>,
    ) -> Result<(), E> {
        self.call_all(Call::Tick(now), deliver)
    }

    /// Makes the stages give up what they hold, first to last.
    ///
    /// # Errors
    /// As [`Chain::push`].
    pub fn drain<E: From<StageError>>(
        &mut self,
        deliver: &mut dyn FnMut(Batch) -> Result<(), E>,
    ) -> Result<(), E> {
        self.call_all(Call::Drain, deliver)
    }

    /// Gives new settings to every stage, and turns optional stages on and off.
    ///
    /// # Errors
    /// As [`Chain::push`]: a stage that is turned off gives up what it holds.
    pub fn reload<E: From<StageError>>(
        &mut self,
        settings: &Settings,
        deliver: &mut dyn FnMut(Batch) -> Result<(), E>,
    ) -> Result<(), E> {
        for i in 0..self.links.len() {
            self.links[i].reload(settings)?;
            self.forward(i, deliver)?;
        }
        Ok(())
    }

    fn stages(&self) -> impl Iterator<Item = &dyn Stage> {
        self.links.iter().filter_map(|link| link.stage.as_deref())
    }

    /// Whether a stage needs no more input.
    #[must_use]
    pub fn wants_no_more(&self) -> bool {
        self.links.iter().any(|link| link.outbox.stop)
    }

    /// Packets that came out at the end.
    #[must_use]
    pub fn output(&self) -> u64 {
        self.output
    }

    /// The account of each stage.
    #[must_use]
    pub fn rows(&self) -> Vec<LedgerRow> {
        self.links.iter().filter(|link| !link.name.is_empty()).map(Link::row).collect()
    }

    /// What the stages noticed: stage, name, packets.
    #[must_use]
    pub fn remarks(&self) -> Remarks {
        let mut remarks = Remarks::default();
        self.links.iter().for_each(|link| remarks.add(&link.remarks()));
        remarks
    }
}

impl Link {
    fn put(&mut self, stage: Box<dyn Stage>) {
        (self.name, self.drop_names) = (stage.name(), stage.drop_names());
        self.outbox.drops.resize(self.drop_names.len(), 0);
        self.stage = Some(stage);
    }

    fn reload(&mut self, settings: &Settings) -> Result<(), StageError> {
        let Some((kind, parts)) = &self.optional else {
            self.stage.iter_mut().for_each(|stage| stage.reload(settings));
            return Ok(());
        };
        let Some(stages) = settings.get::<GroupStages>() else { return Ok(()) };
        let config = stages.config(kind.key);
        match (config, &mut self.stage) {
            (Some(config), None) => {
                config.build(parts).into_iter().for_each(|stage| self.put(stage));
            }
            (None, Some(stage)) => {
                stage.drain(&mut self.outbox)?;
                self.remarks = self.remarks();
                self.stage = None;
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
        if let (Some(config), Some(stage)) = (config, &mut self.stage) {
            stage.reload(settings);
            stage.reload(&config.settings());
        }
        Ok(())
    }

    fn remarks(&self) -> Remarks {
        let mut remarks = self.remarks.clone();
        self.stage.iter().for_each(|stage| remarks.add(&stage.remarks()));
        remarks
    }

    fn row(&self) -> LedgerRow {
        let names = self.drop_names.iter();
        LedgerRow {
            stage: self.name.into(),
            beside: false,
            input: self.input,
            copies: self.outbox.copies,
            injected: self.outbox.injected,
            output: self.output,
            drops: names
                .zip(&self.outbox.drops)
                .map(|(&name, &packets)| DropCount { name, packets })
                .collect(),
            held: self.stage.as_ref().map_or(0, |stage| stage.held()),
        }
    }
}
