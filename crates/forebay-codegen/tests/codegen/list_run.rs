//! The code of back end `list`, run on packets against the reference
//! interpreter of the intermediate representation.
//!
//! Each packet ends right before a page that may not be read, so that a load
//! beyond its captured bytes ends the test.

use crate::functions::Maker;
use crate::support::{Guarded, Place, Runnable, levels};
use forebay_codegen::code::{Backend, Isa, Options};
use forebay_codegen::explain::asm::disassemble;
use forebay_codegen::list;
use forebay_filter::compile;
use forebay_filter::ir::{
    Arithmetic, Block, BlockId, Edge, Function, Predicate, Relation, Terminator, Value, ValueId,
    Width, build, simplify,
};
use forebay_packet::LinkType;
use forebay_packet::random::Random;

/// Bytes before the closed page that packets are made of.
const SPACE: usize = 4096;

fn runnable(function: &Function, isa: Isa) -> Runnable {
    prefetching(function, isa, 0)
}

fn prefetching(function: &Function, isa: Isa, prefetch: u16) -> Runnable {
    let options = Options { prefetch, ..Options::new(Backend::List, isa) };
    let code = list::program(function, &options).expect("code");
    assert!(code.bytes.len() >= code.constants_at);
    Runnable::new(&code)
}

/// Packets of random lengths, all of which end at the closed page.
fn places(random: &mut Random, count: usize) -> Vec<Place> {
    (0..count)
        .map(|_| {
            let cap_len = match random.below(4) {
                0 => random.below(8),
                1 => random.below(48),
                2 => 40 + random.below(20),
                _ => random.below(300),
            } as u32;
            let wire_len = cap_len + random.pick(&[0, 0, 1, 1400]);
            Place { offset: SPACE as u32 - cap_len, cap_len, wire_len }
        })
        .collect()
}

/// Compares verdicts of all packets together, also where later ones are prefetched, of each alone, and of
/// the interpreter.
fn compare(function: &Function, isa: Isa, memory: &[u8], packets: &[Place], what: &str) {
    let code = runnable(function, isa);
    let verdicts = code.run(memory, packets);
    for (place, &verdict) in packets.iter().zip(&verdicts) {
        let bytes = &memory[place.offset as usize..][..place.cap_len as usize];
        let expected = function.run(bytes, place.wire_len);
        assert_eq!(verdict, expected, "{what} at {isa}, packet {place:?}: {function:#?}");
        assert_eq!(code.run(memory, std::slice::from_ref(place)), [expected], "{what}, alone");
    }
    let count = packets.len() as u16;
    for prefetch in [1, 16, count - 1, count, count + 1, 5_000] {
        let code = prefetching(function, isa, prefetch);
        assert_eq!(code.run(memory, packets), verdicts, "{what}, prefetching");
    }
    let code = prefetching(function, isa, 1);
    for (place, &verdict) in packets.iter().zip(&verdicts) {
        let alone = code.run(memory, std::slice::from_ref(place));
        assert_eq!(alone, [verdict], "{what}, alone and prefetching");
    }
}

fn fill(memory: &mut [u8], random: &mut Random) {
    for byte in memory.iter_mut() {
        *byte = match random.below(3) {
            0 => random.next() as u8,
            _ => random.below(18) as u8,
        };
    }
}

fn random_functions(seeds: std::ops::Range<u64>, with_loops: bool) {
    let mut guarded = Guarded::new(SPACE);
    for seed in seeds {
        let mut random = Random::new(seed);
        let tests = 1 + random.below(60) as usize;
        let function = Maker::function(&mut random, tests, with_loops);
        fill(guarded.bytes(), &mut random);
        let packets = places(&mut random, 40);
        for isa in levels() {
            compare(&function, isa, guarded.bytes(), &packets, &format!("seed {seed}"));
        }
    }
}

#[test]
fn random_functions_of_forward_edges() {
    random_functions(0..400, false);
}

#[test]
fn random_functions_with_loops() {
    random_functions(1_000_000..1_000_150, true);
}

/// A function whose block 0 goes on to block 1 with `arguments`.
fn looping(function: &mut Function, arguments: Vec<ValueId>) {
    let entry = Terminator::Jump(Edge { target: BlockId(1), arguments });
    function.blocks.push(Block { parameters: Vec::new(), end: entry });
}

fn parameters(function: &mut Function, count: u32) -> Vec<ValueId> {
    let block = BlockId(1);
    (0..count).map(|position| function.value(Value::Parameter { block, position })).collect()
}

/// Counts up to `bound` by as many backward edges, exchanging two parameters
/// each time, and returns the first.
fn exchange(bound: u32) -> Function {
    let mut function = Function::new();
    let [zero, one] = [0, 1].map(|constant| function.constant(constant));
    let [left, right] = [111, 222].map(|constant| function.constant(constant));
    let last = function.constant(bound);
    looping(&mut function, vec![left, right, zero]);
    let inside = parameters(&mut function, 3);
    let (op, left) = (Arithmetic::Add, inside[2]);
    let more = function.value(Value::Binary { op, left, right: one });
    let again = vec![inside[1], inside[0], more];
    let relation = Relation::GreaterOrEqual;
    let predicate = Predicate::Compare { relation, left: inside[2], right: last };
    let end = Terminator::Test {
        predicate,
        then: Edge::to(BlockId(2)),
        otherwise: Edge { target: BlockId(1), arguments: again },
    };
    let result = Terminator::Return(inside[0]);
    function.blocks.push(Block { parameters: inside, end });
    function.blocks.push(Block { parameters: Vec::new(), end: result });
    function
}

#[test]
fn a_loop_ends_at_the_captured_length_and_4097_edges() {
    let memory = [0; 64];
    for cap_len in [0, 1, 64] {
        let packet = Place { offset: 0, cap_len, wire_len: 64 };
        for (bound, verdict) in [
            (1, 222),
            (2, 111),
            (cap_len + 4095, if cap_len % 2 == 1 { 111 } else { 222 }),
            (cap_len + 4096, if cap_len % 2 == 1 { 222 } else { 111 }),
            (cap_len + 4097, 0),
            (cap_len + 4098, 0),
        ] {
            let function = exchange(bound);
            assert_eq!(function.run(&memory[..cap_len as usize], 64), verdict);
            for isa in levels() {
                // Twice, as each packet counts anew.
                let verdicts = runnable(&function, isa).run(&memory, &[packet, packet]);
                assert_eq!(verdicts, [verdict, verdict], "bound {bound} of {cap_len} at {isa}");
            }
        }
    }
}

/// A function that needs `leaves` values at once if loads come before
/// arithmetic.
fn wide_tree(leaves: u32) -> Function {
    let mut function = Function::new();
    let mut level: Vec<ValueId> = (0..leaves)
        .map(|at| {
            if at % 5 == 4 {
                return function.value(Value::WireLength);
            }
            let width = [Width::Byte, Width::Half, Width::Word][at as usize % 3];
            function.value(Value::Load { width, index: None, displacement: at })
        })
        .collect();
    let mut ops =
        [Arithmetic::Mul, Arithmetic::Xor, Arithmetic::Sub, Arithmetic::Rsh].iter().cycle();
    while level.len() > 1 {
        level = level
            .chunks(2)
            .map(|pair| match (pair, ops.next()) {
                (&[left, right], Some(&op)) => function.value(Value::Binary { op, left, right }),
                _ => pair[0],
            })
            .collect();
    }
    let [nothing, root] = [function.constant(0), level[0]];
    let end = Terminator::Test {
        predicate: Predicate::Captured { index: None, bytes: leaves + 4 },
        then: Edge::to(BlockId(1)),
        otherwise: Edge::to(BlockId(2)),
    };
    for end in [end, Terminator::Return(root), Terminator::Return(nothing)] {
        function.blocks.push(Block { parameters: Vec::new(), end });
    }
    function
}

#[test]
fn more_values_than_registers_go_to_the_frame() {
    let mut guarded = Guarded::new(SPACE);
    let mut random = Random::new(3);
    fill(guarded.bytes(), &mut random);
    for leaves in [4, 9, 10, 16, 60, 200, 3000] {
        let function = wide_tree(leaves);
        let mut packets = places(&mut random, 20);
        let cap_len = leaves + 4;
        packets.push(Place { offset: SPACE as u32 - cap_len, cap_len, wire_len: cap_len });
        for isa in levels() {
            compare(&function, isa, guarded.bytes(), &packets, &format!("{leaves} leaves"));
        }
    }
}

/// A filter for so many hosts.
fn hosts(count: u32) -> String {
    let host = |n: u32| format!("host 10.{}.{}.{}", n % 3, n * 7 % 251, n % 13);
    (0..count).map(host).collect::<Vec<_>>().join(" or ")
}

/// Filters whose code takes each form of a test for membership.
fn expressions() -> Vec<String> {
    let ports = |count: u32| {
        (0..count).map(|n| format!("dst port {}", 17 + 9 * n)).collect::<Vec<_>>().join(" or ")
    };
    let few = [
        "ip or arp",
        "port 17",
        "dst port 17 or tcp",
        "not (tcp or udp or sctp)",
        "ip[9] = 1 or ip[9] = 6 or ip[9] = 17 or ip[9] = 4 or ip[9] = 8",
        "ip[2:2] = 1 or ip[2:2] = 17 or ip[2:2] = 8",
        "ip and net 10.0.0.0/8 and not net 10.1.0.0/16",
        "net 10.1.0.0/16 or net 10.7.0.0/16 or net 1.2.0.0/16 or net 8.8.0.0/16 or net 6.0.0.0/16",
        "len > 100 or less 40",
        "portrange 10-40",
        "not dst portrange 0-17 and ip[1] > 3 and not ip[1] > 9",
        "ip[8] / (ip[9] + 1) = 1 or ip[4:4] % ip[8] = 3",
        "vlan 17 or (vlan and ip)",
        "ip6 protochain 17",
    ];
    let long = [hosts(2), hosts(5), hosts(12), hosts(40), hosts(90), ports(5), ports(30)];
    few.into_iter().map(str::to_owned).chain(long).collect()
}

#[test]
fn verdicts_of_filters_are_those_of_their_programs() {
    let mut guarded = Guarded::new(SPACE);
    let mut random = Random::new(11);
    for expression in expressions() {
        let program = compile(&expression, LinkType::ETHERNET).expect(&expression);
        let plain = build::build(&program);
        let mut simpler = plain.clone();
        simplify::simplify(&mut simpler);
        let codes: Vec<(Isa, Runnable)> = levels()
            .into_iter()
            .flat_map(|isa| [&plain, &simpler].map(|function| (isa, runnable(function, isa))))
            .collect();
        for round in 0..300 {
            let packet = places(&mut random, 1)[0];
            let start = packet.offset as usize;
            fill(&mut guarded.bytes()[start..], &mut random);
            header(&mut guarded.bytes()[start..], &mut random);
            let bytes = &guarded.bytes()[start..][..packet.cap_len as usize];
            let expected = program.run(bytes, packet.wire_len);
            for (isa, code) in &codes {
                let verdicts = code.run(guarded.bytes(), &[packet]);
                assert_eq!(verdicts, [expected], "{expression} at {isa}, round {round}");
            }
        }
    }
}

#[test]
fn wide_vector_registers_are_cleared_before_every_return() {
    let program = compile(&hosts(12), LinkType::ETHERNET).expect("a host list");
    let mut function = build::build(&program);
    simplify::simplify(&mut function);
    let code = list::program(&function, &Options::new(Backend::List, Isa::Avx2)).expect("code");
    let text = disassemble(&code);
    assert!(text.contains("ymm0"), "{text}");
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let returns = lines.iter().enumerate().filter(|(_, line)| line.ends_with("  ret"));
    for (at, _) in returns {
        let before = &lines[at.saturating_sub(4)..at];
        assert!(before.iter().any(|line| line.ends_with("vzeroupper")), "{text}");
    }
}

/// Often what filters look for.
fn header(packet: &mut [u8], random: &mut Random) {
    let ether_type = random.pick(&[[8, 0], [8, 0], [8, 0], [0x86, 0xdd], [0x81, 0], [8, 6]]);
    let bytes = [
        (12, ether_type[0]),
        (13, ether_type[1]),
        (14, 0x45),
        (20, random.pick(&[0, 6, 17, 132])),
        (23, random.pick(&[1, 6, 17, 132])),
        (26, 10),
        (27, random.below(4) as u8),
        (28, random.below(255) as u8),
        (29, random.below(14) as u8),
        (30, 10),
        (31, random.below(4) as u8),
        (32, random.below(60) as u8),
        (33, random.below(14) as u8),
        (34, 0),
        (36, 0),
        (56, 0),
    ];
    for (at, byte) in bytes {
        if let Some(place) = packet.get_mut(at) {
            *place = byte;
        }
    }
}

#[test]
fn ten_thousand_blocks_take_no_longer_each_than_a_few() {
    let mut random = Random::new(7);
    let function = Maker::function(&mut random, 10_000, false);
    assert!(function.blocks.len() >= 10_000);
    assert!(function.blocks.iter().any(|block| matches!(block.end, Terminator::Test { .. })));
    let start = std::time::Instant::now();
    let code = list::program(&function, &Options::new(Backend::List, Isa::Avx2)).expect("code");
    let taken = start.elapsed();
    println!("{} bytes in {taken:?}", code.bytes.len());
    assert!(taken.as_millis() < 2000, "{taken:?}");
}
