//! Cisco IOS extended access lists, IPv4 and IPv6.
//!
//! Read are numbered lists (`access-list 100–199|2000–2699 …`), named ones
//! (`ip access-list extended NAME` with entries, numbered or not), and
//! `ipv6 access-list NAME`. Entries without a sequence number get the last one
//! plus 10, as on the routers, starting from 10. Lines that start with `!`,
//! remarks, `exit` and `end` say nothing. An IPv6 list ends as the routers end
//! it, with the neighbour discovery messages that pass unless a rule rejects
//! them.
//!
//! `established` is ACK or RST; the bare flags (`syn`, `ack` …) of older
//! releases are alternatives. Not carried over, and refused: `fragments`,
//! `dscp`, `precedence`, `tos`, `ttl`, `time-range`, `reflect`, object groups,
//! port tests that no port meets, wildcard masks whose ones are not last, and IPv6
//! extension headers as protocols. A fragment other than the first matches no
//! entry that names ports, flags or messages, where a router lets it match one
//! that permits.

use super::names;
use super::words::{Words, address, address_kind, mask_length, number, prefix};
use super::yamaha::MAX_NUMBER;
use super::{NamedList, ParseError};
use crate::key::ends_ipv6_chain;
use crate::rule::{
    Action, Family, FlagTest, IcmpTest, PortTest, ProtocolTest, Rule, RuleList, TCP, TransportTest,
    UDP, flag,
};
use crate::sets::{ProtocolSet, RangeSet};
use std::collections::{BTreeMap, HashMap};

const SCTP: u8 = 132;

/// Steps between the numbers of entries that come without.
const STEP: u32 = 10;

/// Reads all access lists of a file, in the order of their first lines.
///
/// # Errors
/// The first line that is no part of an extended access list, or asks what
/// cannot be carried over.
pub fn parse(text: &str) -> Result<Vec<NamedList>, ParseError> {
    let mut lists = Lists::default();
    let mut current = None;
    for (index, line) in text.lines().enumerate() {
        let mut words = Words::new(index + 1, line, '!');
        match words.peek() {
            None => {}
            Some("exit" | "end") => current = None,
            Some("access-list") => {
                current = None;
                words.take();
                let list = lists.open(list_number(&mut words)?, Family::Ipv4);
                lists.all[list].entry(&mut words)?;
            }
            Some("ip" | "ipv6") => current = Some(header(&mut lists, &mut words)?),
            Some(word) => {
                let list = current.ok_or_else(|| {
                    words.error(word, "`access-list`, `ip access-list` or `ipv6 access-list`")
                })?;
                lists.all[list].entry(&mut words)?;
            }
        }
    }
    lists.all.into_iter().map(OpenList::close).collect()
}

/// The lists of a file, in the order of their first lines.
#[derive(Default)]
struct Lists {
    all: Vec<OpenList>,
    /// Where a list is in `all`.
    places: HashMap<(String, Family), usize>,
}

impl Lists {
    /// The place of the list called `name`, which is begun if need be.
    fn open(&mut self, name: &str, family: Family) -> usize {
        *self.places.entry((name.to_owned(), family)).or_insert_with(|| {
            let (name, rules) = (name.to_owned(), BTreeMap::new());
            self.all.push(OpenList { name, family, rules, last_line: 0 });
            self.all.len() - 1
        })
    }
}

/// A list that may go on.
struct OpenList {
    name: String,
    family: Family,
    /// The entries by sequence number.
    rules: BTreeMap<u32, Rule>,
    last_line: usize,
}

fn list_number<'a>(words: &mut Words<'a>) -> Result<&'a str, ParseError> {
    const EXPECTED: &str = "the number of an extended list, 100 to 199 or 2000 to 2699";
    let word = words.need(EXPECTED)?;
    let extended = number::<u32>(word).is_some_and(|n| matches!(n, 100..=199 | 2000..=2699));
    if extended { Ok(word) } else { Err(words.error(word, EXPECTED)) }
}

/// `ip access-list extended NAME` or `ipv6 access-list NAME`.
fn header(lists: &mut Lists, words: &mut Words) -> Result<usize, ParseError> {
    let family = if words.take() == Some("ip") { Family::Ipv4 } else { Family::Ipv6 };
    words.need_word("access-list")?;
    if family == Family::Ipv4 {
        words.need_word("extended")?;
    }
    let name = words.need("the name of an access list")?;
    words.end()?;
    Ok(lists.open(name, family))
}

impl OpenList {
    /// `[NUMBER] permit|deny …`, or a remark.
    fn entry(&mut self, words: &mut Words) -> Result<(), ParseError> {
        self.last_line = words.line();
        let mut given = words.peek().and_then(number::<u32>);
        if given.is_some() {
            words.take();
        } else if self.family == Family::Ipv6 && words.take_if("sequence") {
            given = Some(words.number("a sequence number")?);
        }
        const EXPECTED: &str = "`permit`, `deny` or `remark`";
        let verb = words.need(EXPECTED)?;
        let action = match verb {
            "permit" => Action::Pass,
            "deny" => Action::Reject,
            "remark" => return Ok(()),
            _ => return Err(words.error(verb, EXPECTED)),
        };
        let number = match given {
            Some(number) => number,
            None => self.next_number(words.line())?,
        };
        if self.rules.contains_key(&number) || !(1..=MAX_NUMBER).contains(&number) {
            let expected = format!("a sequence number, 1 to {MAX_NUMBER}, that no entry has yet");
            return Err(words.error(&number.to_string(), expected));
        }
        self.rules.insert(number, rule(number, action, self.family, words)?);
        Ok(())
    }

    fn next_number(&self, line: usize) -> Result<u32, ParseError> {
        let last = self.rules.last_key_value().map_or(0, |(&number, _)| number);
        let next = last.checked_add(STEP).filter(|next| *next <= MAX_NUMBER);
        next.ok_or_else(|| {
            ParseError::at(line, &last.to_string(), "room for a sequence number behind the last")
        })
    }

    fn close(mut self) -> Result<NamedList, ParseError> {
        if self.family == Family::Ipv6 {
            // Neighbour solicitation and advertisement, RFC 4861 section 4.
            for kind in [135, 136] {
                let number = self.next_number(self.last_line)?;
                let mut test = TransportTest::of(ProtocolSet::one(Family::Ipv6.icmp()));
                test.icmp = Some(IcmpTest { types: RangeSet::one(kind), codes: RangeSet::full() });
                let protocol = ProtocolTest::Only(test);
                let rule = Rule { protocol, ..Rule::any(number, Family::Ipv6, Action::Pass) };
                self.rules.insert(number, rule);
            }
        }
        let rules = self.rules.into_values().collect();
        let list = RuleList { rules, default: Action::Reject };
        Ok(NamedList { name: self.name, list })
    }
}

fn rule(
    number: u32,
    action: Action,
    family: Family,
    words: &mut Words,
) -> Result<Rule, ParseError> {
    let protocol = protocol(family, words)?;
    let mut rule = Rule::any(number, family, action);
    rule.source = addresses(family, words)?;
    rule.source_ports = ports(protocol, words)?;
    rule.destination = addresses(family, words)?;
    rule.destination_ports = ports(protocol, words)?;
    let Some(protocol) = protocol else {
        options(&mut rule, &mut TransportTest::of(ProtocolSet::default()), None, words)?;
        return Ok(rule);
    };
    let mut test = TransportTest::of(ProtocolSet::one(protocol));
    if protocol == family.icmp() {
        test.icmp = messages(family, words)?;
    }
    options(&mut rule, &mut test, Some(protocol), words)?;
    rule.protocol = ProtocolTest::Only(test);
    Ok(rule)
}

/// A protocol's number; none for `ip` or `ipv6`, which is any.
fn protocol(family: Family, words: &mut Words) -> Result<Option<u8>, ParseError> {
    const EXPECTED: &str = "a protocol's name or number (0 to 255)";
    let word = words.need(EXPECTED)?;
    let found = match (word, family) {
        ("ip", Family::Ipv4) | ("ipv6", Family::Ipv6) => return Ok(None),
        ("icmp", _) => Some(family.icmp()),
        ("nos", _) => Some(4),
        _ => number(word).or_else(|| names::protocol(word)),
    };
    let protocol = found.ok_or_else(|| words.error(word, EXPECTED))?;
    if family == Family::Ipv6 && !ends_ipv6_chain(protocol) {
        let expected = "the protocol of the upper layer, not of an extension header";
        return Err(words.error(word, expected));
    }
    Ok(Some(protocol))
}

/// `any`, `host A`, `A WILDCARD`, or `A/LENGTH` for IPv6.
fn addresses(family: Family, words: &mut Words) -> Result<RangeSet<u128>, ParseError> {
    let expected = match family {
        Family::Ipv4 => "`any`, `host` and an IPv4 address, or an address and its wildcard mask",
        Family::Ipv6 => "`any`, `host` and an IPv6 address, or a prefix",
    };
    let word = words.need(expected)?;
    let range = match (word, family) {
        ("any", _) => return Ok(family.all()),
        ("host", _) => {
            let host = words.need(address_kind(family))?;
            let found = address(family, host).map(|address| (address, address));
            return found
                .and_then(|range| RangeSet::from_ranges([range]))
                .ok_or_else(|| words.error(host, address_kind(family)));
        }
        (_, Family::Ipv6) => prefix(family, word).filter(|_| word.contains('/')),
        (_, Family::Ipv4) => match address(family, word) {
            Some(base) => Some(family.prefix(base, wildcard(words)?)),
            None => None,
        },
    };
    range
        .and_then(|range| RangeSet::from_ranges([range]))
        .ok_or_else(|| words.error(word, expected))
}

/// The prefix length that a wildcard mask leaves.
fn wildcard(words: &mut Words) -> Result<u8, ParseError> {
    const EXPECTED: &str = "a wildcard mask whose ones are its last bits";
    let word = words.need(EXPECTED)?;
    let mask = address(Family::Ipv4, word).and_then(|mask| mask_length(!(mask as u32)));
    mask.ok_or_else(|| words.error(word, EXPECTED))
}

/// `eq P …`, `neq P …`, `gt P`, `lt P`, `range A B`, or nothing.
fn ports(protocol: Option<u8>, words: &mut Words) -> Result<PortTest, ParseError> {
    let has_ports = matches!(protocol, Some(TCP | UDP | SCTP));
    let operator = match words.peek() {
        Some(word @ ("eq" | "neq" | "gt" | "lt" | "range")) if has_ports => word,
        _ => return Ok(PortTest::Any),
    };
    words.take();
    let first = port(words)?;
    let set = match operator {
        "eq" | "neq" => {
            let mut listed = vec![(first, first)];
            while let Some(port) = words.peek().and_then(port_value) {
                words.take();
                listed.push((port, port));
            }
            let listed = RangeSet::from_ranges(listed);
            if operator == "eq" {
                listed
            } else {
                listed.and_then(|set| set.complement(0..=u16::MAX))
            }
        }
        "gt" => first.checked_add(1).and_then(|low| RangeSet::range(low..=u16::MAX)),
        "lt" => first.checked_sub(1).and_then(|high| RangeSet::range(0..=high)),
        _ => {
            let second = port(words)?;
            RangeSet::range(first.min(second)..=first.max(second))
        }
    };
    set.map(PortTest::In).ok_or_else(|| words.error(operator, "a test that some port meets"))
}

fn port_value(word: &str) -> Option<u16> {
    number(word).or_else(|| names::service(word))
}

fn port(words: &mut Words) -> Result<u16, ParseError> {
    const EXPECTED: &str = "a port, 0 to 65535 or a name";
    let word = words.need(EXPECTED)?;
    port_value(word).ok_or_else(|| words.error(word, EXPECTED))
}

/// A type and perhaps a code, by number or name, or nothing.
fn messages(family: Family, words: &mut Words) -> Result<Option<IcmpTest>, ParseError> {
    let Some(word) = words.peek() else { return Ok(None) };
    if let Some((kind, code)) = names::icmp_message(family, word) {
        words.take();
        let codes = code.map_or_else(RangeSet::full, RangeSet::one);
        return Ok(Some(IcmpTest { types: RangeSet::one(kind), codes }));
    }
    let Some(kind) = number::<u8>(word) else { return Ok(None) };
    words.take();
    let code = words.peek().and_then(number::<u8>);
    if code.is_some() {
        words.take();
    }
    let codes = code.map_or_else(RangeSet::full, RangeSet::one);
    Ok(Some(IcmpTest { types: RangeSet::one(kind), codes }))
}

/// The words behind the addresses.
fn options(
    rule: &mut Rule,
    test: &mut TransportTest,
    protocol: Option<u8>,
    words: &mut Words,
) -> Result<(), ParseError> {
    let tcp = protocol == Some(TCP);
    while let Some(word) = words.take() {
        match word {
            "log" | "log-input" => rule.log = true,
            "established" if tcp => test.tcp_flags.push(FlagTest::ESTABLISHED_CISCO),
            "match-any" | "match-all" if tcp && test.tcp_flags.is_empty() => {
                test.tcp_flags = flag_list(word, words)?;
            }
            _ => match flag_bit(word) {
                Some(bit) if tcp => test.tcp_flags.push(FlagTest::set(bit)),
                _ => {
                    let expected = "the end of the line, `log`, or a test of the protocol named";
                    return Err(words.error(word, expected));
                }
            },
        }
    }
    Ok(())
}

/// `+ack -syn …` after `match-any` or `match-all`.
fn flag_list(how: &str, words: &mut Words) -> Result<Vec<FlagTest>, ParseError> {
    let (mut set, mut clear) = (0, 0);
    while let Some(word) = words.peek() {
        let (side, name) = match word.split_at_checked(1) {
            Some(("+", name)) => (&mut set, name),
            Some(("-", name)) => (&mut clear, name),
            _ => break,
        };
        *side |= flag_bit(name).ok_or_else(|| words.error(word, "`+` or `-` and a TCP flag"))?;
        words.take();
    }
    if set | clear == 0 || set & clear != 0 {
        let found = words.peek().unwrap_or(how);
        return Err(words.error(found, "`+` or `-` before each TCP flag, each flag once"));
    }
    if how == "match-all" {
        return Ok(vec![FlagTest::Equal { mask: set | clear, value: set }]);
    }
    let bits = (0..8).map(|bit| 1_u8 << bit);
    let tests = bits.filter_map(|bit| {
        let wanted = (set & bit != 0).then(|| FlagTest::set(bit));
        wanted.or_else(|| (clear & bit != 0).then(|| FlagTest::clear(bit)))
    });
    Ok(tests.collect())
}

fn flag_bit(name: &str) -> Option<u8> {
    Some(match name {
        "fin" => flag::FIN,
        "syn" => flag::SYN,
        "rst" => flag::RST,
        "psh" => flag::PSH,
        "ack" => flag::ACK,
        "urg" => flag::URG,
        _ => return None,
    })
}
