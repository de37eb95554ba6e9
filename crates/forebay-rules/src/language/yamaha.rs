//! The filter syntax of YAMAHA RT routers, which is Forebay's own.
//!
//! ```text
//! ip filter NUMBER pass|reject|restrict[-log|-nolog] SOURCE [DESTINATION [PROTOCOL [PORTS [PORTS]]]]
//! ip INTERFACE secure filter in|out NUMBER …
//! ```
//!
//! and the same after `ipv6`. A word that starts with `#` starts a comment.
//! Without a `secure filter` line the filters are tried by ascending number,
//! with one in the order it gives; what no filter matches is rejected.
//!
//! * Addresses: `*`, an address, a prefix (`/24`, `/255.255.255.0`,
//!   `/0xffffff00`), octets left open at the end (`192.0.2.*`), a range `A-B`,
//!   `A-`, `-B`, and lists of these with commas.
//! * Protocols: `*`, names, numbers, lists; `established` (TCP with ACK),
//!   `tcpsyn`, `tcpfin`, `tcprst`, `tcpflag=VALUE/MASK`, `tcpflag!=VALUE/MASK`,
//!   `icmp-error`, `icmp-info`. Of several, one must fit.
//! * Ports: `*`, names, numbers, ranges, lists. Behind ICMP alone the two
//!   fields are its type and code. `icmp=TYPES/CODES`, which routers do not
//!   have, gives these in the protocol field, so that every rule of another
//!   language can be written; several values are joined by `+`.
//!
//! `restrict` passes while the line is up, which it is here. `pass` logs
//! nothing unless told to, `reject` and `restrict` log, as on the routers.
//! Dynamic filters hold state and are refused. In an `ipv6 filter`, `icmp` is
//! ICMPv6; its errors are the types below 128 (RFC 4443 section 2.1).

mod print;
mod protocol;

use super::ParseError;
use super::names::yamaha_port;
use super::words::{Words, address, address_kind, number, prefix};
use crate::rule::{Action, Family, IcmpTest, PortTest, ProtocolTest, Rule, RuleList};
use crate::sets::RangeSet;
use protocol::{ProtocolField, protocol_field};
use std::collections::BTreeMap;

/// The greatest number of a filter.
pub const MAX_NUMBER: u32 = 2_147_483_647;

/// The filters of a file, and where they are applied.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Document {
    filters: BTreeMap<(Family, u32), Rule>,
    applied: BTreeMap<(String, Family), Vec<u32>>,
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
        let rules = numbers.filter_map(|key| self.filters.get(&key).cloned()).collect();
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
        RuleList { rules: self.filters.values().cloned().collect(), default: Action::Reject }
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

/// Reads a file of filters.
///
/// # Errors
/// The first line that is none of the forms above, defines a number twice, or
/// applies a filter that is not defined anywhere in the file.
pub fn parse(text: &str) -> Result<Document, ParseError> {
    let mut document = Document::default();
    let mut applications = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut words = Words::new(index + 1, line, '#');
        let Some(first) = words.take() else { continue };
        let family = match first {
            "ip" => Family::Ipv4,
            "ipv6" => Family::Ipv6,
            _ => return Err(words.error(first, "`ip` or `ipv6`")),
        };
        if words.take_if("filter") {
            let rule = filter(family, &mut words)?;
            let number = rule.number;
            if document.filters.insert((family, number), rule).is_some() {
                let expected = "a number that no filter has yet";
                return Err(words.error(&number.to_string(), expected));
            }
        } else {
            applications.push(application(family, &mut words)?);
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

/// One `secure filter` line.
struct Application {
    line: usize,
    family: Family,
    name: String,
    order: Vec<u32>,
}

fn application(family: Family, words: &mut Words) -> Result<Application, ParseError> {
    let interface = words.need("`filter` or an interface")?;
    words.need_word("secure")?;
    words.need_word("filter")?;
    let direction = words.need("`in` or `out`")?;
    if !matches!(direction, "in" | "out") {
        return Err(words.error(direction, "`in` or `out`"));
    }
    let mut order = Vec::new();
    while let Some(word) = words.peek() {
        if word == "dynamic" {
            return Err(words.error(word, "static filters: dynamic ones hold state"));
        }
        order.push(filter_number(words)?);
    }
    if order.is_empty() {
        return Err(ParseError::end(words.line(), "the number of a filter"));
    }
    Ok(Application { line: words.line(), family, name: format!("{interface}:{direction}"), order })
}

fn filter_number(words: &mut Words) -> Result<u32, ParseError> {
    const EXPECTED: &str = "a filter number, 1 to 2147483647";
    let word = words.need(EXPECTED)?;
    let number = number(word).filter(|number| (1..=MAX_NUMBER).contains(number));
    number.ok_or_else(|| words.error(word, EXPECTED))
}

/// A filter from its number on.
fn filter(family: Family, words: &mut Words) -> Result<Rule, ParseError> {
    if words.peek() == Some("dynamic") {
        return Err(words.error("dynamic", "a static filter: dynamic ones hold state"));
    }
    let number = filter_number(words)?;
    let (action, log) = action(words)?;
    let source = words.need("a source address")?;
    let source = addresses(family, words, source)?;
    let destination = words.take().unwrap_or("*");
    let destination = addresses(family, words, destination)?;
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
        "pass" => Ok((Action::Pass, log.unwrap_or(false))),
        "restrict" => Ok((Action::Pass, log.unwrap_or(true))),
        "reject" => Ok((Action::Reject, log.unwrap_or(true))),
        _ => Err(words.error(word, EXPECTED)),
    }
}

fn addresses(family: Family, words: &Words, field: &str) -> Result<RangeSet<u128>, ParseError> {
    let error = |item: &str| {
        let kind = address_kind(family);
        words.error(item, format!("`*`, {kind}, a prefix, a range in ascending order, or a list"))
    };
    let ranges: Result<Vec<_>, _> = field
        .split(',')
        .map(|item| {
            let range = address_range(family, item).filter(|(first, last)| first <= last);
            range.ok_or_else(|| error(item))
        })
        .collect();
    RangeSet::from_ranges(ranges?).ok_or_else(|| error(field))
}

fn address_range(family: Family, item: &str) -> Option<(u128, u128)> {
    match item.split_once('-') {
        None if item == "*" => Some((0, family.greatest())),
        None => prefix(family, item).or_else(|| open_octets(family, item)),
        Some(("", "")) => None,
        Some((first, "")) => Some((address(family, first)?, family.greatest())),
        Some(("", last)) => Some((0, address(family, last)?)),
        Some((first, last)) => Some((address(family, first)?, address(family, last)?)),
    }
}

/// `192.0.2.*`: an IPv4 address whose last octets are all `*`.
fn open_octets(family: Family, item: &str) -> Option<(u128, u128)> {
    let octets: Vec<_> = item.split('.').collect();
    let given = octets.iter().take_while(|octet| **octet != "*").count();
    let open = octets[given..].iter().all(|octet| *octet == "*");
    if family != Family::Ipv4 || octets.len() != 4 || !open {
        return None;
    }
    let base = item.replace('*', "0");
    Some(family.prefix(address(family, &base)?, given as u8 * 8))
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
