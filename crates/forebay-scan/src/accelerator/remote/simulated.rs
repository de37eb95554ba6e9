//! The client of a device whose side is simulated in the same process and memory: hardware models,
//! and faults.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::super::device::{Work, session::Served};
use super::super::probe::Probes;
use super::super::protocol::{Layout, REGIONS, SetIdentity};
use super::super::shared::Words;
use super::super::{Accelerator, BatchLimits, Cause, Completion, Refused, Ticket};
use super::client::Client;
use super::session::Session;
use super::{RemoteError, RemoteOptions};
use crate::literal::LiteralSet;
use crate::scanner::Scanner;

/// An [`Accelerator`] over memory that the caller can access as a device does. A session that ends
/// is followed by another at once.
#[derive(Debug)]
pub struct Simulated {
    limits: BatchLimits,
    layout: Layout,
    set: SetIdentity,
    scanner: Arc<Scanner>,
    client: Client,
    generation: u32,
    seed: u64,
    regions: Arc<[Words; REGIONS]>,
    device: Served,
    work: Work,
}

impl Simulated {
    /// A client of a device that scans with `scanner`, which has `set`. The socket in the options
    /// is not used.
    ///
    /// # Errors
    /// A limit is out of range.
    pub fn new(
        options: &RemoteOptions,
        set: &LiteralSet,
        scanner: Arc<Scanner>,
        seed: u64,
    ) -> Result<Self, RemoteError> {
        let limits = options.limits;
        limits.check()?;
        let probes = Probes::new(set);
        let layout = Layout::new(&limits, probes.longest());
        if !layout.is_valid() {
            return Err(RemoteError::Memory(layout.bytes()));
        }
        let regions = private(&layout);
        let device = Served::new(Arc::clone(&regions), layout, 0, Arc::clone(&scanner));
        let mut simulated = Self {
            limits,
            layout,
            set: SetIdentity::of(set),
            scanner,
            client: Client::new(limits, options.patience, probes),
            generation: 0,
            seed,
            regions,
            device,
            work: Work::default(),
        };
        simulated.start();
        Ok(simulated)
    }

    /// Starts a session.
    fn start(&mut self) {
        self.generation += 1;
        self.seed = self.seed.wrapping_add(1);
        self.regions = private(&self.layout);
        let regions = || Arc::clone(&self.regions);
        let (layout, generation) = (self.layout, self.generation);
        self.client.start(Session::new(
            regions(),
            &self.limits,
            layout,
            generation,
            self.set,
            self.seed,
        ));
        self.device = Served::new(regions(), layout, generation, Arc::clone(&self.scanner));
    }

    /// Has the device scan the next batch. Whether there was one.
    ///
    /// # Errors
    /// The client's position is not possible.
    pub fn step(&mut self) -> io::Result<bool> {
        self.device.step(&self.work)
    }

    /// The memory that client and device share, by identifier of the region.
    #[must_use]
    pub fn regions(&self) -> [&[AtomicU64]; REGIONS] {
        self.regions.each_ref().map(|words| &**words)
    }

    /// Where everything is.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number of sessions so far.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Restarts the device: what is in flight may match.
    pub fn reset(&mut self) {
        self.client.end(Cause::Reset);
        self.start();
    }
}

/// Memory of the sizes that a layout requires.
fn private(layout: &Layout) -> Arc<[Words; REGIONS]> {
    Arc::new(layout.region_words().map(Words::private))
}

impl Accelerator for Simulated {
    fn push(&mut self, parts: &[&[u8]]) -> Result<(), Refused> {
        self.client.push(parts)
    }

    fn submit(&mut self, now: u64) -> Option<Ticket> {
        Some(self.client.submit(now)?.0)
    }

    fn poll(&mut self, now: u64, completed: &mut Vec<Completion>) {
        if self.client.poll(now, completed).is_some() {
            self.start();
        }
    }

    fn wait(&mut self, _limit: Duration) -> io::Result<()> {
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.client.in_flight()
    }
}
