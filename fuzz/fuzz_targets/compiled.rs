//! Compiled filters: any program by every back end, at one of the levels of this machine
//! and with any options, gives the interpreter's verdict on any packets. So does its
//! function, as built and simplified; both pass verification and survive printing and
//! parsing.
//!
//! The sanitizer does not see the memory accesses of compiled code. So packets, their
//! tables and the verdicts are at the first or the last byte of memory with inaccessible
//! pages beside it.
#![no_main]

#[path = "../../crates/forebay-jit/tests/support/guarded.rs"]
#[allow(dead_code, reason = "the tests have other uses for it")]
mod guarded;
#[path = "support/packets.rs"]
mod packets;
#[path = "support/program.rs"]
mod program;

use forebay_codegen::code::{PacketsIn, Scheduling};
use forebay_filter::Program;
use forebay_filter::ir::Function;
use forebay_filter::ir::build::build;
use forebay_filter::ir::simplify::simplify;
use forebay_filter::ir::text::parse;
use forebay_filter::ir::verify::verify;
use forebay_jit::{Backend, Filter, Isa, Options, Packets, cpu};
use guarded::Described;
use libfuzzer_sys::fuzz_target;
use packets::{Layout, with_packets};

fuzz_target!(|data: &[u8]| {
    let [count, choice, wire_high, wire_low, place, tuning, prefetch, patterns, rest @ ..] = data
    else {
        return;
    };
    let (code, memory) = rest.split_at(rest.len().min(usize::from(*count) * 8) / 8 * 8);
    let Some(program) = program::program(code) else { return };
    let functions = functions(&program);
    let layout = Layout {
        place: *place,
        packets: 1 + usize::from(choice / 4) * packets::MOST / 64,
        wire_len: u32::from(u16::from_be_bytes([*wire_high, *wire_low])),
        // A loop takes time in proportion to the captured length.
        has_loops: functions[0].has_backward_edges(),
    };
    let levels: Vec<Isa> = Isa::ALL.into_iter().filter(|&isa| isa <= cpu::detect()).collect();
    let isa = levels[usize::from(choice % 4) % levels.len()];
    let options = Backend::ALL.map(|backend| options(backend, isa, *tuning, *prefetch, *patterns));
    with_packets(memory, layout, |Described { packets, verdict }| {
        let truth = truth(&program, &functions, &packets);
        for options in &options {
            check(&program, options, &packets, &truth, verdict);
        }
    });
});

/// The function of a program as built and simplified. Both must be well-formed, and must
/// survive printing and parsing.
fn functions(program: &Program) -> [Function; 2] {
    let built = build(program);
    let mut simplified = built.clone();
    simplify(&mut simplified);
    let functions = [built, simplified];
    for function in &functions {
        let rules = verify(function);
        assert_eq!(rules, Ok(()), "{function}\n{}", program.listing());
        assert_eq!(parse(&function.to_string()).as_ref(), Ok(function), "{function}");
    }
    functions
}

/// Any options for a back end.
fn options(backend: Backend, isa: Isa, tuning: u8, prefetch: u8, patterns: u8) -> Options {
    let mut options = Options::new(backend, Some(isa)).expect("a level of this machine");
    let [scheduling, latency, explain] = [tuning % 4, tuning / 4 % 4, tuning / 16].map(usize::from);
    let schedulings = [Scheduling::None, Scheduling::List, Scheduling::Modulo, Scheduling::Modulo];
    options.codegen.scheduling = schedulings[scheduling];
    options.codegen.load_latency = [1, 5, 12, 40][latency];
    // Explaining takes longer than all the rest.
    options.codegen.explain = explain == 15;
    options.codegen.prefetch = [0, 1, 7, 32, 64, 300][usize::from(prefetch) % 6];
    options.codegen.packets = [PacketsIn::Unknown, PacketsIn::Memory, PacketsIn::Cache]
        [usize::from(prefetch) / 6 % 3];
    options.codegen.ems_patterns = [2048, 20, 1, 20_000][usize::from(patterns) % 4];
    options
}

/// The interpreter's verdict on each packet; the functions must give the same.
fn truth(program: &Program, functions: &[Function; 2], packets: &Packets<'_>) -> Vec<u32> {
    let verdict = |i| {
        let (packet, wire_len) = (packets.packet(i), packets.wire_len(i));
        let truth = program.run(packet, wire_len);
        for function in functions {
            assert_eq!(function.run(packet, wire_len), truth, "{function}\n{}", program.listing());
        }
        truth
    };
    (0..packets.len()).map(verdict).collect()
}

/// Compares the verdicts of compiled code with `truth`.
fn check(
    program: &Program,
    options: &Options,
    packets: &Packets<'_>,
    truth: &[u32],
    verdict: &mut [u32],
) {
    let options_and_program = || format!("{:?}\n{}", options.codegen, program.listing());
    let filter = Filter::compile(program, options).expect("every program compiles");
    // Batches too small to compile the loops are to run them, too.
    filter.finish().expect("code for batches compiles");
    // From the fourth call on at one place, code for packets in the cache runs, if there is any.
    for _ in 0..if options.codegen.backend == Backend::Auto { 4 } else { 1 } {
        verdict.fill(0xdead_beef);
        filter.run_batch(packets, verdict);
        assert_eq!(verdict, truth, "{}", options_and_program());
    }
    for i in [0, packets.len() - 1] {
        let alone = filter.run(packets.packet(i), packets.wire_len(i));
        assert_eq!(alone, truth[i], "packet {i} alone, {}", options_and_program());
    }
}
