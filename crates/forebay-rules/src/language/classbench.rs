//! ClassBench filter sets (Taylor and Turner, INFOCOM 2005).
//!
//! One rule a line, IPv4: `@` source prefix, destination prefix, source port
//! range `low : high`, destination port range, protocol value/mask, flags
//! value/mask. Ports `0 : 65535` ask nothing. For TCP the upper byte of the
//! flags are the control bits, for ICMP the upper byte is the type and the lower
//! one the code. Rules are numbered by their line, counted from 0, and all pass:
//! the format has no actions.
//!
//! A trace has a header a line, in decimal: source, destination, source port,
//! destination port, protocol, flags, and perhaps the rule it was drawn from.
//! The flags are a rule's, value and mask (an upper and a lower 16 bits), or all
//! zeros or all ones where the rule has none: the header's own are the
//! value. Ports are read for protocols that have them only.

use super::error::ParseError;
use super::words::{Words, hexadecimal, prefix};
use crate::key::{Key, has_ports};
use crate::rule::{
    Action, Family, FlagTest, ICMP, IcmpTest, PortTest, ProtocolTest, Rule, RuleList, TCP,
    TransportTest,
};
use crate::sets::{ProtocolSet, RangeSet};
use forebay_packet::cancel;

/// Reads a filter set.
///
/// # Errors
/// The first line that is not a rule, or has one that cannot be carried over.
pub fn parse(text: &str) -> Result<RuleList, ParseError> {
    let mut rules = Vec::new();
    for (index, line) in text.lines().enumerate() {
        cancel::check();
        if !line.trim().is_empty() {
            let number = u32::try_from(index)
                .map_err(|_| ParseError::at(index, line, "fewer than 2^32 lines"))?;
            rules.push(rule(number, Words::new(index + 1, line, '#'))?);
        }
    }
    Ok(RuleList { rules, default: Action::Reject })
}

fn rule(number: u32, mut words: Words) -> Result<Rule, ParseError> {
    let first = words.need("`@` and a source prefix")?;
    let source = first.strip_prefix('@').and_then(address_field);
    let source = source.ok_or_else(|| words.error(first, "`@` and a source prefix"))?;
    let second = words.need("a destination prefix")?;
    let destination =
        address_field(second).ok_or_else(|| words.error(second, "a destination prefix"))?;
    let source_ports = ports(&mut words)?;
    let destination_ports = ports(&mut words)?;
    let protocols = protocols(&mut words)?;
    let protocol = flags(&mut words, protocols)?;
    words.end()?;
    Ok(Rule {
        source,
        destination,
        source_ports,
        destination_ports,
        protocol,
        ..Rule::any(number, Family::Ipv4, Action::Pass)
    })
}

/// Reads line number `line` of a trace; nothing for one that is empty or a
/// comment, which starts with `#`.
///
/// # Errors
/// A line that is no header.
pub fn parse_header(line: usize, text: &str) -> Result<Option<Key>, ParseError> {
    let mut words = Words::new(line, text, '#');
    if words.peek().is_none() {
        return Ok(None);
    }
    let source = words.number::<u32>("a source address as a number below 2^32")?;
    let destination = words.number::<u32>("a destination address as a number below 2^32")?;
    let source_port = words.number("a source port, 0 to 65535")?;
    let destination_port = words.number("a destination port, 0 to 65535")?;
    let protocol = words.number("a protocol, 0 to 255")?;
    let flags = words.number::<u32>("flags as a number below 2^32")?;
    if words.peek().is_some() {
        words.number::<u64>("the number of a rule")?;
    }
    words.end()?;
    let [high, low, ..] = flags.to_be_bytes();
    Ok(Some(Key {
        family: Family::Ipv4,
        source: source.into(),
        destination: destination.into(),
        protocol: Some(protocol),
        ports: has_ports(protocol).then_some((source_port, destination_port)),
        tcp_flags: (protocol == TCP).then_some(high),
        icmp: (protocol == ICMP).then_some((high, low)),
    }))
}

fn address_field(word: &str) -> Option<RangeSet<u128>> {
    RangeSet::from_ranges([prefix(Family::Ipv4, word)?])
}

/// `low : high`.
fn ports(words: &mut Words) -> Result<PortTest, ParseError> {
    let low = words.number::<u16>("the lowest port, 0 to 65535")?;
    words.need_word(":")?;
    let shown = words.peek().unwrap_or_default();
    let high = words.number::<u16>("the highest port, 0 to 65535")?;
    let set = RangeSet::range(low..=high)
        .ok_or_else(|| words.error(shown, format!("a port not below {low}")))?;
    Ok(if set.is_full() { PortTest::Any } else { PortTest::In(set) })
}

/// `0xVALUE/0xMASK`, the value within the mask.
fn masked(words: &mut Words, greatest: u32, what: &str) -> Result<(u32, u32), ParseError> {
    let expected =
        format!("{what}: 0xVALUE/0xMASK of at most {greatest:#x}, the value in the mask");
    let word = words.need(&expected)?;
    let pair = word
        .split_once('/')
        .and_then(|(value, mask)| Some((hexadecimal(value)?, hexadecimal(mask)?)))
        .filter(|&(value, mask)| mask <= greatest && value & !mask == 0);
    pair.ok_or_else(|| words.error(word, expected))
}

/// The protocols of a rule; none if it tests no protocol.
fn protocols(words: &mut Words) -> Result<Option<ProtocolSet>, ParseError> {
    let (value, mask) = masked(words, 0xff, "a protocol")?;
    let set = (0..=u8::MAX).filter(|&protocol| u32::from(protocol) & mask == value).collect();
    Ok((mask != 0).then_some(set))
}

/// Flags, which mean something for TCP alone or ICMP alone. Some sets lack them.
fn flags(words: &mut Words, protocols: Option<ProtocolSet>) -> Result<ProtocolTest, ParseError> {
    let word = words.peek().unwrap_or_default();
    let (value, mask) = match words.peek() {
        None => (0, 0),
        Some(_) => masked(words, 0xffff, "flags")?,
    };
    let [value_high, value_low] = (value as u16).to_be_bytes();
    let [mask_high, mask_low] = (mask as u16).to_be_bytes();
    let Some(protocols) = protocols else {
        let refuse = || words.error(word, "flags 0x0000/0x0000, as no protocol is given");
        return if mask == 0 { Ok(ProtocolTest::Any) } else { Err(refuse()) };
    };
    let mut test = TransportTest::of(protocols);
    if mask == 0 {
        return Ok(ProtocolTest::Only(test));
    }
    if protocols == ProtocolSet::one(TCP) && mask_low == 0 {
        test.tcp_flags = vec![FlagTest::Equal { mask: mask_high, value: value_high }];
    } else if protocols == ProtocolSet::one(ICMP) {
        let [types, codes] = [(value_high, mask_high), (value_low, mask_low)]
            .map(|(value, mask)| admitted(value, mask));
        test.icmp = types.zip(codes).map(|(types, codes)| IcmpTest { types, codes });
    } else {
        let expected = "flags 0x0000/0x0000, or TCP with a mask of at most 0xff00, or ICMP";
        return Err(words.error(word, expected));
    }
    Ok(ProtocolTest::Only(test))
}

/// The bytes whose bits in `mask` are `value`.
fn admitted(value: u8, mask: u8) -> Option<RangeSet<u8>> {
    let bytes = (0..=u8::MAX).filter(|byte| byte & mask == value);
    RangeSet::from_ranges(bytes.map(|byte| (byte, byte)))
}
