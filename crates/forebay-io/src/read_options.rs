//! Options of readers.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Default block length. Blocks in flight should fit the cache shared by the reading thread
/// and the parser, and still hold a few hundred packets, so that batches are full.
pub const DEFAULT_BLOCK_LEN: usize = 256 << 10;

/// Default limit of the zstd window: the size that RFC 8878 section 3.1.1.1.2 recommends
/// every decoder to support.
pub const DEFAULT_ZSTD_WINDOW: u64 = 8 << 20;

/// Default limit of a record. Packets of one link type, D-Bus, may be longer.
pub const DEFAULT_LONGEST_RECORD: u64 = 16 << 20;

/// Options of a reader.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Bytes read at a time, clamped to 64 bytes to 256 MiB.
    pub block_len: usize,
    /// Cut packets to the capture's snap length, as libpcap does. Otherwise a packet that
    /// was stored longer is kept whole.
    pub clamp_to_snap_len: bool,
    /// When set, reading ends with an error, also a wait for a pipe or terminal without
    /// data.
    pub stop: Option<Arc<AtomicBool>>,
    /// The largest window of zstd in bytes, from 1 KiB to 2 GiB, rounded down to a power of
    /// two: decompressing takes this much memory.
    pub zstd_window: u64,
    /// The longest record in bytes, at least 256 KiB: reading takes about twice as much
    /// memory.
    pub longest_record: u64,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            block_len: DEFAULT_BLOCK_LEN,
            clamp_to_snap_len: false,
            stop: None,
            zstd_window: DEFAULT_ZSTD_WINDOW,
            longest_record: DEFAULT_LONGEST_RECORD,
        }
    }
}
