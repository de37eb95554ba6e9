//! Schedules of the loops of real filters: proved by the checker, and at the
//! least initiation interval or next to it.

use crate::filters::{FILTERS, host_list};
use forebay_codegen::code::{Backend, Isa, Options, PacketsIn};
use forebay_codegen::emit::pool::Pool;
use forebay_codegen::explain::asm::disassemble;
use forebay_codegen::mir::LoopBody;
use forebay_codegen::sched::checker::check;
use forebay_codegen::sched::report::report;
use forebay_codegen::sched::{ScheduledLoop, schedule_loop};
use forebay_codegen::{compile, pe};
use forebay_filter::ir::Function;
use forebay_filter::lists::of_program;
use forebay_filter::{Instruction, Profile, Program, compile_function};
use forebay_packet::LinkType;

/// Filters with a loop that takes more than a cycle over the least II, for want
/// of registers: general ones for packets' offsets, vectors for columns, or
/// opmasks for nodes with two ways on. At most three quarters more are allowed for
/// these.
const SHORT_OF_REGISTERS: [&str; 15] = [
    "(tcp port 80 or udp port 53) or (vlan and (tcp port 80 or udp port 53))",
    "dst port 3000",
    "host 10.0.0.1 and (port 80 or port 443 or port 8080) and not host 10.0.0.2",
    "host 10.0.0.1 or 10.0.0.2 or 10.0.0.3 or 10.0.0.4 or 10.0.0.5",
    "ip and port 3000",
    "net 0.0.0.0/8 or net 10.0.0.0/8 or net 100.64.0.0/10 or net 127.0.0.0/8 or net \
     169.254.0.0/16 or net 172.16.0.0/12 or net 192.0.0.0/24 or net 192.0.2.0/24 or net \
     192.88.99.0/24 or net 198.18.0.0/15 or net 198.51.100.0/24 or net 203.0.113.0/24 or net \
     224.0.0.0/4 or net 240.0.0.0/4",
    "not (tcp port 22 or udp port 53 or icmp)",
    "port 3000",
    "port 53 or port 67 or port 68 or port 123 or port 161 or port 162 or port 514 or port 520",
    "tcp port 80 and (((ip[2:2] - ((ip[0]&0xf)<<2)) - ((tcp[12]&0xf0)>>2)) != 0)",
    "tcp portrange 6000-6063 and not port 6010 or udp portrange 33434-33523",
    "tcp src port 80 and ip[2:2] > 1400 and ip[6] & 0x40 != 0",
    "tcp[((tcp[12:1] & 0xf0) >> 2):4] = 0x47455420",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0 and not src and dst net 192.168.1.0/24",
    "udp portrange 1024-65535",
];

/// Hosts of the list among the filters.
const LISTED_HOSTS: u32 = 100;

fn functions() -> Vec<(String, Function)> {
    let list = host_list(LISTED_HOSTS);
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let golden = std::fs::read_dir(golden).unwrap().map(|entry| {
        std::fs::read_to_string(entry.unwrap().path().join("filter")).unwrap().trim().to_owned()
    });
    let mut all: Vec<String> = FILTERS.iter().map(|&filter| filter.to_owned()).collect();
    assert_eq!(all.len(), 24);
    all.push(list);
    all.extend(golden);
    all.sort();
    all.dedup();
    all.into_iter()
        .map(|expression| {
            let function = compile_function(&expression, LinkType::ETHERNET).unwrap();
            (expression, function)
        })
        .collect()
}

/// The loops of each form of `function` that there are registers for, the form
/// first that is taken.
fn scheduled_forms(function: &Function, options: &Options) -> Vec<Vec<(LoopBody, ScheduledLoop)>> {
    let forms = pe::forms(function, options).unwrap_or_default();
    let loops = forms.iter().filter_map(|form| form.loops(options, &mut Pool::default()).ok());
    let scheduled = loops.filter_map(|loops| {
        let schedule = |body: LoopBody| {
            let scheduled = schedule_loop(&body, &options.into(), options.isa).ok()?;
            Some((body, scheduled))
        };
        loops.bodies.into_iter().map(schedule).collect()
    });
    scheduled.collect()
}

#[test]
fn loops_of_filters_are_scheduled_right_and_tightly() {
    let mut loose = Vec::new();
    let mut loops = 0;
    for (expression, function) in functions() {
        for isa in Isa::ALL {
            for prefetch in [0, 32] {
                let options = Options { prefetch, ..Options::new(Backend::Pe, isa) };
                for (form, bodies) in scheduled_forms(&function, &options).iter().enumerate() {
                    for (body, scheduled) in bodies {
                        loops += 1;
                        let name =
                            format!("{} at {isa}, prefetch {prefetch}: {expression}", body.name);
                        let text = report(scheduled);
                        assert_eq!(check(body, scheduled), Ok(()), "{name}\n{text}");
                        let mii = scheduled.bounds.mii();
                        let pipelined = scheduled.pipelined.as_ref();
                        let ii = pipelined.map(|loops| loops.placed.schedule.ii);
                        // Constants take the registers that columns leave of the 16 that AVX2 has.
                        let short = SHORT_OF_REGISTERS.contains(&expression.as_str())
                            || isa == Isa::Avx2 && body.name == "predicated";
                        // For loops of more ops the search tries few IIs.
                        let step = if body.ops.len() > 40 { mii / 5 } else { 0 };
                        let most = mii + 1 + if short { 3 * mii / 4 } else { step };
                        if form == 0 && ii.is_none_or(|ii| ii > most) {
                            loose.push(format!("{ii:?} over {mii}: {name}"));
                        }
                    }
                }
            }
        }
    }
    assert!(loops > 200, "{loops} loops");
    assert!(loose.is_empty(), "{}", loose.join("\n"));
}

/// A packet that starts a line has these bytes in one, and another line would come from memory.
#[test]
fn what_the_first_line_has_is_read_without_the_next() {
    let filters = ["port 3000", "net 192.168.1.0/24", "port 53 or port 67 or port 68 or port 123"];
    for expression in filters {
        let function = compile_function(expression, LinkType::ETHERNET).unwrap();
        for isa in [Isa::Avx2, Isa::Avx512Bw, Isa::Avx512Vbmi] {
            let options = Options::new(Backend::Pe, isa);
            let forms = pe::forms(&function, &options).unwrap();
            assert!(forms.len() > 1, "{expression} at {isa}");
            for form in &forms {
                let Ok(loops) = form.loops(&options, &mut Pool::default()) else { continue };
                assert!(loops.reach <= 64, "{expression} at {isa}: {}", loops.reach);
            }
        }
    }
}

const LOAD_BYTE: u16 = 0x30;
const LOAD_WORD: u16 = 0x20;
const MOVE_TO_INDEX: u16 = 0x07;
const ADD_INDEX: u16 = 0x0c;
const XOR_INDEX: u16 = 0xac;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

fn instruction(code: u16, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt: 0, jf, k }
}

fn function(instructions: &[Instruction]) -> Function {
    of_program(&Program::verify(instructions, Profile::Libpcap).unwrap())
}

/// `computation`, and whether it gives 5.
fn tested(computation: impl IntoIterator<Item = Instruction>) -> Function {
    let mut all = vec![instruction(LOAD_WORD, 0, 4), instruction(MOVE_TO_INDEX, 0, 0)];
    all.push(instruction(LOAD_WORD, 0, 0));
    all.extend(computation);
    all.extend([instruction(JUMP_IF_EQUAL, 1, 5), instruction(RETURN, 0, 1)]);
    all.push(instruction(RETURN, 0, 0));
    function(&all)
}

/// Whether any byte at 0 to `offsets` − 1, in turn, is one of `terms` numbers.
fn any_of(terms: u32, offsets: u32) -> Function {
    let mut all = vec![instruction(LOAD_BYTE, 0, 2000)];
    for term in 0..terms {
        all.push(instruction(LOAD_BYTE, 0, term % offsets));
        all.push(instruction(JUMP_IF_EQUAL, 1, term * 7 % 251));
        all.push(instruction(RETURN, 0, 9));
    }
    all.push(instruction(RETURN, 0, 0));
    function(&all)
}

#[test]
fn values_that_are_large_trees_are_left_to_list() {
    let doubled = |times: usize| {
        let double = [instruction(MOVE_TO_INDEX, 0, 0), instruction(ADD_INDEX, 0, 0)];
        tested(std::iter::repeat_n(double, times).flatten())
    };
    let chain = |length: usize| {
        let codes = [ADD_INDEX, XOR_INDEX].into_iter().cycle().take(length);
        tested(codes.map(|code| instruction(code, 0, 0)))
    };
    // A tree of 2^2000 nodes, and one that is 100,000 deep.
    for function in [doubled(2000), chain(2000), chain(100_000)] {
        for isa in Isa::ALL {
            for backend in [Backend::Pe, Backend::Ems, Backend::Auto] {
                let code = compile::compile(&function, &Options::new(backend, isa)).unwrap();
                assert_eq!(code.backend, Backend::List, "{isa} {backend}");
            }
        }
    }
    let isa = Isa::Avx512Vbmi;
    for function in [doubled(2), chain(20)] {
        let code = compile::compile(&function, &Options::new(Backend::Pe, isa)).unwrap();
        assert_eq!(code.backend, Backend::Pe, "{:?}", code.remark);
    }
}

#[test]
fn auto_takes_code_with_branches_that_prefetches_where_pe_does_not_pay() {
    let function = compile_function(&host_list(LISTED_HOSTS), LinkType::ETHERNET).unwrap();
    let prefetches = |patterns: usize, backend| {
        let options = Options {
            explain: true,
            ems_patterns: patterns,
            ..Options::new(Backend::Auto, Isa::Avx2)
        };
        let code = compile::compile(&function, &options).unwrap();
        assert_eq!(code.backend, backend, "{:?}", code.remark);
        let least = code.batch.map_or(0, |batch| batch.least);
        let cached = Options { packets: PacketsIn::Cache, ..options };
        let cached = compile::compile(&function, &cached).unwrap();
        assert!(!disassemble(&cached).contains("prefetcht0"));
        (disassemble(&code).contains("prefetcht0"), least, code.remark.unwrap())
    };
    let (does, least, remark) = prefetches(256, Backend::Ems);
    assert!(does && least == 64 && remark.starts_with("not pe: "), "{least} {remark}");
    let (does, least, remark) = prefetches(1, Backend::List);
    assert!(does && least == 0 && remark.contains("; not ems: "), "{least} {remark}");
}

#[test]
fn auto_takes_long_loops_of_avx2_where_512_bits_are_executed_in_halves() {
    let lanes = |backend, isa, in_halves, function: &Function| {
        let options = Options { in_halves, ..Options::new(backend, isa) };
        compile::compile(function, &options).unwrap().batch.unwrap().lanes
    };
    let [short, long] = ["tcp", FILTERS[FILTERS.len() - 1]]
        .map(|filter| compile_function(filter, LinkType::ETHERNET).unwrap());
    for isa in [Isa::Avx512Bw, Isa::Avx512Vbmi] {
        assert_eq!(lanes(Backend::Auto, isa, true, &long), 8);
        assert_eq!(lanes(Backend::Auto, isa, false, &long), 16);
        assert_eq!(lanes(Backend::Pe, isa, true, &long), 16);
        assert_eq!(lanes(Backend::Auto, isa, true, &short), 16);
    }
    assert_eq!(lanes(Backend::Auto, Isa::Avx2, true, &long), 8);
    // AVX2 lanes have too few registers, and its signatures are slower.
    let odd = "not portrange 6000-6063 or ip[40] = 7 or ip6 host ::1 or icmp";
    let odd = compile_function(odd, LinkType::ETHERNET).unwrap();
    assert_eq!(lanes(Backend::Auto, Isa::Avx512Vbmi, true, &odd), 16);
}

#[test]
fn loops_prefetch_where_packets_are_not_in_the_cache() {
    use PacketsIn::{Cache, Memory, Unknown};
    let [long, none] = ["not (tcp port 22 or udp port 53 or icmp)", "len >= 100"];
    for (expression, of_unknown, of_memory) in
        [("ip", false, true), ("ip and tcp", false, true), (none, false, false), (long, true, true)]
    {
        let function = compile_function(expression, LinkType::ETHERNET).unwrap();
        for isa in [Isa::Avx2, Isa::Avx512Bw, Isa::Avx512Vbmi] {
            // How often it prefetches, and whether there is a second form.
            let made = |packets| {
                let options =
                    Options { explain: true, packets, ..Options::new(Backend::Auto, isa) };
                let code = compile::compile(&function, &options).unwrap();
                assert_eq!(code.backend, Backend::Pe, "{expression} {isa}: {:?}", code.remark);
                let batch = code.batch.unwrap();
                let says = code.schedule.contains("also exist without prefetches");
                assert_eq!(says, batch.resident.is_some());
                let prefetches = disassemble(&code).matches("prefetcht0").count();
                // Also calls of few packets may come from memory.
                assert!(
                    prefetches == 0 || batch.least <= 32,
                    "{expression} {isa}: {}",
                    batch.least
                );
                let distance = if packets == Memory && expression != long { 32 } else { 64 };
                let says = code.schedule.contains(&format!("prefetch, {distance} packets ahead"));
                assert_eq!(says, prefetches > 0, "{expression} {isa}");
                (prefetches, batch.resident.map(|resident| resident - batch.entry))
            };
            let [unknown, memory, cache] = [Unknown, Memory, Cache].map(made);
            assert_eq!((cache, memory.1), ((0, None), None), "{expression} {isa}");
            assert_eq!(memory.0 > 0, of_memory, "{expression} {isa}");
            // The second form prefetches nothing, and is the shorter.
            assert_eq!(unknown.0, if of_unknown { memory.0 } else { 0 }, "{expression} {isa}");
            assert_eq!(unknown.1.is_some(), of_unknown, "{expression} {isa}");
        }
    }
}

#[test]
fn loops_of_middling_length_prefetch() {
    let most = "tcp src port 80 and ip[2:2] > 1400 and ip[6] & 0x40 != 0";
    for (expression, isa, does) in [
        ("ip and udp", Isa::Avx2, false),
        ("ip and dst net 192.168.1.0/24", Isa::Avx2, true),
        ("net 192.168.1.0/24", Isa::Avx512Vbmi, false),
        (most, Isa::Avx512Vbmi, true),
    ] {
        let function = compile_function(expression, LinkType::ETHERNET).unwrap();
        let batch = compile::compile(&function, &Options::new(Backend::Auto, isa)).unwrap().batch;
        let batch = batch.unwrap();
        assert_eq!(batch.resident.is_some(), does, "{expression} {isa}");
        assert!(!does || batch.least <= 32, "{expression} {isa}: {}", batch.least);
    }
}

#[test]
fn fields_far_from_the_start_are_left_to_list() {
    for (offset, backend) in [
        (65_532, Backend::Pe),
        (65_533, Backend::List),
        (0x7fff_fffb, Backend::List),
        (0x8000_0000, Backend::List),
    ] {
        let function = function(&[
            instruction(LOAD_WORD, 0, offset),
            instruction(JUMP_IF_EQUAL, 1, 7),
            instruction(RETURN, 0, 1),
            instruction(RETURN, 0, 0),
        ]);
        // Lanes of 16 bits hold no greater length.
        let code = compile::compile(&function, &Options::new(Backend::Pe, Isa::Scalar)).unwrap();
        assert_eq!(code.backend, backend, "{offset} {:?}", code.remark);
        for isa in Isa::ALL {
            let code = compile::compile(&function, &Options::new(Backend::Pe, isa)).unwrap();
            let reach = code.batch.map_or(0, |batch| batch.reach);
            assert!(reach <= 65_536 + 64, "{offset} at {isa}: {reach}");
        }
    }
}

#[test]
fn long_filters_are_scheduled_within_limits() {
    for function in [any_of(1300, 1), any_of(1300, 8), any_of(1300, 1500)] {
        for isa in Isa::ALL {
            let options = Options::new(Backend::Pe, isa);
            for (body, scheduled) in scheduled_forms(&function, &options).iter().flatten() {
                assert_eq!(check(body, scheduled), Ok(()), "{isa}");
                let ops = scheduled.body.ops.len();
                assert!(scheduled.pipelined.is_none() || ops <= 600, "{ops} ops at {isa}");
            }
        }
    }
}
