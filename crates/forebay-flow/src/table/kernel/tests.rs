//! The kernels of all levels give the same as the scalar ones.

use forebay_packet::HashKey;
use forebay_packet::random::Random;

use super::*;
use crate::key::PRESENT;
use crate::table::bucket::{AGES, pack};

const BUCKETS: usize = 61;

/// A secret of each level of this machine, with VAES where it has it and without.
fn secrets() -> impl Iterator<Item = Secret> {
    Level::all().into_iter().flat_map(|level| {
        let secret = Secret::new(HashKey([1, 2]), level);
        let without = Secret { has_vaes: false, ..secret.clone() };
        [secret, without]
    })
}

fn key(random: &mut Random) -> ShortKey {
    let bits = u128::from(random.next()) | u128::from(random.next()) << 64;
    ShortKey(bits & KEY_MASK | 1 << PRESENT)
}

fn entry(random: &mut Random, key: ShortKey) -> u128 {
    pack(key.0, random.next() as u16, random.below(AGES))
}

/// Buckets with some free entries and some of other keys.
fn buckets(random: &mut Random) -> Vec<Bucket> {
    let mut buckets = vec![Bucket::default(); BUCKETS];
    for bits in buckets.iter_mut().flat_map(|bucket| &mut bucket.0) {
        if random.below(4) > 0 {
            let other = key(random);
            *bits = entry(random, other);
        }
    }
    buckets
}

#[test]
fn every_level_chooses_the_buckets_of_the_hash() {
    let mut random = Random::new(1);
    let buckets = buckets(&mut random);
    for secret in secrets() {
        let view = View { buckets: &buckets, secret: &secret };
        for count in 0..=STRETCH {
            let keys: Vec<_> = (0..count).map(|_| key(&mut random)).collect();
            let mut choices = vec![[0; 2]; count];
            choose(view, &keys, &mut choices);
            assert!(
                choices.iter().eq(&keys.iter().map(|key| view.choices(key.0)).collect::<Vec<_>>())
            );
        }
    }
}

#[test]
fn every_level_finds_the_same_slots() {
    let mut random = Random::new(2);
    for count in 0..=STRETCH {
        let mut buckets = buckets(&mut random);
        let keys: Vec<_> = (0..count).map(|_| key(&mut random)).collect();
        let choice = |random: &mut Random| random.below(BUCKETS as u64) as u32;
        let choices: Vec<_> =
            (0..count).map(|_| [choice(&mut random), choice(&mut random)]).collect();
        for (key, choices) in keys.iter().zip(&choices) {
            // In the first bucket, the second, or none.
            if let Some(bucket) = choices.get(random.index(3)) {
                let slots = [random.index(SLOTS), random.index(SLOTS), random.index(SLOTS)];
                let bucket = &mut buckets[*bucket as usize].0;
                // Twice, as digests may be, and one with half of the key.
                bucket[slots[0]] = entry(&mut random, *key);
                bucket[slots[1]] = entry(&mut random, *key);
                bucket[slots[2]] ^= (bucket[slots[2]] ^ key.0) & u128::from(u64::MAX);
            }
        }
        let mut expected: Option<(u64, u64, Vec<u32>)> = None;
        for secret in secrets() {
            let view = View { buckets: &buckets, secret: &secret };
            let mut slots = vec![0; count];
            let missed = probe_first(view, &keys, &choices, &mut slots);
            let absent = probe_second(view, &keys, &choices, &mut slots, missed);
            for (i, key) in keys.iter().enumerate() {
                let slot = probe_one(view, *key, choices[i]).unwrap_or(NONE);
                assert_eq!(slot, slots[i]);
                assert_eq!(slot == NONE, absent >> i & 1 == 1);
            }
            let found = (missed, absent, slots);
            assert_eq!(found, *expected.get_or_insert_with(|| found.clone()));
        }
    }
}

#[test]
fn every_level_finds_the_same_free_and_idle_entries() {
    let mut random = Random::new(3);
    for round in 0..200 {
        let before = buckets(&mut random);
        let four: [u32; 4] = std::array::from_fn(|_| random.below(BUCKETS as u64) as u32);
        let two = [four[0], four[1]];
        let clock = Clock { epoch: random.next(), lifetime: 1 + random.below(48) as u8 };
        let run = random.index(SWEPT_TOGETHER + 1);
        let mut expected = None;
        for secret in secrets() {
            let view = View { buckets: &before, secret: &secret };
            let places = [free_of(view, two), free_of(view, four), idle_of(view, clock, two)];
            let (mut after, mut idle) = (before.clone(), Swept::default());
            let count = take_idle(secret.level, clock, &mut after[..run], &mut idle);
            let slots: Vec<_> = idle.slots(run).collect();
            let taken: Vec<_> =
                slots.iter().map(|slot| before[slot / SLOTS].0[slot % SLOTS]).collect();
            assert_eq!(taken, idle.entries[..count]);
            let found = (places, slots, after);
            assert_eq!(found, *expected.get_or_insert_with(|| found.clone()), "round {round}");
        }
    }
}

#[test]
fn every_level_finds_the_other_buckets() {
    let mut random = Random::new(4);
    let mut buckets = buckets(&mut random);
    for secret in secrets() {
        for number in 0..BUCKETS as u32 {
            let keys: [_; SLOTS] = std::array::from_fn(|_| key(&mut random));
            buckets[number as usize] = Bucket(keys.map(|key| entry(&mut random, key)));
            let view = View { buckets: &buckets, secret: &secret };
            let other = |key: ShortKey| match view.choices(key.0) {
                [first, second] if first == number => second,
                [first, _] => first,
            };
            assert_eq!(others(view, number), keys.map(other));
        }
    }
}
