//! A packet as a line of text, as people write one down.
//!
//! ```text
//! PROTOCOL SOURCE[:PORT] > DESTINATION[:PORT] [FLAG … | none | type N code N]
//! tcp 10.0.0.1:1234 > 10.0.0.2:80 syn ack
//! icmp6 fe80::1 > ff02::1 type 135 code 0
//! udp [::1]:53 > [::1]:1024
//! ```
//!
//! What is not written, the packet does not have: `tcp 10.0.0.1 > 10.0.0.2` is
//! a fragment other than the first, and a TCP packet with ports but without
//! flags is one that was cut between them (`none` means that the flags are there
//! and all clear). An IPv6 packet whose protocol cannot be reached is of
//! protocol `unknown`. What no packet can be is refused.
//!
//! Every [`Key`] of a captured packet prints as a text that reads back as the
//! same key.

use crate::key::{Key, ends_ipv6_chain, has_ports};
use crate::language::names;
use crate::language::names::TCP_FLAGS;
use crate::language::words::{address_text, number};
use crate::rule::{Family, ICMP, ICMPV6, TCP};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use thiserror::Error;

/// What a protocol that cannot be reached is called.
const UNKNOWN: &str = "unknown";
/// What TCP flags are called of which none is set.
const NO_FLAGS: &str = "none";

/// Why a text is no packet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("column {column}: found {found}, expected {expected}")]
pub struct PacketTextError {
    /// The place, in characters counted from 1.
    pub column: usize,
    /// The text there.
    pub found: String,
    /// What could have stood there.
    pub expected: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = self
            .protocol
            .map_or_else(|| UNKNOWN.to_owned(), |number| protocol_text(self.family, number));
        let (source_port, destination_port) = self.ports.unzip();
        let source = end_text(self.family, self.source, source_port);
        let destination = end_text(self.family, self.destination, destination_port);
        write!(f, "{protocol} {source} > {destination}")?;
        if let Some(flags) = self.tcp_flags {
            write!(f, " {}", flags_text(flags))?;
        }
        if let Some((kind, code)) = self.icmp {
            write!(f, " type {kind} code {code}")?;
        }
        Ok(())
    }
}

/// The name of a protocol over IP of `family`, its number where that has none.
pub(crate) fn protocol_text(family: Family, number: u8) -> String {
    let name = match (family, number) {
        (Family::Ipv6, ICMPV6) => Some("icmp6"),
        // A name would be taken for the family's own ICMP.
        (Family::Ipv4, ICMPV6) | (Family::Ipv6, ICMP) => None,
        _ => names::protocol_name(number),
    };
    name.map_or_else(|| number.to_string(), str::to_owned)
}

/// The names of the TCP flags that are set, or `none`.
pub(crate) fn flags_text(flags: u8) -> String {
    let set: Vec<_> =
        TCP_FLAGS.iter().enumerate().filter(|(bit, _)| flags >> bit & 1 != 0).collect();
    if set.is_empty() {
        return NO_FLAGS.into();
    }
    set.iter().map(|(_, name)| **name).collect::<Vec<_>>().join(" ")
}

fn end_text(family: Family, address: u128, port: Option<u16>) -> String {
    let address = address_text(family, address);
    match (port, family) {
        (None, _) => address,
        (Some(port), Family::Ipv4) => format!("{address}:{port}"),
        (Some(port), Family::Ipv6) => format!("[{address}]:{port}"),
    }
}

impl FromStr for Key {
    type Err = PacketTextError;

    fn from_str(text: &str) -> Result<Self, PacketTextError> {
        let mut words = Words::of(text);
        let protocol_word = words.need("a protocol")?;
        let source_word = words.need("a source address")?;
        let source = end(source_word)?;
        words.need_word(">")?;
        let destination_word = words.need("a destination address")?;
        let destination = end(destination_word)?;
        if source.family != destination.family {
            return Err(destination_word.error("an address of the source's family"));
        }
        let protocol = protocol(source.family, protocol_word)?;
        if !protocol.is_some_and(has_ports) {
            let with_port = [(&source, source_word), (&destination, destination_word)];
            if let Some((_, word)) = with_port.iter().find(|(end, _)| end.port.is_some()) {
                return Err(word.error("an address alone, as the protocol has no ports"));
            }
        }
        if source.port.is_some() != destination.port.is_some() {
            return Err(destination_word.error("a port at both ends or at neither"));
        }
        let mut key = Self {
            family: source.family,
            source: source.address,
            destination: destination.address,
            protocol,
            ports: source.port.zip(destination.port),
            tcp_flags: None,
            icmp: None,
        };
        if protocol == Some(TCP) && key.ports.is_some() {
            key.tcp_flags = flags(&mut words)?;
        } else if protocol == Some(key.family.icmp()) {
            key.icmp = message(&mut words)?;
        }
        words.end()?;
        Ok(key)
    }
}

fn protocol(family: Family, word: Word) -> Result<Option<u8>, PacketTextError> {
    let found = match word.text {
        UNKNOWN if family == Family::Ipv6 => return Ok(None),
        UNKNOWN => return Err(word.error("a protocol: every IPv4 packet has one")),
        "icmp" => Some(family.icmp()),
        text => number(text).or_else(|| names::protocol(text)),
    };
    let expected = "a protocol's name, its number (0 to 255), or `unknown`";
    let protocol = found.ok_or_else(|| word.error(expected))?;
    if family == Family::Ipv6 && !ends_ipv6_chain(protocol) {
        return Err(word.error("the protocol of the upper layer, not of an extension header"));
    }
    Ok(Some(protocol))
}

/// One end of a packet.
struct End {
    family: Family,
    address: u128,
    port: Option<u16>,
}

/// `10.0.0.1`, `10.0.0.1:80`, `::1`, `[::1]` or `[::1]:80`.
fn end(word: Word) -> Result<End, PacketTextError> {
    let expected = "an address, with a port as in 10.0.0.1:80 or [::1]:80";
    let (address, port) = split_port(word.text).ok_or_else(|| word.error(expected))?;
    let v4 = || address.parse().map(|it: Ipv4Addr| (Family::Ipv4, u32::from(it).into())).ok();
    let v6 = || address.parse().map(|it: Ipv6Addr| (Family::Ipv6, it.into())).ok();
    let (family, address) = v4().or_else(v6).ok_or_else(|| word.error(expected))?;
    let port = match port {
        None => None,
        Some(port) => Some(number(port).ok_or_else(|| word.error("a port from 0 to 65535"))?),
    };
    Ok(End { family, address, port })
}

/// An address and the text of its port; none if brackets are misplaced.
fn split_port(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(inner) = text.strip_prefix('[') {
        let (address, rest) = inner.split_once(']').filter(|(address, _)| address.contains(':'))?;
        return if rest.is_empty() {
            Some((address, None))
        } else {
            rest.strip_prefix(':').map(|port| (address, Some(port)))
        };
    }
    match text.split_once(':') {
        // Without brackets, colons are the address's own.
        Some((_, rest)) if rest.contains(':') => Some((text, None)),
        Some((address, port)) => Some((address, Some(port))),
        None => Some((text, None)),
    }
}

/// Names of flags, or `none`; nothing where nothing is left.
fn flags(words: &mut Words) -> Result<Option<u8>, PacketTextError> {
    const EXPECTED: &str = "a TCP flag (fin, syn, rst, psh, ack, urg, ece, cwr), or `none` alone";
    let mut flags = None;
    while let Some(word) = words.take() {
        let bit = TCP_FLAGS.iter().position(|name| *name == word.text);
        flags = match (bit, flags) {
            (Some(bit), _) => Some(flags.unwrap_or(0) | 1 << bit),
            (None, None) if word.text == NO_FLAGS => {
                words.end()?;
                Some(0)
            }
            _ => return Err(word.error(EXPECTED)),
        };
    }
    Ok(flags)
}

/// `type N code N`; nothing where nothing is left.
fn message(words: &mut Words) -> Result<Option<(u8, u8)>, PacketTextError> {
    if words.peek().is_none() {
        return Ok(None);
    }
    let mut number_after = |name: &str| {
        words.need_word(name)?;
        let word = words.need("a number from 0 to 255")?;
        number(word.text).ok_or_else(|| word.error("a number from 0 to 255"))
    };
    Ok(Some((number_after("type")?, number_after("code")?)))
}

/// A word and where it starts.
#[derive(Clone, Copy)]
struct Word<'a> {
    column: usize,
    text: &'a str,
}

impl Word<'_> {
    fn error(self, expected: &str) -> PacketTextError {
        /// Characters of the text that an error repeats.
        const SHOWN: usize = 60;
        let mut shown: String = self.text.chars().take(SHOWN).collect();
        if shown.len() < self.text.len() {
            shown.push('…');
        }
        let found = format!("{shown:?}");
        PacketTextError { column: self.column, found, expected: expected.into() }
    }
}

/// The words of a text, read from the left.
struct Words<'a> {
    /// What is left, without blanks before it.
    rest: &'a str,
    /// Where that starts.
    column: usize,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Self {
        let mut words = Self { rest: text, column: 1 };
        words.advance(text.len() - text.trim_start().len());
        words
    }

    fn advance(&mut self, bytes: usize) {
        self.column += self.rest[..bytes].chars().count();
        self.rest = &self.rest[bytes..];
    }

    fn peek(&self) -> Option<Word<'a>> {
        let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
        (end > 0).then(|| Word { column: self.column, text: &self.rest[..end] })
    }

    fn take(&mut self) -> Option<Word<'a>> {
        let word = self.peek()?;
        self.advance(word.text.len());
        self.advance(self.rest.len() - self.rest.trim_start().len());
        Some(word)
    }

    fn need(&mut self, expected: &str) -> Result<Word<'a>, PacketTextError> {
        self.take().ok_or_else(|| PacketTextError {
            column: self.column,
            found: "the end".into(),
            expected: expected.into(),
        })
    }

    fn need_word(&mut self, wanted: &str) -> Result<(), PacketTextError> {
        let expected = format!("`{wanted}`");
        let word = self.need(&expected)?;
        if word.text == wanted { Ok(()) } else { Err(word.error(&expected)) }
    }

    fn end(&self) -> Result<(), PacketTextError> {
        self.peek().map_or(Ok(()), |word| Err(word.error("the end")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(text: &str) -> Key {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_packet_is_what_its_text_says() {
        let tcp = key("tcp 10.0.0.1:1234 > 10.0.0.2:80 ack");
        let expected = Key {
            family: Family::Ipv4,
            source: 0x0a00_0001,
            destination: 0x0a00_0002,
            protocol: Some(6),
            ports: Some((1234, 80)),
            tcp_flags: Some(0x10),
            icmp: None,
        };
        assert_eq!(tcp, expected);
        let flags = |text: &str| key(&format!("tcp 10.0.0.1:1234 > 10.0.0.2:80 {text}")).tcp_flags;
        assert_eq!(flags("  syn\tfin cwr"), Some(0x83));
        assert_eq!((flags("none"), flags("")), (Some(0), None));
        let fragment = key("tcp 10.0.0.1 > 10.0.0.2");
        assert_eq!(fragment, Key { ports: None, tcp_flags: None, ..expected });
        let six = key("udp [::1]:53 > [2001:db8::2]:65535");
        assert_eq!((six.family, six.source, six.ports), (Family::Ipv6, 1, Some((53, 65535))));
        assert_eq!(key("unknown ::1 > [::2]").protocol, None);
        let ping = key("icmp ::1 > ::2 type 128 code 0");
        assert_eq!((ping.protocol, ping.icmp), (Some(58), Some((128, 0))));
        assert_eq!(key("icmp 10.0.0.1 > 10.0.0.2 type 3 code 4").icmp, Some((3, 4)));
        assert_eq!(key("58 10.0.0.1 > 10.0.0.2").protocol, Some(58));
        assert_eq!(key("ospf 10.0.0.1 > 224.0.0.5").protocol, Some(89));
    }

    #[test]
    fn texts_print_in_one_form() {
        for (text, printed) in [
            ("6 10.0.0.1:1 > 10.0.0.2:2 ack syn ack", "tcp 10.0.0.1:1 > 10.0.0.2:2 syn ack"),
            ("icmp [::1] > ::0:2", "icmp6 ::1 > ::2"),
            ("17 [0:0::1]:9 > [::1]:8", "udp [::1]:9 > [::1]:8"),
            ("1 ::1 > ::2", "1 ::1 > ::2"),
            ("253 10.0.0.1 > 10.0.0.2", "253 10.0.0.1 > 10.0.0.2"),
        ] {
            assert_eq!(key(text).to_string(), printed);
        }
    }

    #[test]
    fn errors_name_the_place_and_what_was_expected() {
        for (text, message) in [
            ("", "column 1: found the end, expected a protocol"),
            ("tcp", "column 4: found the end, expected a source address"),
            ("tcp 1.2.3.4", "column 12: found the end, expected `>`"),
            ("tcp 1.2.3.4 1.2.3.5", "column 13: found \"1.2.3.5\", expected `>`"),
            ("tpc 1.2.3.4 > 1.2.3.5", "column 1: found \"tpc\", expected a protocol's name"),
            ("256 1.2.3.4 > 1.2.3.5", "column 1: found \"256\", expected a protocol's name"),
            ("unknown 1.2.3.4 > 1.2.3.5", "column 1: found \"unknown\", expected a protocol:"),
            ("44 ::1 > ::2", "column 1: found \"44\", expected the protocol of the upper layer"),
            (" tcp  1.2.3 > 1.2.3.5", "column 7: found \"1.2.3\", expected an address"),
            ("tcp 1.2.3.4:65536 > 1.2.3.5:1", "column 5: found \"1.2.3.4:65536\", expected a port"),
            ("tcp 1.2.3.4: > 1.2.3.5:1", "column 5: found \"1.2.3.4:\", expected a port"),
            ("tcp [1.2.3.4]:1 > 1.2.3.5:1", "column 5: found \"[1.2.3.4]:1\", expected an address"),
            ("tcp [::1]1 > ::2", "column 5: found \"[::1]1\", expected an address"),
            ("tcp 1.2.3.4 > ::2", "column 15: found \"::2\", expected an address of the source's"),
            ("tcp 1.2.3.4:1 > 1.2.3.5", "column 17: found \"1.2.3.5\", expected a port at both"),
            (
                "gre 1.2.3.4 > 1.2.3.5:1",
                "column 15: found \"1.2.3.5:1\", expected an address alone",
            ),
            ("tcp 1.2.3.4:1 > 1.2.3.5:2 é x", "column 27: found \"é\", expected a TCP flag"),
            ("tcp 1.2.3.4:1 > 1.2.3.5:2 ack none", "column 31: found \"none\", expected a TCP"),
            ("tcp 1.2.3.4:1 > 1.2.3.5:2 none ack", "column 32: found \"ack\", expected the end"),
            ("tcp 1.2.3.4 > 1.2.3.5 ack", "column 23: found \"ack\", expected the end"),
            ("icmp 1.2.3.4 > 1.2.3.5 8", "column 24: found \"8\", expected `type`"),
            ("icmp 1.2.3.4 > 1.2.3.5 type 8", "column 30: found the end, expected `code`"),
            (
                "icmp 1.2.3.4 > 1.2.3.5 type 256 code 1",
                "column 29: found \"256\", expected a number",
            ),
            (
                "icmp6 1.2.3.4 > 1.2.3.5 type 8 code 0",
                "column 25: found \"type\", expected the end",
            ),
        ] {
            let error = text.parse::<Key>().expect_err(text).to_string();
            assert!(error.starts_with(message), "{text}: {error}");
        }
    }

    /// An IP packet of either family, whole or not, whose protocol is often one
    /// with a header that rules look at.
    fn packet() -> impl Strategy<Value = Vec<u8>> {
        let protocol = prop_oneof![
            prop::sample::select(vec![0_u8, 1, 6, 17, 33, 43, 44, 51, 58, 59, 60, 132, 135, 136]),
            any::<u8>(),
        ];
        let head = (any::<bool>(), protocol, any::<[u8; 32]>(), any::<bool>());
        (head, prop::collection::vec(any::<u8>(), 0..60)).prop_map(
            |((six, protocol, addresses, fragment), payload)| {
                let mut packet = if six {
                    vec![0x60, 0, 0, 0, 0, 0, protocol, 64]
                } else {
                    vec![0x45, 0, 0, 0, 0, 0, u8::from(fragment), 0, 64, protocol, 0, 0]
                };
                packet.extend(&addresses[..if six { 32 } else { 8 }]);
                packet.extend(payload);
                packet
            },
        )
    }

    proptest! {
        #[test]
        fn every_key_of_a_packet_reads_back_as_it_was(packet in packet()) {
            let key = Key::of_ip(&packet).expect("its addresses are there");
            prop_assert_eq!(key.to_string().parse(), Ok(key));
        }

        #[test]
        fn what_is_read_reads_back_as_it_was(
            protocol in "tcp|udp|icmp|gre|unknown|[0-9]{1,3}",
            ends in prop::sample::select(vec![
                "10.0.0.1 > 10.0.0.2", "10.0.0.1:1 > 10.0.0.2:2", "::1 > ::2", "[::1]:1 > [::2]:2",
            ]),
            rest in "( (fin|syn|cwr)){0,3}|none| type [0-9]{1,3} code [0-9]{1,3}",
        ) {
            if let Ok(key) = format!("{protocol} {ends}{rest}").parse::<Key>() {
                prop_assert_eq!(key.to_string().parse(), Ok(key));
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,40}|(tcp|icmp) [\\[\\]:.0-9]{0,9} > [\\[\\]:.0-9 a-z]{0,20}") {
            let _ = text.parse::<Key>();
        }
    }
}
