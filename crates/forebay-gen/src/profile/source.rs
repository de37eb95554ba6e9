//! What the generator needs of a kind of traffic.

use crate::headers::Frame;

/// A source of packets in order of time.
pub trait Source: std::fmt::Debug + Send {
    /// Builds the next packet in `frame` and returns its time in nanoseconds since the
    /// epoch, not before that of the previous packet; `None` after the last packet.
    fn next(&mut self, frame: &mut Frame) -> Option<u64>;
}

/// Start of captures: 1 July 2024, 00:00 UTC, in nanoseconds.
pub const EPOCH: u64 = 1_719_792_000 * 1_000_000_000;
