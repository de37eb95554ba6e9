//! Keys that an adversary chooses to collide under a hash that it knows.

use forebay_flow::{Level, Need, Options, ShortKey, Spare, Table, TableState, Work};
use forebay_packet::flow::AddressKind;
use forebay_packet::random::Random;
use forebay_packet::{FlowKey, HashKey};

use super::kinds::{Key, Words, options};

/// Flows that each table gets, at 90% of its entries.
const FLOWS: usize = 18_000;

/// The secret that the adversary does not know, and the one that it does.
const SECRET: HashKey = HashKey([0x5eed, 0xf00d]);
const KNOWN: HashKey = HashKey([1, 2]);

/// One step of CRC-32C for each bit of a word, after which the word is part of it: a bijection
/// of `crc ^ word`.
fn crc(crc: u32, word: u32) -> u32 {
    (0..32).fold(crc ^ word, |crc, _| (crc >> 1) ^ ((crc & 1) * 0x82f6_3b78))
}

/// Flows all of which have the same CRC-32C of high address, ports and low address.
fn equal_by_crc() -> Vec<ShortKey> {
    let mut random = Random::new(1);
    let mut keys = Vec::new();
    while keys.len() < FLOWS {
        let [high, ports] = [random.next() as u32, random.next() as u32];
        let low = crc(crc(0, high), ports);
        if low < high {
            let ends = [(low, ports as u16), (high, (ports >> 16) as u16)];
            let [low, high] = ends.map(|(address, port)| (u128::from(address), port));
            let (key, _) = FlowKey::two_way(AddressKind::Ipv4, 17, low, high);
            keys.push(ShortKey::new(&FlowKey { has_ports: true, ..key }).unwrap());
        }
    }
    keys
}

/// Flows whose first buckets, where the secret is [`KNOWN`], are all in a 64th of the table.
fn crowded<K: Key>(level: Level) -> Vec<K> {
    let tried = FLOWS * 70;
    let known = Options { key: KNOWN, ..options(tried * 2, level) };
    let mut table = Table::<K, u16>::empty(&known).unwrap();
    let mut keys = Vec::new();
    for first in (0..tried as u64).step_by(64) {
        let batch: Vec<K> = (first..first + 64).map(K::number).collect();
        table.packets(&batch, |_, _, _| (), |_| ());
        let mut slots = [0; 64];
        table.find(&batch, &mut slots);
        let part = table.entries() / 64;
        let pairs = batch.iter().zip(slots).filter(|(_, slot)| (*slot as usize) < part);
        keys.extend(pairs.map(|(key, _)| *key));
    }
    assert!(keys.len() > FLOWS, "{}", keys.len());
    keys.truncate(FLOWS);
    keys
}

/// A table with these flows.
fn table<K: Key, S: TableState>(keys: &[K], secret: HashKey, level: Level) -> Table<K, S> {
    let options = Options { key: secret, ..options(FLOWS * 8 / 9, level) };
    let mut table = Table::empty(&options).unwrap();
    assert!(table.entries() * 9 / 10 <= FLOWS && FLOWS < table.entries());
    for keys in keys.chunks(64) {
        table.packets(keys, |_, _, _| (), |_| ());
    }
    table
}

/// Buckets that insertions and later look-ups read, and entries that were moved.
fn steps(work: &Work) -> u64 {
    FLOWS as u64 + work.second + work.searched + work.moved
}

fn compare<K: Key, S: TableState>(level: Level) {
    let steps = |keys: &[K]| {
        let work = table::<K, S>(keys, SECRET, level).work();
        assert_eq!(work.evicted, 0);
        steps(&work)
    };
    let ordinary: Vec<K> = (0..FLOWS as u64).map(K::number).collect();
    let equal: Vec<K> = equal_by_crc().into_iter().map(K::of).collect();
    let usual = steps(&ordinary);
    for chosen in [equal, crowded(level)] {
        let steps = steps(&chosen);
        assert!(steps * 10 <= usual * 11, "{level:?}: {steps} steps instead of {usual}");
    }
}

#[test]
fn keys_that_collide_under_other_hashes_make_no_more_work() {
    for level in Level::all() {
        compare::<ShortKey, u16>(level);
        compare::<FlowKey, Words<16>>(level);
    }
}

fn get_well<K: Key, S: TableState>(level: Level) {
    let chosen = crowded::<K>(level);
    let mut table = table::<K, S>(&chosen, KNOWN, level);
    let before = table.work();
    assert!(before.evicted > 0 && steps(&before) > 2 * FLOWS as u64, "{before:?}");
    assert_eq!(table.need(), Some(Need::Secret));
    assert!(table.replace(Spare::empty(FLOWS * 8 / 9, SECRET, level).unwrap()).is_none());
    let mut passes = 0;
    while table.retired().is_none() {
        for keys in chosen.chunks(64) {
            table.packets(keys, |_, _, _| (), |_| ());
        }
        passes += 1;
        assert!(passes < 10);
    }
    let evicted = table.work().evicted;
    for keys in chosen.chunks(64) {
        table.packets(keys, |_, _, is_new| assert!(!is_new), |_| ());
    }
    assert_eq!(table.flows(), chosen.len());
    assert_eq!((table.work().evicted, table.need()), (evicted, None));
}

#[test]
fn a_table_whose_secret_is_known_needs_another_and_gets_well_by_it() {
    for level in Level::all() {
        get_well::<ShortKey, u16>(level);
        get_well::<FlowKey, Words<16>>(level);
    }
}
