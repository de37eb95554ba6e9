//! What operations may take at the most.

use forebay_flow::{Ended, Level, Options, Table};
use forebay_packet::HashKey;

use super::model::{key, options};

/// Fills a table of `entries` to this share, and returns it.
fn filled(options: &Options, percent: usize) -> Table {
    let mut table = Table::new(options).unwrap();
    let flows = table.entries() * percent / 100;
    for n in 0..flows as u64 {
        let mut ends = Vec::new();
        table.packets(&[key(n)], |_, _, is_new| assert!(is_new), |ended| ends.push(ended));
        assert_eq!(ends, [], "{n} of {flows}: {:?}", table.work());
    }
    table
}

#[test]
fn nothing_is_evicted_up_to_95_percent() {
    for level in Level::all() {
        for seed in 0..3 {
            let options = Options { key: HashKey([seed, 1]), ..options(500_000, level) };
            let table = filled(&options, 95);
            let work = table.work();
            assert_eq!((table.flows(), work.evicted), (table.entries() * 95 / 100, 0));
            assert!(work.most_searched <= 1024 && work.most_moved <= 6, "{work:?}");
            let moved = work.moved as f64 / table.flows() as f64;
            assert!(moved < 0.5, "{moved} entries moved for each");
            println!("{level:?}: {work:?}");
        }
    }
}

#[test]
fn a_flow_takes_at_most_24_bytes_at_80_percent() {
    let table = filled(&options(500_000, Level::fastest()), 80);
    assert!(table.bytes() as f64 / table.flows() as f64 <= 24.0);
}

#[test]
fn a_full_table_has_a_place_for_each_new_flow() {
    let mut table = filled(&options(1_000, Level::fastest()), 100 * 95 / 100);
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
    let mut table = filled(&options(1_000, Level::fastest()), 95);
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
