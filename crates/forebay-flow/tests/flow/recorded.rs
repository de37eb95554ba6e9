//! The reads that look-ups in the exact table record.

use forebay_flow::{Level, ShortKey, Table};

use super::kinds::{key, options};

const BUCKET: usize = 64;
const SLOTS: usize = 4;

#[test]
fn a_read_is_recorded_for_each_bucket_that_is_probed() {
    for level in Level::all() {
        let mut table = Table::new(&options(20_000, level)).unwrap();
        let known: Vec<ShortKey> = (0..20_000).map(key).collect();
        let unknown: Vec<ShortKey> = (20_000..30_000).map(key).collect();
        table.packets(&known, |_, _, is_new| assert!(is_new), |_| ());
        // Alone, a flow that is found has one probe or two, the last of its slot.
        let mut probes = [0, 0];
        for (keys, probes) in [&known, &unknown].into_iter().zip(&mut probes) {
            for &key in keys {
                let (mut slots, mut reads) = ([0; 2], Vec::new());
                let [slot, recorded] = &mut slots;
                table.find(&[key], std::slice::from_mut(slot));
                let record = |address, len| reads.push((address, len));
                table.find_recorded(&[key], std::slice::from_mut(recorded), record);
                assert_eq!(slot, recorded);
                let bucket = *slot as usize / SLOTS * BUCKET;
                match *slot {
                    u32::MAX => assert_eq!(reads.len(), 2),
                    _ => assert_eq!(reads.last(), Some(&(bucket, BUCKET))),
                }
                assert!(reads.iter().all(|&(address, _)| address < table.bytes()));
                *probes += reads.len();
            }
        }
        assert!((20_000..30_000).contains(&probes[0]) && probes[1] == 20_000, "{probes:?}");
        // Together, flows have the same number of probes.
        for (keys, probes) in [&known, &unknown].into_iter().zip(probes) {
            let (mut slots, mut recorded) = (vec![0; keys.len()], vec![0; keys.len()]);
            let mut reads = 0;
            table.find(keys, &mut slots);
            table.find_recorded(keys, &mut recorded, |_, _| reads += 1);
            assert_eq!((slots, reads), (recorded, probes));
        }
    }
}
