//! How many packets a batch has.

/// The most packets of a batch.
pub const BATCH: usize = 256;
