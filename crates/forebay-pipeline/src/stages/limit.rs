//! Lets a number of packets through and then stops the input.

use forebay_packet::Batch;

use crate::stage::{Outbox, Promises, Stage, StageError};

/// Passes the first packets, drops those that were already on their way.
pub struct Limit {
    left: u64,
}

impl Limit {
    /// Lets `packets` through.
    #[must_use]
    pub fn new(packets: u64) -> Self {
        Self { left: packets }
    }
}

impl Stage for Limit {
    fn name(&self) -> &'static str {
        "limit"
    }

    fn drop_names(&self) -> &'static [&'static str] {
        &["past_limit"]
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: false }
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        for i in batch.live().iter() {
            if self.left == 0 {
                batch.drop_packet(i);
                out.dropped(0, 1);
            } else {
                self.left -= 1;
            }
        }
        if self.left == 0 {
            out.stop();
        }
        out.emit(batch);
        Ok(())
    }
}
