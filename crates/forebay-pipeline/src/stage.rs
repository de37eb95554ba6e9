//! The one contract of all stages.

use forebay_balance::Assignment;
use forebay_jit::{FilterError, FilterSet};
use forebay_packet::Batch;

use crate::stages::{CompiledRules, ShuntRule, ShuntedFlow};

/// What a stage never does to packets. The tests of this crate hold every stage to
/// its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// The captured bytes, lengths and time stamps stay as they are.
    pub packets_unchanged: bool,
    /// Packets go out in the order they came in.
    pub order_kept: bool,
    /// No packet is in the stage once a call has returned, so that several
    /// instances can share the work.
    pub holds_nothing: bool,
}

/// What may be changed while packets flow. A stage takes what concerns it; nothing
/// stands for "as before".
#[derive(Clone, Default)]
pub struct Settings {
    /// A new filter, or none any more.
    pub filter: Option<Option<FilterSet>>,
    /// A new rule list, or none any more.
    pub rules: Option<Option<CompiledRules>>,
    /// For how long, in nanoseconds, a packet that comes again is taken for a copy; without
    /// it, none is.
    pub duplicates: Option<Option<u64>>,
    /// A new bucket table.
    pub assignment: Option<Assignment>,
    /// What becomes of flows that are too big for any sensor, or nothing any more.
    pub shunt: Option<Option<ShuntRule>>,
    /// Flows that were named as such: those named last, also if they are known.
    pub shunted: Vec<ShuntedFlow>,
    /// The sensors that packets are spread over while none is up; with an empty list
    /// they are dropped.
    pub spare: Option<Vec<u16>>,
}

/// Why a stage cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// Packets had to be held, and there is no memory to hold them.
    #[error("stage {stage}: no memory to hold packets back")]
    Memory {
        /// The stage.
        stage: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The filter does not compile for an interface of the capture.
    #[error(transparent)]
    Filter(#[from] FilterError),
}

/// Where a stage puts what it is done with.
#[derive(Debug, Default)]
pub struct Outbox {
    pub(crate) batches: Vec<Batch>,
    pub(crate) drops: Vec<u64>,
    pub(crate) copies: u64,
    pub(crate) injected: u64,
    pub(crate) stop: bool,
}

impl Outbox {
    /// Passes the live packets of a batch on.
    pub fn emit(&mut self, batch: Batch) {
        self.batches.push(batch);
    }

    /// Counts packets taken out of a batch; `reason` indexes
    /// [`Stage::drop_names`].
    ///
    /// # Panics
    /// When the stage has no such reason: a mistake in the stage.
    pub fn dropped(&mut self, reason: usize, packets: u64) {
        self.drops[reason] += packets;
    }

    /// Counts packets that go out more than once: every time but the first.
    pub fn copied(&mut self, packets: u64) {
        self.copies += packets;
    }

    /// Counts packets that the stage made.
    pub fn injected(&mut self, packets: u64) {
        self.injected += packets;
    }

    /// Asks for no more input: the stage has had all it wants.
    pub fn stop(&mut self) {
        self.stop = true;
    }
}

/// A step of the pipeline.
///
/// A stage may pass packets on, drop them (clear their live bit and count them),
/// hold them (copied, with [`Batch::compact`], if for longer than the call), inject
/// new ones, or hand one packet to several outputs. It allocates nothing and takes
/// no lock for a single packet.
pub trait Stage: Send {
    /// The stage's name in the ledger.
    fn name(&self) -> &'static str;

    /// Why it may drop packets; the names of its counters.
    fn drop_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// What it never does.
    fn promises(&self) -> Promises;

    /// A batch is about to come; `now` is a monotonic clock in nanoseconds, read just
    /// before. Called on live links.
    fn begin(&mut self, _now: u64) {}

    /// No batch is under way, and none may come for a while.
    fn rest(&mut self) {}

    /// Takes a batch.
    ///
    /// # Errors
    /// [`StageError`], after which the pipeline ends.
    fn process(&mut self, batch: Batch, out: &mut Outbox) -> Result<(), StageError>;

    /// Time passes: `now` is a monotonic clock in nanoseconds. Called every now and
    /// then on the stages that see all packets.
    ///
    /// # Errors
    /// As [`Stage::process`].
    fn tick(&mut self, _now: u64, _out: &mut Outbox) -> Result<(), StageError> {
        Ok(())
    }

    /// The end has come: gives up every packet it holds.
    ///
    /// # Errors
    /// As [`Stage::process`].
    fn drain(&mut self, _out: &mut Outbox) -> Result<(), StageError> {
        Ok(())
    }

    /// Takes new settings over, between two batches.
    fn reload(&mut self, _settings: &Settings) {}

    /// Packets it holds.
    fn held(&self) -> u64 {
        0
    }

    /// Bytes of packets it holds; every stage that holds packets has a budget.
    fn held_bytes(&self) -> u64 {
        0
    }

    /// What it has noticed besides: names and packets.
    fn remarks(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
