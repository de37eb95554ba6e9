//! Verdicts through the wrapper: batches of all sizes, packets left, packets at
//! the edges of memory.

use std::sync::Arc;
use std::thread;

use forebay_codegen::code::BatchEntry;
use forebay_jit::memory::MemoryError;
use forebay_jit::{Filter, JitError, Kernel, Packets, Tally};
use forebay_packet::{BATCH, Batch, Interface, PacketMeta, Region};

use crate::blobs::{BATCH_MARK, LANES, RESIDENT_MARK, Shape, code, expected};
use crate::blobs::{filter, filter_of_two_forms};
use crate::support::guarded::Guarded;

const PLAIN: Shape = Shape { reach: 64, scratch: 0, leaves: 0 };
const LEAVING: Shape = Shape { reach: 64, scratch: 12 << 10, leaves: 3 };

/// Tables of `n` packets that overlap in `memory`, the last `room` bytes of it
/// left free.
fn tables(memory: &[u8], n: usize, room: usize) -> [Vec<u32>; 3] {
    let space = memory.len() - room;
    let offset: Vec<u32> = (0..n).map(|i| (i * 37 % (space - 50)) as u32).collect();
    let cap_len = (0..n).map(|i| (i * 11 % 50) as u32).collect();
    let wire_len = (0..n).map(|i| i as u32).collect();
    [offset, cap_len, wire_len]
}

fn noise(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 256) as u8).collect()
}

#[test]
fn one_packet_at_a_time() {
    for shape in [None, Some(PLAIN), Some(LEAVING)] {
        let filter = filter(shape);
        assert_eq!(filter.run(&[], 7), 0);
        assert_eq!(filter.run(&[9], 7), 1 + (9 << 16));
        let memory = noise(300);
        assert_eq!(filter.run(&memory[3..], 7), expected(&memory[3..]));
    }
}

#[test]
fn where_calls_come_back_code_for_packets_in_the_cache_runs() {
    let memory = &noise(4 << 20);
    let check = |shape: Shape, edge: bool| {
        let (filter, plain) = (filter_of_two_forms(shape), filter(Some(shape)));
        // Of 20 packets from `start` on, how many this code decided.
        let run = |filter: &Filter, start: u32| {
            let mut offset: Vec<u32> = (0..20).map(|i| start + 64 * i).collect();
            if edge {
                offset[7] = memory.len() as u32 - 63;
            }
            let length: Vec<u32> = (41..61).collect();
            let packets = Packets::new(memory, &offset, &length, &length).unwrap();
            let mut verdict = [0; 20];
            filter.run_batch(&packets, &mut verdict);
            for (i, verdict) in verdict.iter().enumerate() {
                assert_eq!(verdict & !(BATCH_MARK | RESIDENT_MARK), expected(packets.packet(i)));
            }
            [BATCH_MARK, RESIDENT_MARK]
                .map(|mark| verdict.iter().filter(|&verdict| verdict & mark != 0).count())
        };
        let by_plain = run(&plain, 0)[0];
        assert_eq!(by_plain, if edge { 19 } else { 20 - if shape.leaves > 0 { 7 } else { 0 } });
        // Through memory, then at one place: a first call, two that come back, and then they are known to.
        let mut made = Vec::new();
        for start in (0..60).map(|call| call * (64 << 10)).chain([0; 4]) {
            made.push(run(&filter, start));
        }
        assert_eq!(made[..63], [[by_plain, 0]; 63], "{edge}");
        assert_eq!(made[63], [0, by_plain], "{edge}");
        // It has no code of that kind.
        assert_eq!(run(&plain, 0), [by_plain, 0]);
    };
    // What a thread's calls went over before counts.
    thread::scope(|scope| {
        for (shape, edge) in [(PLAIN, false), (LEAVING, false), (PLAIN, true)] {
            scope.spawn(move || check(shape, edge));
        }
    });
}

#[test]
fn batches_of_all_sizes() {
    let memory = noise(5000);
    for n in (0..40).chain([255, 256, 257, 263, 264, 511, 512, 1000]) {
        let [offset, cap_len, wire_len] = tables(&memory, n, 64);
        let packets = Packets::new(&memory, &offset, &cap_len, &wire_len).unwrap();
        let truth: Vec<u32> = (0..n).map(|i| expected(packets.packet(i))).collect();
        let whole = n - if n % BATCH < LANES { n % BATCH } else { 0 };

        let mut verdict = vec![u32::MAX; n];
        let tally = filter(None).run_batch(&packets, &mut verdict);
        assert_eq!(verdict, truth);
        assert_eq!(tally, Tally { list: n as u64, ..Tally::default() });

        let tally = filter(Some(PLAIN)).run_batch(&packets, &mut verdict);
        let marked = |(i, truth): (usize, &u32)| truth + if i < whole { BATCH_MARK } else { 0 };
        assert_eq!(verdict, truth.iter().enumerate().map(marked).collect::<Vec<_>>());
        let (batch, list) = (whole as u64, (n - whole) as u64);
        assert_eq!(tally, Tally { batch, list, ..Tally::default() });

        let tally = filter(Some(LEAVING)).run_batch(&packets, &mut verdict);
        let left = |i: usize| cap_len[i] % LEAVING.leaves == 0;
        for i in 0..n {
            let mark = if i < whole && !left(i) { BATCH_MARK } else { 0 };
            assert_eq!(verdict[i], truth[i] + mark, "packet {i} of {n}");
        }
        let slow = (0..whole).filter(|&i| left(i)).count() as u64;
        assert_eq!(tally, Tally { batch: batch - slow, slow, list, edge: 0 });
    }
}

#[test]
fn packets_near_the_end_of_memory_are_not_read_past() {
    let mut guarded = Guarded::new(1);
    let noise = noise(4096);
    guarded.bytes_mut().copy_from_slice(&noise);
    let memory = guarded.bytes();
    for shape in [PLAIN, LEAVING, Shape { reach: 1000, ..LEAVING }] {
        let filter = filter(Some(shape));
        for n in [8, 100, 256, 300] {
            // Every third packet ends where the memory does.
            let [mut offset, cap_len, wire_len] = tables(memory, n, shape.reach);
            for i in (0..n).step_by(3) {
                offset[i] = memory.len() as u32 - cap_len[i];
            }
            let packets = Packets::new(memory, &offset, &cap_len, &wire_len).unwrap();
            let mut verdict = vec![0; n];
            let tally = filter.run_batch(&packets, &mut verdict);
            for (i, verdict) in verdict.iter().enumerate() {
                assert_eq!(verdict & !BATCH_MARK, expected(packets.packet(i)), "packet {i}");
            }
            assert_eq!(tally.edge, n.div_ceil(3) as u64);
            assert_eq!(tally.batch + tally.slow + tally.edge + tally.list, n as u64);
            let marked = verdict.iter().filter(|&&verdict| verdict & BATCH_MARK != 0).count();
            assert_eq!(tally.batch, marked as u64);
        }
    }
}

#[test]
fn the_last_packet_that_may_be_read_whole_is() {
    let guarded = Guarded::new(1);
    let last = 4096 - PLAIN.reach as u32;
    for (offset, edge) in [(last, 0), (last + 1, LANES as u64)] {
        let (offset, lens) = ([offset; LANES], [1; LANES]);
        let packets = Packets::new(guarded.bytes(), &offset, &lens, &lens).unwrap();
        let tally = filter(Some(PLAIN)).run_batch(&packets, &mut [0; LANES]);
        assert_eq!((tally.edge, tally.batch), (edge, LANES as u64 - edge));
    }
}

#[test]
fn memory_smaller_than_the_reach() {
    for memory in [&[][..], &[7; 63]] {
        let offset = [memory.len() as u32; 20];
        let packets = Packets::new(memory, &offset, &[0; 20], &[0; 20]).unwrap();
        let mut verdict = [9; 20];
        let tally = filter(Some(PLAIN)).run_batch(&packets, &mut verdict);
        assert_eq!((verdict, tally.edge, tally.list), ([0; 20], 20, 0));
    }
}

/// A batch that fills its region to the last byte.
fn batch(n: usize) -> Batch {
    let mut region = Region::new(10 * n).unwrap();
    let noise = noise(10 * n);
    region.bytes_mut().copy_from_slice(&noise);
    let mut batch = Batch::new(Arc::new(region), Arc::new(vec![Interface::default()]));
    for i in 0..n as u32 {
        let cap_len = 5 + i % 6;
        let offset = 10 * i + 10 - cap_len;
        let meta = PacketMeta { offset, cap_len, wire_len: 10, ticks: 0, interface: 0 };
        batch.push(meta).unwrap();
    }
    batch
}

#[test]
fn a_region_has_a_tail_to_read() {
    for n in [0, 1, 8, 200, 256] {
        let mut batch = batch(n);
        batch.verdict = vec![3; 5];
        let tally = filter(Some(PLAIN)).run_packets(&mut batch);
        assert_eq!((tally.edge, tally.slow), (0, 0));
        let truth: Vec<u32> = (0..n).map(|i| expected(batch.packet(i))).collect();
        let plain: Vec<u32> = batch.verdict.iter().map(|verdict| verdict & !BATCH_MARK).collect();
        assert_eq!(plain, truth);
        // Further than the tail: the last packets are at the edge.
        let far = filter(Some(Shape { reach: 200, ..PLAIN }));
        let tally = far.run_packets(&mut batch);
        assert_eq!(tally.edge > 0, n >= LANES);
        let plain: Vec<u32> = batch.verdict.iter().map(|verdict| verdict & !BATCH_MARK).collect();
        assert_eq!(plain, truth);
    }
}

#[test]
fn threads_share_a_filter() {
    let filter = filter(Some(LEAVING));
    thread::scope(|scope| {
        for n in [100, 200, 256] {
            let filter = &filter;
            scope.spawn(move || {
                let mut batch = batch(n);
                for _ in 0..200 {
                    filter.run_packets(&mut batch);
                    for i in 0..n {
                        let verdict = batch.verdict[i] & !BATCH_MARK;
                        assert_eq!(verdict, expected(batch.packet(i)));
                    }
                }
            });
        }
    });
}

#[test]
fn code_that_cannot_be_called_is_refused() {
    let new = |code| {
        // SAFETY: never called; refused, or dropped right away.
        unsafe { Kernel::new(&code) }.map(|_| ())
    };
    assert_eq!(new(code(Vec::new(), None)), Err(JitError::Memory(MemoryError::Empty)));
    let mut bad = code(vec![0xc3; 10], None);
    bad.each = 10;
    assert_eq!(new(bad.clone()), Err(JitError::Entry { entry: 10, instructions: 10 }));
    (bad.each, bad.constants_at) = (5, 5);
    assert_eq!(new(bad.clone()), Err(JitError::Entry { entry: 5, instructions: 5 }));
    bad.constants_at = 1000;
    bad.each = 999;
    assert_eq!(new(bad), Err(JitError::Entry { entry: 999, instructions: 10 }));
    let entry = BatchEntry {
        entry: 1,
        resident: None,
        lanes: 8,
        least: 8,
        reach: 64,
        scratch: 0,
        leaves: false,
    };
    let with = |entry| new(code(vec![0xc3; 10], Some(entry)));
    assert_eq!(with(entry), Ok(()));
    for far in [BatchEntry { entry: 10, ..entry }, BatchEntry { resident: Some(10), ..entry }] {
        assert_eq!(with(far), Err(JitError::Entry { entry: 10, instructions: 10 }));
    }
    for lanes in [0, 9, 65, 72] {
        assert_eq!(
            with(BatchEntry { lanes, least: lanes, ..entry }),
            Err(JitError::Lanes { lanes })
        );
    }
    let much = BatchEntry { scratch: 12289, ..entry };
    assert_eq!(with(much), Err(JitError::Scratch { wanted: 12289, most: 12288 }));
}

#[test]
#[should_panic(expected = "a verdict for each packet")]
fn too_few_verdicts_are_a_mistake_of_the_caller() {
    let packets = Packets::new(&[0; 4], &[0, 0], &[1, 1], &[1, 1]).unwrap();
    filter(None).run_batch(&packets, &mut [0]);
}
