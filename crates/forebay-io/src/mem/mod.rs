//! Ports without a device: rings in memory, for tests, for connecting two pipelines, and
//! for measuring a pipeline without the kernel.
//!
//! * [`ring()`] returns the two ends of a bounded ring of slots: [`RingTx`] copies packets
//!   in, [`RingRx`] returns them as batches that lease slots of the ring.
//! * [`Replay`] returns the same batches repeatedly.
//! * [`Sink`] performs all the work of sending, into a ring without a reader.

mod replay;
pub(crate) mod ring;
mod ring_port;
mod sink;

pub use replay::Replay;
pub(crate) use ring_port::next_batch;
pub use ring_port::{RingOptions, RingRx, RingTx, WhenFull, ring};
pub use sink::Sink;
