//! What a port is to the rest of the program: a place batches come from or go
//! to. Capture files implement it here; a live interface may later.

use forebay_packet::{Batch, LiveMask};

use crate::error::Error;

/// Where packets come from.
pub trait Rx {
    /// The next batch, never an empty one; nothing once the source has ended.
    ///
    /// # Errors
    /// What is wrong with the source. Every packet before the fault was given
    /// out by earlier calls; calls after the error return nothing.
    fn receive(&mut self) -> Result<Option<Batch>, Error>;
}

/// Where packets go.
pub trait Tx {
    /// Sends the packets of `batch` that are live and in `which`, in order.
    ///
    /// # Errors
    /// Why they could not be sent. How many were sent before is not known.
    fn send(&mut self, batch: &Batch, which: &LiveMask) -> Result<(), Error>;
}
