//! What the languages share: the words of a line, numbers and addresses.

use super::error::ParseError;
use crate::rule::Family;
use crate::sets::RangeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The words of one line, read from the left.
pub(crate) struct Words<'a> {
    line: usize,
    words: Vec<&'a str>,
    next: usize,
}

impl<'a> Words<'a> {
    /// The words of `text`, which is line number `line`; one that starts with
    /// `comment` ends the line.
    pub(crate) fn new(line: usize, text: &'a str, comment: char) -> Self {
        let words = text.split_whitespace().take_while(|word| !word.starts_with(comment)).collect();
        Self { line, words, next: 0 }
    }

    pub(crate) fn from_words(line: usize, words: Vec<&'a str>) -> Self {
        Self { line, words, next: 0 }
    }

    /// The line's number, counted from 1.
    pub(crate) fn line(&self) -> usize {
        self.line
    }

    /// The next word, which stays.
    pub(crate) fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).copied()
    }

    /// The next word, if there is one.
    pub(crate) fn take(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.next += 1;
        Some(word)
    }

    /// Takes the next word if it is `wanted`.
    pub(crate) fn take_if(&mut self, wanted: &str) -> bool {
        let found = self.peek() == Some(wanted);
        self.next += usize::from(found);
        found
    }

    /// The next word, which must be there.
    pub(crate) fn need(&mut self, expected: &str) -> Result<&'a str, ParseError> {
        self.take().ok_or_else(|| ParseError::end(self.line, expected))
    }

    /// The next word, which must be `wanted`.
    pub(crate) fn need_word(&mut self, wanted: &str) -> Result<(), ParseError> {
        let word = self.need(&format!("`{wanted}`"))?;
        if word == wanted { Ok(()) } else { Err(self.error(word, format!("`{wanted}`"))) }
    }

    /// The next word, a number.
    pub(crate) fn number<T: FromStr>(&mut self, expected: &str) -> Result<T, ParseError> {
        let word = self.need(expected)?;
        number(word).ok_or_else(|| self.error(word, expected))
    }

    /// The word behind the next one.
    pub(crate) fn second(&self) -> Option<&'a str> {
        self.words.get(self.next + 1).copied()
    }

    /// Whether `word` is the last one.
    pub(crate) fn ends_with(&self, word: &str) -> bool {
        self.left() > 0 && self.words.last() == Some(&word)
    }

    /// How many words are left.
    pub(crate) fn left(&self) -> usize {
        self.words.len() - self.next
    }

    /// The words that are left, which are taken, with a blank between two.
    pub(crate) fn rest(&mut self) -> String {
        let rest = self.words[self.next..].join(" ");
        self.next = self.words.len();
        rest
    }

    /// Fails if a word is left.
    pub(crate) fn end(&self) -> Result<(), ParseError> {
        self.peek().map_or(Ok(()), |word| Err(self.error(word, "the end of the line")))
    }

    /// An error about `found` in this line.
    pub(crate) fn error(&self, found: &str, expected: impl Into<String>) -> ParseError {
        ParseError::at(self.line, found, expected)
    }
}

/// A decimal number: digits only, no sign.
pub(crate) fn number<T: FromStr>(word: &str) -> Option<T> {
    let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    if digits { word.parse().ok() } else { None }
}

/// A hexadecimal number after `0x`.
pub(crate) fn hexadecimal(word: &str) -> Option<u32> {
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"))?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if plain { u32::from_str_radix(digits, 16).ok() } else { None }
}

/// An address of `family`.
pub(crate) fn address(family: Family, word: &str) -> Option<u128> {
    match family {
        Family::Ipv4 => word.parse().ok().map(|address: Ipv4Addr| u32::from(address).into()),
        Family::Ipv6 => word.parse().ok().map(|address: Ipv6Addr| address.into()),
    }
}

/// The text of an address of `family`.
pub(crate) fn address_text(family: Family, address: u128) -> String {
    match family {
        Family::Ipv4 => Ipv4Addr::from(address as u32).to_string(),
        Family::Ipv6 => Ipv6Addr::from(address).to_string(),
    }
}

/// What an address field may be, for messages.
pub(crate) fn address_kind(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "an IPv4 address",
        Family::Ipv6 => "an IPv6 address",
    }
}

/// The length of the prefix that `mask` (of 32 bits) leaves, if it is one.
pub(crate) fn mask_length(mask: u32) -> Option<u8> {
    let length = mask.leading_ones();
    (mask.count_ones() == length).then_some(length as u8)
}

/// `address`, or `address/length`, or for IPv4 `address/mask`, the mask dotted
/// or hexadecimal, with its ones first: first and last address.
pub(crate) fn prefix(family: Family, word: &str) -> Option<(u128, u128)> {
    let Some((base, mask)) = word.split_once('/') else {
        return address(family, word).map(|address| (address, address));
    };
    let base = address(family, base)?;
    let length = match number::<u8>(mask) {
        Some(length) => (length <= family.bits()).then_some(length),
        None if family == Family::Ipv4 => {
            let dotted = || mask.parse().ok().map(|mask: Ipv4Addr| u32::from(mask));
            hexadecimal(mask).or_else(dotted).and_then(mask_length)
        }
        None => None,
    }?;
    Some(family.prefix(base, length))
}

/// What a set holds, each range as a prefix where it is one.
pub(crate) fn addresses_text(family: Family, set: &RangeSet<u128>) -> String {
    if *set == family.all() {
        return "*".into();
    }
    let texts: Vec<_> =
        set.ranges().iter().map(|&(first, last)| range_text(family, first, last)).collect();
    texts.join(",")
}

fn range_text(family: Family, first: u128, last: u128) -> String {
    let differing = 128 - (first ^ last).leading_zeros();
    let length = family.bits().saturating_sub(differing as u8);
    if first == last {
        address_text(family, first)
    } else if family.prefix(first, length) == (first, last) {
        format!("{}/{length}", address_text(family, first))
    } else {
        format!("{}-{}", address_text(family, first), address_text(family, last))
    }
}
