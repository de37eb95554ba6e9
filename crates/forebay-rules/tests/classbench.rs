//! ClassBench sets: all are read, and the oracle agrees with the first matches
//! that come with them.

mod support;

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
    let Some(data) = support::data() else { return };
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
            // Our numbers start at 1, ClassBench's at 0.
            let printed: String =
                list.rules.iter().skip(1).map(|rule| format!("{rule}\n")).collect();
            let again = yamaha::parse(&printed).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(again.ascending().rules, list.rules[1..], "{name}");
            sets += 1;
        }
    }
    assert!(sets >= 12 + 9, "only {sets} sets found");
}

#[test]
fn the_oracle_finds_the_expected_first_match() {
    let Some(data) = support::data() else { return };
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
