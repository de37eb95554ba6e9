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
}

/// The most bytes of a content that are looked for: scans of streams keep as many of each.
const MAX_TAKEN: usize = 64;

/// Chooses the rarest piece of all positive contents.
pub fn extract(contents: &[Content], condition: &Condition, features: &Features) -> Extracted {
    let rule_side = condition.side.unwrap_or(Side::Either);
    let positive = || contents.iter().filter(|content| !content.negated);
    let best = positive()
        .filter(|content| !content.derived)
        .flat_map(|content| {
            pieces::pieces(content, condition.application, rule_side)
                .into_iter()
                .map(move |piece| (score(&piece, content), piece, content))
        })
        .max_by_key(|(score, ..)| *score);
    if let Some((_, piece, content)) = best {
        let side = content.buffer.side.and(rule_side);
        let (mut literals, hazards) = (piece.literals, piece.hazards);
        literals.iter_mut().for_each(|(bytes, _)| bytes.truncate(MAX_TAKEN));
        return Extracted { class: Class::Filterable, literals, hazards, side };
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
    }
}

/// Words of ordinary traffic. Bytes of a literal that they cover make it no rarer.
const COMMON: [&[u8]; 42] = [
    // The counts of a query or answer of DNS.
    b"\x00\x01\x00\x00\x00\x00\x00\x00",
    b"\x01\x00\x00\x01",
    b"http/1.",
    b"mozilla/",
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

/// How rare a piece is likely to be: bytes, without repeated ones and those of common words.
fn score(piece: &Piece, content: &Content) -> (u32, Reverse<u32>, bool, usize) {
    let shortest = piece.literals.iter().map(|(bytes, _)| bytes.len()).min().unwrap_or(0);
    let rarity =
        piece.literals.iter().map(|(bytes, nocase)| rarity(bytes, *nocase)).min().unwrap_or(0);
    // The triggers of a costly piece let ordinary traffic pass, for all rules: it is a last resort.
    let most = [24, 2, 1][piece.cost.min(2) as usize];
    (rarity.min(most), Reverse(piece.cost), content.fast_pattern, shortest)
}

/// Half bytes of a literal that are likely to tell it from ordinary traffic.
fn rarity(bytes: &[u8], nocase: bool) -> u32 {
    let lower = bytes.to_ascii_lowercase();
    let mut common = vec![false; lower.len()];
    for word in COMMON {
        for (at, window) in lower.windows(word.len()).enumerate() {
            if window == word {
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
    // A single byte is in all traffic.
    if bytes.len() > 1 { rarity.max(1) } else { bytes.len() as u32 }
}
