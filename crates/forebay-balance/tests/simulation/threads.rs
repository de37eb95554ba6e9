//! Workers and mover in threads of their own, by the real clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_balance::moves::{Mover, PacketFacts, RecordLimits, Worker, WorkerTable};
use forebay_balance::{Assignment, BucketTable};

use crate::traffic::{Random, bucket_of_key, hash_of};

const IDLE: u64 = 60_000_000;
const HOLD: u64 = 2 * IDLE;
const KEYS: u64 = 3_000;
const SENSORS: u64 = 4;

struct Seen {
    key: u64,
    sensor: u16,
    /// Before and after the broker has seen it.
    span: (u64, u64),
}

/// Forwards packets of random keys, each active in one of four spans of time.
fn forward(mut worker: Worker, seed: u64, start: Instant, done: &AtomicBool) -> Vec<Seen> {
    let mut random = Random::new(seed);
    let mut seen = Vec::new();
    let mut sensors = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let now = start.elapsed().as_nanos() as u64;
        let active = now / (2 * HOLD) % 4;
        let keys: Vec<u64> = (0..16).map(|_| random.below(KEYS / 4) * 4 + active).collect();
        let hashes: Vec<u64> = keys.iter().map(|&key| hash_of(key)).collect();
        worker.begin(now);
        worker.assign(&hashes, &mut sensors, |_| PacketFacts::default());
        worker.count(&hashes, &[100; 16]);
        let span = (now, start.elapsed().as_nanos() as u64);
        let each = keys.iter().zip(&sensors);
        seen.extend(each.map(|(&key, &sensor)| Seen { key, sensor, span }));
        if random.below(2) == 0 {
            worker.rest();
            std::thread::sleep(Duration::from_micros(random.below(400)));
        }
    }
    worker.rest();
    seen
}

/// Buckets move to and fro all the time, while every key comes to all workers.
#[test]
fn no_key_is_torn_while_threads_race() {
    let table = BucketTable::new(&Assignment::of_weights(&[1; SENSORS as usize]).unwrap());
    let forwarding = Arc::new(WorkerTable::new(table, 3, HOLD, RecordLimits::default()));
    let mut mover = Mover::new(Arc::clone(&forwarding), HOLD, 1 << 16);
    let (start, done) = (Instant::now(), AtomicBool::new(false));
    let mut buckets: Vec<u16> = (0..KEYS).map(bucket_of_key).collect();
    buckets.sort_unstable();
    buckets.dedup();
    let mut seen: Vec<Seen> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|i| {
                let (worker, done) = (Worker::new(Arc::clone(&forwarding), i), &done);
                scope.spawn(move || forward(worker, i as u64, start, done))
            })
            .collect();
        let mut random = Random::new(5);
        while mover.counts().completed < 5_000 && start.elapsed() < Duration::from_secs(30) {
            for _ in 0..30 {
                let bucket = buckets[random.below(buckets.len() as u64) as usize];
                let _ = mover.begin(bucket, random.below(SENSORS) as u16, None);
            }
            mover.tick(start.elapsed().as_nanos() as u64);
            std::thread::sleep(Duration::from_micros(500));
        }
        done.store(true, Ordering::Relaxed);
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(mover.counts().completed > 1_000, "{:?}", mover.counts());
    seen.sort_by_key(|seen| (seen.key, seen.span.0));
    // However they were held up: packets that cannot have been farther apart.
    let torn = seen.windows(2).filter(|pair| {
        let (before, after) = (&pair[0], &pair[1]);
        before.key == after.key
            && before.sensor != after.sensor
            && after.span.1.max(before.span.1) - before.span.0 <= IDLE
    });
    assert_eq!(torn.count(), 0, "of {} packets", seen.len());
}
