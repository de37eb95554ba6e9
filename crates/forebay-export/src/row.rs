//! A record with names.

use forebay_flow::FlowRecord;
use forebay_packet::community_id;

use crate::naming::{self, End};

/// TCP's control bits by the letters of other tools, the lowest first.
const TCP_FLAGS: [char; 8] = ['F', 'S', 'R', 'P', 'A', 'U', 'E', 'C'];

/// Where a broker's record is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The group whose packets it counts.
    pub group: &'a str,
    /// The sensor that got the flow's first packet; none if no sensor did.
    pub sensor: Option<&'a str>,
}

/// A record as written. Rows are made one by one while they are written: a row as text takes
/// several times the memory of its record.
pub struct Row<'a> {
    /// The Community ID, for flows that have one.
    pub community_id: Option<String>,
    /// The protocol.
    pub proto: String,
    /// The end that sent the first packet, and the other.
    pub ends: [End; 2],
    /// The record.
    pub record: &'a FlowRecord,
    /// Of a broker's records.
    pub origin: Option<Origin<'a>>,
}

impl<'a> Row<'a> {
    /// A record with names; `seed` is that of the Community ID.
    #[must_use]
    pub fn new(record: &'a FlowRecord, seed: u16, origin: Option<Origin<'a>>) -> Self {
        Self {
            community_id: community_id(&record.key, seed),
            proto: naming::protocol(&record.key),
            ends: naming::both_ends(&record.key, record.a_is_high()),
            record,
            origin,
        }
    }

    /// TCP's control bits that were set in packets from `a`, and to it.
    pub(crate) fn tcp_flags(&self) -> [String; 2] {
        self.record.tcp_flags.map(|flags| {
            let is_set = |(bit, letter): (usize, &char)| (flags >> bit & 1 != 0).then_some(*letter);
            TCP_FLAGS.iter().enumerate().filter_map(is_set).collect()
        })
    }

    /// The verdict of a scan: `suspect` if something was found in the flow, or may have been missed.
    pub(crate) fn scan(&self) -> Option<&'static str> {
        self.record.is_suspect().then_some("suspect")
    }

    pub(crate) fn ended(&self) -> Option<&'static str> {
        self.record.ended.map(|reason| reason.name())
    }
}
