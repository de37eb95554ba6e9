//! Gives every packet its output, by its hash.

use forebay_balance::{Assignment, UnitAssignment};
use forebay_packet::{Batch, PacketMetadata};

use crate::stage::{Outbox, Promises, Setting, Settings, Stage, StageError};

/// A bucket table.
impl Setting for Assignment {}

/// Sets each packet's output.
pub struct Balance {
    assignment: UnitAssignment,
}

impl Balance {
    /// Outputs are the sensors of `assignment`, by index.
    #[must_use]
    pub fn new(assignment: impl Into<UnitAssignment>) -> Self {
        Self { assignment: assignment.into() }
    }
}

impl Stage for Balance {
    fn name(&self) -> &'static str {
        "balance"
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        let metadata: &mut PacketMetadata = &mut batch;
        metadata.output.clear();
        metadata.output.extend(metadata.hash.iter().map(|&hash| self.assignment.sensor_of(hash)));
        out.emit(batch);
        Ok(())
    }

    fn reload(&mut self, settings: &Settings) {
        if let Some(assignment) = settings.get::<Assignment>() {
            self.assignment = assignment.clone().into();
        }
    }
}
