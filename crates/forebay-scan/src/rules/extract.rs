//! The choice of a rule's literals, and its class.

use std::cmp::Reverse;

use super::buffers::Side;
use super::condition::Condition;
use super::pieces::{self, Hazards, Piece};
use super::rule::{Content, Features};

/// Whether a rule can be filtered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// It cannot fire without one of its literals or a trigger.
    Filterable,
    /// It can fire on anything that meets its header and conditions.
    AlwaysForward(Cause),
}

/// Why a rule cannot be filtered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// It asks for an event of decoder, stream or application layer.
    Event,
    /// A Lua script decides, and there is no content.
    Lua,
    /// Its contents are in buffers whose bytes need not stand in the stream.
    DerivedBuffer,
    /// A content in a normalised buffer has no part that must stand in the stream as it is.
    NormalisedAway,
    /// Regular expressions decide.
    PcreOnly,
    /// All its contents are negated.
    NegatedOnly,
    /// It has no contents at all.
    NoContent,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 7] = [
        Self::Event,
        Self::Lua,
        Self::DerivedBuffer,
        Self::NormalisedAway,
        Self::PcreOnly,
        Self::NegatedOnly,
        Self::NoContent,
    ];

    /// A name for tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Lua => "lua",
            Self::DerivedBuffer => "derived_buffer",
            Self::NormalisedAway => "normalised_away",
            Self::PcreOnly => "pcre_only",
            Self::NegatedOnly => "negated_only",
            Self::NoContent => "no_content",
        }
    }

    /// A sentence for people.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Event => "an event of decoder, stream or application layer decides",
            Self::Lua => "a Lua script decides, and there is no content",
            Self::DerivedBuffer => "its contents are matched in bytes that are not in the stream",
            Self::NormalisedAway => "normalisation leaves no part of its contents as it is",
            Self::PcreOnly => "only regular expressions decide",
            Self::NegatedOnly => "all its contents are negated",
            Self::NoContent => "it has no contents",
        }
    }
}

/// What is extracted from a rule.
pub struct Extracted {
    pub class: Class,
    pub literals: Vec<(Vec<u8>, bool)>,
    pub hazards: Hazards,
    pub side: Side,
    /// How rare the literals are likely to be.
    pub rarity: u32,
    pub others: Vec<Other>,
}

/// Another part of the contents of a rule: one of its literals is in the traffic, too, if the rule
/// fires, or one of its hazards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// The literals.
    pub literals: Vec<(Vec<u8>, bool)>,
    /// What could hide them.
    pub hazards: Hazards,
    /// The direction that they stand in.
    pub side: Side,
    /// How rare they are likely to be.
    pub rarity: u32,
}

/// The most other parts of a rule that are kept.
const MOST_OTHERS: usize = 4;

/// Other parts are as rare as this at least, and have so many literals at most.
const LEAST_RARITY: u32 = 3;
const MOST_LITERALS: usize = 64;

/// The most bytes of a content that are looked for: scans of streams keep as many of each.
const MAX_TAKEN: usize = 64;

/// Chooses the rarest piece of all positive contents.
pub fn extract(contents: &[Content], condition: &Condition, features: &Features) -> Extracted {
    let rule_side = condition.side.unwrap_or(Side::Either);
    let positive = || contents.iter().filter(|content| !content.negated);
    let mut all: Vec<_> = positive()
        .filter(|content| !content.derived)
        .flat_map(|content| {
            pieces::pieces(content, condition.application, rule_side)
                .into_iter()
                .map(move |piece| (score(&piece, content), piece, content))
        })
        .collect();
    // Of equals the last one.
    all.reverse();
    all.sort_by_key(|(score, ..)| Reverse(*score));
    let mut parts = all.into_iter().map(|((rarity, ..), piece, content)| {
        let Piece { mut literals, unusual, hazards, .. } = piece;
        literals.extend(unusual);
        literals.iter_mut().for_each(|(bytes, _)| bytes.truncate(MAX_TAKEN));
        Other { literals, hazards, side: content.buffer.side.and(rule_side), rarity }
    });
    if let Some(Other { literals, hazards, side, rarity }) = parts.next() {
        let mut others: Vec<Other> = Vec::new();
        for part in parts {
            let says_more = |known: &[(Vec<u8>, bool)]| {
                !part.literals.iter().any(|(a, _)| known.iter().any(|(b, _)| overlap(a, b)))
            };
            if part.rarity >= LEAST_RARITY
                && part.literals.len() <= MOST_LITERALS
                && others.len() < MOST_OTHERS
                && says_more(&literals)
                && others.iter().all(|other| says_more(&other.literals))
            {
                others.push(part);
            }
        }
        return Extracted { class: Class::Filterable, literals, hazards, side, rarity, others };
    }
    let cause = if features.event {
        Cause::Event
    } else if features.derived {
        Cause::DerivedBuffer
    } else if positive().next().is_some() {
        Cause::NormalisedAway
    } else if features.lua {
        Cause::Lua
    } else if features.pcre {
        Cause::PcreOnly
    } else if features.negated {
        Cause::NegatedOnly
    } else {
        Cause::NoContent
    };
    Extracted {
        class: Class::AlwaysForward(cause),
        literals: Vec::new(),
        hazards: Hazards::default(),
        side: Side::Either,
        rarity: 0,
        others: Vec::new(),
    }
}

/// Whether one text is part of the other, in any case.
fn overlap(a: &[u8], b: &[u8]) -> bool {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    long.windows(short.len()).any(|window| window.eq_ignore_ascii_case(short))
}

/// Words of ordinary traffic. Bytes of a literal that they cover make it no rarer.
const COMMON: [&[u8]; 63] = [
    // The counts of a query or answer of DNS.
    b"\x00\x01\x00\x00\x00\x00\x00\x00",
    b"\x01\x00\x00\x01",
    b"http/1.",
    b"http",
    b"mozilla",
    b"firefox",
    b"chrome",
    b"accept-encoding",
    b"accept-language",
    b"gzip",
    b"deflate",
    b"chunked",
    b"keep-alive",
    b"close",
    b"multipart/form-data",
    b"max-age",
    b"no-cache",
    b"download",
    b"version",
    b"user",
    b"session",
    b"software",
    b"<title>",
    b"windows",
    b"document",
    b"user-agent",
    b"content-",
    b"compatible",
    b"windows nt",
    b"index.php",
    b"accept",
    b"host",
    b"cookie",
    b"referer",
    b"www.",
    b".com",
    b".php",
    b".html",
    b".asp",
    b".net",
    b"application/",
    b"text/",
    b"post",
    b"get ",
    b"get",
    b"select",
    b"from",
    b"insert",
    b"update",
    b"delete",
    b"union",
    b"index",
    b"server",
    b"connection",
    b"cache",
    b"location",
    b"image",
    b"msie",
    b"script",
    b"length",
    b"type",
    b"apache",
    b"function",
];

/// What the name before a value adds to its rarity.
const BEHIND_NAME: u32 = 3;
const MOST_BEHIND_NAME: u32 = 16;

/// How rare a piece is likely to be: bytes, without repeated ones and those of common words.
fn score(piece: &Piece, content: &Content) -> (u32, Reverse<u32>, bool, usize) {
    let shortest = piece.literals.iter().map(|(bytes, _)| bytes.len()).min().unwrap_or(0);
    let rarity =
        piece.literals.iter().map(|(bytes, nocase)| rarity(bytes, *nocase)).min().unwrap_or(0);
    // A value is rarely behind just this name; one that is rare anyway needs fewer literals.
    let behind_name = (rarity + BEHIND_NAME).min(MOST_BEHIND_NAME);
    let rarity = if piece.unusual.is_empty() { rarity } else { behind_name };
    // The triggers of a costly piece let ordinary traffic pass, for all rules: it is a last resort.
    let most = [24, 2, 1][piece.cost.min(2) as usize];
    (rarity.min(most), Reverse(piece.cost), content.fast_pattern, shortest)
}

/// Bytes of common words that count as a half byte of another literal.
const LONG_WORD: u32 = 5;

/// Half bytes of a literal that are likely to tell it from ordinary traffic.
fn rarity(bytes: &[u8], nocase: bool) -> u32 {
    let lower = bytes.to_ascii_lowercase();
    let mut common = vec![false; lower.len()];
    for word in COMMON {
        for (at, window) in lower.windows(word.len()).enumerate() {
            // `get` is not in `wget`.
            let letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphabetic);
            let within = at > 0 && letter(lower.get(at - 1)) && letter(word.first());
            if window == word && !within {
                common[at..at + word.len()].fill(true);
            }
        }
    }
    let mut rarity = 0;
    for at in 0..lower.len() {
        let repeated = at > 0 && lower[at] == lower[at - 1];
        let frequent = matches!(lower[at], 0 | 0xff | b' ');
        rarity +=
            match (common[at] || repeated, frequent || nocase && lower[at].is_ascii_alphabetic()) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => 2,
            };
    }
    // Long words are rarer than short ones, however common. A single byte is in all traffic.
    let covered = common.iter().filter(|&&is| is).count() as u32;
    if bytes.len() > 1 { (rarity + covered / LONG_WORD).max(1) } else { bytes.len() as u32 }
}
