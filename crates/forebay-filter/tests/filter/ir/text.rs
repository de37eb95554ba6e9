//! Printing and parsing of functions.

use forebay_filter::compile;
use forebay_filter::ir::build::build;
use forebay_filter::ir::text::parse;
use forebay_filter::ir::{Predicate, Terminator};
use forebay_filter::lists::compile_function;
use forebay_packet::LinkType;

use crate::support::{data, expressions};

fn message(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn a_function_reads_like_this() {
    let function = compile_function("port 3000", LinkType::ETHERNET).unwrap();
    assert_eq!(
        function.to_string(),
        "\
v0 = half[12]
v1 = byte[20]
v2 = half[54]
v3 = half[56]
v4 = byte[23]
v5 = half[20]
v6 = byte[14]
v7 = v6 & 0xf
v8 = v7 << 2
v9 = half[v8 + 14]
v10 = half[v8 + 16]
b0: if captured >= 14 then b1 else b21
b1: if v0 == 0x86dd then b2 else b10
b2: if captured >= 21 then b3 else b21
b3: if v1 == 0x84 then b6 else b4
b4: if v1 == 6 then b6 else b5
b5: if v1 == 0x11 then b6 else b21
b6: if captured >= 56 then b7 else b21
b7: if v2 == 0xbb8 then b20 else b8
b8: if captured >= 58 then b9 else b21
b9: if v3 == 0xbb8 then b20 else b21
b10: if v0 == 0x800 then b11 else b21
b11: if captured >= 24 then b12 else b21
b12: if v4 == 0x84 then b15 else b13
b13: if v4 == 6 then b15 else b14
b14: if v4 == 0x11 then b15 else b21
b15: if v5 & 0x1fff != 0 then b21 else b16
b16: if captured >= v8 + 16 then b17 else b21
b17: if v9 == 0xbb8 then b20 else b18
b18: if captured >= v8 + 18 then b19 else b21
b19: if v10 == 0xbb8 then b20 else b21
b20: return 262144
b21: return 0
"
    );
}

#[test]
fn predicates_are_described_in_a_line() {
    let function = compile_function("tcp[tcpflags] & tcp-syn != 0", LinkType::ETHERNET).unwrap();
    let described: Vec<_> = function
        .blocks
        .iter()
        .filter_map(|block| match &block.end {
            Terminator::Test { predicate, .. } => Some(function.describe(predicate)),
            _ => None,
        })
        .collect();
    assert_eq!(
        described,
        [
            "captured >= 14",
            "half[12] == 0x800",
            "captured >= 24",
            "byte[23] == 6",
            "half[20] & 0x1fff != 0",
            "captured >= ((byte[14] & 0xf) << 2) + 28",
            "byte[((byte[14] & 0xf) << 2) + 27] & 2 != 0",
        ]
    );
}

#[test]
fn what_is_printed_reads_back() {
    let data = data();
    for expression in expressions(&data) {
        let built = build(&compile(&expression, LinkType::ETHERNET).unwrap());
        assert_eq!(parse(&built.to_string()).as_ref(), Ok(&built), "{expression}");
        let function = compile_function(&expression, LinkType::ETHERNET).unwrap();
        assert_eq!(parse(&function.to_string()).as_ref(), Ok(&function), "{expression}");
    }
}

#[test]
fn every_form_reads_back() {
    let text = "\
v0 = length
v1 = byte[v0]
v2 = word[v1 + 4294967295]
v3 = v2 - 10
v5 = v4 / v3
v6 = v5 | 0xffffffff
v7 = 10 << v0
s0 = { 0, 0xffffffff }
s1 = { 0x10000000, 0x10000001, 0x10000002, 0x10000003, 0x10000004, 0x10000005,
       0x10000006 }
b0: jump b1(7, v0)
b1(v4, v8): if v6 in s0 then b2 else b1(v7, v4)
b2: if v8 in s1 then b3 else b4
b3: if v5 & v8 != 0 then b4 else b5
b4: if v4 > v8 then b5 else b5
b5: if captured >= v3 + 77 then b6 else b7
b6: if v4 >= v8 then b7 else b7
b7: return 1000
";
    let function = parse(text).unwrap();
    assert_eq!(function.to_string(), text);
    assert_eq!(function.blocks[1].parameters.len(), 2);
    assert!(matches!(
        function.blocks[5].end,
        Terminator::Test { predicate: Predicate::Captured { index: Some(_), bytes: 77 }, .. }
    ));
}

#[test]
fn spaces_and_comments_do_not_matter() {
    let plain =
        parse("v0 = half[12]\nb0: if v0 == 5 then b1 else b2\nb1: return 1\nb2: return 0\n");
    let other = parse(
        "# A comment.\n v0=half [ 0xc ]\r\n\nb0:if v0==0x5\n  then b1 # here\n else b2 b1:return 1 b2:return 0",
    );
    assert_eq!(plain, other);
    assert!(plain.is_ok());
}

#[test]
fn errors_name_the_place_and_what_belongs_there() {
    for (text, expected) in [
        ("", "line 1, column 1: expected a block, `b0: …`, found the end of the text"),
        (
            "b0: return 0\nb2: return 0",
            "line 2, column 1: expected a value, `v0 = …`, or the next set or block, s0 or b1, \
             found \"b2\"",
        ),
        ("b0: return", "line 1, column 11: expected a value, `v0`, or a number, found the end"),
        ("b0: jump b1", "line 1, column 10: expected a block that is there, found \"b1\""),
        ("b0: leave", "line 1, column 5: expected `if`, `jump` or `return`, found \"leave\""),
        ("b0: if 1 < 2", "line 1, column 10: expected `==`, `>`, `>=`, `&` or `in`, found \"<\""),
        ("b0: if captured >= v0 then", "line 1, column 23: expected `+` and a number of bytes"),
        ("b0: if 1 in s0 then b0 else b0", "column 13: expected a set that is there, found \"s0\""),
        ("b0: if 1 & 2 then", "line 1, column 14: expected `!=`, found \"then\""),
        ("b0: return v0", "column 12: expected a value that is defined, with a smaller number"),
        ("v0 = v1 + 1\nv1 = length\nb0: return v0", "line 1, column 6: expected a value that is"),
        (
            "v0 = length\nv0 = length\nb0: return v0",
            "line 2, column 1: expected a value not defined",
        ),
        ("v1 = length\nb0: return v1", "line 1, column 1: expected a definition of v0 as well"),
        ("v0 = length\nv1 = length\nb0: return v0", "a value other than that of v0, found \"v1\""),
        ("v0 = half[4294967296]\nb0: return v0", "column 11: expected a value, `v0`, or a number"),
        ("v0 = half{2}", "line 1, column 10: expected `[`, found \"{\""),
        ("v0 = 5 ! 6", "line 1, column 8: expected an operation, found \"!\""),
        ("v0 = if", "line 1, column 6: expected `length`, a load or an operation, found \"if\""),
        ("s0 = { }", "line 1, column 8: expected a number up to 4294967295, found \"}\""),
        ("s0 = { 1 2 }", "line 1, column 10: expected `}`, found \"2\""),
        ("b0(5): return 0", "line 1, column 4: expected a parameter, `v0`, found \"5\""),
        ("b0: return 0 é", "line 1, column 14: expected a value"),
    ] {
        let message = message(text);
        assert!(message.contains(expected), "{text:?}: {message}");
    }
}
