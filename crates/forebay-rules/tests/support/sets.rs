//! ClassBench sets of the test data.
#![allow(dead_code, reason = "each test uses its part")]

use forebay_rules::key::Key;
use forebay_rules::language::classbench;
use forebay_rules::rule::{Family, ICMP, ProtocolTest, RuleList};
use forebay_rules::sets::ProtocolSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A protocol that has no header of its own here and that no set names.
const NAMELESS: u8 = 253;

/// The text of a file, which may have been compressed.
pub fn text(path: &Path) -> String {
    let mut text = String::new();
    if path.is_file() {
        fs::File::open(path).unwrap().read_to_string(&mut text).unwrap();
    } else {
        let file = fs::File::open(format!("{}.gz", path.display())).unwrap();
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    }
    text
}

/// The twelve seeds, by name.
pub fn seeds(data: &Path) -> Vec<(String, RuleList)> {
    let folder = data.join("classbench/neurocuts");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let lists = entries.filter_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let read = || classbench::parse(&text(&entry.path())).unwrap();
        name.ends_with("_1k").then(|| (name, read()))
    });
    lists.collect()
}

/// A set that was generated, with its trace.
pub fn generated(data: &Path, name: &str) -> (RuleList, Vec<Key>) {
    let file = |end| data.join("classbench/generated").join(format!("{name}{end}"));
    let list = classbench::parse(&text(&file(""))).unwrap();
    let trace = text(&file("_trace"));
    let keys = (1..)
        .zip(trace.lines())
        .filter_map(|(number, line)| classbench::parse_header(number, line).unwrap());
    (list, keys.collect())
}

/// A set of five-tuples alone, headers, and the rule that another program found
/// each to match first. There every packet has ports; as no packet of ICMP has,
/// that is another protocol here.
pub fn five_tuples(data: &Path, name: &str) -> (RuleList, Vec<Key>, Vec<u32>) {
    let (mut list, _) = generated(data, name);
    for rule in &mut list.rules {
        if let ProtocolTest::Only(test) = &mut rule.protocol {
            test.tcp_flags.clear();
            test.icmp = None;
            if test.protocols == ProtocolSet::one(ICMP) {
                test.protocols = ProtocolSet::one(NAMELESS);
            }
        }
    }
    let file: PathBuf = data.join("classbench/generated").join(format!("{name}_expected"));
    let lines = text(&file);
    let headers = lines.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let numbers: Vec<i64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let &[source, destination, first, second, protocol, rule] = &numbers[..] else {
            panic!("{name}: {line}")
        };
        let protocol = if protocol == i64::from(ICMP) { NAMELESS } else { protocol as u8 };
        let key = Key {
            family: Family::Ipv4,
            source: source as u128,
            destination: destination as u128,
            protocol: Some(protocol),
            ports: Some((first as u16, second as u16)),
            tcp_flags: None,
            icmp: None,
        };
        // -1, that none matches, becomes `NO_RULE`.
        (key, rule as u32)
    });
    let (keys, rules) = headers.unzip();
    (list, keys, rules)
}
