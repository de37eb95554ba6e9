//! Keeps the packets that the filter accepts.

use forebay_jit::FilterSet;
use forebay_packet::{Batch, LiveMask};

use crate::stage::{Outbox, Promises, Settings, Stage, StageError};

/// A batch of which no more than one packet in so many is left is squeezed.
const MOSTLY: usize = 2;

/// Sets each packet's verdict, and drops those with verdict 0.
pub struct Filter {
    programs: Option<FilterSet>,
    drops: bool,
}

impl Filter {
    /// Drops what `programs` do not accept.
    #[must_use]
    pub fn new(programs: FilterSet) -> Self {
        Self::optional(Some(programs))
    }

    /// As [`Filter::new`]; passes everything while there are no programs.
    #[must_use]
    pub fn optional(programs: Option<FilterSet>) -> Self {
        Self { programs, drops: true }
    }

    /// Sets verdicts only.
    #[must_use]
    pub fn judge_only(programs: FilterSet) -> Self {
        Self { programs: Some(programs), drops: false }
    }
}

impl Stage for Filter {
    fn name(&self) -> &'static str {
        "filter"
    }

    fn drop_names(&self) -> &'static [&'static str] {
        &["no_match"]
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        let Some(programs) = &mut self.programs else {
            out.emit(batch);
            return Ok(());
        };
        programs.run_batch(&mut batch)?;
        if self.drops {
            let before = batch.live().count();
            let accepted = LiveMask::nonzero(&batch.verdict);
            batch.retain(&accepted);
            let left = batch.live().count();
            out.dropped(0, (before - left) as u64);
            // The stages behind this one need not look for those few among all others.
            if left * MOSTLY < before {
                batch.squeeze();
            }
        }
        out.emit(batch);
        Ok(())
    }

    fn reload(&mut self, settings: &Settings) {
        if let Some(programs) = &settings.filter {
            self.programs.clone_from(programs);
        }
    }
}
