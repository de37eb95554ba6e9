//! ClassBench sets: all are read, and the oracle agrees with the first matches
//! that come with them.

use forebay_rules::key::Key;
use forebay_rules::language::{classbench, yamaha};
use forebay_rules::rule::{Family, ProtocolTest, RuleList};
use std::fs;
use std::io::Read;
use std::path::Path;

/// The text of a file that may be compressed.
fn text(path: &Path) -> String {
    let mut text = String::new();
    let mut file = fs::File::open(path).unwrap();
    if path.extension().is_some_and(|extension| extension == "gz") {
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    } else {
        file.read_to_string(&mut text).unwrap();
    }
    text
}

/// Headers looked up in each set.
const HEADERS: usize = 1000;

#[test]
fn every_seed_and_every_set_is_read_whole_and_survives_our_syntax() {
    let Some(data) = crate::support::data() else { return };
    let mut sets = 0;
    for folder in ["neurocuts", "generated"] {
        for entry in fs::read_dir(data.join("classbench").join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if !name.trim_end_matches(".gz").ends_with('k') {
                continue;
            }
            let text = text(&path);
            let list = classbench::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(list.rules.len(), text.lines().count(), "{name}");
            let again = yamaha::parse(&list.to_string());
            let again = again.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(again.only_list(), Some(list), "{name}");
            sets += 1;
        }
    }
    assert!(sets >= 12 + 9, "only {sets} sets found");
}

#[test]
fn the_oracle_finds_the_expected_first_match() {
    let Some(data) = crate::support::data() else { return };
    for set in ["acl1_1k", "fw1_1k", "ipc1_1k", "acl1_10k", "fw1_10k", "ipc1_10k"] {
        let folder = data.join("classbench/generated");
        let list = five_tuples(&fs::read_to_string(folder.join(set)).unwrap());
        let expected = fs::read_to_string(folder.join(format!("{set}_expected"))).unwrap();
        let mut compared = 0;
        for line in expected.lines().filter(|line| !line.starts_with('#')).take(HEADERS) {
            let numbers: Vec<i64> =
                line.split_whitespace().map(|word| word.parse().unwrap()).collect();
            let first = list.decide(&key(&numbers)).rule.map(|index| list.rules[index].number);
            assert_eq!(first.map_or(-1, i64::from), numbers[5], "{set}: {line}");
            compared += 1;
        }
        assert!(compared > 500, "{set}: only {compared} headers");
    }
}

#[test]
fn headers_of_a_trace_match_the_rules_they_were_drawn_from() {
    let Some(data) = crate::support::data() else { return };
    for set in ["acl1_1k", "fw1_1k", "ipc1_1k", "acl1_10k", "fw1_10k", "ipc1_10k"] {
        let folder = data.join("classbench/generated");
        let list = classbench::parse(&text(&folder.join(set))).unwrap();
        let trace = text(&folder.join(format!("{set}_trace")));
        for (index, line) in trace.lines().enumerate() {
            let key = classbench::parse_header(index + 1, line).unwrap().unwrap();
            let drawn: usize = line.split_whitespace().nth(6).unwrap().parse().unwrap();
            assert!(list.rules[drawn].matches(&key), "{set}: {line}");
        }
        assert!(trace.lines().count() > 500, "{set}");
    }
}

#[test]
fn a_header_has_what_its_protocol_has() {
    let header = |line: &str| classbench::parse_header(7, line);
    let text = |line| header(line).unwrap().map(|key| key.to_string());
    let cases = [
        ("167772161 167772162 1024 80 6 33559040 12", Some("tcp 10.0.0.1:1024 > 10.0.0.2:80 syn")),
        ("167772161\t167772162\t1024\t80\t6\t512", Some("tcp 10.0.0.1:1024 > 10.0.0.2:80 none")),
        ("167772161 167772162 5 6 17 4294967295 1", Some("udp 10.0.0.1:5 > 10.0.0.2:6")),
        ("167772161 167772162 0 0 1 50593791 1", Some("icmp 10.0.0.1 > 10.0.0.2 type 3 code 3")),
        ("167772161 167772162 5 6 47 0 1", Some("gre 10.0.0.1 > 10.0.0.2")),
        ("# source destination", None),
        ("  ", None),
    ];
    for (line, expected) in cases {
        assert_eq!(text(line).as_deref(), expected, "{line}");
    }
    for (line, message) in [
        ("x", "line 7: found \"x\", expected a source address as a number below 2^32"),
        ("4294967296", "expected a source address"),
        ("1 2 3", "found the end of the line, expected a destination port"),
        ("1 2 3 4 256 0", "found \"256\", expected a protocol"),
        ("1 2 3 4 5", "found the end of the line, expected flags"),
        ("1 2 3 4 5 6 -1", "found \"-1\", expected the number of a rule"),
        ("1 2 3 4 5 6 7 8", "found \"8\", expected the end of the line"),
    ] {
        let error = header(line).unwrap_err().to_string();
        assert!(error.contains(message), "{line}: {error}");
    }
}

/// A set without its flags, which the expected matches leave out.
fn five_tuples(text: &str) -> RuleList {
    let mut list = classbench::parse(text).unwrap();
    for rule in &mut list.rules {
        if let ProtocolTest::Only(test) = &mut rule.protocol {
            test.tcp_flags.clear();
            test.icmp = None;
        }
    }
    list
}

/// The key of a trace's header, which has ports whatever its protocol.
fn key(numbers: &[i64]) -> Key {
    Key {
        family: Family::Ipv4,
        source: u128::try_from(numbers[0]).unwrap(),
        destination: u128::try_from(numbers[1]).unwrap(),
        protocol: Some(u8::try_from(numbers[4]).unwrap()),
        ports: Some((u16::try_from(numbers[2]).unwrap(), u16::try_from(numbers[3]).unwrap())),
        tcp_flags: None,
        icmp: None,
    }
}

#[test]
fn flags_are_control_bits_for_tcp_and_type_and_code_for_icmp() {
    let text = "@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0200/0x1200\t\n\
                @0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x01/0xFF\t0x0303/0xffff\t\n\
                @1.2.3.4/32\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00\t0x0000/0x0000\t\n";
    let printed: Vec<_> =
        classbench::parse(text).unwrap().rules.iter().map(ToString::to_string).collect();
    assert_eq!(
        printed,
        [
            "ip filter 0 pass 10.0.0.0/8 * tcpflag=0x0002/0x0012 * 80",
            "ip filter 1 pass * * icmp 3 3",
            "ip filter 2 pass 1.2.3.4 * * * *",
        ]
    );
}

#[test]
fn what_is_no_rule_is_an_error_that_names_its_line() {
    let good = "@1.2.3.4/32\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00\t0x0000/0x0000\t";
    let cases = [
        ("1.2.3.4/32", "\"1.2.3.4/32\", expected `@` and a source prefix"),
        ("@1.2.3.4/33 0.0.0.0/0", "\"@1.2.3.4/33\", expected `@` and a source prefix"),
        ("@1.2.3.4/32", "the end of the line, expected a destination prefix"),
        ("@1.2.3.4/32 0.0.0.0/0 9 : 8", "\"8\", expected a port not below 9"),
        ("@1.2.3.4/32 0.0.0.0/0 9 - 8", "\"-\", expected `:`"),
        (
            "@1.2.3.4/32 0.0.0.0/0 0 : 9 0 : 9 0x11/0xFF 0x0200/0x0200",
            "expected flags 0x0000/0x0000, or TCP with a mask of at most 0xff00, or ICMP",
        ),
        ("@1.2.3.4/32 0.0.0.0/0 0 : 9 0 : 9 0x11/0x0F", "\"0x11/0x0F\", expected a protocol"),
    ];
    for (line, message) in cases {
        let error = classbench::parse(&format!("{good}\n{line}\n")).unwrap_err();
        assert_eq!(error.line, 2, "{line}");
        assert!(error.to_string().contains(message), "{line}: {error}");
    }
}
