//! The filter syntax of YAMAHA RT routers, which is Forebay's own.
//!
//! ```text
//! ip filter NUMBER pass|reject|restrict[-log|-nolog] SOURCE [DESTINATION [PROTOCOL [PORTS [PORTS]]]]
//! ip INTERFACE secure filter in|out NUMBER …
//! numbers from 0
//! ```
//!
//! and the same after `ipv6`. A word that starts with `#` starts a comment.
//! Filters are numbered from 1 to 2147483647; behind `numbers from 0`, which
//! routers do not have, one may be numbered 0, as lists of ClassBench begin.
//! Without a `secure filter` line the filters are tried by ascending number,
//! with one in the order it gives; what no filter matches is rejected.
//!
//! * Addresses: `*`, an address, a prefix (`/24`, `/255.255.255.0`,
//!   `/0xffffff00`), open octets (`192.0.2.*`), a range `A-B`, `A-`, `-B`, and
//!   lists of these with commas.
//! * Protocols: `*`, names, numbers, lists; `established` (TCP with ACK),
//!   `tcpsyn`, `tcpfin`, `tcprst`, `tcpflag=VALUE/MASK`, `tcpflag!=VALUE/MASK`,
//!   `icmp-error`, `icmp-info`, and `icmp-nd` for IPv6. Of several, one must fit.
//! * Ports: `*`, names, numbers, ranges, lists. Behind ICMP alone the two
//!   fields are its type and code; behind kinds of ICMP message alone they say
//!   nothing. `icmp=TYPES/CODES`, which routers do not have, gives type and code
//!   in the protocol field, so that every rule of another language can be
//!   written; several values are joined by `+`.
//!
//! `restrict` passes while the line is up, which it is here. `reject` logs
//! unless configured otherwise, `pass` and `restrict` do not (routers log the latter
//! when they drop). Dynamic filters hold state and are refused. In an
//! `ipv6 filter`, `icmp` is ICMPv6; its errors are the types below 128 (RFC 4443
//! section 2.1), which the routers' reference leaves open.
//!
//! One meaning is not the routers': they compare ports for TCP and UDP only and
//! let other packets match whatever a rule of several protocols, or of any, says
//! of ports. Here a rule that names a port matches packets with that port only.

pub(crate) mod print;
mod protocol;

use super::catalogue::NamedList;
use super::catalogue::{Applied, Catalogue, Direction, Imported, Listed};
use super::error::ParseError;
use super::names::yamaha_port;
use super::words::{Words, address, address_kind, number, prefix};
use crate::rule::{Action, Family, IcmpTest, MAX_NUMBER, PortTest, ProtocolTest, Rule, RuleList};
use crate::sets::RangeSet;
use forebay_packet::cancel;
use protocol::{ProtocolField, protocol_field};
use std::collections::{BTreeMap, BTreeSet};

/// The most address ranges that a file's open octets before given ones
/// (`*.0.2.1`) stand for, 256 each: more would be gigabytes of few letters.
const MOST_OPEN: usize = 1 << 19;

/// The filters of a file, and where they are applied.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Document {
    filters: BTreeMap<(Family, u32), Filter>,
    applied: BTreeMap<(String, Family), Vec<u32>>,
}

/// A filter and the line that defines it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Filter {
    line: usize,
    rule: Rule,
}

impl Filter {
    fn rule(&self) -> Rule {
        cancel::check();
        self.rule.clone()
    }
}

impl Document {
    /// The list applied as `INTERFACE:in` or `INTERFACE:out`, IPv4 before IPv6;
    /// none if no filter is applied there.
    #[must_use]
    pub fn list(&self, name: &str) -> Option<RuleList> {
        let orders: Vec<_> = [Family::Ipv4, Family::Ipv6]
            .into_iter()
            .filter_map(|family| Some((family, self.applied.get(&(name.to_owned(), family))?)))
            .collect();
        let numbers = orders.iter().flat_map(|(family, order)| order.iter().map(|&n| (*family, n)));
        let filters = numbers.filter_map(|key| self.filters.get(&key));
        let rules = filters.map(Filter::rule).collect();
        (!orders.is_empty()).then_some(RuleList { rules, default: Action::Reject })
    }

    /// Names of all lists that are applied.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let mut before = None;
        let names = self.applied.keys().map(|(name, _)| name.as_str());
        names.filter(move |&name| before.replace(name) != Some(name))
    }

    /// All filters by ascending number, IPv4 before IPv6.
    #[must_use]
    pub fn ascending(&self) -> RuleList {
        let rules = self.filters.values().map(Filter::rule).collect();
        RuleList { rules, default: Action::Reject }
    }

    /// The line, counted from 1, that defines a filter.
    #[must_use]
    pub fn line_of(&self, family: Family, number: u32) -> Option<usize> {
        self.filters.get(&(family, number)).map(|filter| filter.line)
    }

    /// The one list of the file: the only one that is applied, or all filters
    /// by number where none is; nothing where several are.
    #[must_use]
    pub fn only_list(&self) -> Option<RuleList> {
        let mut names = self.names();
        match (names.next(), names.next()) {
            (None, _) => Some(self.ascending()),
            (Some(name), None) => self.list(name),
            (Some(_), Some(_)) => None,
        }
    }
}

impl Catalogue for Document {
    fn lists(&self) -> Vec<Listed> {
        let listed = |name: &str, entries| {
            let (name, full_name) = (name.to_owned(), name.to_owned());
            Listed { name, full_name, entries }
        };
        let mut lists: Vec<Listed> = Vec::new();
        for ((name, _), order) in &self.applied {
            match lists.last_mut().filter(|last| last.name == *name) {
                Some(last) => last.entries += order.len(),
                None => lists.push(listed(name, order.len())),
            }
        }
        if lists.is_empty() {
            lists.push(listed("", self.filters.len()));
        }
        lists
    }

    fn applied(&self) -> Vec<Applied> {
        let applied = self.names().enumerate().filter_map(|(list, name)| {
            let (interface, direction) = name.rsplit_once(':')?;
            let direction = if direction == "in" { Direction::In } else { Direction::Out };
            let (interface, aliases) = (interface.to_owned(), Vec::new());
            let (name, list) = (name.to_owned(), Some(list));
            let is_of = |family| self.applied.contains_key(&(name.clone(), family));
            let family = match (is_of(Family::Ipv4), is_of(Family::Ipv6)) {
                (true, true) => None,
                (true, false) => Some(Family::Ipv4),
                _ => Some(Family::Ipv6),
            };
            Some(Applied { interface, aliases, direction, family, name, list })
        });
        applied.collect()
    }

    fn read(&self, list: usize) -> Result<Imported, ParseError> {
        let name = self.names().nth(list);
        let list = name.and_then(|name| self.list(name)).unwrap_or_else(|| self.ascending());
        let lines = list.rules.iter().map(|rule| self.line_of(rule.family, rule.number));
        let lines = lines.map(Option::unwrap_or_default).collect();
        let list = NamedList { name: name.unwrap_or_default().to_owned(), list };
        Ok(Imported { list, lines, untested: Vec::new() })
    }

    fn into_list(self: Box<Self>, list: usize) -> Result<Imported, ParseError> {
        if !self.applied.is_empty() {
            return self.read(list);
        }
        // The filters are the list: none is copied.
        let lines = self.filters.values().map(|filter| filter.line).collect();
        let rules = self.filters.into_values().map(|filter| filter.rule).collect();
        let list = RuleList { rules, default: Action::Reject };
        let list = NamedList { name: String::new(), list };
        Ok(Imported { list, lines, untested: Vec::new() })
    }
}

/// Reads a file of filters.
///
/// # Errors
/// The first line that is none of the forms above, defines a number twice, or
/// applies a filter that is not defined anywhere in the file.
pub fn parse(text: &str) -> Result<Document, ParseError> {
    let mut document = Document::default();
    let mut applications = Vec::new();
    let mut least = 1;
    let mut open = 0;
    for (index, text) in text.lines().enumerate() {
        cancel::check();
        let line = index + 1;
        let mut words = Words::new(line, text, '#');
        let Some(first) = words.take() else { continue };
        let family = match first {
            "ip" => Family::Ipv4,
            "ipv6" => Family::Ipv6,
            "numbers" => {
                least = first_number(&mut words)?;
                continue;
            }
            _ => return Err(words.error(first, "`ip` or `ipv6`")),
        };
        if words.take_if("filter") {
            let rule = filter(family, least, &mut words, &mut open)?;
            let number = rule.number;
            if document.filters.insert((family, number), Filter { line, rule }).is_some() {
                let expected = "a number that no filter has yet";
                return Err(words.error(&number.to_string(), expected));
            }
        } else {
            applications.push(application(family, least, &mut words)?);
        }
    }
    for Application { line, family, name, order } in applications {
        if let Some(absent) = order.iter().find(|&&n| !document.filters.contains_key(&(family, n)))
        {
            let expected = "the number of a filter that the file defines";
            return Err(ParseError::at(line, &absent.to_string(), expected));
        }
        if document.applied.contains_key(&(name.clone(), family)) {
            let expected = "an interface and direction that has no filters yet";
            return Err(ParseError::at(line, &name, expected));
        }
        document.applied.insert((name, family), order);
    }
    Ok(document)
}

/// Reads one filter: a line, which may be numbered 0.
///
/// # Errors
/// If it is anything else.
pub fn rule(text: &str) -> Result<Rule, ParseError> {
    let mut words = Words::new(1, text.trim_end(), '#');
    let expected = "one filter: `ip filter` or `ipv6 filter`, a number, and what it says";
    let family = match words.need(expected)? {
        "ip" => Family::Ipv4,
        "ipv6" => Family::Ipv6,
        word => return Err(words.error(word, expected)),
    };
    match words.need(expected)? {
        "filter" if !text.trim_end().contains('\n') => filter(family, 0, &mut words, &mut 0),
        word => Err(words.error(word, expected)),
    }
}

/// One `secure filter` line.
struct Application {
    line: usize,
    family: Family,
    name: String,
    order: Vec<u32>,
}

fn application(family: Family, least: u32, words: &mut Words) -> Result<Application, ParseError> {
    let interface = words.need("`filter` or an interface")?;
    words.need_word("secure")?;
    words.need_word("filter")?;
    let direction = words.need("`in` or `out`")?;
    if !matches!(direction, "in" | "out") {
        return Err(words.error(direction, "`in` or `out`"));
    }
    let mut order = Vec::new();
    let mut known = BTreeSet::new();
    while let Some(word) = words.peek() {
        if word == "dynamic" {
            return Err(words.error(word, "static filters: dynamic ones hold state"));
        }
        let number = filter_number(least, words)?;
        if !known.insert(number) {
            return Err(words.error(word, "each filter once"));
        }
        order.push(number);
    }
    if order.is_empty() {
        return Err(ParseError::end(words.line(), "the number of a filter"));
    }
    Ok(Application { line: words.line(), family, name: format!("{interface}:{direction}"), order })
}

/// `numbers from 0`: the least number that a filter may have.
fn first_number(words: &mut Words) -> Result<u32, ParseError> {
    words.need_word("from")?;
    words.need_word("0")?;
    words.end()?;
    Ok(0)
}

fn filter_number(least: u32, words: &mut Words) -> Result<u32, ParseError> {
    let expected = format!("a filter number, {least} to {MAX_NUMBER}");
    let word = words.need(&expected)?;
    let number = number(word).filter(|number| (least..=MAX_NUMBER).contains(number));
    number.ok_or_else(|| words.error(word, expected))
}

/// A filter from its number on.
/// `open` counts the ranges that open octets have made so far.
fn filter(
    family: Family,
    least: u32,
    words: &mut Words,
    open: &mut usize,
) -> Result<Rule, ParseError> {
    if words.peek() == Some("dynamic") {
        return Err(words.error("dynamic", "a static filter: dynamic ones hold state"));
    }
    let number = filter_number(least, words)?;
    let (action, log) = action(words)?;
    let source = words.need("a source address")?;
    let source = addresses(family, words, source, number, open)?;
    let destination = words.take().unwrap_or("*");
    let destination = addresses(family, words, destination, number, open)?;
    let field = protocol_field(family, words)?;
    let [first, second] = [words.take().unwrap_or("*"), words.take().unwrap_or("*")];
    words.end()?;
    let mut rule = Rule { log, source, destination, ..Rule::any(number, family, action) };
    match field {
        ProtocolField::Any => {}
        ProtocolField::Icmp(mut test) => {
            test.icmp = icmp_fields(words, first, second)?;
            rule.protocol = ProtocolTest::Only(test);
            return Ok(rule);
        }
        ProtocolField::Messages(test) => {
            ports(words, first)?;
            ports(words, second)?;
            rule.protocol = ProtocolTest::Only(test);
            return Ok(rule);
        }
        ProtocolField::Only(test) => rule.protocol = ProtocolTest::Only(test),
    }
    rule.source_ports = ports(words, first)?;
    rule.destination_ports = ports(words, second)?;
    Ok(rule)
}

fn action(words: &mut Words) -> Result<(Action, bool), ParseError> {
    const EXPECTED: &str = "`pass`, `reject` or `restrict`, with `-log`, `-nolog` or neither";
    let word = words.need(EXPECTED)?;
    let (base, log) = match word.split_once('-') {
        None => (word, None),
        Some((base, "log")) => (base, Some(true)),
        Some((base, "nolog")) => (base, Some(false)),
        Some(_) => return Err(words.error(word, EXPECTED)),
    };
    match base {
        "pass" | "restrict" => Ok((Action::Pass, log.unwrap_or(false))),
        "reject" => Ok((Action::Reject, log.unwrap_or(true))),
        _ => Err(words.error(word, EXPECTED)),
    }
}

fn addresses(
    family: Family,
    words: &Words,
    field: &str,
    number: u32,
    open: &mut usize,
) -> Result<RangeSet<u128>, ParseError> {
    let error = |item: &str| {
        let kind = address_kind(family);
        words.error(item, format!("`*`, {kind}, a prefix, a range in ascending order, or a list"))
    };
    let mut ranges = Vec::new();
    for item in field.split(',') {
        match address_range(family, item) {
            Some((first, last)) if first <= last => ranges.push((first, last)),
            Some(_) => return Err(error(item)),
            None => {
                let octets = open_octets(family, item).ok_or_else(|| error(item))?;
                *open += if octets.len() > 1 { octets.len() } else { 0 };
                if *open > MOST_OPEN {
                    let expected = format!(
                        "open octets before given ones that stand for at most {MOST_OPEN} address \
                         ranges in a file: with filter {number} they are more"
                    );
                    return Err(words.error(item, expected));
                }
                ranges.extend(octets);
            }
        }
    }
    RangeSet::from_ranges(ranges).ok_or_else(|| error(field))
}

fn address_range(family: Family, item: &str) -> Option<(u128, u128)> {
    match item.split_once('-') {
        None if item == "*" => Some((0, family.greatest())),
        None => prefix(family, item),
        Some(("", "")) => None,
        Some((first, "")) => Some((address(family, first)?, family.greatest())),
        Some(("", last)) => Some((0, address(family, last)?)),
        Some((first, last)) => Some((address(family, first)?, address(family, last)?)),
    }
}

/// `192.0.2.*`: an IPv4 address some of whose octets can be any. One of them at
/// most may stand before an octet that is given, which is 256 ranges.
fn open_octets(family: Family, item: &str) -> Option<Vec<(u128, u128)>> {
    let octets: Vec<_> = item.split('.').collect();
    // An open octet is nothing but its star: `1*` is not 10.
    let half_open = octets.iter().any(|octet| octet.contains('*') && *octet != "*");
    let open_at_end = octets.iter().rev().take_while(|octet| **octet == "*").count();
    let (given, _) = octets.split_at(octets.len() - open_at_end);
    let open_before = given.iter().filter(|octet| **octet == "*").count();
    if family != Family::Ipv4 || octets.len() != 4 || open_before > 1 || half_open {
        return None;
    }
    let base = address(family, &item.replace('*', "0"))?;
    let length = given.len() as u8 * 8;
    let Some(open) = given.iter().position(|octet| *octet == "*") else {
        return Some(vec![family.prefix(base, length)]);
    };
    let octet = |value: u128| family.prefix(base | value << (24 - 8 * open), length);
    Some((0..=255).map(octet).collect())
}

/// A field of numbers with ranges, open or not, and lists; none for `*`.
/// `named` gives the ranges of names.
fn numbers<T: crate::sets::Number + std::str::FromStr>(
    words: &Words,
    field: &str,
    expected: &str,
    named: impl Fn(&str) -> Option<(T, T)>,
) -> Result<Option<RangeSet<T>>, ParseError> {
    if field == "*" {
        return Ok(None);
    }
    let value = |word: &str| number(word).map(|n| (n, n)).or_else(|| named(word));
    let range = |item: &str| match (value(item), item.split_once('-')) {
        (Some(range), _) => Some(range),
        (None, None | Some(("", ""))) => None,
        (None, Some((first, ""))) => Some((value(first)?.0, T::GREATEST)),
        (None, Some(("", last))) => Some((T::LEAST, value(last)?.1)),
        (None, Some((first, last))) => Some((value(first)?.0, value(last)?.1)),
    };
    let mut ranges = Vec::new();
    for item in field.split(',') {
        let found = range(item).filter(|(first, last)| first <= last);
        ranges.push(found.ok_or_else(|| words.error(item, expected))?);
    }
    Ok(RangeSet::from_ranges(ranges))
}

fn ports(words: &Words, field: &str) -> Result<PortTest, ParseError> {
    let expected = "`*`, a port (0 to 65535 or a name), a range in ascending order, or a list";
    Ok(numbers(words, field, expected, yamaha_port)?.map_or(PortTest::Any, PortTest::In))
}

/// The two fields behind ICMP alone.
fn icmp_fields(words: &Words, types: &str, codes: &str) -> Result<Option<IcmpTest>, ParseError> {
    let [types, codes] = [(types, "type"), (codes, "code")].map(|(field, what)| {
        let expected = format!("`*`, an ICMP {what} (0 to 255), a range, or a list");
        numbers::<u8>(words, field, &expected, |_| None)
    });
    let (types, codes) = (types?, codes?);
    let given = types.is_some() || codes.is_some();
    Ok(given.then(|| IcmpTest {
        types: types.unwrap_or_else(RangeSet::full),
        codes: codes.unwrap_or_else(RangeSet::full),
    }))
}
