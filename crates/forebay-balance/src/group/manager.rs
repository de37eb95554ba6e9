//! The manager of a group: its parts, and what they show.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::aftermath::Aftermath;
use super::event::{Event, Onsets};
use super::sensors::{Member, SensorSettings, SensorStatus};
use crate::assign::{Assignment, AssignmentError, BUCKETS, Sensor};
use crate::balancer::load::{BucketLoads, Load};
use crate::balancer::targets::SensorShare;
use crate::balancer::{BalanceSettings, Balancer, Outlook};
use crate::moves::{
    Displaced, ForwardingTable, MoveCounts, Mover, RecordLimits, Worker, WorkerTable,
};
use crate::table::{BucketTable, Entry};

/// The weight of a new reading in a bucket's load.
const READING_WEIGHT: f64 = 0.4;

/// The fraction of the idle timeout by which keys are held longer: packets that are on time
/// at the sensor may have been late here.
const HOLD_MARGIN: u64 = 16;

/// The shortest margin, in nanoseconds.
const SHORTEST_MARGIN: u64 = 50_000_000;

/// Settings of a group. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupSettings {
    /// Packets of a key that are farther apart may go to different sensors.
    pub idle_timeout: u64,
    /// The interval of balancing decisions.
    pub interval: u64,
    /// The most buckets that move at once.
    pub moves: usize,
    /// Limits of the state of moves.
    pub records: RecordLimits,
    /// How buckets are chosen.
    pub balance: BalanceSettings,
}

impl Default for GroupSettings {
    fn default() -> Self {
        Self {
            idle_timeout: 60_000_000_000,
            interval: 1_000_000_000,
            moves: BUCKETS / 4,
            records: RecordLimits::default(),
            balance: BalanceSettings::default(),
        }
    }
}

impl GroupSettings {
    /// How long a key stays on record after its last packet.
    fn hold(&self) -> u64 {
        let margin = (self.idle_timeout / HOLD_MARGIN).max(SHORTEST_MARGIN);
        self.idle_timeout.saturating_add(margin)
    }
}

/// The manager of a group of sensors.
#[derive(Debug)]
pub struct Group<P> {
    pub(super) settings: GroupSettings,
    pub(super) mover: Mover<P>,
    pub(super) balancer: Balancer,
    pub(super) loads: BucketLoads,
    pub(super) members: Vec<Member>,
    pub(super) displaced: Vec<Displaced>,
    pub(super) outlook: Vec<Outlook>,
    pub(super) onsets: Onsets,
    pub(super) aftermath: Aftermath,
    pub(super) now: u64,
    pub(super) balanced_at: Option<u64>,
    pub(super) rotated_at: u64,
    pub(super) events: Vec<Event>,
    pub(super) is_without_sensor: Arc<AtomicBool>,
}

impl Group<Arc<WorkerTable>> {
    /// A group at the time `now`, and this many workers for it. All sensors start up, with
    /// their indices those in `sensors`.
    ///
    /// # Errors
    /// [`AssignmentError`]
    pub fn new(
        settings: GroupSettings,
        sensors: &[SensorSettings],
        workers: usize,
        now: u64,
    ) -> Result<(Self, Vec<Worker>), AssignmentError> {
        let ids: Vec<Sensor> = sensors.iter().map(SensorSettings::share).collect();
        let table = BucketTable::new(&Assignment::new(&ids)?);
        let forwarding =
            Arc::new(WorkerTable::new(table, workers, settings.hold(), settings.records));
        let workers = (0..workers).map(|i| Worker::new(Arc::clone(&forwarding), i)).collect();
        Ok((Self::on(forwarding, settings, sensors, now), workers))
    }
}

impl<P: ForwardingTable> Group<P> {
    /// A group on a forwarding table whose buckets are all settled at these sensors, at the
    /// time `now`. The forwarding table must keep keys on record for [`Group::hold`]
    /// nanoseconds.
    pub fn on(
        forwarding: P,
        settings: GroupSettings,
        sensors: &[SensorSettings],
        now: u64,
    ) -> Self {
        Self {
            mover: Mover::new(forwarding, settings.hold(), settings.moves),
            balancer: Balancer::new(settings.balance),
            loads: BucketLoads::new(READING_WEIGHT),
            members: sensors.iter().map(|sensor| Member::new(sensor, now)).collect(),
            displaced: vec![Displaced::default(); sensors.len()],
            outlook: Vec::new(),
            onsets: Onsets::default(),
            aftermath: Aftermath::default(),
            now,
            balanced_at: None,
            rotated_at: now,
            events: Vec::new(),
            is_without_sensor: Arc::default(),
            settings,
        }
    }

    /// A flag that is set while no sensor gets packets, as all are down or have drained: before the
    /// last one loses its buckets, and until each bucket has one again. For threads that would
    /// rather keep packets than have them find no sensor.
    #[must_use]
    pub fn is_without_sensor(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_without_sensor)
    }

    /// How long a key must stay on record after its last packet with these settings, in
    /// nanoseconds.
    #[must_use]
    pub fn hold(settings: &GroupSettings) -> u64 {
        settings.hold()
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        (0..=u16::MAX).map(|bucket| self.mover.forwarding().entry(bucket)).collect()
    }

    pub(super) fn shares(&self) -> Vec<SensorShare> {
        self.members.iter().map(Member::balanced_as).collect()
    }

    /// The sensors, by index; `None` for an unused index.
    #[must_use]
    pub fn sensors(&self) -> Vec<Option<SensorStatus>> {
        let held = self.mover.held(self.members.len());
        let outlook = |i: usize| self.outlook.get(i).copied().unwrap_or_default();
        let status = |(i, member): (usize, &Member)| {
            member.is_configured.then(|| member.status(held[i], outlook(i)))
        };
        self.members.iter().enumerate().map(status).collect()
    }

    /// Counts of moves so far.
    #[must_use]
    pub fn counts(&self) -> MoveCounts {
        self.mover.counts()
    }

    /// The buckets that are moving.
    pub fn moves(&self) -> impl Iterator<Item = (u16, Entry)> {
        self.mover.moves()
    }

    /// The table entry of a bucket.
    #[must_use]
    pub fn bucket(&self, bucket: u16) -> Entry {
        self.mover.forwarding().entry(bucket)
    }

    /// The load of a bucket, available from the second interval on.
    #[must_use]
    pub fn load(&self, bucket: u16) -> Option<Load> {
        self.loads.loads().map(|loads| loads[usize::from(bucket)])
    }

    /// The settings.
    #[must_use]
    pub fn forwarding(&self) -> &P {
        self.mover.forwarding()
    }

    /// The time of the last tick.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }
}
