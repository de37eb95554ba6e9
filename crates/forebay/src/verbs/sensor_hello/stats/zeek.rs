//! Zeek's stats.log: a line each interval and process, with the packets dropped in it.

use serde_json::Value;

/// The column of the log.
const DROPPED: &str = "pkts_dropped";

/// Where in a line of tab-separated values the number is.
#[derive(Debug, Default)]
pub struct Columns {
    dropped: Option<usize>,
}

impl Columns {
    /// Packets dropped in the interval of a line, if it says so. Takes note of a header.
    pub fn dropped(&mut self, line: &[u8]) -> Option<u64> {
        let line = std::str::from_utf8(line).ok()?.trim_end_matches('\r');
        if let Some(header) = line.strip_prefix('#') {
            if let Some(fields) = header.strip_prefix("fields\t") {
                self.dropped = fields.split('\t').position(|field| field == DROPPED);
            }
            return None;
        }
        if line.starts_with('{') {
            return serde_json::from_str::<Value>(line).ok()?[DROPPED].as_u64();
        }
        line.split('\t').nth(self.dropped?)?.parse().ok()
    }
}
