//! Ports without a device: rings in memory, for tests, for joining two pipelines, and for
//! measuring a pipeline without a kernel in the way.
//!
//! * [`ring()`] gives the two ends of a bounded ring of slots: [`RingTx`] copies packets in,
//!   [`RingRx`] gives them out as batches that lie in the ring, on a lease.
//! * [`Replay`] gives out the same batches over and over.
//! * [`Sink`] does all that sending takes, into a ring without a reader.

mod replay;
pub(crate) mod ring;
mod ring_port;
mod sink;

pub use replay::Replay;
pub(crate) use ring_port::next_batch;
pub use ring_port::{RingOptions, RingRx, RingTx, WhenFull, ring};
pub use sink::Sink;
