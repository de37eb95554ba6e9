//! What a scanner tells later stages of packets.

use crate::columns::NO_RECORD;

/// What a scanner says of a packet and of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// The number of the flow with the scanner, or [`NO_RECORD`].
    pub flow: u32,
    /// Tells the flow from others that had its number before.
    pub generation: u32,
    /// Bytes behind the header of TCP or UDP, or all that was scanned; at most 65,535.
    pub payload: u16,
    /// Why the packet must not be withheld, by the scanner's numbering; 0 if it may be.
    pub reason: u8,
    /// The reason is the packet's alone: its flow may be withheld.
    pub is_alone: bool,
    /// Bytes of the flow that were sent have not come so far.
    pub waits: bool,
    /// With this packet the flow has certainly ended, all of it was scanned, and nothing was found.
    pub ends_clean: bool,
}

impl Scanned {
    /// Of a packet that was not scanned, and has no flow.
    pub const NOTHING: Self = Self {
        flow: NO_RECORD,
        generation: 0,
        payload: 0,
        reason: 0,
        is_alone: false,
        waits: false,
        ends_clean: false,
    };
}
