//! The words of a rule, and the values of its options.

use crate::language::error::ParseError;
use crate::language::names;
use crate::language::words::{Words, address, address_kind, hexadecimal, number, prefix};
use crate::rule::{Family, FlagTest, IcmpTest};
use crate::sets::{ProtocolSet, RangeSet};

/// The words of a line; one in double quotes may hold spaces.
pub(super) fn split_quoted(line: usize, text: &str) -> Result<Vec<&str>, ParseError> {
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

/// `A[/MASK]`, or several with commas.
pub(super) fn addresses(
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
pub(super) fn address_range(
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
pub(super) fn protocols(
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
pub(super) fn ports(negated: bool, words: &mut Words) -> Result<RangeSet<u16>, ParseError> {
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

pub(super) fn flag_test(negated: bool, mask: u8, value: u8) -> FlagTest {
    if negated { FlagTest::NotEqual { mask, value } } else { FlagTest::Equal { mask, value } }
}

/// Names with commas, `ALL`, `NONE`, or a hexadecimal number.
pub(super) fn flags(words: &mut Words) -> Result<u8, ParseError> {
    const EXPECTED: &str = "TCP flags: FIN, SYN, RST, PSH, ACK, URG with commas, ALL or NONE";
    let field = words.need(EXPECTED)?;
    if let Some(bits) = hexadecimal(field).and_then(|bits| u8::try_from(bits).ok()) {
        return Ok(bits);
    }
    field.split(',').try_fold(0, |bits, name| match name {
        "ALL" => Ok(0x3f),
        "NONE" => Ok(bits),
        // iptables takes them in any case, and prints capitals.
        _ => match names::tcp_flag(&name.to_ascii_lowercase()) {
            Some(bit) => Ok(bits | bit),
            None => Err(words.error(name, EXPECTED)),
        },
    })
}

/// `TYPE`, `TYPE/CODE`, a name or `any`, which still is a message.
pub(super) fn messages(
    family: Family,
    negated: bool,
    words: &mut Words,
) -> Result<IcmpTest, ParseError> {
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
