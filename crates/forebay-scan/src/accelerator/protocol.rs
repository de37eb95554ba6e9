//! The protocol between a client and a device: version 1, as in `docs/accelerator-interface.md`.
//!
//! Everything in shared memory is a 64-bit little-endian word; halves and quarters of a word are
//! numbered from its low end. Nothing here accesses memory: words are read once by the caller, and
//! decoded from its copy.

use super::{BatchLimits, MAX_BATCH_BYTES, MAX_BATCH_TEXTS, MAX_IN_FLIGHT};
use crate::literal::LiteralSet;
use crate::matches::Match;

/// "FBYACCEL", the first word of the messages of the handshake.
pub const MAGIC: u64 = u64::from_le_bytes(*b"FBYACCEL");

/// The version of the protocol.
pub const VERSION: u32 = 1;

/// Bytes of a word.
pub const WORD: usize = 8;

/// Words of a message of the handshake.
pub const MESSAGE_WORDS: usize = 8;

/// Words of a descriptor.
pub const DESCRIPTOR_WORDS: usize = 8;

/// Words of a completion.
pub const COMPLETION_WORDS: usize = 4;

/// Words of the control region before the rings.
pub const HEADER_WORDS: usize = 512;

/// The word of the control region that counts submissions; the client writes it.
pub const SUBMITTED: usize = 0;

/// The word that counts completions; the device writes it.
pub const COMPLETED: usize = 16;

/// The word that is 1 while the device waits for a message; the device writes it.
pub const DEVICE_SLEEPS: usize = 32;

/// The word that is 1 while the client waits for a message; the client writes it.
pub const CLIENT_SLEEPS: usize = 48;

/// The identifiers of the regions.
pub const CONTROL_REGION: u16 = 0;
/// Texts: the client writes, the device reads.
pub const TEXT_REGION: u16 = 1;
/// Matches: the device writes, the client reads.
pub const RESULT_REGION: u16 = 2;

/// The files that come with a hello: the regions, in the order of their identifiers.
pub const REGIONS: usize = 3;

/// The most bytes of all regions of a session.
pub const MAX_SESSION_BYTES: u64 = 1 << 30;

/// The operation of a descriptor: find the literals in each text.
pub const SCAN: u16 = 1;

/// Statuses of completions.
pub mod status {
    /// All matches are in the result area.
    pub const DONE: u16 = 0;
    /// The device has no room; the batch was not scanned.
    pub const BUSY: u16 = 1;
    /// The device cannot scan the batch.
    pub const FAULT: u16 = 2;
    /// The matches do not fit in the result area.
    pub const OVERFLOW: u16 = 3;
    /// The device gave the batch up at a time limit of its own.
    pub const TIME_OUT: u16 = 4;
    /// The device was reset while it had the batch.
    pub const RESET: u16 = 5;
}

/// What identifies a set of literals: client and device must have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetIdentity {
    /// The number of literals.
    pub literals: u32,
    /// FNV-1a with 64 bits over each literal: its length (4 bytes, little-endian), 1 if case is
    /// ignored or 0, its bytes.
    pub digest: u64,
}

impl SetIdentity {
    /// The identity of a set.
    #[must_use]
    pub fn of(set: &LiteralSet) -> Self {
        let mut digest = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |bytes: &[u8]| {
            for &byte in bytes {
                digest = (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        for literal in set.literals() {
            add(&(literal.bytes.len() as u32).to_le_bytes());
            add(&[u8::from(literal.nocase)]);
            add(&literal.bytes);
        }
        Self { literals: set.len() as u32, digest }
    }
}

/// The sizes of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Entries of each ring, and so the most batches in flight: a power of two.
    pub slots: u32,
    /// Bytes of the text region for each slot, a multiple of 8.
    pub batch_bytes: u32,
    /// Texts of a batch.
    pub texts: u32,
    /// Bytes of the result region for each slot, a multiple of 8.
    pub result_bytes: u32,
}

impl Layout {
    /// The layout for batches of some size, with a probe of up to `probe` bytes in each.
    #[must_use]
    pub fn new(limits: &BatchLimits, probe: usize) -> Self {
        let texts = limits.texts + 1;
        let batch_bytes =
            limits.bytes.next_multiple_of(8) + (probe as u32).next_multiple_of(8) + texts * 8;
        // The probe can have a match for each literal that occurs in it.
        let result_bytes = (limits.matches + 64) * 8;
        Self { slots: limits.in_flight.next_power_of_two(), batch_bytes, texts, result_bytes }
    }

    /// Whether every size is in range, so that no sum or product of them overflows.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let whole = |bytes: u32| bytes > 0 && bytes.is_multiple_of(8);
        self.slots.is_power_of_two()
            && self.slots <= MAX_IN_FLIGHT
            && whole(self.batch_bytes)
            && self.batch_bytes <= 2 * MAX_BATCH_BYTES
            && (1..=MAX_BATCH_TEXTS + 1).contains(&self.texts)
            && whole(self.result_bytes)
            && self.result_bytes <= 16 * MAX_BATCH_BYTES
            && self.bytes() <= MAX_SESSION_BYTES
    }

    /// Bytes of all regions.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.region_words().iter().map(|&words| (words * WORD) as u64).sum()
    }

    /// The words of each region, by identifier.
    #[must_use]
    pub fn region_words(&self) -> [usize; REGIONS] {
        let slots = self.slots as usize;
        let rings = slots * (DESCRIPTOR_WORDS + COMPLETION_WORDS);
        let texts = slots * (self.batch_bytes as usize / WORD);
        let results = slots * (self.result_bytes as usize / WORD);
        [HEADER_WORDS + rings, texts, results]
    }

    /// The first word of the descriptor at a position of the submission ring.
    #[must_use]
    pub fn descriptor_at(&self, position: u64) -> usize {
        HEADER_WORDS + self.index(position) * DESCRIPTOR_WORDS
    }

    /// The first word of the completion at a position of the completion ring.
    #[must_use]
    pub fn completion_at(&self, position: u64) -> usize {
        let ring = HEADER_WORDS + self.slots as usize * DESCRIPTOR_WORDS;
        ring + self.index(position) * COMPLETION_WORDS
    }

    fn index(&self, position: u64) -> usize {
        (position & u64::from(self.slots - 1)) as usize
    }
}

fn halves(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn quarters(quarters: [u16; 4]) -> u64 {
    quarters.iter().rev().fold(0, |word, &quarter| word << 16 | u64::from(quarter))
}

fn low(word: u64) -> u32 {
    word as u32
}

fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

fn quarter(word: u64, number: u32) -> u16 {
    (word >> (16 * number)) as u16
}

/// Part of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// The region.
    pub region: u16,
    /// Its first byte, a multiple of 8.
    pub offset: u64,
    /// Its bytes, a multiple of 8.
    pub len: u32,
}

/// The check word of a completion: the sum, modulo 2^64, of the descriptor's cookie, the other words
/// of the completion, and all words of its matches. A completion that is not of this descriptor, or
/// that differs from its matches in memory, has another sum.
pub fn check_word(
    [id, status, _, place]: [u64; COMPLETION_WORDS],
    cookie: u64,
    matches: impl Iterator<Item = u64>,
) -> u64 {
    let rest = [id, status, place].into_iter();
    matches.chain(rest).fold(cookie, u64::wrapping_add)
}

/// The word of a match.
#[must_use]
pub fn match_word(found: Match) -> u64 {
    halves(found.text, found.literal)
}

/// The match of a word.
#[must_use]
pub fn match_of(word: u64) -> Match {
    Match { text: low(word), literal: high(word) }
}

impl Area {
    /// The words of the area in a region of so many words; none if it is not within.
    #[must_use]
    pub fn words(&self, region_words: usize) -> Option<std::ops::Range<usize>> {
        let (offset, len) = (self.offset, u64::from(self.len));
        let is_aligned = offset.is_multiple_of(8) && len.is_multiple_of(8);
        let end = offset.checked_add(len)?;
        let fits = is_aligned && end <= (region_words * WORD) as u64;
        fits.then_some((offset / 8) as usize..(end / 8) as usize)
    }
}

/// A descriptor: a batch to scan. It starts with its table, a word for each text: the offset of the
/// text from the start of the batch, a multiple of 8 (low half), and its length in bytes (high half).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The number of the batch in its session.
    pub id: u64,
    /// The session.
    pub generation: u32,
    /// The operation: [`SCAN`].
    pub operation: u16,
    /// A random number, which enters the completion's check word.
    pub cookie: u64,
    /// Texts of the batch.
    pub texts: u32,
    /// The batch.
    pub batch: Area,
    /// Room for matches.
    pub results: Area,
}

impl Descriptor {
    /// The words of the descriptor.
    #[must_use]
    pub fn encode(&self) -> [u64; DESCRIPTOR_WORDS] {
        [
            self.id,
            quarters([self.operation, 0, 0, 0]) | u64::from(self.generation) << 32,
            self.cookie,
            halves(self.texts, 0),
            quarters([self.batch.region, self.results.region, 0, 0]),
            self.batch.offset,
            self.results.offset,
            halves(self.batch.len, self.results.len),
        ]
    }

    /// The descriptor of these words.
    #[must_use]
    pub fn decode(words: [u64; DESCRIPTOR_WORDS]) -> Self {
        let area = |region, offset, len| Area { region, offset, len };
        Self {
            id: words[0],
            generation: high(words[1]),
            operation: quarter(words[1], 0),
            cookie: words[2],
            texts: low(words[3]),
            batch: area(quarter(words[4], 0), words[5], low(words[7])),
            results: area(quarter(words[4], 1), words[6], high(words[7])),
        }
    }
}

/// A completion: the answer to a descriptor. The matches are words in the result region, in any
/// order: the number of the text (low half), the literal (high half).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The number of the batch.
    pub id: u64,
    /// The session.
    pub generation: u32,
    /// One of [`status`].
    pub status: u16,
    /// The [`check_word`].
    pub check: u64,
    /// Matches.
    pub matches: u32,
    /// Where the matches start: bytes from the start of the descriptor's result area.
    pub offset: u32,
}

impl Reply {
    /// The words of the completion.
    #[must_use]
    pub fn encode(&self) -> [u64; COMPLETION_WORDS] {
        [
            self.id,
            quarters([self.status, 0, 0, 0]) | u64::from(self.generation) << 32,
            self.check,
            halves(self.matches, self.offset),
        ]
    }

    /// The completion of these words.
    #[must_use]
    pub fn decode(words: [u64; COMPLETION_WORDS]) -> Self {
        Self {
            id: words[0],
            generation: high(words[1]),
            status: quarter(words[1], 0),
            check: words[2],
            matches: low(words[3]),
            offset: high(words[3]),
        }
    }
}

/// The first message of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The client's version of the protocol.
    pub version: u32,
    /// The number of the session: what was written for another one is refused.
    pub generation: u32,
    /// The sizes of the regions.
    pub layout: Layout,
    /// The set that the client takes the device to have.
    pub set: SetIdentity,
}

/// Bytes of a message of the handshake.
pub type Message = [u8; MESSAGE_WORDS * WORD];

fn to_bytes(words: [u64; MESSAGE_WORDS]) -> Message {
    let mut bytes = [0; MESSAGE_WORDS * WORD];
    let places = bytes.chunks_exact_mut(WORD);
    places.zip(words).for_each(|(place, word)| place.copy_from_slice(&word.to_le_bytes()));
    bytes
}

fn to_words(bytes: &[u8]) -> Option<[u64; MESSAGE_WORDS]> {
    let bytes: &Message = bytes.try_into().ok()?;
    let mut words = [0; MESSAGE_WORDS];
    for (word, place) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*place);
    }
    (words[0] == MAGIC).then_some(words)
}

impl Hello {
    /// The bytes of the message.
    #[must_use]
    pub fn encode(&self) -> Message {
        let Layout { slots, batch_bytes, texts, result_bytes } = self.layout;
        to_bytes([
            MAGIC,
            halves(self.version, self.generation),
            halves(slots, texts),
            halves(batch_bytes, result_bytes),
            self.set.digest,
            halves(self.set.literals, 0),
            0,
            0,
        ])
    }

    /// The message of these bytes; none if they are of another kind.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let words = to_words(bytes)?;
        Some(Self {
            version: low(words[1]),
            generation: high(words[1]),
            layout: Layout {
                slots: low(words[2]),
                texts: high(words[2]),
                batch_bytes: low(words[3]),
                result_bytes: high(words[3]),
            },
            set: SetIdentity { literals: low(words[5]), digest: words[4] },
        })
    }
}

/// Why a device refuses a client; 0 accepts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Answer {
    /// The session starts.
    Accepted = 0,
    /// The versions differ.
    Version = 1,
    /// A size is out of range, or a region is smaller than the sizes require or not sealed.
    Layout = 2,
    /// The device has another set of literals.
    Set = 3,
    /// The device has as many clients as it can have.
    Busy = 4,
}

/// The answer of a device to a [`Hello`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The device's version of the protocol.
    pub version: u32,
    /// The session that was asked for.
    pub generation: u32,
    /// Whether it starts.
    pub answer: Option<Answer>,
    /// The device's set.
    pub set: SetIdentity,
}

impl Welcome {
    /// The bytes of the message. An unknown answer is encoded as busy.
    #[must_use]
    pub fn encode(&self) -> Message {
        let answer = self.answer.unwrap_or(Answer::Busy) as u32;
        let versions = halves(self.version, self.generation);
        let SetIdentity { literals, digest } = self.set;
        to_bytes([MAGIC, versions, halves(answer, 0), 0, digest, halves(literals, 0), 0, 0])
    }

    /// The message of these bytes; none if they are of another kind.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        use Answer::{Accepted, Busy, Layout, Set, Version};
        let words = to_words(bytes)?;
        let answers = [Accepted, Version, Layout, Set, Busy];
        Some(Self {
            version: low(words[1]),
            generation: high(words[1]),
            answer: answers.into_iter().find(|&answer| answer as u32 == low(words[2])),
            set: SetIdentity { literals: low(words[5]), digest: words[4] },
        })
    }
}
