//! The scanner alone: the stage that scans, from memory, with nothing behind it.

use forebay_broker::compiled::{CodeOptions, CompiledConfig, InUse};
use forebay_broker::config::Config;
use forebay_jit::{Backend, Options, cpu};
use forebay_packet::{Batch, HashKey};
use forebay_pipeline::stages::Scan;
use forebay_pipeline::{Chain, StageError};

use super::lane::Rules;
use crate::clock::nanos_of;
use crate::failure::Result;

/// The stage, with batches of frames.
pub struct Scanning {
    chain: Chain,
    batches: Vec<Batch>,
}

impl Scanning {
    pub fn new(rules: &Rules, batches: Vec<Batch>) -> Result<Self> {
        let config = Config::parse("gateway", &rules.offline())?;
        let filters = Options::new(Backend::Auto, None)?;
        let options = CodeOptions { filters, isa: cpu::detect() };
        let compiled = CompiledConfig::new(&config, &options, &InUse::default())?;
        let scan = Scan::optional(compiled.scan, HashKey::OFFLINE).reporting(compiled.reports);
        Ok(Self { chain: Chain::new().with(scan), batches })
    }

    /// Nanoseconds a frame of a round.
    pub fn round(&mut self) -> Result<f64> {
        let mut frames = 0;
        let (outcome, nanos) = nanos_of(|| {
            self.batches.iter().try_for_each(|batch| {
                self.chain.push(batch.clone(), &mut |batch: Batch| {
                    frames += batch.live().count();
                    Ok::<(), StageError>(())
                })
            })
        });
        outcome?;
        Ok(nanos / frames.max(1) as f64)
    }
}
