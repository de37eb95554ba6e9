//! Moves step by step, in simulated time.

use std::sync::Arc;

use super::*;
use crate::assign::Assignment;
use crate::table::{BucketTable, Entry, NO_SENSOR, Phase};

const HOLD: u64 = 1_000;

/// A bucket that is initially at sensor 0 of three.
const BUCKET: u16 = 0x4321;

struct Rig {
    forwarding: Arc<WorkerTable>,
    mover: Mover<Arc<WorkerTable>>,
    workers: Vec<Worker>,
    now: u64,
}

impl Rig {
    fn new(limits: RecordLimits) -> Self {
        let table = BucketTable::new(&Assignment::of_weights(&[1, 1, 1]).unwrap());
        let forwarding = Arc::new(WorkerTable::new(table, 2, HOLD, limits));
        let mut mover = Mover::new(Arc::clone(&forwarding), HOLD, 100);
        if forwarding.entry(BUCKET).default_sensor() != 0 {
            mover.force(BUCKET, 0).unwrap();
        }
        let workers = (0..2).map(|i| Worker::new(Arc::clone(&forwarding), i)).collect();
        Self { forwarding, mover, workers, now: 10_000 }
    }

    fn moving() -> Self {
        let mut rig = Self::new(RecordLimits::default());
        rig.mover.begin(BUCKET, 1, None).unwrap();
        rig
    }

    fn hash(key: u64) -> u64 {
        u64::from(BUCKET) << 48 | key.wrapping_mul(0x1234_5678_9abd) & 0xffff_ffff_ffff
    }

    /// The sensor of a packet of `key` at `worker`, which is idle afterwards.
    fn packet(&mut self, worker: usize, key: u64, tcp: TcpSignal) -> u16 {
        self.workers[worker].begin(self.now);
        let sensor = self.stale_packet(worker, key, tcp);
        self.workers[worker].rest();
        sensor
    }

    /// As [`Self::packet`], with the worker in the middle of a batch.
    fn stale_packet(&mut self, worker: usize, key: u64, tcp: TcpSignal) -> u16 {
        let mut sensors = Vec::new();
        let facts = |_| PacketFacts { tcp, bytes: 100, ..PacketFacts::default() };
        self.workers[worker].assign(&[Self::hash(key)], &mut sensors, facts);
        self.workers[worker].count(&[Self::hash(key)], &[100]);
        sensors[0]
    }

    fn plain(&mut self, key: u64) -> u16 {
        self.packet(0, key, TcpSignal::Nothing)
    }

    fn phase(&self) -> Phase {
        self.forwarding.entry(BUCKET).phase()
    }

    /// Simulates a time in which the mover is called often.
    fn pass(&mut self, time: u64) {
        for _ in 0..time / 20 {
            self.now += 20;
            self.mover.tick(self.now);
        }
    }

    fn pass_until(&mut self, phase: Phase) {
        for _ in 0..1_000 {
            if self.phase() == phase {
                return;
            }
            self.pass(20);
        }
        panic!("still {:?}", self.phase());
    }
}

#[test]
fn known_keys_stay_and_new_keys_go_until_the_known_are_idle() {
    let mut rig = Rig::moving();
    assert_eq!(rig.plain(1), 0);
    rig.pass(HOLD - 100);
    assert_eq!((rig.plain(2), rig.phase()), (0, Phase::Learning));
    rig.pass_until(Phase::Moving);
    for _ in 0..10 {
        assert_eq!((rig.plain(2), rig.plain(3)), (0, 1));
        rig.pass(HOLD / 2);
        assert_eq!(rig.phase(), Phase::Moving);
    }
    assert_eq!(rig.plain(1), 1, "idle since long before");
    rig.pass_until(Phase::Settled);
    assert_eq!((rig.plain(2), rig.mover.counts().completed), (1, 1));
}

#[test]
fn learning_lasts_for_the_hold_time_after_every_worker_knows() {
    let mut rig = Rig::new(RecordLimits::default());
    rig.workers[1].begin(rig.now);
    rig.mover.begin(BUCKET, 1, None).unwrap();
    rig.pass(3 * HOLD);
    assert_eq!(rig.phase(), Phase::Learning, "a worker has not begun anew");
    rig.workers[1].begin(rig.now);
    rig.pass(HOLD - 100);
    assert_eq!(rig.phase(), Phase::Learning);
    rig.pass(HOLD);
    assert_eq!(rig.phase(), Phase::Learning, "by this worker's clock, no time has passed");
    rig.workers[1].rest();
    rig.pass(200);
    assert_ne!(rig.phase(), Phase::Learning);
}

#[test]
fn a_worker_that_is_gone_holds_up_nothing() {
    let mut rig = Rig::moving();
    rig.workers[1].begin(rig.now);
    rig.workers.pop();
    rig.pass(2 * HOLD);
    assert_eq!(rig.phase(), Phase::Settled);
}

#[test]
fn a_bucket_that_was_quiet_moves_at_once() {
    let mut rig = Rig::new(RecordLimits::default());
    rig.plain(1);
    let quiet = Quiet { since: rig.now, tally: rig.forwarding.tally(BUCKET) };
    rig.pass(HOLD);
    rig.mover.begin(BUCKET, 1, Some(quiet)).unwrap();
    rig.pass(120);
    assert_eq!(rig.phase(), Phase::Settled);
    assert_eq!(rig.plain(1), 1);
}

#[test]
fn a_packet_after_the_proof_makes_a_bucket_learn_in_full() {
    let mut rig = Rig::new(RecordLimits::default());
    let quiet = Quiet { since: 0, tally: rig.forwarding.tally(BUCKET) };
    rig.plain(1);
    rig.mover.begin(BUCKET, 1, Some(quiet)).unwrap();
    rig.pass(HOLD - 50);
    assert_eq!(rig.phase(), Phase::Learning);
    assert_eq!(rig.plain(1), 0);
}

#[test]
fn a_bare_syn_goes_to_the_new_sensor_only_after_the_end_of_its_connection() {
    use TcpSignal::*;
    let cases: [(&[TcpSignal], u16); 7] = [
        (&[Nothing], 0),
        (&[BareSyn, BareSyn], 0),
        (&[LowFin], 0),
        (&[LowFin, LowFin], 0),
        (&[LowFin, HighFin], 1),
        (&[HighFin, Nothing, LowFin, Nothing], 1),
        (&[Reset], 1),
    ];
    for (before, sensor) in cases {
        let mut rig = Rig::moving();
        rig.plain(1);
        rig.pass(HOLD - 100);
        for &signal in before {
            assert_eq!(rig.packet(0, 1, signal), 0, "learning: {before:?}");
        }
        rig.pass_until(Phase::Moving);
        assert_eq!(rig.plain(1), 0, "no SYN: {before:?}");
        assert_eq!(rig.packet(0, 1, BareSyn), sensor, "{before:?}");
        assert_eq!(rig.plain(1), sensor, "it stays where it is: {before:?}");
        assert_eq!(rig.forwarding.restarts(), u64::from(sensor));
    }
}

#[test]
fn while_it_learns_a_bare_syn_on_an_ended_key_opens_it_again() {
    let mut rig = Rig::moving();
    rig.packet(0, 1, TcpSignal::Reset);
    rig.pass(HOLD / 2);
    assert_eq!(rig.packet(0, 1, TcpSignal::BareSyn), 0);
    rig.pass_until(Phase::Moving);
    assert_eq!(rig.packet(0, 1, TcpSignal::BareSyn), 0, "sent twice");
}

#[test]
fn too_many_keys_cancel_the_move_and_nothing_is_torn() {
    let mut rig = Rig::new(RecordLimits { keys_per_move: 50, ..RecordLimits::default() });
    rig.mover.begin(BUCKET, 1, None).unwrap();
    for key in 0..500 {
        assert_eq!(rig.plain(key), 0);
    }
    assert_eq!(rig.phase(), Phase::Cancelled);
    rig.pass(100);
    assert_eq!((rig.phase(), rig.mover.counts().cancelled), (Phase::Settled, 1));
    assert_eq!((rig.plain(3), rig.plain(400)), (0, 0));
    assert_eq!(rig.mover.counts().completed, 0);
    assert!(rig.mover.begin(BUCKET, 1, None).is_ok(), "it may try again");
}

#[test]
fn a_move_may_begin_while_keys_of_the_last_are_left() {
    let mut rig = Rig::moving();
    rig.plain(1);
    rig.pass(HOLD / 2);
    assert_eq!(rig.mover.begin(BUCKET, 2, None), Err(NotBegun::Busy));
    rig.plain(1);
    rig.pass_until(Phase::Moving);
    assert_eq!((rig.plain(1), rig.plain(2)), (0, 1));
    assert_eq!(rig.mover.begin(BUCKET, 1, None), Err(NotBegun::There));
    rig.mover.begin(BUCKET, 2, None).unwrap();
    for _ in 0..10 {
        assert_eq!((rig.plain(1), rig.plain(2)), (0, 1));
        rig.pass(HOLD / 4);
    }
    assert_eq!(rig.phase(), Phase::Moving);
    assert_eq!((rig.plain(1), rig.plain(2), rig.plain(3)), (0, 1, 2));
    rig.pass_until(Phase::Settled);
    assert_eq!(rig.plain(1), 2);
}

/// The bucket's phase when sensor `dead` fails; the sensors of a known and a new key afterwards.
#[test]
fn a_sensor_may_die_in_every_phase() {
    let cases = [
        (Phase::Settled, 0, (2, 2)),
        (Phase::Settled, 1, (0, 0)),
        (Phase::Learning, 0, (1, 1)),
        (Phase::Learning, 1, (0, 0)),
        (Phase::Turning, 0, (1, 1)),
        (Phase::Turning, 1, (0, 2)),
        (Phase::Moving, 0, (1, 1)),
        (Phase::Moving, 1, (0, 2)),
        (Phase::Moving, 2, (0, 1)),
        (Phase::Cancelled, 0, (2, 2)),
        (Phase::Cancelled, 1, (0, 0)),
    ];
    for (phase, dead, goes) in cases {
        let mut rig = Rig::new(RecordLimits { keys_per_move: 2, ..RecordLimits::default() });
        if phase != Phase::Settled {
            rig.mover.begin(BUCKET, 1, None).unwrap();
        }
        rig.pass(HOLD / 2);
        rig.plain(1);
        if phase == Phase::Cancelled {
            rig.plain(8);
            rig.plain(9);
        }
        rig.pass_until(phase);
        let death = rig.mover.kill(dead, &mut |_| 2);
        let had = rig.forwarding.entry(BUCKET);
        assert_eq!((rig.plain(1), rig.plain(7)), goes, "{dead} dies: {phase:?} to {had:?}");
        let known = death.keys.get(&BUCKET).copied().unwrap_or(0);
        let on_record = if phase == Phase::Cancelled { 2 } else { 1 };
        let expected = if dead == 0 && phase != Phase::Settled { on_record } else { 0 };
        assert_eq!(known, expected, "{dead} dies: {phase:?}");
        assert!(!rig.mover.revive(dead), "its records are not swept");
        rig.pass(100);
        assert_eq!((rig.plain(1), rig.plain(7)), goes, "later: {dead} dies: {phase:?}");
        rig.pass(3 * HOLD);
        assert_eq!((rig.phase(), rig.mover.moves().count()), (Phase::Settled, 0));
        assert!(rig.mover.revive(dead));
    }
}

#[test]
fn a_worker_that_has_not_seen_a_death_leaves_nothing_behind() {
    let mut rig = Rig::moving();
    rig.workers[1].begin(rig.now);
    rig.stale_packet(1, 1, TcpSignal::Nothing);
    rig.mover.kill(0, &mut |_| 2);
    rig.pass(200);
    assert!(!rig.mover.revive(0), "the worker may still record keys there");
    rig.workers[1].rest();
    rig.pass(200);
    assert!(rig.mover.revive(0));
    rig.mover.begin(BUCKET, 0, None).unwrap();
    assert_eq!(rig.plain(1), 1, "what was known of it is forgotten");
}

#[test]
fn moves_to_the_dead_or_beyond_the_bounds_do_not_begin() {
    let mut rig = Rig::new(RecordLimits::default());
    rig.mover.kill(1, &mut |_| NO_SENSOR);
    assert_eq!(rig.mover.begin(BUCKET, 1, None), Err(NotBegun::NotAlive));
    assert_eq!(rig.mover.force(BUCKET, 1), Err(NotBegun::NotAlive));
    assert_eq!(rig.mover.begin(BUCKET, 5_000, None), Err(NotBegun::NotAlive));
    assert_eq!(rig.mover.begin(BUCKET, 0, None), Err(NotBegun::There));
    let others = (0..=u16::MAX).filter(|&b| rig.forwarding.entry(b).default_sensor() == 0);
    let results: Vec<_> = others.take(101).map(|b| rig.mover.begin(b, 2, None)).collect();
    assert!(results[..100].iter().all(Result::is_ok));
    assert_eq!(results[100], Err(NotBegun::TooMany(100)));
    let orphan = (0..=u16::MAX).find(|&b| rig.forwarding.entry(b) == Entry::settled(NO_SENSOR));
    assert_eq!(rig.mover.begin(orphan.unwrap(), 2, None), Ok(()), "no flow can be torn");
    assert_eq!(rig.forwarding.entry(orphan.unwrap()), Entry::settled(2));
}

#[test]
fn an_emergency_move_is_in_force_at_once_and_leaves_no_records() {
    for phase in [Phase::Settled, Phase::Learning, Phase::Turning, Phase::Moving] {
        let mut rig = Rig::new(RecordLimits::default());
        if phase != Phase::Settled {
            rig.mover.begin(BUCKET, 1, None).unwrap();
        }
        rig.pass(HOLD / 2);
        rig.plain(1);
        rig.pass_until(phase);
        rig.mover.force(BUCKET, 2).unwrap();
        assert_eq!((rig.plain(1), rig.plain(2)), (2, 2), "{phase:?}");
        rig.pass(100);
        rig.mover.begin(BUCKET, 1, None).unwrap();
        assert_eq!(rig.plain(1), 2, "{phase:?}");
    }
}

#[test]
fn a_clock_that_goes_back_ends_no_record() {
    let mut rig = Rig::moving();
    rig.pass(HOLD / 2);
    rig.plain(1);
    rig.pass_until(Phase::Moving);
    assert_eq!(rig.plain(1), 0);
    let before = rig.now;
    for back in [10, HOLD, 5 * HOLD, 9 * HOLD] {
        rig.now = before - back;
        assert_eq!(rig.plain(1), 0);
        rig.mover.tick(rig.now);
        assert_eq!(rig.plain(1), 0, "{back} back");
    }
}

#[test]
fn watched_stays_watched_through_a_move() {
    let mut rig = Rig::moving();
    rig.mover.watch(BUCKET, true);
    rig.pass(HOLD / 2);
    rig.plain(1);
    rig.pass_until(Phase::Moving);
    assert!(rig.forwarding.entry(BUCKET).is_watched());
    rig.pass_until(Phase::Settled);
    assert!(rig.forwarding.entry(BUCKET).is_watched());
    assert_eq!(rig.plain(1), 1);
    rig.mover.watch(BUCKET, false);
    assert_eq!(rig.forwarding.entry(BUCKET), Entry::settled(1));
}

#[test]
fn traffic_of_known_keys_is_counted_as_displaced() {
    let mut rig = Rig::moving();
    rig.pass(HOLD / 2);
    rig.plain(1);
    rig.pass_until(Phase::Moving);
    for _ in 0..3 {
        rig.plain(2);
    }
    assert_eq!(rig.forwarding.displaced(0), Displaced::default());
    rig.packet(1, 1, TcpSignal::Nothing);
    let (old, new) = (rig.forwarding.displaced(0), rig.forwarding.displaced(1));
    assert_eq!((old.to.packets(), old.to.bytes(), old.from.packets()), (1, 100, 0));
    assert_eq!((new.from.packets(), new.to.packets()), (1, 0));
}

/// The definition of a torn flow, for one bucket: the last sensor of each key, and the time.
#[derive(Default)]
struct LastSeen(std::collections::HashMap<u64, (u64, u16)>);

impl LastSeen {
    fn see(&mut self, key: u64, now: u64, sensor: u16) -> Result<(), String> {
        match self.0.insert(key, (now, sensor)) {
            Some((then, other)) if other != sensor && now - then < HOLD => {
                Err(format!("{key} at {other}, and {} later at {sensor}", now - then))
            }
            _ => Ok(()),
        }
    }
}

proptest::proptest! {
    /// For any order of events: no key is torn except from a failed sensor, none goes to a failed
    /// sensor, and all moves end.
    #[test]
    fn no_key_is_torn_whatever_happens(
        steps in proptest::collection::vec((0_u8..16, 0_u64..8, 0_u16..3), 1..400),
    ) {
        let mut rig = Rig::new(RecordLimits { keys_per_move: 6, ..RecordLimits::default() });
        let mut seen = LastSeen::default();
        let mut is_dead = [false; 3];
        for (step, key, sensor) in steps {
            let at = usize::from(sensor);
            let other = (0..3).find(|&i| i != sensor && !is_dead[usize::from(i)]);
            match (step, other) {
                (0..=7, _) => {
                    let worker = usize::from(step % 2);
                    // The worker is idle after some packets, and not after others.
                    let goes = if step < 4 {
                        rig.packet(worker, key, TcpSignal::Nothing)
                    } else {
                        rig.workers[worker].begin(rig.now);
                        rig.stale_packet(worker, key, TcpSignal::Nothing)
                    };
                    proptest::prop_assert!(goes != NO_SENSOR && !is_dead[usize::from(goes)]);
                    let torn = seen.see(key, rig.now, goes);
                    proptest::prop_assert!(torn.is_ok(), "{:?} in {:?}", torn, rig.phase());
                }
                (8..=9, _) => {
                    let _ = rig.mover.begin(BUCKET, sensor, None);
                }
                (10, Some(other)) if !is_dead[at] => {
                    rig.mover.kill(sensor, &mut |_| other);
                    is_dead[at] = true;
                    seen.0.retain(|_, last| last.1 != sensor);
                }
                (11, _) if is_dead[at] => is_dead[at] = !rig.mover.revive(sensor),
                (12, _) => rig.workers[usize::from(sensor % 2)].rest(),
                (13, _) => rig.pass(HOLD),
                _ => rig.pass(20 * (key + 1)),
            }
        }
        rig.workers.iter_mut().for_each(Worker::rest);
        rig.pass(4 * HOLD);
        proptest::prop_assert_eq!(rig.phase(), Phase::Settled);
        proptest::prop_assert_eq!(rig.mover.moves().count(), 0);
    }
}
