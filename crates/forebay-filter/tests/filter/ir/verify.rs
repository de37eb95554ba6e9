//! The verifier of functions: a function that breaks each rule, and the error.

use forebay_filter::ir::text::parse;
use forebay_filter::ir::verify::{IrError, verify};
use forebay_filter::ir::{
    Arithmetic, Block, BlockId, Edge, Function, Predicate, Relation, SetId, Terminator, Value,
    ValueId, Width,
};
use forebay_filter::lists::compile_function;
use forebay_packet::LinkType;

fn result(text: &str) -> Result<(), IrError> {
    verify(&parse(text).unwrap())
}

fn refused(text: &str, expected: &str) {
    let message = result(text).unwrap_err().to_string();
    assert_eq!(message, expected, "{text}");
}

fn block(end: Terminator) -> Block {
    Block { parameters: Vec::new(), end }
}

/// A function of one block that returns `value`.
fn returning(value: ValueId, mut function: Function) -> Function {
    function.blocks.push(block(Terminator::Return(value)));
    function
}

#[test]
fn the_entry_is_there_and_has_no_parameters() {
    assert_eq!(verify(&Function::new()), Err(IrError::NoBlock));
    refused("b0(v0): return v0", "b0: the entry must have no parameters");
}

#[test]
fn what_is_named_exists() {
    let missing = returning(ValueId(7), Function::new());
    assert_eq!(verify(&missing), Err(IrError::NoSuchValue { block: 0, value: 7 }));

    let mut function = Function::new();
    function.blocks.push(block(Terminator::Jump(Edge::to(BlockId(3)))));
    assert_eq!(verify(&function), Err(IrError::NoSuchBlock { block: 0, target: 3 }));

    let mut function = Function::new();
    let value = function.constant(1);
    let predicate = Predicate::Member { value, set: SetId(2) };
    let (then, otherwise) = (Edge::to(BlockId(1)), Edge::to(BlockId(1)));
    function.blocks.push(block(Terminator::Test { predicate, then, otherwise }));
    function.blocks.push(block(Terminator::Return(value)));
    assert_eq!(verify(&function), Err(IrError::NoSuchSet { block: 0, set: 2 }));
}

#[test]
fn operands_come_first() {
    let mut function = Function::new();
    let binary = Value::Binary { op: Arithmetic::Add, left: ValueId(0), right: ValueId(1) };
    let value = function.value(binary);
    function.constant(5);
    let function = returning(value, function);
    assert_eq!(verify(&function), Err(IrError::OperandOrder { value: 0, operand: 0 }));
    let mut function = Function::new();
    let index = Some(ValueId(9));
    let value = function.value(Value::Load { width: Width::Byte, index, displacement: 0 });
    let function = returning(value, function);
    assert_eq!(verify(&function), Err(IrError::OperandOrder { value: 0, operand: 9 }));
}

#[test]
fn parameters_belong_to_their_blocks() {
    let mut function = parse("b0: jump b1(5)\nb1(v0): return v0").unwrap();
    function.blocks[1].parameters[0] = function.constant(5);
    assert_eq!(verify(&function), Err(IrError::Parameter { block: 1, position: 0 }));

    let mut function = parse("b0: jump b1\nb1: return 5").unwrap();
    let stray = function.value(Value::Parameter { block: BlockId(1), position: 0 });
    function.blocks[1].end = Terminator::Return(stray);
    let expected = IrError::StrayParameter { value: stray.0, block: 1, position: 0 };
    assert_eq!(verify(&function), Err(expected));
}

#[test]
fn edges_pass_as_many_arguments_as_there_are_parameters() {
    refused("b0: jump b1(5, 6)\nb1(v0): return v0", "b0: the edge to b1 must pass 1 values, not 2");
    refused("b0: jump b1\nb1(v0): return v0", "b0: the edge to b1 must pass 1 values, not 0");
}

#[test]
fn every_block_is_reached() {
    refused("b0: return 0\nb1: return 0", "b1: no way leads here");
    refused("b0: return 0\nb1: jump b2\nb2: jump b1", "b1: no way leads here");
}

#[test]
fn parameters_are_used_where_they_have_values() {
    refused(
        "b0: if 1 == 5 then b1(6) else b2\nb1(v0): jump b2\nb2: return v0",
        "b2: v0 has no value on some way here, which avoids b1",
    );
    // In an expression, and on the edge into the parameter's own block.
    refused(
        "v1 = v0 + 1\nv2 = length\nb0: jump b1(v1)\nb1(v0): if v2 == 5 then b2 else b2\nb2: return 0",
        "b0: v0 has no value on some way here, which avoids b1",
    );
    assert_eq!(
        result(
            "v1 = v0 - 1\nb0: jump b1(9)\nb1(v0): if v0 == 0 then b2 else b1(v1)\nb2: return v0"
        ),
        Ok(())
    );
}

#[test]
fn loads_are_used_behind_tests_of_their_bytes() {
    let half = |test: &str, displacement: u32| {
        format!(
            "v0 = half[{displacement}]\n\
             b0: if {test} then b1 else b2\n\
             b1: if v0 == 5 then b3 else b2\n\
             b2: return 0\n\
             b3: return 1\n"
        )
    };
    assert_eq!(result(&half("captured >= 14", 12)), Ok(()));
    assert_eq!(result(&half("captured >= 15", 12)), Ok(()));
    refused(
        &half("captured >= 13", 12),
        "b1: v0, half[12], is used without a test that its bytes were captured",
    );
    refused(
        &half("captured >= 4294967295", 4_294_967_295),
        "b1: v0, half[4294967295], is used without a test that its bytes were captured",
    );
    // On the other edge, in the block that tests, in an argument, in a result.
    refused(
        "v0 = byte[0]\nb0: if captured >= 1 then b1 else b2\nb1: return 0\nb2: return v0",
        "b2: v0, byte[0], is used without a test that its bytes were captured",
    );
    refused(
        "v0 = byte[0]\nb0: if captured >= v0 + 1 then b1 else b1\nb1: return 0",
        "b0: v0, byte[0], is used without a test that its bytes were captured",
    );
    refused(
        "v0 = byte[0]\nb0: if captured >= 1 then b1(0) else b1(v0)\nb1(v1): return v1",
        "b0: v0, byte[0], is used without a test that its bytes were captured",
    );
    assert_eq!(
        result("v0 = byte[0]\nb0: if captured >= 1 then b1(v0) else b1(0)\nb1(v1): return v1"),
        Ok(())
    );
}

/// IPv4's header length, then a load behind the header, behind `test`.
fn behind_index(test: &str) -> String {
    format!(
        "v0 = byte[14]\n\
         v1 = v0 & 0xf\n\
         v2 = v1 << 2\n\
         v3 = half[v2 + 16]\n\
         v4 = v2 + 1\n\
         b0: if captured >= 34 then b1 else b3\n\
         b1: if {test} then b2 else b3\n\
         b2: return v3\n\
         b3: return 0\n"
    )
}

#[test]
fn loads_behind_an_index_need_the_same_index_or_its_bound() {
    for test in ["captured >= v2 + 18", "captured >= v2 + 19", "captured >= 78"] {
        assert_eq!(result(&behind_index(test)), Ok(()), "{test}");
    }
    for test in ["captured >= v2 + 17", "captured >= 77", "captured >= v4 + 18", "v2 == 0"] {
        let error = result(&behind_index(test)).unwrap_err().to_string();
        let expected = "b2: v3, half[v2 + 16], is used without a test that its bytes were captured";
        assert_eq!(error, expected, "{test}");
    }
}

#[test]
fn every_way_counts_each_in_its_manner() {
    let two_ways = |first: &str, second: &str| {
        format!(
            "v0 = length\n\
             v1 = byte[20]\n\
             v2 = v1 & 0xf\n\
             v3 = half[v2 + 20]\n\
             b0: if captured >= 21 then b1 else b5\n\
             b1: if v0 >= 100 then b2 else b3\n\
             b2: if {first} then b4 else b5\n\
             b3: if {second} then b4 else b5\n\
             b4: return v3\n\
             b5: return 0\n"
        )
    };
    let by_index = "captured >= v2 + 22";
    let by_bound = "captured >= 37";
    for (first, second) in [(by_index, by_bound), (by_bound, by_index), (by_index, by_index)] {
        assert_eq!(result(&two_ways(first, second)), Ok(()));
    }
    assert!(result(&two_ways(by_index, "captured >= 36")).is_err());
}

#[test]
fn what_was_known_in_the_last_turn_of_a_loop_is_forgotten() {
    let looping = |test: &str, other: &str| {
        format!(
            "v1 = byte[v0]\n\
             b0: jump b1(0)\n\
             b1(v0): if {test} then b2 else b3\n\
             b2: if v1 == 5 then b3 else b1({other})\n\
             b3: return 0\n"
        )
    };
    assert_eq!(result(&looping("captured >= v0 + 1", "v1")), Ok(()));
    assert!(result(&looping("captured >= 1", "v1")).is_err());
    // Tested in the first turn only.
    let text = "v0 = length\n\
                v2 = byte[v1]\n\
                b0: jump b1(v0)\n\
                b1(v1): if v0 == 5 then b2 else b3\n\
                b2: if captured >= v1 + 1 then b3 else b4\n\
                b3: if v2 == 7 then b4 else b1(v2)\n\
                b4: return 0\n";
    assert!(result(text).is_err());
}

#[test]
fn divisors_are_not_0() {
    let dividing = |test: &str, then: &str, otherwise: &str| {
        format!(
            "v0 = length\nv1 = 100 / v0\nb0: if {test} then {then} else {otherwise}\n\
             b1: return v1\nb2: return 0\n"
        )
    };
    assert_eq!(result(&dividing("v0 == 0", "b2", "b1")), Ok(()));
    assert_eq!(result(&dividing("v0 >= 7", "b1", "b2")), Ok(()));
    let expected = "b1: v1 is used without a test that v0 is not 0";
    refused(&dividing("v0 == 0", "b1", "b2"), expected);
    refused(&dividing("v0 == 1", "b2", "b1"), expected);
    refused(&dividing("v0 >= 7", "b2", "b1"), expected);
    refused(
        "v0 = length\nv1 = v0 % 0\nb0: return v1",
        "b0: v1 is used without a test that 0 is not 0",
    );
    assert_eq!(result("v0 = length\nv1 = v0 | 1\nv2 = v0 / v1\nb0: return v2"), Ok(()));
}

#[test]
fn sets_ascend_and_are_used() {
    let with_set = |set: &str| {
        format!("v0 = length\ns0 = {{ {set} }}\nb0: if v0 in s0 then b1 else b1\nb1: return 0")
    };
    assert_eq!(result(&with_set("1, 2, 5")), Ok(()));
    let expected = "s0: the constants must ascend, without repetition, and be at least one";
    refused(&with_set("2, 1"), expected);
    refused(&with_set("1, 1"), expected);
    let mut empty = parse(&with_set("1")).unwrap();
    empty.sets[0].clear();
    assert_eq!(verify(&empty), Err(IrError::Set { set: 0 }));
    refused("s0 = { 1 }\nb0: return 0", "s0: no test uses it");
}

/// Filters whose functions have loads at constant offsets, behind indices, in
/// loops and with divisors.
const EXPRESSIONS: [&str; 8] = [
    "ip host 10.0.0.1",
    "tcp port 80 or udp port 53",
    "tcp[tcpflags] & (tcp-syn|tcp-ack) = tcp-syn",
    "ip[ip[20] & 7] = 3 and ip[ip[21]:4] = 9",
    "vlan 5 and tcp port 80",
    "ip6 protochain 6",
    "not (net 10.0.0.0/8 or port 443) and ip[8] / ip[9] > 2",
    "src host 10.0.0.1 and icmp[icmptype] = icmp-echo",
];

#[test]
fn a_filter_with_any_guard_taken_away_is_refused() {
    let mut weakened = 0;
    for expression in EXPRESSIONS {
        let function = compile_function(expression, LinkType::ETHERNET).unwrap();
        assert_eq!(verify(&function), Ok(()), "{expression}");
        for index in 0..function.blocks.len() {
            let mut broken = function.clone();
            let Terminator::Test { predicate, then, otherwise } = &mut broken.blocks[index].end
            else {
                continue;
            };
            match predicate {
                // Nothing is used before the next test of the length.
                Predicate::Captured { .. } if tests_length(&function, then.target) => continue,
                Predicate::Captured { bytes, .. } => *bytes -= 1,
                // The divisor's test the wrong way round.
                Predicate::Compare { relation: Relation::Equal, left, right }
                    if function.as_constant(*right) == Some(0) && is_divisor(&function, *left) =>
                {
                    std::mem::swap(then, otherwise);
                }
                _ => continue,
            }
            let refused = verify(&broken);
            let expected =
                matches!(refused, Err(IrError::Unguarded { .. } | IrError::Divisor { .. }));
            assert!(expected, "{expression}: b{index} weaker: {refused:?}");
            weakened += 1;
        }
    }
    assert!(weakened > 20, "{weakened} guards");
}

fn tests_length(function: &Function, block: BlockId) -> bool {
    let end = &function.block(block).end;
    matches!(end, Terminator::Test { predicate: Predicate::Captured { .. }, .. })
}

fn is_divisor(function: &Function, id: ValueId) -> bool {
    let divides = |value: &Value| matches!(value, Value::Binary { op: Arithmetic::Div, right, .. } if *right == id);
    function.values().iter().any(divides)
}
