//! The code of back end `ems`, run on packets against the reference
//! interpreter of the intermediate representation.

use crate::functions::Maker;
use crate::support::{Guarded, Place, Runnable};
use forebay_codegen::code::{Backend, Code, Isa, Options};
use forebay_codegen::emit::assembler::Assembler;
use forebay_codegen::ems::{self, EmsError};
use forebay_filter::compile_function;
use forebay_filter::ir::{Arithmetic, Function, Predicate, Relation, Terminator, Value, ValueId};
use forebay_packet::LinkType;
use forebay_packet::random::Random;
use forebay_testkit::data;

/// Bytes of a packet in memory.
const SLOT: usize = 512;

/// Packets in memory.
const PACKETS: usize = 64;

/// Filters of all kinds, for where there is no test data.
const EXPRESSIONS: [&str; 16] = [
    "ip",
    "ip and tcp",
    "len >= 100",
    "net 10.0.0.0/8",
    "port 80",
    "not (tcp dst port 17)",
    "udp and (port 53 or port 67)",
    "tcp[13] & 7 != 0 and ip[2:2] > 20",
    "ip[8] * ip[9] - ip[10] << 3 > 4096",
    "ip[4] % 16 = 2 or ip[6:2] / 4 > 5",
    "ip[2:2] - ((ip[0] & 15) << 2) - ((tcp[12] & 0xf0) >> 2) != 0",
    "ether[100] & 0 = 0 or len > 60",
    "vlan and ip6",
    "ip[ip[8]] = 17",
    "src portrange 20-80 or dst portrange 80-100",
    "host 10.0.0.1 or host 10.0.0.2 or host 10.0.0.3 or host 10.0.0.4 or host 10.0.0.5",
];

/// Code that may be run, and how many bytes of each packet it reads.
struct Built {
    code: Runnable,
    reach: usize,
    patterns: usize,
}

fn built(function: &Function, options: &Options) -> Result<Built, EmsError> {
    let mut assembler = Assembler::default();
    let made = ems::compile(function, options, &mut assembler)?;
    let assembled = assembler.finish()?;
    let code = Code {
        each: assembled.offset(made.entry).expect("an entry"),
        constants_at: assembled.constants_at,
        batch: None,
        backend: Backend::Ems,
        notes: assembled.notes,
        bytes: assembled.bytes,
        schedule: made.report,
        remark: None,
    };
    Ok(Built { code: Runnable::new(&code), reach: made.reach, patterns: made.patterns })
}

fn options() -> Options {
    Options { prefetch: 8, ems_patterns: 512, ..Options::new(Backend::Ems, Isa::Scalar) }
}

/// Bytes that often are what filters look for.
fn fill(packet: &mut [u8], random: &mut Random) {
    for byte in packet.iter_mut() {
        *byte = random.pick(&[0, 0, 1, 10, 17, 22, 53, 80, random.state() as u8]);
    }
    let types = [0x0800, 0x0800, 0x0800, 0x86dd, 0x0806, 0x8100, 0x8864, 0x8847];
    let mut at = 12;
    for ether_type in [random.pick(&types), random.pick(&types)] {
        put(packet, at, &u16::to_be_bytes(ether_type));
        match ether_type {
            0x0800 => ipv4(&mut packet[at + 2..], random),
            0x86dd => ipv6(&mut packet[at + 2..], random),
            _ => {}
        }
        if ether_type != 0x8100 {
            break;
        }
        at += 4;
    }
}

fn put(packet: &mut [u8], at: usize, bytes: &[u8]) {
    packet[at..at + bytes.len()].copy_from_slice(bytes);
}

fn ipv4(packet: &mut [u8], random: &mut Random) {
    let words = random.pick(&[5, 5, 5, 5, 6, 8, 15, 0]);
    packet[0] = 0x40 | words;
    let fragment: u16 = random.pick(&[0, 0, 0x4000, 0x2000, 0x1fff, 5]);
    put(packet, 6, &fragment.to_be_bytes());
    packet[9] = random.pick(&[6, 6, 17, 17, 1, 132, 2]);
    let addresses = [[10, 0, 0, 1], [10, 0, 0, 3], [192, 168, 1, 7], [10, 100, 100, 100]];
    put(packet, 12, &random.pick(&addresses));
    put(packet, 16, &random.pick(&addresses));
    ports(&mut packet[usize::from(words) * 4..], random);
}

fn ipv6(packet: &mut [u8], random: &mut Random) {
    packet[0] = 0x60;
    packet[6] = random.pick(&[6, 6, 17, 58, 0, 44]);
    let address = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    if random.below(2) == 0 {
        put(packet, 8 + 16 * random.below(2) as usize, &address);
    }
    ports(&mut packet[40..], random);
}

fn ports(packet: &mut [u8], random: &mut Random) {
    let ports: [u16; 8] = [22, 53, 67, 80, 443, 3000, 6000, 60000];
    put(packet, 0, &random.pick(&ports).to_be_bytes());
    put(packet, 2, &random.pick(&ports).to_be_bytes());
}

/// Makes some tests of `function` hold for the packet: those that compare bytes
/// with a number.
fn satisfy(function: &Function, packet: &mut [u8], random: &mut Random) {
    for block in &function.blocks {
        let Terminator::Test { predicate, .. } = block.end else { continue };
        let (value, number) = match predicate {
            Predicate::Compare { relation: Relation::Equal, left, right } => {
                (left, function.as_constant(right))
            }
            Predicate::Member { value, set } => {
                (value, Some(random.pick(&function.sets[set.0 as usize])))
            }
            _ => continue,
        };
        if let Some(number) = number
            && random.below(3) == 0
        {
            store(function, value, number, packet);
        }
    }
}

/// Lets `value` be `number`, if it is a load, or a part of one. Headers are
/// taken to have their usual length.
fn store(function: &Function, value: ValueId, number: u32, packet: &mut [u8]) {
    let (width, index, displacement) = match function.get(value) {
        Value::Load { width, index, displacement } => (width, index, displacement as usize),
        Value::Binary { op: Arithmetic::And, left, .. } => {
            return store(function, left, number, packet);
        }
        _ => return,
    };
    let at = displacement + if index.is_some() { 20 } else { 0 };
    let bytes = &number.to_be_bytes()[4 - width.bytes() as usize..];
    if let Some(place) = packet.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// Packets, one a slot. Each ends with its slot, or so near to its end as the
/// bytes that are read whatever was captured let it; the last slot ends at a
/// page that may not be read.
fn packets(
    function: &Function,
    memory: &mut [u8],
    reach: usize,
    random: &mut Random,
) -> Vec<Place> {
    let ends = (1..=PACKETS).map(|slot| memory.len() - (PACKETS - slot) * SLOT);
    ends.collect::<Vec<_>>()
        .into_iter()
        .map(|end| {
            let cap_len = match random.below(4) {
                0 => random.below(70),
                1 => random.pick(&[14, 34, 38, 54, 60]),
                _ => 60 + random.below(200),
            };
            let offset = end - reach.max(cap_len as usize);
            let mut packet = [0; SLOT];
            fill(&mut packet, random);
            if random.below(2) == 0 {
                satisfy(function, &mut packet, random);
            }
            memory[offset..end].copy_from_slice(&packet[..end - offset]);
            let wire_len = cap_len as u32 + random.pick(&[0, 0, 1, 1400]);
            Place { offset: offset as u32, cap_len: cap_len as u32, wire_len }
        })
        .collect()
}

/// Runs `built` for all counts up to `PACKETS`; says how many packets of the
/// largest were kept.
fn check(function: &Function, built: &Built, random: &mut Random, what: &str) -> usize {
    let mut guarded = Guarded::new(PACKETS * SLOT);
    let memory = guarded.bytes();
    let packets = packets(function, memory, built.reach, random);
    let expected: Vec<u32> = packets
        .iter()
        .map(|place| {
            let bytes = &memory[place.offset as usize..][..place.cap_len as usize];
            function.run(bytes, place.wire_len)
        })
        .collect();
    for count in 1..=PACKETS {
        // From the end, for the packet there is at the page's edge.
        let from = PACKETS - count;
        assert_eq!(
            built.code.run_batch(memory, &packets[from..]),
            expected[from..],
            "{what}: {count}"
        );
    }
    expected.iter().filter(|&&verdict| verdict != 0).count()
}

#[test]
fn every_expression_gives_the_verdicts_of_the_filter() {
    let mut random = Random::new(11);
    let mut expressions: Vec<String> = EXPRESSIONS.map(str::to_owned).to_vec();
    expressions.extend(data::expressions(&data::folder()));
    let (mut taken, mut both) = (0, 0);
    for expression in &expressions {
        let function = compile_function(expression, LinkType::ETHERNET).expect(expression);
        match built(&function, &options()) {
            Ok(built) => {
                taken += 1;
                let kept: usize =
                    (0..4).map(|_| check(&function, &built, &mut random, expression)).sum();
                both += usize::from(kept > 0 && kept < 4 * PACKETS);
            }
            Err(error) => println!("{expression}: {error}"),
        }
    }
    println!("{taken} of {} taken, {both} both keep and drop packets", expressions.len());
    assert!(taken * 10 >= expressions.len() * 9, "{taken}");
    assert!(both * 2 >= taken, "{both} of {taken}");
}

#[test]
fn random_functions_give_their_verdicts() {
    let mut taken = 0;
    for seed in 0..600 {
        let mut random = Random::new(seed);
        let tests = 1 + random.below(12) as usize;
        let function = Maker::function(&mut random, tests, false);
        if let Ok(built) = built(&function, &options()) {
            taken += 1;
            check(&function, &built, &mut random, &format!("seed {seed}: {function:#?}"));
        }
    }
    assert!(taken >= 50, "{taken}");
}

#[test]
fn the_number_of_patterns_is_bounded() {
    let mut random = Random::new(5);
    let function = compile_function("port 80", LinkType::ETHERNET).unwrap();
    let mut least = usize::MAX;
    for bound in [4096, 1024, 512, 256, 128, 64, 16, 4] {
        let options = Options { ems_patterns: bound, ..options() };
        match built(&function, &options) {
            Ok(built) => {
                assert!(built.patterns <= bound, "{} of {bound}", built.patterns);
                least = built.patterns.min(least);
                check(&function, &built, &mut random, &format!("at most {bound} patterns"));
            }
            Err(error) => assert_eq!(error, EmsError::Patterns(bound)),
        }
    }
    assert!(least <= 128, "{least}");
}

#[test]
fn latencies_and_prefetches_do_not_change_verdicts() {
    let mut random = Random::new(9);
    for expression in ["ip and tcp", "port 80", "tcp[13] & 7 != 0"] {
        let function = compile_function(expression, LinkType::ETHERNET).unwrap();
        for load_latency in [0, 1, 5, 14, 60] {
            for prefetch in [0, 1, 7, 63, 64, 65, 255, u16::MAX] {
                let options = Options { load_latency, prefetch, ..options() };
                let built = built(&function, &options).expect(expression);
                let what = format!("{expression}, latency {load_latency}, prefetch {prefetch}");
                check(&function, &built, &mut random, &what);
            }
        }
    }
}

#[test]
fn the_same_filter_gives_the_same_code() {
    for expression in EXPRESSIONS {
        let function = compile_function(expression, LinkType::ETHERNET).unwrap();
        let [first, second] = [(), ()].map(|()| {
            let mut assembler = Assembler::default();
            let options = Options { explain: true, ..options() };
            let made = ems::compile(&function, &options, &mut assembler).expect(expression);
            (made.report, assembler.finish().unwrap().bytes)
        });
        assert!(first == second, "{expression}");
        assert!(first.0.starts_with("ems: II "), "{expression}");
        assert!(first.0.lines().all(|line| line.chars().count() <= 100), "{expression}");
    }
}
