//! The bucket table shared by workers and balancer.
//!
//! A worker needs only one 32-bit entry for each bucket, so one relaxed load a packet
//! decides, and no packet sees half of a change. Nearly every entry is settled: it is then
//! the index of a sensor. The entry of a moving bucket has a high bit set, for which the
//! worker looks up the records of keys ([`crate::moves`]).
//!
//! | bits | meaning |
//! |---|---|
//! | 0–10 | the sensor of keys that are not on record, [`NO_SENSOR`] for none |
//! | 11–21 | the other sensor of the move |
//! | 22 | record keys that are not on record |
//! | 23 | new keys already go to the target |
//! | 24 | cancelled by a worker that could not record a key |
//! | 30 | the packets of the bucket are watched |
//! | 31 | look up the key |

use std::sync::atomic::{AtomicU32, Ordering};

use crate::assign::{Assignment, BUCKETS};

/// Instead of a sensor: none.
pub const NO_SENSOR: u16 = SENSOR_MASK as u16;

const SENSOR_BITS: u32 = 11;
const SENSOR_MASK: u32 = (1 << SENSOR_BITS) - 1;
const RECORD: u32 = 1 << 22;
const TURNED: u32 = 1 << 23;
const CANCELLED: u32 = 1 << 24;
const WATCHED: u32 = 1 << 30;
const LOOK_UP: u32 = 1 << 31;

/// The phase of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Every key goes to one sensor.
    Settled,
    /// Every key goes to the old sensor and is recorded.
    Learning,
    /// Keys on record go to their recorded sensor, others to the new sensor; these are
    /// recorded too, until every worker has seen that learning is over.
    Turning,
    /// Keys on record go to their recorded sensor, others to the new sensor.
    Moving,
    /// A key could not be recorded: keys on record go to their recorded sensor, others to
    /// the old sensor.
    Cancelled,
}

/// The table entry of one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(u32);

impl Entry {
    /// All keys go to `sensor`.
    #[must_use]
    pub fn settled(sensor: u16) -> Self {
        Self(u32::from(sensor) & SENSOR_MASK)
    }

    /// A move `from` one sensor `to` another that is in `phase`; only `to` is used if the
    /// phase is [`Phase::Settled`].
    #[must_use]
    pub fn of_move(phase: Phase, from: u16, to: u16) -> Self {
        let (default, other, flags) = match phase {
            Phase::Settled => return Self::settled(to),
            Phase::Learning => (from, to, LOOK_UP | RECORD),
            Phase::Turning => (to, from, LOOK_UP | RECORD | TURNED),
            Phase::Moving => (to, from, LOOK_UP | TURNED),
            Phase::Cancelled => (from, to, LOOK_UP | CANCELLED),
        };
        let sensors =
            u32::from(default) & SENSOR_MASK | (u32::from(other) & SENSOR_MASK) << SENSOR_BITS;
        Self(sensors | flags)
    }

    /// The phase of the bucket.
    #[must_use]
    pub fn phase(self) -> Phase {
        if self.0 & LOOK_UP == 0 {
            Phase::Settled
        } else if self.0 & CANCELLED != 0 {
            Phase::Cancelled
        } else {
            match (self.records(), self.0 & TURNED != 0) {
                (true, false) => Phase::Learning,
                (true, true) => Phase::Turning,
                (false, _) => Phase::Moving,
            }
        }
    }

    /// The sensor of keys that are not on record.
    #[inline]
    #[must_use]
    pub fn default_sensor(self) -> u16 {
        (self.0 & SENSOR_MASK) as u16
    }

    /// The sensor that the bucket moves from; its only sensor if it does not move.
    #[must_use]
    pub fn from(self) -> u16 {
        if self.0 & TURNED != 0 { self.other() } else { self.default_sensor() }
    }

    /// The sensor of the bucket after its move.
    #[must_use]
    pub fn destination(self) -> u16 {
        if self.phase() == Phase::Learning { self.other() } else { self.default_sensor() }
    }

    /// Whether the packets of the bucket are watched.
    #[inline]
    #[must_use]
    pub fn is_watched(self) -> bool {
        self.0 & WATCHED != 0
    }

    /// This entry with its watched bit set or cleared.
    #[must_use]
    pub fn with_watch(self, watched: bool) -> Self {
        Self(if watched { self.0 | WATCHED } else { self.0 & !WATCHED })
    }

    /// Whether the sensor of a packet depends on its key.
    #[inline]
    #[must_use]
    pub fn looks_up(self) -> bool {
        self.0 & LOOK_UP != 0
    }

    /// Whether keys that are not on record are recorded.
    #[inline]
    pub(crate) fn records(self) -> bool {
        self.0 & RECORD != 0
    }

    /// Whether the entry has bits other than the sensor.
    #[inline]
    pub(crate) fn is_special(self) -> bool {
        self.0 & (LOOK_UP | WATCHED) != 0
    }

    /// The cancelled form of a move that records.
    pub(crate) fn cancelled(self) -> Self {
        let flags = self.0 & WATCHED;
        Self(Self::of_move(Phase::Cancelled, self.from(), self.target()).0 | flags)
    }

    /// The target of the current or cancelled move.
    pub(crate) fn target(self) -> u16 {
        if self.0 & TURNED != 0 { self.default_sensor() } else { self.other() }
    }

    fn other(self) -> u16 {
        (self.0 >> SENSOR_BITS & SENSOR_MASK) as u16
    }

    /// The entry as stored by other forwarding tables: see the table of the module.
    #[must_use]
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// The entry with these bits.
    #[must_use]
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// The entries of all buckets.
///
/// Relaxed loads and stores are enough: an entry is one word, and callers that must know
/// that every worker has seen a change wait for it ([`crate::moves::Quiescence`]).
#[derive(Debug)]
pub struct BucketTable(Box<[AtomicU32; BUCKETS]>);

impl BucketTable {
    /// Every bucket settled at its sensor in `assignment`.
    #[must_use]
    pub fn new(assignment: &Assignment) -> Self {
        Self::of(|bucket| Entry::settled(assignment.sensor_of_bucket(bucket)))
    }

    /// Every bucket settled without a sensor.
    #[must_use]
    pub fn without_sensors() -> Self {
        Self::of(|_| Entry::settled(NO_SENSOR))
    }

    fn of(entry: impl Fn(u16) -> Entry) -> Self {
        let entries: Box<[AtomicU32]> =
            (0..=u16::MAX).map(|bucket| AtomicU32::new(entry(bucket).0)).collect();
        Self(entries.try_into().expect("as many entries were made as there are buckets"))
    }

    /// The entry of `bucket`.
    #[inline]
    #[must_use]
    pub fn entry(&self, bucket: u16) -> Entry {
        Entry(self.0[usize::from(bucket)].load(Ordering::Relaxed))
    }

    /// Sets the entry of `bucket` to `new` if it is still `current`.
    ///
    /// # Errors
    /// The present entry.
    pub(crate) fn replace(&self, bucket: u16, current: Entry, new: Entry) -> Result<(), Entry> {
        self.0[usize::from(bucket)]
            .compare_exchange(current.0, new.0, Ordering::Relaxed, Ordering::Relaxed)
            .map(drop)
            .map_err(Entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PHASES: [Phase; 4] = [Phase::Learning, Phase::Turning, Phase::Moving, Phase::Cancelled];

    proptest! {
        #[test]
        fn an_entry_gives_back_what_went_in(
            from in 0_u16..1024, to in 0_u16..1024, phase in 0_usize..4, watched: bool,
        ) {
            let entry = Entry::of_move(PHASES[phase], from, to).with_watch(watched);
            prop_assert_eq!(entry.phase(), PHASES[phase]);
            prop_assert_eq!((entry.from(), entry.target()), (from, to));
            prop_assert_eq!(entry.is_watched(), watched);
            prop_assert!(entry.is_special() && entry.looks_up());
            let (stays, lands) = match PHASES[phase] {
                Phase::Learning => (from, to),
                Phase::Cancelled => (from, from),
                _ => (to, to),
            };
            prop_assert_eq!((entry.default_sensor(), entry.destination()), (stays, lands));
            let cancelled = entry.cancelled();
            prop_assert_eq!(cancelled.phase(), Phase::Cancelled);
            prop_assert_eq!((cancelled.from(), cancelled.is_watched()), (from, watched));
        }
    }

    #[test]
    fn a_settled_entry_is_the_index_of_its_sensor() {
        for sensor in [0, 1, 1023, NO_SENSOR] {
            let entry = Entry::settled(sensor);
            assert_eq!(entry.to_bits(), u32::from(sensor));
            assert!(!entry.is_special());
            assert_eq!((entry.from(), entry.destination()), (sensor, sensor));
        }
        assert!(Entry::settled(3).with_watch(true).is_special());
    }

    #[test]
    fn replacing_tells_what_came_between() {
        let table = BucketTable::without_sensors();
        let (a, b) = (Entry::settled(NO_SENSOR), Entry::settled(2));
        assert_eq!(table.replace(7, b, a), Err(a));
        assert_eq!(table.replace(7, a, b), Ok(()));
        assert_eq!((table.entry(7), table.entry(8)), (b, a));
    }
}
