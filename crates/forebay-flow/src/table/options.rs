//! The properties of a table, why there is none, and what a table reports.

use std::io;

use forebay_packet::HashKey;

use crate::key::ShortKey;
use crate::level::Level;

/// The longest lifetime in epochs.
pub const MAX_LIFETIME: u8 = 48;

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// More flows than slots have numbers, or none.
    #[error("{flows} flows: expected 1 to {MAX_FLOWS}")]
    Flows {
        /// What was asked for.
        flows: usize,
    },
    /// A lifetime out of bounds.
    #[error("a lifetime of {epochs} epochs: expected 1 to {MAX_LIFETIME}")]
    Lifetime {
        /// What was asked for.
        epochs: u8,
    },
    /// A level that this machine does not have.
    #[error("this machine does not have the instructions of {0:?}")]
    Level(Level),
    /// The system has no memory for it.
    #[error("no memory for a table of {flows} flows")]
    Memory {
        /// What was asked for.
        flows: usize,
        /// The system's error.
        source: io::Error,
    },
}

/// The most flows of a table.
pub const MAX_FLOWS: usize = 1 << 30;

/// The properties of a table.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Flows that take 80% of the entries. There is room for 95% with none evicted.
    pub flows: usize,
    /// Epochs of silence that end a flow, 1 to [`MAX_LIFETIME`].
    pub lifetime: u8,
    /// The secret of the hash.
    pub key: HashKey,
    /// The instructions used.
    pub level: Level,
}

/// Why a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was silent for the lifetime.
    Idle,
    /// Its place was needed.
    Evicted,
}

/// A flow that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended<K = ShortKey, S = u16> {
    /// The flow.
    pub key: K,
    /// Its state.
    pub state: S,
    /// Why it ended.
    pub reason: Reason,
}

/// How long a flow stays after a packet if no other comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// The table's lifetime.
    Lifetime,
    /// So many epochs, at most the lifetime: a TCP connection was closed or reset.
    Epochs(u8),
}

impl From<()> for Stay {
    fn from((): ()) -> Self {
        Self::Lifetime
    }
}

/// What operations did: for tests of their bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// New flows whose first bucket was full.
    pub second: u64,
    /// Buckets read in search of a free entry, by the insertion that read most.
    pub most_searched: usize,
    /// Buckets read in search of a free entry, by all insertions.
    pub searched: u64,
    /// Entries moved, by the insertion that moved most.
    pub most_moved: usize,
    /// Entries moved by all insertions.
    pub moved: u64,
    /// Flows that ended because their place was needed.
    pub evicted: u64,
    /// Flows that were moved to other memory.
    pub migrated: u64,
}
