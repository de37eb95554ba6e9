//! What `iptables-save` and `ip6tables-save` print: the filter table, as far as
//! it holds no state.
//!
//! Each of the chains INPUT, FORWARD and OUTPUT becomes a list whose default is
//! the chain's policy, its rules numbered from 1 as `iptables -L --line-numbers`
//! does. Read are addresses (`-s`, `-d`, `iprange`), protocols, ports (`tcp`,
//! `udp`, `sctp`, `multiport`), `--tcp-flags`, `--syn`, ICMP types and comments,
//! each with `!` where iptables has it, and the targets ACCEPT, DROP and REJECT.
//! A match of ports or messages fails on fragments other than the first, even if
//! it asks for any: so does the rule that it becomes.
//! Anything else (interfaces, connection states, other tables' rules, jumps to
//! other chains, targets that do not decide) is an error that names its line.

use super::names;
use super::words::{Words, address, address_kind, hexadecimal, number, prefix};
use super::{NamedList, ParseError};
use crate::key::has_ports;
use crate::rule::{
    Action, Family, FlagTest, IcmpTest, PortTest, ProtocolTest, Rule, RuleList, TCP, TransportTest,
    flag,
};
use crate::sets::{ProtocolSet, RangeSet};

/// The chains that packets enter, and thus the lists.
const CHAINS: [&str; 3] = ["INPUT", "FORWARD", "OUTPUT"];

/// Matches whose options are read.
const MATCHES: [&str; 8] =
    ["tcp", "udp", "sctp", "icmp", "icmp6", "multiport", "iprange", "comment"];

/// Those that look at ports, even where no option says which.
const PORT_MATCHES: [&str; 3] = ["tcp", "udp", "sctp"];

/// Reads the filter table's chains that the text declares.
///
/// # Errors
/// The first line that is not of the format, or asks what cannot be carried over.
pub fn parse(text: &str, family: Family) -> Result<Vec<NamedList>, ParseError> {
    let mut lists: Vec<NamedList> = Vec::new();
    let mut table = None;
    let mut last_line = 1;
    for (index, line) in text.lines().enumerate() {
        last_line = index + 1;
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let error = |expected: &str| ParseError::at(last_line, trimmed, expected);
        match (table, trimmed) {
            (None, _) => {
                let name = trimmed.strip_prefix('*');
                table = Some(name.ok_or_else(|| error("`*` and the name of a table"))?);
            }
            (Some(_), "COMMIT") => table = None,
            (Some(table), _) => match trimmed.strip_prefix(':') {
                Some(chain) if table == "filter" => {
                    lists.extend(declared(&lists, Words::new(last_line, chain, '#'))?);
                }
                Some(chain) => undecided(Words::new(last_line, chain, '#'))?,
                None if table == "filter" => append(&mut lists, last_line, trimmed, family)?,
                None => return Err(error("`COMMIT`: only the filter table may have rules")),
            },
        }
    }
    match table {
        None => Ok(lists),
        Some(_) => Err(ParseError::end(last_line, "`COMMIT` before the end of the file")),
    }
}

/// `CHAIN POLICY [packets:bytes]`; nothing for a chain that only jumps reach.
fn declared(known: &[NamedList], mut words: Words) -> Result<Option<NamedList>, ParseError> {
    let name = words.need("the name of a chain")?;
    // A second filter table would replace the first one.
    if known.iter().any(|list| list.name == name) {
        return Err(words.error(name, "each chain declared once, in one filter table"));
    }
    let policy = words.need("`ACCEPT`, `DROP` or `-`")?;
    let default = match policy {
        "ACCEPT" => Action::Pass,
        "DROP" => Action::Reject,
        "-" if !CHAINS.contains(&name) => return Ok(None),
        _ => return Err(words.error(policy, "`ACCEPT`, `DROP` or `-`")),
    };
    if !CHAINS.contains(&name) {
        return Err(words.error(name, "INPUT, FORWARD or OUTPUT: only these have a policy"));
    }
    let list = RuleList { rules: Vec::new(), default };
    Ok(Some(NamedList { name: name.to_owned(), list }))
}

/// A chain of another table, which must leave packets to the filter table.
fn undecided(mut words: Words) -> Result<(), ParseError> {
    words.need("the name of a chain")?;
    const EXPECTED: &str = "`ACCEPT` or `-`: only the filter table may drop";
    match words.need(EXPECTED)? {
        "ACCEPT" | "-" => Ok(()),
        policy => Err(words.error(policy, EXPECTED)),
    }
}

/// `[packets:bytes] -A CHAIN …`.
fn append(
    lists: &mut [NamedList],
    line: usize,
    text: &str,
    family: Family,
) -> Result<(), ParseError> {
    let mut words = Words::from_words(line, split_quoted(line, text)?);
    if words.peek().is_some_and(|word| word.starts_with('[')) {
        words.take();
    }
    words.need_word("-A")?;
    let chain = words.need("the name of a chain")?;
    let list = lists.iter_mut().find(|list| list.name == chain);
    let list = list.ok_or_else(|| {
        words.error(chain, "INPUT, FORWARD or OUTPUT, declared before its first rule")
    })?;
    let number = u32::try_from(list.list.rules.len() + 1)
        .map_err(|_| words.error(chain, "fewer than 2^32 rules"))?;
    let mut draft = Draft { family, ..Draft::default() };
    while words.peek().is_some() {
        draft.option(&mut words)?;
    }
    list.list.rules.push(draft.finish(number, &words)?);
    Ok(())
}

/// The words of a line; one in double quotes may hold spaces.
fn split_quoted(line: usize, text: &str) -> Result<Vec<&str>, ParseError> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
            Some(quoted) => {
                let end = closing_quote(quoted)
                    .ok_or_else(|| ParseError::at(line, rest, "a closing quotation mark"))?;
                (&quoted[..end], &quoted[end + 1..])
            }
        };
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

/// Where the first quotation mark is that no backslash precedes.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, character)| {
        let closes = character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
        closes.then_some(at)
    })
}

/// What a rule's options have said so far.
struct Draft {
    family: Family,
    source: Option<RangeSet<u128>>,
    destination: Option<RangeSet<u128>>,
    /// None within for `all`.
    protocol: Option<Option<ProtocolSet>>,
    source_ports: Option<RangeSet<u16>>,
    destination_ports: Option<RangeSet<u16>>,
    tcp_flags: Option<FlagTest>,
    icmp: Option<IcmpTest>,
    /// A match that reads ports was named: it fails on fragments other than the first.
    has_port_match: bool,
    action: Option<Action>,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            family: Family::Ipv4,
            source: None,
            destination: None,
            protocol: None,
            source_ports: None,
            destination_ports: None,
            tcp_flags: None,
            icmp: None,
            has_port_match: false,
            action: None,
        }
    }
}

impl Draft {
    /// One option with its arguments.
    fn option(&mut self, words: &mut Words) -> Result<(), ParseError> {
        let negated = words.take_if("!");
        let option = words.need("an option")?;
        let family = self.family;
        match option {
            "-s" | "--source" | "-d" | "--destination" => {
                let set = addresses(family, negated, words)?;
                once(self.address_field(option), set, option, words)
            }
            "--src-range" | "--dst-range" => {
                let set = address_range(family, negated, words)?;
                once(self.address_field(option), set, option, words)
            }
            "-p" | "--protocol" => {
                let set = protocols(family, negated, words)?;
                once(&mut self.protocol, set, option, words)
            }
            "--sport" | "--source-port" | "--sports" | "--source-ports" => {
                let set = ports(negated, words)?;
                once(&mut self.source_ports, set, option, words)
            }
            "--dport" | "--destination-port" | "--dports" | "--destination-ports" => {
                let set = ports(negated, words)?;
                once(&mut self.destination_ports, set, option, words)
            }
            "--tcp-flags" => {
                let (mask, value) = (flags(words)?, flags(words)?);
                once(&mut self.tcp_flags, flag_test(negated, mask, value), option, words)
            }
            "--syn" => {
                let mask = flag::FIN | flag::SYN | flag::RST | flag::ACK;
                once(&mut self.tcp_flags, flag_test(negated, mask, flag::SYN), option, words)
            }
            "--icmp-type" | "--icmpv6-type" => {
                let test = messages(family, negated, words)?;
                once(&mut self.icmp, test, option, words)
            }
            _ if negated => Err(words.error(option, "an option that `!` may stand before")),
            "-m" | "--match" => {
                let name = known_match(words)?;
                self.has_port_match |= PORT_MATCHES.contains(&name);
                Ok(())
            }
            "--comment" => words.need("a comment").map(|_| ()),
            "--reject-with" if self.action == Some(Action::Reject) => {
                words.need("how to reject").map(|_| ())
            }
            "-j" | "--jump" => {
                let action = target(words)?;
                once(&mut self.action, action, option, words)
            }
            _ => Err(words.error(
                option,
                "an option that asks about addresses, protocol, ports, TCP flags or ICMP type",
            )),
        }
    }

    fn address_field(&mut self, option: &str) -> &mut Option<RangeSet<u128>> {
        match option {
            "-s" | "--source" | "--src-range" => &mut self.source,
            _ => &mut self.destination,
        }
    }

    fn finish(self, number: u32, words: &Words) -> Result<Rule, ParseError> {
        let expected = "`-j` with ACCEPT, DROP or REJECT";
        let action = self.action.ok_or_else(|| ParseError::end(words.line(), expected))?;
        let protocols = self.protocol.flatten();
        let alone = protocols.and_then(only_one);
        let refuse = |expected: &str| Err(ParseError::end(words.line(), expected));
        if self.tcp_flags.is_some() && alone != Some(TCP) {
            return refuse("`-p tcp`, as TCP flags are asked for");
        }
        if self.icmp.is_some() && alone != Some(self.family.icmp()) {
            return refuse("`-p` with ICMP, as its type is asked for");
        }
        let asks_ports = self.source_ports.is_some() || self.destination_ports.is_some();
        if (asks_ports || self.has_port_match) && !alone.is_some_and(has_ports) {
            return refuse("`-p` with a protocol that has ports, as these are asked for");
        }
        // The match fails on a packet without ports, whatever it asks of them.
        let has_other_test = asks_ports || self.tcp_flags.is_some();
        let any_port = (self.has_port_match && !has_other_test).then(RangeSet::full);
        let protocol = protocols.map_or(ProtocolTest::Any, |protocols| {
            ProtocolTest::Only(TransportTest {
                protocols,
                tcp_flags: self.tcp_flags.into_iter().collect(),
                icmp: self.icmp,
            })
        });
        Ok(Rule {
            number,
            family: self.family,
            action,
            log: false,
            source: self.source.unwrap_or_else(|| self.family.all()),
            destination: self.destination.unwrap_or_else(|| self.family.all()),
            protocol,
            source_ports: self.source_ports.or(any_port).map_or(PortTest::Any, PortTest::In),
            destination_ports: self.destination_ports.map_or(PortTest::Any, PortTest::In),
        })
    }
}

/// The protocol of a set of one.
fn only_one(protocols: ProtocolSet) -> Option<u8> {
    let first = protocols.iter().next()?;
    (protocols == ProtocolSet::one(first)).then_some(first)
}

/// Sets a field that only one option may set: two would both have to hold.
fn once<T>(field: &mut Option<T>, value: T, option: &str, words: &Words) -> Result<(), ParseError> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(words.error(option, "one option for each field of a packet")),
    }
}

fn known_match<'a>(words: &mut Words<'a>) -> Result<&'a str, ParseError> {
    let name = words.need("the name of a match")?;
    let expected = || format!("a match without state, one of {}", MATCHES.join(", "));
    if MATCHES.contains(&name) { Ok(name) } else { Err(words.error(name, expected())) }
}

fn target(words: &mut Words) -> Result<Action, ParseError> {
    const EXPECTED: &str = "a target that decides: ACCEPT, DROP or REJECT";
    match words.need(EXPECTED)? {
        "ACCEPT" => Ok(Action::Pass),
        "DROP" | "REJECT" => Ok(Action::Reject),
        other => Err(words.error(other, EXPECTED)),
    }
}

/// `A[/MASK]`, or several with commas.
fn addresses(
    family: Family,
    negated: bool,
    words: &mut Words,
) -> Result<RangeSet<u128>, ParseError> {
    let expected = format!("{} or a prefix", address_kind(family));
    let field = words.need(&expected)?;
    let ranges: Option<Vec<_>> = field.split(',').map(|item| prefix(family, item)).collect();
    let set = ranges.and_then(RangeSet::from_ranges);
    let set = set.ok_or_else(|| words.error(field, expected))?;
    unless(negated, set, 0..=family.greatest(), field, words)
}

/// `A-B`.
fn address_range(
    family: Family,
    negated: bool,
    words: &mut Words,
) -> Result<RangeSet<u128>, ParseError> {
    let expected =
        format!("two times {} with `-` between, in ascending order", address_kind(family));
    let field = words.need(&expected)?;
    let (first, last) = field.split_once('-').unwrap_or((field, field));
    let range = address(family, first).zip(address(family, last));
    let set = range.and_then(|range| RangeSet::from_ranges([range]));
    let set = set.ok_or_else(|| words.error(field, expected))?;
    unless(negated, set, 0..=family.greatest(), field, words)
}

/// The complement of `set` if `negated`, which must hold something.
fn unless<T: crate::sets::Number>(
    negated: bool,
    set: RangeSet<T>,
    domain: std::ops::RangeInclusive<T>,
    field: &str,
    words: &Words,
) -> Result<RangeSet<T>, ParseError> {
    let set = if negated { set.complement(domain) } else { Some(set) };
    set.ok_or_else(|| words.error(field, "less than everything after `!`"))
}

/// A protocol; none for `all`.
fn protocols(
    family: Family,
    negated: bool,
    words: &mut Words,
) -> Result<Option<ProtocolSet>, ParseError> {
    const EXPECTED: &str = "a protocol's name or number (0 to 255)";
    let word = words.need(EXPECTED)?;
    let protocol = match word {
        "all" => Some(0),
        "icmp" if family == Family::Ipv6 => Some(1),
        _ => number(word).or_else(|| names::protocol(word)),
    };
    match (protocol, negated) {
        (None, _) => Err(words.error(word, EXPECTED)),
        (Some(0), false) => Ok(None),
        (Some(0), true) => Err(words.error(word, "less than all protocols after `!`")),
        (Some(protocol), false) => Ok(Some(ProtocolSet::one(protocol))),
        (Some(protocol), true) => Ok(Some(ProtocolSet::one(protocol).complement())),
    }
}

/// `P`, `A:B`, `A:`, `:B`, or several with commas.
fn ports(negated: bool, words: &mut Words) -> Result<RangeSet<u16>, ParseError> {
    const EXPECTED: &str = "ports, 0 to 65535 or names, or ranges LOW:HIGH of them";
    let field = words.need(EXPECTED)?;
    let port = |word: &str| number(word).or_else(|| names::service(word));
    let range = |item: &str| match item.split_once(':') {
        None => port(item).map(|port| (port, port)),
        Some((low, high)) => {
            let low = if low.is_empty() { Some(0) } else { port(low) };
            let high = if high.is_empty() { Some(u16::MAX) } else { port(high) };
            low.zip(high).filter(|(low, high)| low <= high)
        }
    };
    let ranges: Option<Vec<_>> = field.split(',').map(range).collect();
    let set = ranges.and_then(RangeSet::from_ranges);
    let set = set.ok_or_else(|| words.error(field, EXPECTED))?;
    unless(negated, set, 0..=u16::MAX, field, words)
}

fn flag_test(negated: bool, mask: u8, value: u8) -> FlagTest {
    if negated { FlagTest::NotEqual { mask, value } } else { FlagTest::Equal { mask, value } }
}

/// Names with commas, `ALL`, `NONE`, or a hexadecimal number.
fn flags(words: &mut Words) -> Result<u8, ParseError> {
    const EXPECTED: &str = "TCP flags: FIN, SYN, RST, PSH, ACK, URG with commas, ALL or NONE";
    let field = words.need(EXPECTED)?;
    if let Some(bits) = hexadecimal(field).and_then(|bits| u8::try_from(bits).ok()) {
        return Ok(bits);
    }
    field.split(',').try_fold(0, |bits, name| {
        Ok(bits
            | match name {
                "FIN" => flag::FIN,
                "SYN" => flag::SYN,
                "RST" => flag::RST,
                "PSH" => flag::PSH,
                "ACK" => flag::ACK,
                "URG" => flag::URG,
                "ALL" => 0x3f,
                "NONE" => 0,
                _ => return Err(words.error(name, EXPECTED)),
            })
    })
}

/// `TYPE`, `TYPE/CODE`, a name or `any`, which still is a message.
fn messages(family: Family, negated: bool, words: &mut Words) -> Result<IcmpTest, ParseError> {
    const EXPECTED: &str = "an ICMP message: TYPE, TYPE/CODE, its name, or `any`";
    let field = words.need(EXPECTED)?;
    let found = match field.split_once('/') {
        Some((kind, code)) => number(kind).zip(number(code).map(Some)),
        None => number(field).map(|kind| (kind, None)),
    };
    let found = found.or_else(|| names::icmp_message(family, field));
    // For IPv4, 255 is how iptables keeps `any`, whatever the code.
    let is_any = field == "any" || found.is_some_and(|(kind, _)| kind == 255);
    if family == Family::Ipv4 && is_any {
        let all = IcmpTest { types: RangeSet::full(), codes: RangeSet::full() };
        let expected = "less than all messages after `!`";
        return if negated { Err(words.error(field, expected)) } else { Ok(all) };
    }
    let (kind, code) = found.ok_or_else(|| words.error(field, EXPECTED))?;
    if negated && code.is_some() {
        return Err(words.error(field, "a type without a code after `!`"));
    }
    let types = unless(negated, RangeSet::one(kind), 0..=u8::MAX, field, words)?;
    Ok(IcmpTest { types, codes: code.map_or_else(RangeSet::full, RangeSet::one) })
}
