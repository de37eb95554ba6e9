//! Which headers, and how many a call.

use std::fmt;

use forebay_packet::BATCH;

/// What a row was measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Set {
    /// Headers that fit into the second level of the cache.
    Cache,
    /// The same, many a call.
    CacheWide,
    /// A million.
    Memory,
    /// The same, many a call.
    MemoryWide,
    /// ClassBench's trace.
    Trace,
}

impl Set {
    /// Packets a call.
    pub fn batch(self) -> usize {
        match self {
            Self::CacheWide | Self::MemoryWide => 4_096,
            Self::Cache | Self::Memory | Self::Trace => BATCH,
        }
    }

    /// Whether a round goes in slices.
    pub fn is_sliced(self) -> bool {
        matches!(self, Self::Memory | Self::MemoryWide)
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cache => "cache",
            Self::CacheWide => "cache-4096",
            Self::Memory => "memory",
            Self::MemoryWide => "memory-4096",
            Self::Trace => "trace",
        })
    }
}
