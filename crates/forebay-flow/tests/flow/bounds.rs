//! What operations may take at the most.

use forebay_flow::{Ended, Level, Options, ShortKey, Table};
use forebay_packet::{FlowKey, HashKey};

use super::kinds::{Key, State, Words, for_each_kind, key, options};

/// Fills a table to this share of its entries, and returns it.
fn filled<K: Key, S: State>(options: &Options, percent: usize) -> Table<K, S> {
    let mut table = Table::empty(options).unwrap();
    let flows = table.entries() * percent / 100;
    for n in 0..flows as u64 {
        let mut ends = Vec::new();
        table.packets(&[K::number(n)], |_, _, is_new| assert!(is_new), |ended| ends.push(ended));
        assert_eq!(ends, [], "{n} of {flows}: {:?}", table.work());
    }
    table
}

/// A table at 95%, none of whose flows was evicted, and the bounds of the work for it.
fn fill_to_95_percent<K: Key, S: State>(level: Level, flows: usize, seeds: u64) {
    for seed in 0..seeds {
        let options = Options { key: HashKey([seed, 1]), ..options(flows, level) };
        let table = filled::<K, S>(&options, 95);
        let work = table.work();
        assert_eq!((table.flows(), work.evicted), (table.entries() * 95 / 100, 0));
        assert!(work.most_searched <= 1024 && work.most_moved <= 6, "{work:?}");
        let moved = work.moved as f64 / table.flows() as f64;
        assert!(moved < 0.5, "{moved} entries moved for each");
        println!("{level:?}: {work:?}");
    }
}

#[test]
fn nothing_is_evicted_up_to_95_percent() {
    for level in Level::all() {
        fill_to_95_percent::<ShortKey, u16>(level, 500_000, 3);
    }
}

#[test]
fn nothing_is_evicted_up_to_95_percent_with_any_keys_and_states() {
    for_each_kind!(fill_to_95_percent(50_000, 1));
}

/// Bytes of a flow at 80% of the entries.
fn bytes_a_flow<K: Key, S: State>() -> f64 {
    let table = filled::<K, S>(&options(50_000, Level::fastest()), 80);
    table.bytes() as f64 / table.flows() as f64
}

#[test]
fn a_flow_takes_at_most_24_bytes_at_80_percent() {
    assert!(bytes_a_flow::<ShortKey, u16>() <= 24.0);
}

#[test]
fn a_whole_key_takes_at_most_80_bytes_at_80_percent_and_a_state_its_own() {
    for (bytes, most) in [
        (bytes_a_flow::<ShortKey, Words<4>>(), 20.0 + 10.0),
        (bytes_a_flow::<ShortKey, Words<16>>(), 20.0 + 40.0),
        (bytes_a_flow::<FlowKey, u16>(), 80.0),
        (bytes_a_flow::<FlowKey, Words<16>>(), 80.0 + 40.0),
    ] {
        assert!(bytes <= most + 0.1, "{bytes} bytes a flow instead of {most}");
    }
}

#[test]
fn a_full_table_has_a_place_for_each_new_flow() {
    let mut table = filled::<ShortKey, u16>(&options(1_000, Level::fastest()), 100 * 95 / 100);
    let (before, mut ended) = (table.flows(), Vec::new());
    for n in 1_000_000..1_010_000 {
        table.packets(&[key(n)], |_, _, is_new| assert!(is_new), |one| ended.push(one));
    }
    assert_eq!(before + 10_000 - ended.len(), table.flows());
    assert_eq!(table.work().evicted, ended.len() as u64);
    assert!(table.work().most_searched <= 1024);
}

#[test]
fn of_two_full_buckets_the_flow_of_the_longest_silence_ends() {
    let mut table = filled::<ShortKey, u16>(&options(1_000, Level::fastest()), 95);
    let old = table.flows() as u64;
    table.advance(1);
    while table.epoch() == 0 {
        table.sweep(1, |_| panic!("no flow is silent for so long"));
    }
    // Every second flow has another packet.
    let mut ended = Vec::new();
    for n in (0..old).step_by(2) {
        table.packets(&[key(n)], |_, _, is_new| assert!(!is_new), |one| ended.push(one));
    }
    assert_eq!(ended, []);
    for n in 1_000_000.. {
        table.packets(&[key(n)], |_, _, _| {}, |one| ended.push(one));
        if ended.len() >= 100 {
            break;
        }
    }
    let is_young = |one: &&Ended| (0..old).step_by(2).any(|n| key(n) == one.key);
    // All eight of two buckets are seldom young.
    assert!(ended.iter().filter(is_young).count() < 10);
}

#[test]
fn options_out_of_bounds_are_errors() {
    let level = Level::Scalar;
    let refused = |options: Options| Table::new(&options).unwrap_err().to_string();
    let some = options(10, level);
    assert_eq!(refused(Options { flows: 0, ..some }), "0 flows: expected 1 to 1073741824");
    let long = refused(Options { lifetime: 49, ..some });
    assert_eq!(long, "a lifetime of 49 epochs: expected 1 to 48");
}
