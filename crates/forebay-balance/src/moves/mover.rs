//! Starts moves and advances them to completion.
//!
//! The mover owns changes of the table; workers change an entry in one way only, from
//! learning or turning to cancelled. It is called periodically ([`Mover::tick`]), does what
//! is due and never waits: changes that every worker must have seen are followed up in a
//! later call. Immediate requests, for a dead sensor or an emergency, are in the table when
//! the call returns, whatever the phase of the bucket.

use std::collections::HashMap;

use super::forwarding::ForwardingTable;
use crate::assign::{BUCKETS, MAX_SENSORS};
use crate::counters::Tally;
use crate::table::{Entry, NO_SENSOR, Phase};

/// Why a move does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotBegun {
    /// The bucket is already at that sensor.
    #[error("the bucket is already at this sensor")]
    There,
    /// The bucket's last move is in a phase that cannot be changed.
    #[error("a move of this bucket is in progress")]
    Busy,
    /// The sensor is dead or does not exist.
    #[error("the sensor is not alive")]
    NotAlive,
    /// The limit of concurrent moves is reached.
    #[error("{0} moves are in progress, the maximum")]
    TooMany(usize),
}

/// A time since which a bucket's counters did not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet {
    /// All packets counted in `tally` are older than this, in nanoseconds.
    pub since: u64,
    /// The value of the bucket's counters.
    pub tally: Tally,
}

/// Counts of moves since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MoveCounts {
    /// Moves that started.
    pub begun: u64,
    /// Moves that reached their target.
    pub completed: u64,
    /// Moves that were cancelled because a key could not be recorded.
    pub cancelled: u64,
    /// Moves that a sensor's death ended, at either sensor.
    pub decided_by_death: u64,
    /// Immediate moves, which tear flows.
    pub emergency: u64,
}

/// The buckets and keys that a sensor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Held {
    /// Buckets whose new keys go to it.
    pub buckets: u32,
    /// Keys on record at it although new keys of their bucket go elsewhere, as of the last
    /// sweep.
    pub keys: u32,
    /// Buckets that learn, to move to it.
    pub arriving: u32,
    /// Buckets whose new keys go elsewhere, and which may still have a key at it.
    pub leaving: u32,
}

/// The state lost by a sensor's death.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SensorDeath {
    /// Buckets whose new keys went there, and their new sensors.
    pub moved: Vec<(u16, u16)>,
    /// Number of keys on record there, by bucket.
    pub keys: HashMap<u16, u32>,
}

/// The stage of a bucket's move. The entry has its sensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Settled, without records.
    Idle,
    /// Learning, seen by every worker from `epoch` on.
    Announced { epoch: u64 },
    /// Every worker learns.
    Learning { until: u64 },
    /// Turning, seen by every worker from `epoch` on.
    Turning { epoch: u64 },
    /// Cancelled or ended, seen by every worker from `epoch` on; until then they may record
    /// keys.
    Unwinding { epoch: u64 },
    /// Waits for the keys on record to end. `back` means back to the old sensor.
    Moving { back: bool },
    /// Settled; from `epoch` on no worker records keys, and the remaining records have no
    /// effect.
    Clearing { epoch: u64 },
}

/// A dead sensor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dead {
    pub sensor: u16,
    /// From this epoch on, no worker records a key there.
    pub epoch: u64,
    /// Whether the records were swept since.
    pub swept: bool,
}

/// Starts moves and advances them.
#[derive(Debug)]
pub struct Mover<P> {
    pub(super) forwarding: P,
    /// Nanoseconds that a key stays on record after its last packet.
    pub(super) hold: u64,
    most: usize,
    pub(super) stages: Vec<Stage>,
    /// Buckets whose stage is not idle.
    pub(super) active: Vec<u16>,
    pub(super) quiet: HashMap<u16, Quiet>,
    pub(super) dead: Vec<Dead>,
    pub(super) counts: MoveCounts,
    /// By bucket: keys on record with another sensor than the bucket's new keys.
    pub(super) pinned: Vec<u32>,
    /// The same by sensor.
    pub(super) pinned_at: Vec<u32>,
    pub(super) swept_at: Option<u64>,
    /// The epoch since the last sweep, until a bucket turns after it.
    pub(super) swept: Option<u64>,
}

impl<P: ForwardingTable> Mover<P> {
    /// A mover of `forwarding`, whose buckets are all settled, with at most `most`
    /// concurrent moves, and with keys that stay on record for `hold` nanoseconds.
    pub fn new(forwarding: P, hold: u64, most: usize) -> Self {
        Self {
            forwarding,
            hold,
            most,
            stages: vec![Stage::Idle; BUCKETS],
            active: Vec::new(),
            quiet: HashMap::new(),
            dead: Vec::new(),
            counts: MoveCounts::default(),
            pinned: vec![0; BUCKETS],
            pinned_at: vec![0; MAX_SENSORS],
            swept_at: None,
            swept: None,
        }
    }

    /// The forwarding table.
    pub fn forwarding(&self) -> &P {
        &self.forwarding
    }

    /// Counts of moves so far.
    pub fn counts(&self) -> MoveCounts {
        self.counts
    }

    /// The buckets that are not settled.
    pub fn moves(&self) -> impl Iterator<Item = (u16, Entry)> {
        let entries = self.active.iter().map(|&bucket| (bucket, self.forwarding.entry(bucket)));
        entries.filter(|(_, entry)| entry.phase() != Phase::Settled)
    }

    /// The number of moves that may start before the limit is reached.
    pub fn room(&self) -> usize {
        self.most.saturating_sub(self.active.len())
    }

    /// Keys on record with another sensor than the bucket's new keys, as of the last sweep.
    pub fn pinned_keys(&self, bucket: u16) -> u32 {
        self.pinned[usize::from(bucket)]
    }

    /// Whether the bucket's phase allows a move to start.
    pub fn is_movable(&self, bucket: u16) -> bool {
        matches!(self.stages[usize::from(bucket)], Stage::Idle | Stage::Moving { .. })
    }

    /// The buckets and keys of each of the first `sensors`.
    pub fn held(&self, sensors: usize) -> Vec<Held> {
        let mut held = vec![Held::default(); sensors];
        for bucket in 0..=u16::MAX {
            let entry = self.forwarding.entry(bucket);
            if let Some(held) = held.get_mut(usize::from(entry.default_sensor())) {
                held.buckets += 1;
            }
            if entry.phase() == Phase::Learning
                && let Some(held) = held.get_mut(usize::from(entry.destination()))
            {
                held.arriving += 1;
            }
            let turned = matches!(entry.phase(), Phase::Turning | Phase::Moving | Phase::Cancelled);
            if turned && let Some(held) = held.get_mut(usize::from(entry.from())) {
                held.leaving += 1;
            }
        }
        for (held, &keys) in held.iter_mut().zip(&self.pinned_at) {
            held.keys = keys;
        }
        held
    }

    /// Starts moving a bucket; one without a sensor is assigned at once. With `quiet` a
    /// bucket without flows need not learn for the whole hold time.
    ///
    /// # Errors
    /// [`NotBegun`]; nothing has changed then.
    pub fn begin(&mut self, bucket: u16, to: u16, quiet: Option<Quiet>) -> Result<(), NotBegun> {
        self.check_alive(to)?;
        let entry = self.forwarding.entry(bucket);
        let stage = self.stages[usize::from(bucket)];
        let from = entry.default_sensor();
        match stage {
            Stage::Idle | Stage::Moving { .. } if from == to => return Err(NotBegun::There),
            Stage::Idle if from == NO_SENSOR => {
                self.write(bucket, Entry::settled(to));
                return Ok(());
            }
            Stage::Moving { .. } if from == NO_SENSOR => {
                self.write(bucket, Entry::of_move(Phase::Moving, entry.from(), to));
                return Ok(());
            }
            Stage::Idle if self.active.len() >= self.most => {
                return Err(NotBegun::TooMany(self.most));
            }
            Stage::Idle | Stage::Moving { .. } => {}
            _ => return Err(NotBegun::Busy),
        }
        self.forwarding.allow_records(bucket);
        self.write(bucket, Entry::of_move(Phase::Learning, from, to));
        let epoch = self.forwarding.advance();
        self.set_stage(bucket, Stage::Announced { epoch });
        self.quiet.remove(&bucket);
        self.quiet.extend(quiet.map(|quiet| (bucket, quiet)));
        self.counts.begun += 1;
        Ok(())
    }

    /// Moves a bucket at once, tearing its flows. Only the bucket's count of live flows
    /// shows how many.
    ///
    /// # Errors
    /// [`NotBegun`]; nothing has changed then.
    pub fn force(&mut self, bucket: u16, to: u16) -> Result<(), NotBegun> {
        self.check_alive(to)?;
        let is_idle = self.stages[usize::from(bucket)] == Stage::Idle;
        if is_idle && self.forwarding.entry(bucket).default_sensor() == to {
            return Err(NotBegun::There);
        }
        self.write(bucket, Entry::settled(to));
        if !is_idle {
            let epoch = self.forwarding.advance();
            self.set_stage(bucket, Stage::Clearing { epoch });
        }
        self.counts.emergency += 1;
        Ok(())
    }

    /// Handles a sensor's death. When it returns, all traffic of the sensor goes elsewhere:
    /// `instead` returns a living sensor for a bucket, or [`NO_SENSOR`].
    pub fn kill(&mut self, sensor: u16, instead: &mut dyn FnMut(u16) -> u16) -> SensorDeath {
        let mut death = SensorDeath::default();
        if usize::from(sensor) >= MAX_SENSORS {
            return death;
        }
        self.forwarding.set_alive(sensor, false);
        for bucket in 0..=u16::MAX {
            let before = self.forwarding.entry(bucket);
            let Some(after) = without(sensor, before, &mut || instead(bucket)) else { continue };
            if before.default_sensor() == sensor {
                death.moved.push((bucket, after.default_sensor()));
            }
            self.write(bucket, after);
            if before.phase() != Phase::Settled {
                self.counts.decided_by_death += 1;
                // One epoch after all writes is enough.
                self.set_stage(bucket, Stage::Unwinding { epoch: u64::MAX });
            }
        }
        let epoch = self.forwarding.advance();
        for &bucket in &self.active {
            let stage = &mut self.stages[usize::from(bucket)];
            if *stage == (Stage::Unwinding { epoch: u64::MAX }) {
                *stage = Stage::Unwinding { epoch };
            }
        }
        self.dead.retain(|dead| dead.sensor != sensor);
        self.dead.push(Dead { sensor, epoch, swept: false });
        // Count only: while a bucket may be turning, no record may be removed.
        self.forwarding.sweep(0, &mut |key| {
            if key.sensor == sensor {
                *death.keys.entry(key.bucket).or_default() += 1;
            }
            true
        });
        death
    }

    /// Allows moves to a dead sensor again. Returns false while there may be old records;
    /// then to be retried after the next tick.
    pub fn revive(&mut self, sensor: u16) -> bool {
        match self.dead.iter().position(|dead| dead.sensor == sensor) {
            None => true,
            Some(i) if self.dead[i].swept => {
                self.dead.swap_remove(i);
                self.forwarding.set_alive(sensor, true);
                true
            }
            Some(_) => false,
        }
    }

    /// Whether a sensor is dead and has no records left.
    pub fn is_buried(&self, sensor: u16) -> bool {
        self.dead.iter().any(|dead| dead.sensor == sensor && dead.swept)
    }

    /// Changes the limit of concurrent moves; those in progress continue.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// Sets whether the packets of a bucket are watched.
    pub fn watch(&mut self, bucket: u16, watched: bool) {
        let change = |entry: Entry| entry.with_watch(watched);
        self.change(bucket, &change);
    }

    fn check_alive(&self, sensor: u16) -> Result<(), NotBegun> {
        let dead = self.dead.iter().any(|dead| dead.sensor == sensor);
        if dead || usize::from(sensor) >= MAX_SENSORS { Err(NotBegun::NotAlive) } else { Ok(()) }
    }

    /// Sets the entry of a bucket unconditionally, keeping its watched bit.
    pub(super) fn write(&self, bucket: u16, entry: Entry) {
        self.change(bucket, &|current| entry.with_watch(current.is_watched()));
    }

    fn change(&self, bucket: u16, change: &dyn Fn(Entry) -> Entry) {
        let mut current = self.forwarding.entry(bucket);
        while let Err(other) = self.forwarding.replace(bucket, current, change(current)) {
            current = other;
        }
    }

    pub(super) fn set_stage(&mut self, bucket: u16, stage: Stage) {
        let place = &mut self.stages[usize::from(bucket)];
        if *place == Stage::Idle && stage != Stage::Idle {
            self.active.push(bucket);
        }
        *place = stage;
    }
}

/// The entry after the death of `dead`; `None` if it need not change.
///
/// Keys on record at living sensors stay there in any case. `instead` returns a sensor for
/// a bucket whose new keys went to the dead one, unless the bucket was moving away from it
/// and the target lives.
fn without(dead: u16, entry: Entry, instead: &mut dyn FnMut() -> u16) -> Option<Entry> {
    let goes_to = |sensor| Some(Entry::of_move(Phase::Moving, dead, sensor));
    let (goes_there, aims_there) = (entry.default_sensor() == dead, entry.destination() == dead);
    match entry.phase() {
        Phase::Settled => goes_there.then(|| Entry::settled(instead())),
        Phase::Learning if goes_there => goes_to(entry.destination()),
        // Learning has sent nothing to the dead sensor.
        Phase::Learning if aims_there => goes_to(entry.default_sensor()),
        Phase::Turning | Phase::Moving | Phase::Cancelled if goes_there => goes_to(instead()),
        // Workers that still learn record keys at a dead sensor, which have no effect.
        Phase::Turning if entry.from() == dead => goes_to(entry.default_sensor()),
        _ => None,
    }
}
