//! Code for batches, compiled by the first call that needs it.

use std::fs;
use std::sync::Barrier;
use std::thread;

use forebay_filter::cancel::{Cancel, Stopped};
use forebay_filter::compile;
use forebay_jit::{
    Backend, Filter, FilterSet, Isa, JitError, Options, Packets, Tally, cpu, perf_map,
};
use forebay_packet::{Interface, LinkType};

/// A filter with predicated loops, and one with branches.
const EXPRESSIONS: [&str; 2] = ["ip and tcp", "tcp[((tcp[12:1] & 0xf0) >> 2):4] = 0x47455420"];

fn options(isa: Isa) -> Options {
    Options::new(Backend::Auto, Some(isa)).unwrap()
}

fn filter(expression: &str) -> Filter {
    Filter::of_expression(expression, LinkType::ETHERNET, &options(cpu::detect())).unwrap()
}

/// 256 packets of 64 bytes: IPv4 or not, TCP or UDP, an HTTP request or not.
struct Traffic {
    memory: Vec<u8>,
    offset: Vec<u32>,
    length: Vec<u32>,
}

impl Traffic {
    fn new() -> Self {
        // The last packet, too, is followed by readable bytes.
        let mut memory = vec![0; 64 * 256 + 128];
        for (n, packet) in memory.chunks_exact_mut(64).take(256).enumerate() {
            packet[12..14].copy_from_slice(if n % 5 == 0 { &[8, 6] } else { &[8, 0] });
            packet[14] = 0x45;
            packet[23] = if n % 3 == 0 { 17 } else { 6 };
            packet[46] = 0x50;
            packet[54..58].copy_from_slice(if n % 2 == 0 { b"GET " } else { b"POST" });
        }
        let offset = (0..256).map(|n| n * 64).collect();
        Self { memory, offset, length: vec![64; 256] }
    }

    fn packets(&self) -> Packets<'_> {
        Packets::new(&self.memory, &self.offset, &self.length, &self.length).unwrap()
    }
}

fn run(filter: &Filter, packets: &Packets<'_>) -> (Vec<u32>, Tally) {
    let mut verdict = vec![7; packets.len()];
    let tally = filter.run_batch(packets, &mut verdict);
    (verdict, tally)
}

#[test]
fn loops_whose_compilation_was_cancelled_are_compiled_by_the_next_call() {
    let filter = filter(EXPRESSIONS[0]);
    let cancel = Cancel::default();
    cancel.cancel();
    assert!(matches!(cancel.run(|| filter.finish()), Err(Stopped::Cancelled)));
    filter.finish().unwrap();
    assert_ne!(filter.backend(), Backend::List);
}

#[test]
fn a_large_call_compiles_the_loops_and_a_small_one_does_not() {
    let traffic = Traffic::new();
    let packets = traffic.packets();
    for expression in EXPRESSIONS {
        let program = compile(expression, LinkType::ETHERNET).unwrap();
        let expected: Vec<u32> =
            (0..256).map(|i| program.run(packets.packet(i), packets.wire_len(i))).collect();
        assert!(expected.contains(&0) && expected.iter().any(|&verdict| verdict > 0));
        let filter = filter(expression);
        for size in [1, 2, 15] {
            let (verdict, tally) = run(&filter, &packets.slice(0..size));
            assert_eq!(verdict, expected[..size], "{expression}");
            assert_eq!(tally, Tally { list: size as u64, ..Tally::default() });
        }
        assert_eq!(filter.backend(), Backend::List);
        let first = filter.code().to_vec();
        // The first call that compiles them runs them, too.
        for _ in 0..2 {
            let (verdict, tally) = run(&filter, &packets);
            assert_eq!(verdict, expected, "{expression}");
            assert_eq!((tally.list, tally.batch + tally.slow), (0, 256), "{expression}");
        }
        assert_ne!(filter.backend(), Backend::List);
        assert_ne!(filter.code(), first);
        assert_eq!(run(&filter, &packets.slice(3..9)).0, expected[3..9], "{expression}");
        assert_eq!(filter.run(packets.packet(1), 64), expected[1], "{expression}");
    }
}

#[test]
fn a_finished_filter_has_its_loops_from_the_first_call() {
    let traffic = Traffic::new();
    for expression in EXPRESSIONS {
        let by_call = filter(expression);
        let expected = run(&by_call, &traffic.packets());
        let finished = filter(expression);
        let clone = finished.clone();
        clone.finish().unwrap();
        finished.finish().unwrap();
        assert_ne!(finished.backend(), Backend::List);
        assert_eq!(run(&finished, &traffic.packets()), expected);
        assert_eq!(finished.code(), by_call.code());

        let mut set = FilterSet::new(expression, options(cpu::detect()));
        set.require(0, &Interface::default()).unwrap();
        let of_set = set.filter_for(LinkType::ETHERNET).unwrap();
        assert_eq!(of_set.backend(), by_call.backend());
    }
}

#[test]
fn loops_without_their_entry_in_the_perf_map_are_used_and_it_is_reported() {
    let options = Options { perf_map: true, ..options(cpu::detect()) };
    let filter = Filter::of_expression("ip", LinkType::ETHERNET, &options).unwrap();
    let path = perf_map::path();
    fs::remove_file(&path).unwrap();
    // No file can be appended to here.
    fs::create_dir(&path).unwrap();
    let finished = [filter.finish(), filter.finish()];
    fs::remove_dir(&path).unwrap();
    for finished in finished {
        assert!(matches!(finished, Err(JitError::PerfMap { .. })), "{finished:?}");
    }
    assert_ne!(filter.backend(), Backend::List);
    assert_eq!(run(&filter, &Traffic::new().packets()).1.list, 0);
}

#[test]
fn the_code_is_the_same_at_every_level() {
    let traffic = Traffic::new();
    for isa in Isa::ALL.into_iter().filter(|&isa| isa <= cpu::detect()) {
        for expression in EXPRESSIONS {
            let options = options(isa);
            let filter = Filter::of_expression(expression, LinkType::ETHERNET, &options).unwrap();
            let before = run(&filter, &traffic.packets().slice(0..15)).0;
            let after = run(&filter, &traffic.packets()).0;
            assert_eq!(before, after[..15], "{expression} for {isa}");
        }
    }
}

#[test]
fn first_calls_at_the_same_time_agree() {
    let traffic = Traffic::new();
    let threads = 8;
    for round in 0..20 {
        let filter = filter(EXPRESSIONS[round % 2]);
        let start = Barrier::new(threads);
        let results: Vec<_> = thread::scope(|scope| {
            let call = |number| {
                let (filter, start, traffic) = (&filter, &start, &traffic);
                scope.spawn(move || {
                    start.wait();
                    if number == 0 {
                        filter.finish().unwrap();
                    }
                    run(filter, &traffic.packets())
                })
            };
            let calls: Vec<_> = (0..threads).map(call).collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        let (expected, of_loops) = run(&filter, &traffic.packets());
        assert_eq!(of_loops.list, 0);
        for (verdict, tally) in &results {
            assert_eq!(verdict, &expected);
            // Of the loops, or meanwhile of the list.
            assert!(*tally == of_loops || tally.list == 256, "{tally:?}");
        }
        assert_eq!(results[0].1, of_loops, "a finished filter has loops");
    }
}
