//! The protocol field: protocols, TCP flags and kinds of ICMP message.
//!
//! The items of a list are alternatives. An item that names a whole protocol
//! takes in every narrower one of that protocol.

use crate::language::error::ParseError;
use crate::language::names;
use crate::language::words::{Words, hexadecimal, number};
use crate::rule::{Family, FlagTest, ICMP, IcmpTest, TCP, TransportTest, flag};
use crate::sets::{ProtocolSet, RangeSet};

/// The content of a protocol field.
pub(super) enum ProtocolField {
    /// `*`.
    Any,
    /// ICMP alone: the next two fields are type and code.
    Icmp(TransportTest),
    /// `icmp-error` and the like alone: the next two fields say nothing.
    Messages(TransportTest),
    /// Anything else: the next two fields are ports.
    Only(TransportTest),
}

/// Types of ICMP messages that tell of an error, as RT routers sort them.
const ERRORS_V4: &[(u8, u8)] = &[(3, 5), (11, 12), (31, 32)];
/// Types of ICMP messages that ask or answer.
const INFORMATION_V4: &[(u8, u8)] = &[(0, 0), (8, 10), (13, 18), (30, 30), (33, 36)];
const ERRORS_V6: &[(u8, u8)] = &[(0, 127)];
const INFORMATION_V6: &[(u8, u8)] = &[(128, 255)];
/// Router and neighbour solicitations and advertisements, RFC 4861 section 4.
const NEIGHBOUR_DISCOVERY: &[(u8, u8)] = &[(133, 136)];

/// The types of `icmp-error`.
pub(super) fn error_types(family: Family) -> &'static [(u8, u8)] {
    match family {
        Family::Ipv4 => ERRORS_V4,
        Family::Ipv6 => ERRORS_V6,
    }
}

/// The types of `icmp-info`.
pub(super) fn information_types(family: Family) -> &'static [(u8, u8)] {
    match family {
        Family::Ipv4 => INFORMATION_V4,
        Family::Ipv6 => INFORMATION_V6,
    }
}

/// Names of single TCP flag tests.
pub(super) const FLAG_NAMES: &[(&str, FlagTest)] = &[
    ("established", FlagTest::ESTABLISHED_YAMAHA),
    ("tcpfin", FlagTest::set(flag::FIN)),
    ("tcpsyn", FlagTest::set(flag::SYN)),
    ("tcprst", FlagTest::set(flag::RST)),
];

/// One of the alternatives of a field.
enum Item {
    Any,
    Protocol(u8),
    Flags(FlagTest),
    IcmpTypes(&'static [(u8, u8)]),
    /// `icmp=…`; none for `icmp=*`.
    Icmp(Option<IcmpTest>),
}

/// Reads the next word, `*` if there is none.
pub(super) fn protocol_field(
    family: Family,
    words: &mut Words,
) -> Result<ProtocolField, ParseError> {
    let field = words.take().unwrap_or("*");
    let mut collected = Collected::default();
    for text in field.split(',') {
        collected.add(family, item(family, words, text)?, words, text)?;
    }
    Ok(collected.finish(family))
}

fn item(family: Family, words: &Words, text: &str) -> Result<Item, ParseError> {
    if let Some(test) = text.strip_prefix("tcpflag!=") {
        let (value, mask) = flags(words, test)?;
        return Ok(Item::Flags(FlagTest::NotEqual { mask, value }));
    }
    if let Some(test) = text.strip_prefix("tcpflag=") {
        let (value, mask) = flags(words, test)?;
        return Ok(Item::Flags(FlagTest::Equal { mask, value }));
    }
    if let Some(test) = text.strip_prefix("icmp=") {
        return icmp(words, test).map(Item::Icmp);
    }
    if let Some(&(_, test)) = FLAG_NAMES.iter().find(|(name, _)| *name == text) {
        return Ok(Item::Flags(test));
    }
    match text {
        "*" => Ok(Item::Any),
        "icmp" => Ok(Item::Protocol(family.icmp())),
        "icmp4" if family == Family::Ipv6 => Ok(Item::Protocol(ICMP)),
        "icmp-nd" if family == Family::Ipv6 => Ok(Item::IcmpTypes(NEIGHBOUR_DISCOVERY)),
        "icmp-error" | "icmp6-error" => Ok(Item::IcmpTypes(error_types(family))),
        "icmp-info" | "icmp6-info" => Ok(Item::IcmpTypes(information_types(family))),
        _ => number(text).or_else(|| names::protocol(text)).map(Item::Protocol).ok_or_else(|| {
            words.error(text, "`*`, a protocol's name or number (0 to 255), or a list of them")
        }),
    }
}

/// `VALUE/MASK` of TCP's eight control bits.
fn flags(words: &Words, text: &str) -> Result<(u8, u8), ParseError> {
    let byte = |word| hexadecimal(word).and_then(|bits| u8::try_from(bits).ok());
    let pair = text.split_once('/').and_then(|(value, mask)| Some((byte(value)?, byte(mask)?)));
    pair.ok_or_else(|| words.error(text, "0xVALUE/0xMASK, each of TCP's 8 control bits"))
}

/// `TYPES[/CODES]`, each `*` or values and ranges joined by `+`.
fn icmp(words: &Words, text: &str) -> Result<Option<IcmpTest>, ParseError> {
    if text == "*" {
        return Ok(None);
    }
    let set = |part: &str| -> Option<RangeSet<u8>> {
        if part == "*" {
            return Some(RangeSet::full());
        }
        let range = |item: &str| match item.split_once('-') {
            None => number(item).map(|value| (value, value)),
            Some((first, last)) => Some((number(first)?, number(last)?)),
        };
        let ranges: Option<Vec<_>> =
            part.split('+').map(|item| range(item).filter(|(a, b)| a <= b)).collect();
        RangeSet::from_ranges(ranges?)
    };
    let (types, codes) = text.split_once('/').unwrap_or((text, "*"));
    let test = set(types).zip(set(codes)).map(|(types, codes)| IcmpTest { types, codes });
    let expected = "TYPES or TYPES/CODES, each `*` or values and ranges joined by `+`";
    test.map(Some).ok_or_else(|| words.error(text, expected))
}

/// The alternatives read so far.
#[derive(Default)]
struct Collected {
    any: bool,
    protocols: ProtocolSet,
    /// Protocols that were named whole.
    whole: ProtocolSet,
    tcp_flags: Vec<FlagTest>,
    icmp: Option<IcmpTest>,
    /// Kinds of messages were named.
    icmp_named: bool,
    /// Type and code were given here, so that the next fields are ports.
    icmp_given: bool,
}

impl Collected {
    fn add(
        &mut self,
        family: Family,
        item: Item,
        words: &Words,
        text: &str,
    ) -> Result<(), ParseError> {
        match item {
            Item::Any => self.any = true,
            Item::Protocol(protocol) => {
                self.protocols.insert(protocol);
                self.whole.insert(protocol);
            }
            Item::Flags(test) => {
                self.protocols.insert(TCP);
                if !self.tcp_flags.contains(&test) {
                    self.tcp_flags.push(test);
                }
            }
            Item::IcmpTypes(types) => {
                self.icmp_named = true;
                let types = RangeSet::from_ranges(types.iter().copied());
                let test = types.map(|types| IcmpTest { types, codes: RangeSet::full() });
                self.add_icmp(family, test, words, text)?;
            }
            Item::Icmp(test) => {
                self.icmp_given = true;
                self.add_icmp(family, test, words, text)?;
            }
        }
        Ok(())
    }

    /// Adds messages; the union must again be types by codes.
    fn add_icmp(
        &mut self,
        family: Family,
        test: Option<IcmpTest>,
        words: &Words,
        text: &str,
    ) -> Result<(), ParseError> {
        self.protocols.insert(family.icmp());
        let Some(test) = test else {
            self.whole.insert(family.icmp());
            return Ok(());
        };
        self.icmp = match self.icmp.take() {
            None => Some(test),
            Some(before) if before.codes == test.codes => {
                let both = before.types.ranges().iter().chain(test.types.ranges()).copied();
                RangeSet::from_ranges(both).map(|types| IcmpTest { types, codes: test.codes })
            }
            Some(_) => return Err(words.error(text, "ICMP messages of the same codes")),
        };
        Ok(())
    }

    fn finish(self, family: Family) -> ProtocolField {
        if self.any {
            return ProtocolField::Any;
        }
        let whole = |protocol| self.whole.contains(protocol);
        let test = TransportTest {
            protocols: self.protocols,
            tcp_flags: if whole(TCP) { Vec::new() } else { self.tcp_flags },
            icmp: if whole(family.icmp()) { None } else { self.icmp },
        };
        let icmp_alone = test.protocols == ProtocolSet::one(family.icmp());
        match (icmp_alone && !self.icmp_given, self.icmp_named) {
            (true, false) => ProtocolField::Icmp(test),
            (true, true) => ProtocolField::Messages(test),
            (false, _) => ProtocolField::Only(test),
        }
    }
}
