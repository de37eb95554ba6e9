//! The rule lists: the paper's five sizes, and ClassBench's sets.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use flate2::read::GzDecoder;
use forebay_rules::key::Key;
use forebay_rules::language::{classbench, yamaha};
use forebay_rules::packed::Key4;
use forebay_rules::rule::{Family, ICMP, TCP, flag};
use forebay_rules::{ParseError, ProtocolTest, RuleList};

use super::frames::packed;
use super::headers::{HeaderKind, has_ports};
use crate::failure::{During, Result};

/// The lists that stand for the paper's, each the beginning of the next.
const PAPER: [&str; 5] = [
    include_str!("../../../data/paper/list-2.conf"),
    include_str!("../../../data/paper/list-9.conf"),
    include_str!("../../../data/paper/list-18.conf"),
    include_str!("../../../data/paper/list-35.conf"),
    include_str!("../../../data/paper/list-71.conf"),
];

/// The lists of the paper's comparison.
pub fn paper() -> Result<Vec<RuleList>, ParseError> {
    PAPER.into_iter().map(|text| Ok(yamaha::parse(text)?.ascending())).collect()
}

/// A ClassBench set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name.
    pub name: &'static str,
    /// How many rules, about.
    pub rules: usize,
}

impl Source {
    /// The name of the set with headers of this kind in the rows.
    pub fn case(self, kind: HeaderKind) -> String {
        match kind {
            HeaderKind::Packets => self.name.to_owned(),
            HeaderKind::FiveTuples => format!("{}-5tuple", self.name),
        }
    }
}

/// The sets, by size.
pub const CLASSBENCH: [Source; 9] = [
    Source { name: "acl1_1k", rules: 1_000 },
    Source { name: "fw1_1k", rules: 1_000 },
    Source { name: "ipc1_1k", rules: 1_000 },
    Source { name: "acl1_10k", rules: 10_000 },
    Source { name: "fw1_10k", rules: 10_000 },
    Source { name: "ipc1_10k", rules: 10_000 },
    Source { name: "acl1_100k", rules: 100_000 },
    Source { name: "fw1_100k", rules: 100_000 },
    Source { name: "ipc1_100k", rules: 100_000 },
];

/// A set with its trace.
#[derive(Clone, Debug)]
pub struct ClassBench {
    /// The rules.
    pub list: RuleList,
    /// The trace's headers.
    pub trace: Vec<Key4>,
    /// The rule that each of them matches first, where the set has that.
    pub expected: Option<Vec<u32>>,
}

impl ClassBench {
    /// Reads a set; none if it is not there. In the form of five-tuples, tests of anything
    /// else are left out of the rules, as in the results that come with the set.
    pub fn read(data: &Path, source: Source, kind: HeaderKind) -> Result<Option<Self>> {
        let folder = data.join("classbench/generated");
        let file = |suffix: &str| text(&folder, &format!("{}{suffix}", source.name));
        let (Some(rules), Some(trace), Some(expected)) =
            (file("")?, file("_trace")?, file("_expected")?)
        else {
            return Ok(None);
        };
        let mut list = classbench::parse(&rules)?;
        let trace: Option<Vec<Key4>> = trace.lines().map(|line| traced(line, kind)).collect();
        let trace = trace.ok_or("a trace that is not one").during(source.name)?;
        let mut known = None;
        if kind == HeaderKind::FiveTuples {
            list.rules.iter_mut().for_each(|rule| {
                if let ProtocolTest::Only(test) = &mut rule.protocol {
                    test.tcp_flags.clear();
                    test.icmp = None;
                }
            });
            let lines = expected.lines().filter(|line| !line.starts_with('#'));
            let rules: Option<Vec<u32>> = lines.map(first_match).collect();
            let rules = rules.filter(|rules| rules.len() == trace.len());
            known = Some(rules.ok_or("results that are not the trace's").during(source.name)?);
        }
        Ok(Some(Self { list, trace, expected: known }))
    }
}

/// A file's text, which may be compressed; none if it is not there.
fn text(folder: &Path, name: &str) -> Result<Option<String>> {
    let (plain, packed) = (folder.join(name), folder.join(format!("{name}.gz")));
    let read = |path: &Path| -> io::Result<String> {
        if path == plain {
            return fs::read_to_string(path);
        }
        let mut text = String::new();
        GzDecoder::new(fs::File::open(path)?).read_to_string(&mut text)?;
        Ok(text)
    };
    let Some(path) = [&plain, &packed].into_iter().find(|path| path.is_file()) else {
        return Ok(None);
    };
    read(path).map(Some).during(format_args!("reading {}", path.display()))
}

/// A line of a trace: source, destination, ports, protocol, and more. Traces have ports for
/// every protocol and no flags; in the form of packets, those of TCP are acknowledgments and
/// those of ICMP echo requests.
fn traced(line: &str, kind: HeaderKind) -> Option<Key4> {
    let mut words = line.split_whitespace();
    let mut number = || words.next()?.parse::<u32>().ok();
    let (source, destination) = (number()?.into(), number()?.into());
    let ports = (u16::try_from(number()?).ok()?, u16::try_from(number()?).ok()?);
    let protocol = u8::try_from(number()?).ok()?;
    let is_packet = kind == HeaderKind::Packets;
    packed(&Key {
        family: Family::Ipv4,
        source,
        destination,
        protocol: Some(protocol),
        ports: (!is_packet || has_ports(protocol)).then_some(ports),
        tcp_flags: (is_packet && protocol == TCP).then_some(flag::ACK),
        icmp: (is_packet && protocol == ICMP).then_some((8, 0)),
    })
}

/// The result of a line of results: an index, or -1 for none, which is [`NO_RULE`].
///
/// [`NO_RULE`]: forebay_rules::engine::NO_RULE
fn first_match(line: &str) -> Option<u32> {
    let last: i32 = line.split_whitespace().last()?.parse().ok()?;
    (last >= -1).then_some(last.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::super::frames::unpacked;
    use super::*;

    #[test]
    fn the_lists_have_the_sizes_of_the_paper_and_grow() {
        let lists = paper().unwrap();
        let sizes: Vec<usize> = lists.iter().map(|list| list.rules.len()).collect();
        assert_eq!(sizes, [2, 9, 18, 35, 71]);
        for pair in lists.windows(2) {
            assert_eq!(pair[0].rules, pair[1].rules[..pair[0].rules.len()]);
        }
    }

    #[test]
    fn traces_and_results_are_read() {
        let line = "1002664768\t1002665970\t0\t62000\t6\t4294967295\t421";
        let key = unpacked(&traced(line, HeaderKind::FiveTuples).unwrap());
        assert_eq!((key.source, key.destination), (1_002_664_768, 1_002_665_970));
        assert_eq!((key.ports, key.tcp_flags), (Some((0, 62_000)), None));
        let echo = unpacked(&traced("1 2 3 4 1", HeaderKind::Packets).unwrap());
        assert_eq!((echo.ports, echo.icmp), (None, Some((8, 0))));
        assert_eq!(traced("1 2 3 70000 6", HeaderKind::Packets), None);
        assert_eq!(first_match("1 2 3 4 6 421"), Some(421));
        assert_eq!(first_match("1 2 3 4 6 -1"), Some(forebay_rules::engine::NO_RULE));
        assert_eq!(first_match(""), None);
    }
}
