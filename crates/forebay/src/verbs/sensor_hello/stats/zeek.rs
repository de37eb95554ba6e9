//! Zeek's stats.log: a line for each interval and process, with the packets dropped in it.
//!
//! The first interval of a process that existed before began before this process, and does
//! not count.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use serde_json::Value;

/// The columns of the log: the process, and what it dropped.
const PEER: &str = "peer";
const DROPPED: &str = "pkts_dropped";

/// The most processes tracked. Of further ones all intervals count.
const PEERS: usize = 4096;

/// Reads the intervals of a log.
#[derive(Debug, Default)]
pub struct Intervals {
    /// Columns of process and number in tab-separated values.
    peer: Option<usize>,
    dropped: Option<usize>,
    /// Hashes of the processes seen.
    known: HashSet<u64>,
    hasher: RandomState,
}

impl Intervals {
    /// Packets dropped in the interval of a line, if it has them and counts. `is_later` if
    /// the log began after this process. Parses headers.
    pub fn dropped(&mut self, line: &[u8], is_later: bool) -> Option<u64> {
        let line = std::str::from_utf8(line).ok()?.trim_end_matches('\r');
        if let Some(header) = line.strip_prefix('#') {
            if let Some(fields) = header.strip_prefix("fields\t") {
                let place = |name: &str| fields.split('\t').position(|field| field == name);
                (self.peer, self.dropped) = (place(PEER), place(DROPPED));
            }
            return None;
        }
        let (peer, dropped) = if line.starts_with('{') {
            let line: Value = serde_json::from_str(line).ok()?;
            (self.hasher.hash_one(line[PEER].as_str()), line[DROPPED].as_u64()?)
        } else {
            let column = |at: usize| line.split('\t').nth(at);
            let peer = self.peer.and_then(column);
            (self.hasher.hash_one(peer), column(self.dropped?)?.parse().ok()?)
        };
        let is_first = self.known.len() < PEERS && self.known.insert(peer);
        (is_later || !is_first).then_some(dropped)
    }
}
