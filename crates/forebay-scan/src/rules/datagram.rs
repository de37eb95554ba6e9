//! Tests of a rule that a datagram's payload alone answers: where its contents stand, and how long it is.
//!
//! A content in the payload is matched in one packet where there is no stream. So a rule whose
//! contents are all in the payload cannot fire on a datagram which lacks one of them.

use super::buffers::Buffer;
use super::condition::{Field, FieldTest};
use super::rule::{Content, Rule};

/// What the tests of one datagram may take for each of its bytes, and besides: places that are looked
/// at, and bytes that are compared there.
const WORK_OF_BYTE: usize = 64;
const WORK_BESIDES: usize = 4096;

/// Where a content must stand, from the start of its buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    offset: usize,
    depth: Option<usize>,
    /// It depends on another match, or on a number in the traffic.
    is_unknown: bool,
}

/// The payload of a UDP datagram that is neither a fragment nor in a tunnel, all of it; or such a packet
/// of ICMP, with its headers and what is behind it.
#[derive(Debug)]
pub struct Datagram<'a> {
    payload: &'a [u8],
    /// Type and code of ICMP: then some bytes at both ends are not of its payload.
    icmp: Option<(u8, u8)>,
    work: usize,
}

impl Place {
    /// Takes a modifier of the content: `offset`, `depth`, `distance` or `within`; of others nothing.
    pub(super) fn restrict(&mut self, name: &str, value: Option<&[u8]>) {
        let number = || std::str::from_utf8(value?).ok()?.trim().parse::<usize>().ok();
        match name {
            "offset" | "depth" => match (name, number()) {
                ("offset", Some(offset)) => self.offset = offset,
                (_, Some(depth)) => self.depth = Some(depth),
                (_, None) => self.is_unknown = true,
            },
            "distance" | "within" => self.is_unknown = true,
            _ => {}
        }
    }

    /// Whether a content of so many bytes must stand at the start.
    pub(super) fn is_start(&self, len: usize) -> bool {
        !self.is_unknown && self.offset == 0 && self.depth == Some(len)
    }

    /// The part of a buffer that it must stand in.
    fn part<'a>(&self, buffer: &'a [u8]) -> &'a [u8] {
        if self.is_unknown {
            return buffer;
        }
        let start = self.offset.min(buffer.len());
        let end = self.depth.map_or(buffer.len(), |depth| self.offset.saturating_add(depth));
        &buffer[start..end.clamp(start, buffer.len())]
    }
}

impl<'a> Datagram<'a> {
    /// That with this payload.
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Self {
        let work = WORK_BESIDES + WORK_OF_BYTE * payload.len();
        Self { payload, icmp: None, work }
    }

    /// A packet of ICMP over IPv4, from the link's header on, with type and code.
    #[must_use]
    pub fn icmp(packet: &'a [u8], icmp: (u8, u8)) -> Self {
        Self { icmp: Some(icmp), ..Self::new(packet) }
    }

    /// Whether the packet may pass a test of a field.
    fn admits(&self, test: &FieldTest) -> bool {
        match (test.field, self.icmp) {
            (Field::PayloadLen, _) => {
                let most = self.payload.len() as u32;
                test.admits_some(if self.icmp.is_some() { 0 } else { most }, most)
            }
            (Field::IcmpType, Some((kind, _))) => test.admits(u32::from(kind)),
            (Field::IcmpCode, Some((_, code))) => test.admits(u32::from(code)),
            _ => true,
        }
    }

    /// Whether it may be a message of DNS by its header (Suricata's `probe_header_validity`): as long as it
    /// must be for its numbers of questions and records, of two bytes each at least.
    pub(super) fn may_be_dns(&self) -> bool {
        let Some(numbers) = self.payload.get(4..12) else { return false };
        let sum: usize =
            numbers.chunks(2).map(|n| usize::from(u16::from_be_bytes([n[0], n[1]]))).sum();
        2 * sum <= self.payload.len()
    }

    /// Whether a rule cannot fire on the datagram. When the tests of a datagram have taken as much as
    /// they may, any rule can.
    pub(super) fn excludes(&mut self, rule: &Rule) -> bool {
        let len = self.payload.len() as u32;
        let mut fields = rule.condition.fields.iter();
        if len < rule.features.least_payload || fields.any(|test| !self.admits(test)) {
            return true;
        }
        let mut positive = rule.contents.iter().filter(|content| !content.negated);
        // Others are matched in the state of the application, which more packets may add to.
        if positive.clone().any(|content| content.derived || content.buffer != Buffer::PAYLOAD) {
            return false;
        }
        positive.any(|content| {
            let is_exact = self.icmp.is_none();
            let part = if is_exact { content.place.part(self.payload) } else { self.payload };
            self.has(part, content) == Some(false)
        })
    }

    /// Whether a part of the payload has a content, if the work that is left suffices to tell.
    fn has(&mut self, part: &[u8], content: &Content) -> Option<bool> {
        let (bytes, nocase) = (&content.bytes[..], content.nocase);
        self.work = self.work.checked_sub(part.len())?;
        let first = *bytes.first()?;
        let equal = |a: u8, b: u8| if nocase { a.eq_ignore_ascii_case(&b) } else { a == b };
        for window in part.windows(bytes.len()).filter(|window| equal(window[0], first)) {
            self.work = self.work.checked_sub(bytes.len())?;
            if window.iter().zip(bytes).all(|(&a, &b)| equal(a, b)) {
                return Some(true);
            }
        }
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::RuleSet;

    fn excludes(options: &str, payload: &[u8]) -> bool {
        let (mut rules, mut errors) = (RuleSet::new(), Vec::new());
        let text = format!("alert udp any any -> any any ({options} sid:1;)");
        rules.parse("rules", text.as_bytes(), &mut errors);
        assert!(errors.is_empty(), "{errors:?}");
        Datagram::new(payload).excludes(&rules.rules()[0])
    }

    #[test]
    fn contents_stand_where_they_must() {
        for (options, payload, expected) in [
            (r#"content:"ab";"#, "xxab", false),
            (r#"content:"ab";"#, "xxAB", true),
            (r#"content:"ab"; nocase;"#, "xxAB", false),
            (r#"content:"ab"; depth:2;"#, "abxx", false),
            (r#"content:"ab"; depth:2;"#, "xabx", true),
            (r#"content:"ab"; depth:3;"#, "xabx", false),
            (r#"content:"ab"; startswith;"#, "xabx", false),
            (r#"content:"ab"; offset:2;"#, "abxab", false),
            (r#"content:"ab"; offset:4;"#, "abxab", true),
            (r#"content:"ab"; offset:1; depth:3;"#, "xxabx", false),
            (r#"content:"ab"; depth:3; offset:1;"#, "xxxab", true),
            (r#"content:"ab"; offset:99; depth:3;"#, "ab", true),
            (r#"content:"ab"; content:"cd";"#, "cdab", false),
            (r#"content:"ab"; content:"cd";"#, "ab", true),
            (r#"content:"ab"; content:"cd"; distance:3; within:9;"#, "cdab", false),
            (r#"content:"ab"; byte_extract:1,0,x; content:"cd"; depth:x;"#, "ab   cd", false),
            (r#"content:"ab"; content:!"cd";"#, "ab", false),
            (r#"content:"ab"; dsize:>3;"#, "ab", true),
            (r#"content:"ab"; dsize:>3;"#, "abcd", false),
            (r#"content:"ab"; isdataat:10;"#, "ab", true),
            (r#"content:"ab"; isdataat:10;"#, "ab........", false),
            (r#"content:"ab"; isdataat:10,relative;"#, "ab", false),
            (r#"content:"ab"; isdataat:!10;"#, "ab", false),
            (r#"dns_query; content:"ab"; isdataat:10;"#, "xx", false),
            (r#"content:"ab"; dns_query; content:"cd";"#, "cd", false),
        ] {
            assert_eq!(excludes(options, payload.as_bytes()), expected, "{options} {payload}");
        }
    }

    #[test]
    fn packets_of_icmp_have_more_than_their_payload() {
        let excludes = |options: &str, kind: u8, len: usize| {
            let (mut rules, mut errors) = (RuleSet::new(), Vec::new());
            let text = format!("alert icmp any any -> any any (content:\"ab\"; {options} sid:1;)");
            rules.parse("rules", text.as_bytes(), &mut errors);
            let mut packet = vec![0; len];
            packet[len - 2..].copy_from_slice(b"ab");
            Datagram::icmp(&packet, (kind, 0)).excludes(&rules.rules()[0])
        };
        for (options, kind, len, expected) in [
            ("", 8, 60, false),
            ("itype:8;", 8, 60, false),
            ("itype:8;", 0, 60, true),
            ("itype:>3;", 0, 60, true),
            ("icode:1;", 8, 60, true),
            ("dsize:8;", 8, 36, false),
            ("dsize:8;", 8, 1400, false),
            ("dsize:>60;", 8, 60, true),
            ("dsize:!8;", 8, 36, false),
            ("content:\"cd\";", 8, 60, true),
            ("content:\"ab\"; depth:2;", 8, 60, false),
            ("isdataat:100;", 8, 60, true),
        ] {
            assert_eq!(excludes(options, kind, len), expected, "{options} {kind} {len}");
        }
    }

    #[test]
    fn a_message_of_dns_is_as_long_as_its_records_need() {
        let message = |numbers: [u8; 4], len: usize| {
            let mut bytes = vec![0; len];
            for (at, number) in numbers.into_iter().enumerate().filter(|(at, _)| 5 + 2 * at < len) {
                bytes[5 + 2 * at] = number;
            }
            Datagram::new(&bytes).may_be_dns()
        };
        assert!(message([1, 0, 0, 0], 17) && message([1, 2, 3, 4], 20));
        assert!(!message([1, 2, 3, 5], 20) && !message([0; 4], 11) && message([0; 4], 12));
        assert!(!Datagram::new(&[0x80; 1400]).may_be_dns());
    }

    #[test]
    fn tests_of_a_datagram_take_a_bounded_time() {
        let payload = vec![b'a'; 60_000];
        let long = "a".repeat(100) + "b";
        assert!(!excludes(&format!(r#"content:"{long}";"#), &payload));
        assert!(excludes(&format!(r#"content:"{long}"; depth:4000;"#), &payload));
    }
}
