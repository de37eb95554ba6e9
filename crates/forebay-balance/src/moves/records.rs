//! The sensors of keys of moving buckets.
//!
//! One word for each key, in sets of eight words (one cache line); a key may be in two
//! sets. The table never grows: if both sets are full the key is not recorded, and the
//! caller cancels the move.
//!
//! | bits | meaning |
//! |---|---|
//! | 0–2 | state of the connection, 0 for no record |
//! | 3–11 | when the key was last seen, in ticks modulo 512 |
//! | 12–21 | the sensor of the key |
//! | 22–63 | the upper bits of the hash, beginning with the bucket |
//!
//! A key is identified by its hash alone; the set gives at least nine more bits than the
//! word. That suffices, because confusing two keys tears neither: both stay at one sensor
//! while either is alive. It happens to two given keys of a bucket with a probability of
//! 2⁻³⁵ or less, and the hash is keyed, so it cannot be provoked.
//!
//! Every change is one compare-and-swap of one word, so any number of workers and the
//! balancer may use the table concurrently, and a key whose packets arrive at several
//! workers, as those of a source address do, has one record. Two workers that record one
//! key at the same time try the same free word, and the one that fails finds the other's
//! record; this holds as long as no word of the two sets is freed at that moment, which the
//! caller of a sweep must ensure.
//!
//! A tick is a 32nd of the hold time. A key is idle when it was last seen more than 32
//! ticks before, so after the hold time and at most a 16th more. Ages beyond half of 512
//! ticks read as negative and the key as just seen: it is kept longer, which is always
//! safe.

use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a set.
const WAYS: usize = 8;

const STATE_MASK: u64 = 0b111;
const TICK_SHIFT: u32 = 3;
const TICK_BITS: u32 = 9;
const TICK_MASK: u64 = (1 << TICK_BITS) - 1;
const SENSOR_SHIFT: u32 = TICK_SHIFT + TICK_BITS;
const SENSOR_MASK: u64 = 0x3ff;
const TAG_SHIFT: u32 = SENSOR_SHIFT + 10;
const TAG_MASK: u64 = u64::MAX << TAG_SHIFT;

/// Ticks of the hold time.
const HOLD_TICKS: u64 = 32;

/// The clock of the records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickClock {
    /// Nanoseconds of a tick.
    tick: u64,
}

impl TickClock {
    /// A clock for records that are kept for `hold` nanoseconds.
    pub(crate) fn new(hold: u64) -> Self {
        Self { tick: hold.div_ceil(HOLD_TICKS).max(1) }
    }

    /// The tick of the time `now`, in nanoseconds.
    pub(crate) fn at(self, now: u64) -> Tick {
        Tick((now / self.tick) & TICK_MASK)
    }
}

/// A time in ticks, modulo 512.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Tick(u64);

/// The state of a connection, as far as its packets show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    Open,
    /// The low end has sent a FIN.
    LowClosed,
    /// The high end has sent a FIN.
    HighClosed,
    /// Both have, or one sent a RST.
    Ended,
}

/// The record of a key, as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record(u64);

impl Record {
    fn new(hash: u64, sensor: u16, tick: Tick, state: ConnectionState) -> Self {
        Self(hash & TAG_MASK).with_sensor(sensor).seen(tick, state)
    }

    pub(crate) fn bucket(self) -> u16 {
        crate::assign::bucket_of(self.0)
    }

    pub(crate) fn sensor(self) -> u16 {
        (self.0 >> SENSOR_SHIFT & SENSOR_MASK) as u16
    }

    pub(crate) fn state(self) -> ConnectionState {
        match self.0 & STATE_MASK {
            2 => ConnectionState::LowClosed,
            3 => ConnectionState::HighClosed,
            4 => ConnectionState::Ended,
            _ => ConnectionState::Open,
        }
    }

    pub(crate) fn with_sensor(self, sensor: u16) -> Self {
        let cleared = self.0 & !(SENSOR_MASK << SENSOR_SHIFT);
        Self(cleared | (u64::from(sensor) & SENSOR_MASK) << SENSOR_SHIFT)
    }

    pub(crate) fn with_state(self, state: ConnectionState) -> Self {
        let state = match state {
            ConnectionState::Open => 1,
            ConnectionState::LowClosed => 2,
            ConnectionState::HighClosed => 3,
            ConnectionState::Ended => 4,
        };
        Self(self.0 & !STATE_MASK | state)
    }

    pub(crate) fn seen(self, tick: Tick, state: ConnectionState) -> Self {
        Self(self.0 & !(TICK_MASK << TICK_SHIFT) | tick.0 << TICK_SHIFT).with_state(state)
    }

    /// Whether the key was last seen before `now`.
    pub(crate) fn is_before(self, now: Tick) -> bool {
        (1..=TICK_MASK / 2).contains(&self.age(now))
    }

    fn age(self, now: Tick) -> u64 {
        now.0.wrapping_sub(self.0 >> TICK_SHIFT) & TICK_MASK
    }

    /// Whether the key was not seen for the hold time before `now`.
    pub(crate) fn is_idle(self, now: Tick) -> bool {
        // The tick in which it was seen does not count: it may have been seen at the tick's
        // end.
        (HOLD_TICKS + 1..=TICK_MASK / 2).contains(&self.age(now))
    }
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Set([AtomicU64; WAYS]);

/// The slot of a record, and the record read there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    word: &'a AtomicU64,
    pub(crate) record: Record,
}

impl Found<'_> {
    /// Replaces the record by `new`, or removes it.
    ///
    /// # Errors
    /// If the record changed meanwhile: find it again.
    pub(crate) fn replace(self, new: Option<Record>) -> Result<(), Changed> {
        let new = new.map_or(0, |record| record.0);
        self.word
            .compare_exchange(self.record.0, new, Ordering::Relaxed, Ordering::Relaxed)
            .map(drop)
            .map_err(|_| Changed)
    }
}

/// Another thread changed the record meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changed;

/// The result of recording a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Inserted<'a> {
    Now,
    /// Another worker recorded it first.
    Before(Found<'a>),
    /// Both sets are full.
    Full,
}

/// The records of a group.
#[derive(Debug)]
pub(crate) struct Records {
    sets: Box<[Set]>,
    mask: u64,
}

impl Records {
    /// Room for `capacity` records or somewhat more: rounded up to a power of two from
    /// 8,192, because the slot of a record is part of its key, to 2²⁵.
    pub(crate) fn new(capacity: usize) -> Self {
        let sets = capacity.div_ceil(WAYS).clamp(1 << 10, 1 << TAG_SHIFT).next_power_of_two();
        Self { sets: (0..sets).map(|_| Set::default()).collect(), mask: sets as u64 - 1 }
    }

    /// The most records.
    pub(crate) fn capacity(&self) -> usize {
        self.sets.len() * WAYS
    }

    /// The two sets of a key.
    fn sets_of(&self, hash: u64) -> [&Set; 2] {
        let first = hash & self.mask;
        // An odd step, so that the second set differs.
        let step = (hash >> TAG_SHIFT).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 | 1;
        let second = first ^ (step & self.mask);
        [first, second].map(|set| &self.sets[set as usize])
    }

    /// The record of a key.
    pub(crate) fn find(&self, hash: u64) -> Option<Found<'_>> {
        self.probe(hash).0
    }

    /// The record of a key, or the first free word for it.
    ///
    /// Each word is read once. A word that another worker fills with the key meanwhile is
    /// either seen as its record, or is the free word that both try to take.
    fn probe(&self, hash: u64) -> (Option<Found<'_>>, Option<&AtomicU64>) {
        let mut free = None;
        for word in self.sets_of(hash).into_iter().flat_map(|set| &set.0) {
            let value = word.load(Ordering::Relaxed);
            if value == 0 {
                free = free.or(Some(word));
            } else if (value ^ hash) & TAG_MASK == 0 {
                return (Some(Found { word, record: Record(value) }), None);
            }
        }
        (None, free)
    }

    /// Records a key that was not found, unless another worker just did.
    pub(crate) fn insert(&self, hash: u64, sensor: u16, tick: Tick) -> Inserted<'_> {
        let record = Record::new(hash, sensor, tick, ConnectionState::Open);
        loop {
            let free = match self.probe(hash) {
                (Some(found), _) => return Inserted::Before(found),
                (None, None) => return Inserted::Full,
                (None, Some(free)) => free,
            };
            let filled = free.compare_exchange(0, record.0, Ordering::Relaxed, Ordering::Relaxed);
            if filled.is_ok() {
                return Inserted::Now;
            }
        }
    }

    /// Calls `keep` for each record, and removes those for which it returns false. A record
    /// that changes at that moment is visited again.
    pub(crate) fn sweep(&self, keep: &mut dyn FnMut(Record) -> bool) {
        for word in self.sets.iter().flat_map(|set| &set.0) {
            loop {
                let value = word.load(Ordering::Relaxed);
                if value == 0 {
                    break;
                }
                let found = Found { word, record: Record(value) };
                if keep(found.record) || found.replace(None).is_ok() {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use forebay_packet::{HashKey, siphash13};
    use proptest::prelude::*;

    fn hash(i: u64) -> u64 {
        siphash13(&HashKey([3, 4]), &[i])
    }

    proptest! {
        #[test]
        fn a_record_gives_back_what_went_in(hash: u64, sensor in 0_u16..1024, now: u64) {
            let clock = TickClock::new(2_000_000_000);
            for state in [ConnectionState::Open, ConnectionState::LowClosed, ConnectionState::HighClosed, ConnectionState::Ended] {
                let record = Record::new(hash, sensor, clock.at(now), state);
                prop_assert_eq!(record.bucket(), crate::assign::bucket_of(hash));
                prop_assert_eq!((record.sensor(), record.state()), (sensor, state));
                prop_assert_eq!(record.with_sensor(7).sensor(), 7);
                prop_assert_ne!(record.0, 0);
            }
        }

        #[test]
        fn a_key_is_idle_after_the_hold_time_and_not_before(
            seen in 0_u64..1 << 60, hold in 1_000_000_u64..600_000_000_000, part in 0.0_f64..1.0,
        ) {
            let clock = TickClock::new(hold);
            let record = Record::new(5, 1, clock.at(seen), ConnectionState::Open);
            let within = seen + (hold as f64 * part) as u64;
            prop_assert!(!record.is_idle(clock.at(within)));
            prop_assert!(!record.is_idle(clock.at(seen.saturating_sub(hold))), "clock went back");
            let after = seen + hold + hold / 14 + (5.0 * hold as f64 * part) as u64;
            prop_assert!(record.is_idle(clock.at(after)));
        }

        #[test]
        fn the_table_is_a_map(keys in prop::collection::vec(0_u64..400, 0..300)) {
            let records = Records::new(4096);
            let mut model: HashMap<u64, u16> = HashMap::new();
            for (i, &key) in keys.iter().enumerate() {
                let sensor = i as u16 % 5;
                match (records.find(hash(key)), model.get(&key)) {
                    (Some(found), Some(&known)) => {
                        prop_assert_eq!(found.record.sensor(), known);
                        prop_assert_eq!(found.replace(None), Ok(()));
                        prop_assert_eq!(found.replace(None), Err(Changed));
                        model.remove(&key);
                    }
                    (None, None) => {
                        let inserted = records.insert(hash(key), sensor, Tick(1));
                        prop_assert!(matches!(inserted, Inserted::Now));
                        let again = records.insert(hash(key), sensor + 1, Tick(1));
                        prop_assert!(matches!(again, Inserted::Before(f) if f.record.sensor() == sensor));
                        model.insert(key, sensor);
                    }
                    (found, known) => prop_assert!(false, "{:?} for {:?}", found, known),
                }
            }
            let mut seen = 0;
            records.sweep(&mut |record| { seen += 1; record.sensor() == 0 });
            prop_assert_eq!(seen, model.len());
            let left = model.iter().filter(|(key, _)| records.find(hash(**key)).is_some());
            prop_assert!(left.clone().all(|(_, &sensor)| sensor == 0));
            prop_assert_eq!(left.count(), model.values().filter(|&&sensor| sensor == 0).count());
        }
    }

    #[test]
    fn the_table_fills_to_half_with_few_refusals_and_never_beyond_its_capacity() {
        let records = Records::new(1 << 14);
        let mut refused = 0;
        for i in 0..1 << 13 {
            refused += u32::from(matches!(records.insert(hash(i), 1, Tick(0)), Inserted::Full));
        }
        assert!(refused < 1 << 6, "{refused}");
        for i in 1 << 13..1 << 18 {
            records.insert(hash(i), 1, Tick(0));
        }
        let mut count = 0;
        records.sweep(&mut |_| {
            count += 1;
            true
        });
        assert!(count <= records.capacity());
    }

    #[test]
    fn workers_that_record_one_key_at_once_agree() {
        let records = Records::new(4096);
        for key in 0..3000 {
            let answers: Vec<u16> = std::thread::scope(|scope| {
                let workers: Vec<_> = (0..2)
                    .map(|worker| {
                        let records = &records;
                        scope.spawn(move || match records.insert(hash(key), worker, Tick(0)) {
                            Inserted::Now => worker,
                            Inserted::Before(found) => found.record.sensor(),
                            Inserted::Full => unreachable!("3,000 of 4,096"),
                        })
                    })
                    .collect();
                workers.into_iter().map(|worker| worker.join().unwrap()).collect()
            });
            assert_eq!(answers[0], answers[1]);
        }
    }
}
