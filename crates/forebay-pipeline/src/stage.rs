//! The one contract of all stages.

use std::any::Any;
use std::sync::Arc;

use forebay_jit::FilterError;
use forebay_packet::Batch;

use crate::remarks::Remarks;

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

/// A value that a stage takes over while packets flow. Each stage implements it for types of
/// its own.
pub trait Setting: Any + Send + Sync {}

/// Settings for the stages of a chain, at most one of a type. A type that is not among them
/// stays as it was.
#[derive(Clone, Default)]
pub struct Settings(Vec<Arc<dyn Any + Send + Sync>>);

impl Settings {
    /// No settings: everything stays as it was.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a setting.
    #[must_use]
    pub fn with<T: Setting>(mut self, setting: T) -> Self {
        self.0.retain(|other| !other.is::<T>());
        self.0.push(Arc::new(setting));
        self
    }

    /// The setting of a type.
    #[must_use]
    pub fn get<T: Setting>(&self) -> Option<&T> {
        self.0.iter().find_map(|setting| setting.downcast_ref())
    }
}

/// Why a stage cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// Packets had to be held, and there is no memory to hold them.
    #[error("stage {stage}: no memory to hold packets back")]
    Memory {
        /// The stage.
        stage: &'static str,
        /// The error of the system.
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

    /// Stops the input: the stage needs no more.
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

    /// What it has noticed besides: names and packets.
    fn remarks(&self) -> Remarks {
        Remarks::default()
    }
}
