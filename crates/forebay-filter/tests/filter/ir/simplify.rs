//! What simplification leaves, pass by pass; that it keeps verdicts is checked
//! in `differential`, but for programs of many alike tests here.

use forebay_filter::ir::build::build;
use forebay_filter::ir::simplify::simplify;
use forebay_filter::ir::text::parse;
use forebay_filter::ir::verify::verify;
use forebay_filter::ir::{Function, Predicate, Terminator};
use forebay_filter::{Instruction, Profile, Program, compile, compile_function};
use forebay_packet::LinkType;
use proptest::prelude::*;

use super::functions;
use crate::support::instruction as i;

fn simplified(text: &str) -> String {
    let mut function = parse(text).unwrap();
    assert_eq!(verify(&function), Ok(()), "{text}");
    simplify(&mut function);
    assert_eq!(verify(&function), Ok(()), "{function}");
    function.to_string()
}

/// The text without the blanks at the beginning of its lines.
fn lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.trim_start())).collect()
}

#[track_caller]
fn becomes(text: &str, expected: &str) {
    assert_eq!(simplified(text), lines(expected.trim()), "{text}");
}

/// What becomes of a predicate over `b`, a byte, and `w`, a word.
fn predicate(text: &str, values: &str) -> String {
    let text = format!(
        "v0 = word[0]\nv1 = byte[4]\n{values}\
         b0: if captured >= 5 then b1 else b3\n\
         b1: if {text} then b2 else b3\nb2: return 9\nb3: return 0\n"
    );
    let mut function = parse(&text).unwrap();
    simplify(&mut function);
    let Some(Terminator::Test { predicate, then, .. }) =
        function.blocks.get(1).map(|block| &block.end)
    else {
        return if function.blocks.len() == 1 { "never" } else { "always" }.to_owned();
    };
    let holds = matches!(&function.block(then.target).end,
        Terminator::Return(value) if function.as_constant(*value) == Some(9));
    let not = if holds { "" } else { "not " };
    format!("{not}{}", function.describe(predicate))
}

#[test]
fn predicates_have_one_form() {
    for (text, values, expected) in [
        // Decided by the range or the bits of a value.
        ("v1 == 0x100", "", "never"),
        ("v1 >= 0x100", "", "never"),
        ("v1 > 0xfe", "", "byte[4] == 0xff"),
        ("v1 >= 0", "", "always"),
        ("v0 > 0xffffffff", "", "never"),
        ("v2 == 5", "v2 = v0 & 0xf0\n", "never"),
        ("v2 == 0x33", "v2 = v1 >> 3\n", "never"),
        ("v1 & 0xff00 != 0", "", "never"),
        ("v1 > v0", "", "(byte[4]) > (word[0])"),
        ("v0 >= v1", "", "not byte[4] > word[0]"),
        ("v1 == v1", "", "always"),
        // Constants on the right.
        ("7 == v0", "", "word[0] == 7"),
        ("7 > v0", "", "not word[0] >= 7"),
        ("7 >= v0", "", "not word[0] >= 8"),
        ("v0 > 7", "", "word[0] >= 8"),
        ("v0 >= 1", "", "not word[0] == 0"),
        // Arithmetic moves to the constant.
        ("v2 == 0x12", "v2 = v0 >> 8\n", "(word[0] & 0xffffff00) == 0x1200"),
        ("v2 >= 0x12", "v2 = v0 >> 8\n", "word[0] >= 0x1200"),
        ("v2 == 0x120", "v2 = v0 << 4\n", "(word[0] & 0xfffffff) == 0x12"),
        ("v2 == 0x121", "v2 = v0 << 4\n", "never"),
        ("v2 == 5", "v2 = v0 + 7\n", "word[0] == 0xfffffffe"),
        ("v2 == 5", "v2 = v0 - 7\n", "word[0] == 0xc"),
        ("v2 == 5", "v2 = 7 - v0\n", "word[0] == 2"),
        ("v2 == 5", "v2 = v0 ^ 7\n", "word[0] == 2"),
        ("v2 == 7", "v2 = v0 | 5\n", "(word[0] & 0xfffffffa) == 2"),
        ("v2 == 3", "v2 = v0 | 4\n", "never"),
        ("v2 == 0", "v2 = v0 ^ v1\n", "byte[4] == word[0]"),
        ("v2 == 0", "v2 = v0 - v1\n", "byte[4] == word[0]"),
        ("v2 > 100", "v2 = v0 / 4\n", "word[0] >= 0x194"),
        ("v2 == 0", "v2 = v0 % 4\n", "not word[0] & 3 != 0"),
        // Bits.
        ("v2 == 0", "v2 = v0 & 0x1fff\n", "not word[0] & 0x1fff != 0"),
        ("v2 & 6 != 0", "v2 = v0 & 3\n", "word[0] & 2 != 0"),
        ("v2 & 6 != 0", "v2 = v0 >> 8\n", "word[0] & 0x600 != 0"),
        ("v2 & 6 != 0", "v2 = v0 << 1\n", "word[0] & 3 != 0"),
        ("v1 & 0x1ff != 0", "", "not byte[4] == 0"),
    ] {
        let found = predicate(text, values);
        let plain = |text: &str| text.replace(['(', ')'], "");
        assert_eq!(plain(&found), plain(expected), "{text} with {values}");
    }
}

#[test]
fn values_are_folded() {
    for (expression, expected) in [
        ("v0 & 0xff", "v0"),
        ("v0 + 0", "v0"),
        ("v0 | 0", "v0"),
        ("v0 & v0", "v0"),
        ("v0 * 4", "v0 << 2"),
        ("v0 / 4", "v0 >> 2"),
        ("v0 % 4", "v0 & 3"),
        ("3 + v0", "v0 + 3"),
        ("v0 & 0x1f0", "v0 & 0xf0"),
        ("v0 >> 8", "0"),
        ("v0 << 32", "0"),
        ("v0 - v0", "0"),
        ("v0 * 0", "0"),
        ("v0 % 1", "0"),
        ("0 / v0", "0"),
        ("v0 / v0", "1"),
    ] {
        let around = |definition: &str, result: &str| {
            format!(
                "v0 = byte[0]\n{definition}b0: if captured >= 1 then b1 else b3\n\
                 b1: if v0 == 0 then b3 else b2\nb2: return {result}\nb3: return 7"
            )
        };
        let expected = match expected {
            "v0" | "0" | "1" => around("", expected),
            operation => around(&format!("v1 = {operation}\n"), "v1"),
        };
        becomes(&around(&format!("v1 = {expression}\n"), "v1"), &expected);
    }
}

#[test]
fn operations_by_constants_come_together() {
    for (first, second, expected) in [
        ("v0 & 0xff0", "v1 & 0xff", "v0 & 0xf0"),
        ("v0 + 3", "v1 + 4", "v0 + 7"),
        ("v0 - 3", "v1 - 4", "v0 - 7"),
        ("v0 ^ 3", "v1 ^ 6", "v0 ^ 5"),
        ("v0 | 1", "v1 | 6", "v0 | 7"),
        ("v0 * 3", "v1 * 5", "v0 * 15"),
        ("v0 << 3", "v1 << 4", "v0 << 7"),
        ("v0 >> 3", "v1 >> 4", "v0 >> 7"),
        ("v0 >> 4", "v1 << 4", "v0 & 0xfffffff0"),
        ("v0 << 4", "v1 >> 4", "v0 & 0xfffffff"),
    ] {
        becomes(
            &format!("v0 = length\nv1 = {first}\nv2 = {second}\nb0: return v2"),
            &format!("v0 = length\nv1 = {expected}\nb0: return v1"),
        );
    }
}

#[test]
fn constants_added_to_an_index_become_displacement_unless_they_may_wrap() {
    becomes(
        "v0 = byte[0]\nv1 = v0 + 3\nv2 = half[v1 + 4]\n\
         b0: if captured >= 1 then b1 else b3\nb1: if captured >= v1 + 6 then b2 else b3\n\
         b2: return v2\nb3: return 0",
        "v0 = byte[0]\nv1 = half[v0 + 7]\n\
         b0: if captured >= 1 then b1 else b3\nb1: if captured >= v0 + 9 then b2 else b3\n\
         b2: return v1\nb3: return 0",
    );
    let wrapping = "v0 = word[0]\nv1 = v0 + 3\nv2 = half[v1 + 4]\n\
         b0: if captured >= 4 then b1 else b3\nb1: if captured >= v1 + 6 then b2 else b3\n\
         b2: return v2\nb3: return 0";
    becomes(wrapping, wrapping);
}

#[test]
fn length_tests_behind_larger_ones_go() {
    becomes(
        "v0 = byte[9]\nv1 = v0 & 0xf\nv2 = byte[v1 + 20]\n\
         b0: if captured >= 36 then b1 else b5\n\
         b1: if captured >= 10 then b2 else b5\n\
         b2: if v0 == 5 then b3 else b5\n\
         b3: if captured >= v1 + 21 then b4 else b5\n\
         b4: return v2\nb5: return 0",
        "v0 = byte[9]\nv1 = v0 & 0xf\nv2 = byte[v1 + 20]\n\
         b0: if captured >= 36 then b1 else b3\n\
         b1: if v0 == 5 then b2 else b3\n\
         b2: return v2\nb3: return 0",
    );
    // Known on both of two ways.
    becomes(
        "v0 = length\nv1 = byte[9]\n\
         b0: if v0 >= 100 then b1 else b2\n\
         b1: if captured >= 20 then b3 else b5\n\
         b2: if captured >= 10 then b3 else b5\n\
         b3: if captured >= 10 then b4 else b5\n\
         b4: return v1\nb5: return 0",
        "v0 = length\nv1 = byte[9]\n\
         b0: if v0 >= 0x64 then b1 else b2\n\
         b1: if captured >= 20 then b3 else b4\n\
         b2: if captured >= 10 then b3 else b4\n\
         b3: return v1\nb4: return 0",
    );
    // Two in a row that fail to the same place.
    becomes(
        "v0 = byte[9]\nb0: if captured >= 4 then b1 else b3\n\
         b1: if captured >= 10 then b2 else b3\nb2: return v0\nb3: return 0",
        "v0 = byte[9]\nb0: if captured >= 10 then b1 else b2\nb1: return v0\nb2: return 0",
    );
}

#[test]
fn implied_and_contradicted_predicates_go() {
    becomes(
        "v0 = length\n\
         b0: if v0 == 5 then b1 else b2\n\
         b1: if v0 == 6 then b4 else b5\n\
         b2: if v0 >= 100 then b3 else b4\n\
         b3: if v0 >= 50 then b5 else b4\n\
         b4: return 0\nb5: return 1",
        "v0 = length\n\
         b0: if v0 == 5 then b3 else b1\n\
         b1: if v0 >= 0x64 then b3 else b2\n\
         b2: return 0\nb3: return 1",
    );
    // An edge that knows is led past the test; the others still come to it.
    becomes(
        "v0 = length\nv1 = byte[0]\n\
         b0: if captured >= 1 then b1 else b4\n\
         b1: if v0 == 5 then b2 else b3\n\
         b2: if v1 == 7 then b3 else b5\n\
         b3: if v0 == 5 then b4 else b5\n\
         b4: return 0\nb5: return 1",
        "v0 = length\nv1 = byte[0]\n\
         b0: if captured >= 1 then b1 else b3\n\
         b1: if v0 == 5 then b2 else b4\n\
         b2: if v1 == 7 then b3 else b4\n\
         b3: return 0\nb4: return 1",
    );
}

#[test]
fn equal_blocks_become_one_and_parameters_go() {
    becomes(
        "v0 = length\n\
         b0: if v0 == 5 then b1 else b2\n\
         b1: if v0 & 2 != 0 then b3 else b4\n\
         b2: if v0 & 2 != 0 then b5 else b6\n\
         b3: return 1\nb4: return 2\nb5: return 1\nb6: return 2",
        "v0 = length\n\
         b0: if v0 == 5 then b3 else b1\n\
         b1: if v0 & 2 != 0 then b2 else b3\n\
         b2: return 1\nb3: return 2",
    );
    // One test for two values: one for each.
    becomes(
        "v0 = length\nv1 = byte[0]\nv2 = byte[1]\n\
         b0: if captured >= 2 then b1 else b4\n\
         b1: if v0 == 5 then b2(v1) else b2(v2)\n\
         b2(v3): if v3 == 9 then b3 else b4\n\
         b3: return 1\nb4: return 0",
        "v0 = length\nv1 = byte[0]\nv2 = byte[1]\n\
         b0: if captured >= 2 then b1 else b5\n\
         b1: if v0 == 5 then b2 else b3\n\
         b2: if v1 == 9 then b4 else b5\n\
         b3: if v2 == 9 then b4 else b5\n\
         b4: return 1\nb5: return 0",
    );
}

#[test]
fn or_chains_become_sets() {
    // Two values, interleaved; the mask makes a third.
    becomes(
        "v0 = length\nv1 = word[0]\nv2 = v0 & 0xff00\n\
         b0: if captured >= 4 then b1 else b11\n\
         b1: if v0 == 30 then b10 else b2\n\
         b2: if v1 == 7 then b10 else b3\n\
         b3: if v0 == 10 then b10 else b4\n\
         b4: if v2 == 0x500 then b10 else b5\n\
         b5: if v0 == 20 then b10 else b6\n\
         b6: if v1 == 8 then b10 else b7\n\
         b7: if v0 == 20 then b10 else b8\n\
         b8: if v0 == 40 then b10 else b11\n\
         b10: return 1\nb11: return 0"
            .replace("b10", "b9")
            .replace("b11", "b10")
            .as_str(),
        "v0 = length\nv1 = word[0]\nv2 = v0 & 0xff00\n\
         s0 = { 0xa, 0x14, 0x1e, 0x28 }\n\
         b0: if captured >= 4 then b1 else b6\n\
         b1: if v0 in s0 then b5 else b2\n\
         b2: if v1 == 7 then b5 else b3\n\
         b3: if v1 == 8 then b5 else b4\n\
         b4: if v2 == 0x500 then b5 else b6\n\
         b5: return 1\nb6: return 0",
    );
}

#[test]
fn not_of_an_or_chain_becomes_a_set_too() {
    let expression = "not (tcp port 1 or tcp port 2 or tcp port 3 or tcp port 4 or tcp port 5)";
    let function = compile_function(expression, LinkType::ETHERNET).unwrap();
    assert_eq!(function.sets, [vec![1, 2, 3, 4, 5]], "{function}");
}

#[test]
fn tests_are_not_moved_before_what_guards_them() {
    // Not before the length test, although all go to the same place.
    let guarded = "v0 = byte[0]\nv1 = byte[1]\n\
         b0: if captured >= 1 then b1 else b8\n\
         b1: if v0 == 1 then b7 else b2\n\
         b2: if v0 == 2 then b7 else b3\n\
         b3: if captured >= 2 then b4 else b8\n\
         b4: if v1 == 1 then b7 else b5\n\
         b5: if v0 == 3 then b7 else b6\n\
         b6: if v0 == 4 then b7 else b8\n\
         b7: return 1\nb8: return 0";
    becomes(guarded, guarded);
    // Not before the test of the divisor, which looks like one of them.
    let divided = "v0 = byte[0]\nv1 = length\nv2 = v1 / v0\n\
         b0: if captured >= 1 then b1 else b7\n\
         b1: if v0 == 0 then b7 else b2\n\
         b2: if v2 == 8 then b7 else b3\n\
         b3: if v0 == 1 then b7 else b4\n\
         b4: if v0 == 2 then b7 else b5\n\
         b5: if v0 == 3 then b7 else b6\n\
         b6: return 1\nb7: return 0";
    becomes(divided, divided);
}

fn look_ups(function: &Function) -> usize {
    let is_look_up = |end: &Terminator| {
        matches!(end, Terminator::Test { predicate: Predicate::Member { .. }, .. })
    };
    function.blocks.iter().filter(|block| is_look_up(&block.end)).count()
}

#[test]
fn a_list_of_hosts_is_four_look_ups_in_one_set() {
    let hosts: Vec<_> = (1..=100).map(|n| format!("host 10.1.{n}.{}", n * 2)).collect();
    let function = compile_function(&hosts.join(" or "), LinkType::ETHERNET).unwrap();
    assert_eq!(look_ups(&function), 4, "{function}");
    assert_eq!(function.sets.len(), 1);
    assert_eq!(function.sets[0].len(), 100);
    assert!(function.blocks.len() <= 20, "{function}");
    // A packet whose addresses are all there is not compared with the first host.
    let Terminator::Test { predicate, then, .. } = &function.blocks[0].end else { panic!() };
    assert_eq!(*predicate, Predicate::Captured { index: None, bytes: 42 }, "{function}");
    let mut ways = vec![then.target];
    while let Some(block) = ways.pop() {
        if let Terminator::Test { predicate, then, otherwise } = &function.block(block).end {
            let is_type = |right| function.as_constant(right).is_some_and(|k| k <= 0xffff);
            match *predicate {
                Predicate::Compare { right, .. } => assert!(is_type(right), "{function}"),
                Predicate::Captured { .. } => panic!("{function}"),
                Predicate::Member { .. } => {}
            }
            ways.extend([then.target, otherwise.target]);
        }
    }
    assert!(function.blocks.iter().all(|block| block.parameters.is_empty()), "{function}");
}

/// `tests` comparisons of one of two words each, that accept.
fn comparisons(tests: u32) -> Program {
    let mut program = vec![i(0x28, 0, 0, 12), i(0x15, 1, 0, 0x800), i(0x06, 0, 0, 0)];
    for test in 0..tests {
        program.push(i(0x20, 0, 0, 26 + 4 * (test % 2)));
        program.push(i(0x15, 0, 1, test * 77));
        program.push(i(0x06, 0, 0, 262_144));
    }
    program.push(i(0x06, 0, 0, 0));
    Program::verify(&program, Profile::Libpcap).unwrap()
}

/// Work is in proportion to what is looked at, and that grows as the program
/// does: a block for each instruction at most and few values for each block.
#[test]
fn a_function_is_as_long_as_its_program_and_a_chain_of_any_length_gets_short() {
    for tests in [100, 1000, 10_000] {
        let program = comparisons(tests);
        let [built, simplified] = functions(&program);
        assert!(built.blocks.len() <= program.instructions().len() + 2);
        assert!(built.values().len() <= 2 * built.blocks.len());
        assert!(simplified.blocks.len() < 10, "{simplified}");
        // The first stands before a length test of its own.
        assert_eq!(simplified.sets.iter().map(Vec::len).sum::<usize>(), tests as usize - 1);
    }
}

/// Expressions as deep as programs are long need no deep stack.
#[test]
fn deep_expressions_need_no_stack() {
    let mut program = vec![i(0x80, 0, 0, 0), i(0x07, 0, 0, 0)];
    for step in 0..100_000_u32 {
        // A = A * 3 ^ X, then as the next X.
        program.push(i(0x24, 0, 0, step | 3));
        program.push(i(0xac, 0, 0, 0));
    }
    program.push(i(0x16, 0, 0, 0));
    let program = Program::verify(&program, Profile::Libpcap).unwrap();
    let [built, simplified] = functions(&program);
    assert_eq!(verify(&simplified), Ok(()));
    for length in [0, 1, 77] {
        assert_eq!(built.run(&[], length), program.run(&[], length));
        assert_eq!(simplified.run(&[], length), program.run(&[], length));
    }
}

#[test]
fn a_second_time_changes_nothing() {
    for expression in ["port 3000", "net 10.0.0.0/8 or vlan", "not (tcp port 22 or icmp)"] {
        let mut function = build(&compile(expression, LinkType::ETHERNET).unwrap());
        simplify(&mut function);
        let once = function.clone();
        simplify(&mut function);
        assert_eq!(function, once, "{expression}");
    }
}

/// A load of a byte, masked at times, compared with a constant; then a jump to
/// a return, or on.
fn comparison() -> impl Strategy<Value = (u32, u32, u32, usize, bool)> {
    let mask = prop::sample::select(vec![0xff, 0xff, 3, 6]);
    (0_u32..3, mask, 0_u32..6, 0_usize..3, any::<bool>())
}

fn chain() -> impl Strategy<Value = Vec<Instruction>> {
    let comparisons = prop::collection::vec(comparison(), 1..30);
    comparisons.prop_map(|comparisons| {
        let returns = [0, 1, 5].map(|k| i(0x06, 0, 0, k));
        let mut program = Vec::new();
        let end = comparisons.len() * 3;
        for (at, mask, constant, target, swapped) in comparisons {
            program.push(i(0x30, 0, 0, at));
            program.push(i(0x54, 0, 0, mask));
            let distance = u8::try_from(end + target - program.len() - 1).unwrap();
            let (jt, jf) = if swapped { (0, distance) } else { (distance, 0) };
            program.push(i(0x15, jt, jf, constant));
        }
        program.extend(returns);
        program
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn chains_keep_their_verdicts(
        program in chain(),
        packets in prop::collection::vec(prop::collection::vec(0_u8..8, 0..4), 1..40),
    ) {
        let program = Program::verify(&program, Profile::Libpcap).unwrap();
        let [_, simplified] = functions(&program);
        prop_assert_eq!(verify(&simplified), Ok(()));
        for packet in packets {
            let expected = program.run(&packet, 4);
            prop_assert_eq!(simplified.run(&packet, 4), expected, "{}", simplified);
        }
    }
}
