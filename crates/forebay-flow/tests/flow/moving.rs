//! Growth while packets arrive: what it may cost a packet.

use std::fs;

use forebay_flow::{Level, Need, Options, Spare, Table};
use forebay_packet::HashKey;

use super::kinds::{Key, State, for_each_kind, options};

/// Buckets that are moved for a packet: for each that is swept as many as the old memory has for
/// a bucket of the new one.
const MOST_MOVED: u64 = 2 * 4;

/// Page faults of this thread, of which each has the system zero a page.
fn faults() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    // proc_pid_stat(5): `minflt` is the eighth field after the name.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().nth(7).unwrap().parse().unwrap()
}

/// A table that is fuller than it ought to be, and the number of its flows.
fn full<K: Key, S: State>(level: Level) -> (Table<K, S>, u64) {
    let mut table = Table::empty(&options(50_000, level)).unwrap();
    let flows = table.entries() as u64 * 92 / 100;
    let keys: Vec<_> = (0..flows).map(K::number).collect();
    for keys in keys.chunks(64) {
        table.packets(keys, |i, state, _| *state = S::of(i as u16), |ended| panic!("{ended:?}"));
    }
    (table, flows)
}

fn grow<K: Key, S: State>(level: Level) {
    let (mut table, flows) = full::<K, S>(level);
    assert_eq!(table.need(), Some(Need::Room));
    let entries = table.entries();
    let spare = Spare::empty(100_000, HashKey([3, 4]), level).unwrap();
    assert!(table.replace(spare).is_none());
    let spare = Spare::empty(100_000, HashKey([3, 4]), level).unwrap();
    assert!(table.replace(spare).is_some(), "flows still move");
    let (before, mut packets) = (faults(), 0);
    let retired = loop {
        let migrated = table.work().migrated;
        // Flows that are there by turns with new ones.
        let n = if packets % 2 == 0 { packets * 7 % flows } else { flows + packets };
        let each = |_, state: &mut S, is_new| {
            assert_eq!(is_new, n >= flows);
            *state = S::of(n as u16 % 64);
        };
        table.packets(&[K::number(n)], each, |ended| panic!("{ended:?}"));
        packets += 1;
        let moved = table.work().migrated - migrated;
        // The packet's own flow beside them.
        assert!(moved <= MOST_MOVED + 1, "{moved} for one packet");
        if let Some(retired) = table.retired() {
            break retired;
        }
    };
    let faults = faults() - before;
    assert!(faults < 16, "{faults} pages for {packets} packets");
    assert!(packets <= entries as u64 / 4, "{packets}");
    drop(retired);
    assert_eq!((table.flows() as u64, table.need()), (flows + packets / 2, None));
    assert_eq!(table.work().evicted, 0);
    let keys: Vec<_> = (0..flows).map(K::number).collect();
    let mut states = Vec::new();
    table.states(&keys, &mut states);
    assert!(states.iter().zip(0..).all(|(state, n)| *state == Some(S::of(n as u16 % 64))));
}

#[test]
fn a_packet_moves_a_bounded_number_of_flows_and_touches_no_new_page() {
    for_each_kind!(grow());
}

#[test]
fn a_spare_that_is_smaller_is_refused() {
    let level = Level::fastest();
    let mut table = Table::new(&options(10_000, level)).unwrap();
    let spare = Spare::new(5_000, HashKey([3, 4]), level).unwrap();
    assert!(table.replace(spare).is_some());
    let same = Options { flows: 10_000, ..options(1, level) };
    assert!(table.replace(Spare::new(same.flows, same.key, level).unwrap()).is_none());
}
