//! A bucket's entry in the table: one word of 32 bits, the same that workers in
//! user space go by (`forebay_balance::Entry::to_bits`).
//!
//! | bits | meaning |
//! |---|---|
//! | 0–10 | where keys go that are not on record, [`NO_SENSOR`] for nowhere |
//! | 11–21 | the other sensor of a move |
//! | 22 | [`RECORD`] |
//! | 23 | [`TURNED`] |
//! | 24 | [`CANCELLED`] |
//! | 30 | packets are watched, which means nothing here |
//! | 31 | [`LOOK_UP`] |
//!
//! And what is known of a key on record, a word of 64 bits: whether there is a record
//! and which ends of its connection are closed (bits 0–2), its sensor (bits 4–14), and
//! when it was last seen (bits 16–63, see [`Record::seen`]).

use crate::sys::layout::{
    self, HIGH_CLOSED, LOW_CLOSED, ON_RECORD, RECORD_SENSOR, RECORD_TIME, TIME_UNIT,
};

/// In the place of a sensor: there is none.
pub const NO_SENSOR: u16 = SENSOR_MASK as u16;

/// The bits that are a sensor.
pub(super) const SENSOR_MASK: u32 = layout::SENSOR_MASK as u32;
/// Where the other sensor of a move is.
pub const OTHER_SHIFT: u32 = layout::OTHER_SHIFT as u32;

/// Keys that are not on record are put there.
pub const RECORD: u32 = layout::RECORD as u32;
/// New keys go to the target of the move already.
pub const TURNED: u32 = layout::TURNED as u32;
/// The program could not put a key on record: the move is off.
pub const CANCELLED: u32 = layout::CANCELLED as u32;
/// The bucket moves: keys are looked up.
pub const LOOK_UP: u32 = layout::LOOK_UP as u32;

/// A key of a moving bucket on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key's hash.
    pub hash: u64,
    pub(super) word: u64,
}

impl Record {
    /// The bucket of the key.
    #[must_use]
    pub fn bucket(self) -> u16 {
        (self.hash >> 48) as u16
    }

    /// The sensor that it stays at.
    #[must_use]
    pub fn sensor(self) -> u16 {
        (self.word >> RECORD_SENSOR) as u16 & SENSOR_MASK as u16
    }

    /// When it was last seen, or up to 1.05 ms later: nanoseconds of the monotonic
    /// clock.
    #[must_use]
    pub fn seen(self) -> u64 {
        ((self.word >> RECORD_TIME) + 1) << TIME_UNIT
    }

    /// Whether its connection has ended: by a FIN of both ends, or a RST.
    #[must_use]
    pub fn has_ended(self) -> bool {
        let ended = LOW_CLOSED | HIGH_CLOSED;
        self.word & ended == ended
    }

    /// Whether it is a record still, and not what is left of one.
    pub(super) fn counts(self) -> bool {
        self.word & ON_RECORD != 0
    }
}
