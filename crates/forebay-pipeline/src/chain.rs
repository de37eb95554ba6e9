//! Stages in a row, counted from outside.
//!
//! The chain counts the live packets it hands to a stage and those the stage gives
//! back. Only drops, copies, injections and what is held are the stage's own word;
//! the ledger closes only if that word is true.

use forebay_packet::Batch;

use crate::ledger::{DropCount, LedgerRow};
use crate::stage::{Outbox, Settings, Stage, StageError};

struct Link {
    stage: Box<dyn Stage>,
    outbox: Outbox,
    input: u64,
    output: u64,
}

/// Stages that packets pass one after another.
#[derive(Default)]
pub struct Chain {
    links: Vec<Link>,
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
        let outbox = Outbox { drops: vec![0; stage.drop_names().len()], ..Outbox::default() };
        self.links.push(Link { stage: Box::new(stage), outbox, input: 0, output: 0 });
        self
    }

    /// Whether several chains like this may share the work, each taking some of the
    /// batches: no stage holds packets back.
    #[must_use]
    pub fn is_parallel(&self) -> bool {
        self.links.iter().all(|link| link.stage.promises().holds_nothing)
    }

    /// Sends a batch through; what comes out at the end goes to `deliver`.
    ///
    /// # Errors
    /// What a stage or `deliver` says. The batch is then lost half-way, and the
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
        let Some(link) = self.links.get_mut(first) else { return deliver(batch) };
        link.input += live;
        link.stage.process(batch, &mut link.outbox)?;
        self.forward(first, deliver)
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
            let Link { stage, outbox, .. } = &mut self.links[i];
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
        self.links.iter_mut().for_each(|link| link.stage.begin(now));
    }

    /// Tells the stages that no batch may come for a while.
    pub fn rest(&mut self) {
        self.links.iter_mut().for_each(|link| link.stage.rest());
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

    /// Gives new settings to every stage.
    pub fn reload(&mut self, settings: &Settings) {
        self.links.iter_mut().for_each(|link| link.stage.reload(settings));
    }

    /// Whether a stage has had all it wants.
    #[must_use]
    pub fn wants_no_more(&self) -> bool {
        self.links.iter().any(|link| link.outbox.stop)
    }

    /// The account of each stage.
    #[must_use]
    pub fn rows(&self) -> Vec<LedgerRow> {
        self.links.iter().map(Link::row).collect()
    }

    /// What the stages noticed: stage, name, packets.
    #[must_use]
    pub fn remarks(&self) -> Vec<(&'static str, u64)> {
        self.links.iter().flat_map(|link| link.stage.remarks()).collect()
    }
}

impl Link {
    fn row(&self) -> LedgerRow {
        let names = self.stage.drop_names().iter();
        LedgerRow {
            stage: self.stage.name().into(),
            beside: false,
            input: self.input,
            copies: self.outbox.copies,
            injected: self.outbox.injected,
            output: self.output,
            drops: names
                .zip(&self.outbox.drops)
                .map(|(&name, &packets)| DropCount { name, packets })
                .collect(),
            held: self.stage.held(),
        }
    }
}
