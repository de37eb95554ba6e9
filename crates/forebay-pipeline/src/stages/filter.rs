//! Keeps the packets that the filter accepts.

use forebay_jit::{FilterError, FilterSet, SetError};
use forebay_packet::{Batch, LinkType, LiveMask};

use crate::stage::{Outbox, Promises, Setting, Settings, Stage, StageError};

/// A batch of which no more than one packet in so many is left is compacted.
const MOSTLY: usize = 2;

/// A filter, or none any more.
impl Setting for Option<FilterSet> {}

/// Sets each packet's verdict, and drops those with verdict 0.
pub struct Filter {
    programs: Option<FilterSet>,
    drops: bool,
    /// Link types that the programs are wrong for, if packets of these are dropped.
    unfit: Option<Vec<LinkType>>,
}

impl Filter {
    /// Drops what `programs` do not accept.
    #[must_use]
    pub fn new(programs: FilterSet) -> Self {
        Self { programs: Some(programs), drops: true, unfit: None }
    }

    /// As [`Filter::new`], for a pipeline that goes on whatever comes: passes everything while
    /// there are no programs, and drops packets of link types that they are wrong for.
    #[must_use]
    pub fn optional(programs: Option<FilterSet>) -> Self {
        Self { programs, drops: true, unfit: Some(Vec::new()) }
    }

    /// Sets verdicts only.
    #[must_use]
    pub fn judge_only(programs: FilterSet) -> Self {
        Self { programs: Some(programs), drops: false, unfit: None }
    }

    /// Sets verdicts. Takes out packets without one, and returns how many.
    fn judge(&mut self, batch: &mut Batch) -> Result<usize, FilterError> {
        let Some(programs) = &mut self.programs else { return Ok(0) };
        let Some(unfit) = &mut self.unfit else { return programs.run_batch(batch).map(|()| 0) };
        let before = batch.live().count();
        loop {
            if !unfit.is_empty() {
                for i in batch.live().iter() {
                    if unfit.contains(&batch.interface(i).link) {
                        batch.drop_packet(i);
                    }
                }
            }
            match programs.run_batch(batch) {
                Err(FilterError { link, error: SetError::Expression(_), .. }) => unfit.push(link),
                outcome => return outcome.map(|()| before - batch.live().count()),
            }
        }
    }
}

impl Stage for Filter {
    fn name(&self) -> &'static str {
        "filter"
    }

    fn drop_names(&self) -> &'static [&'static str] {
        if self.unfit.is_some() { &["no_match", "wrong_link_type"] } else { &["no_match"] }
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        if self.programs.is_none() {
            out.emit(batch);
            return Ok(());
        }
        let unfit = self.judge(&mut batch)?;
        if unfit > 0 {
            out.dropped(1, unfit as u64);
        }
        if self.drops {
            let before = batch.live().count();
            let accepted = LiveMask::nonzero(&batch.verdict);
            batch.retain(&accepted);
            let left = batch.live().count();
            out.dropped(0, (before - left) as u64);
            // The stages behind this one need not look for those few among all others.
            if left * MOSTLY < before {
                batch.compact_indices();
            }
        }
        out.emit(batch);
        Ok(())
    }

    fn reload(&mut self, settings: &Settings) {
        if let Some(programs) = settings.get::<Option<FilterSet>>() {
            self.programs.clone_from(programs);
            self.unfit.iter_mut().for_each(Vec::clear);
        }
    }
}
