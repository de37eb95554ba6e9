//! The literals of a compiled set: equal ones are one group.

use std::borrow::Cow;
use std::collections::HashMap;

use super::kernel;
use crate::literal::LiteralSet;
use crate::scanner::ScanError;

/// Groups of equal literals, and their texts in one piece of memory.
#[derive(Clone, Debug)]
pub struct Groups {
    /// In order of `ids`; one more that ends the last.
    records: Vec<Record>,
    /// The literals of all groups.
    ids: Vec<u32>,
    texts: Vec<u8>,
}

/// A group of equal literals.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// The index of the group's first literal in the identifiers.
    ids: u32,
    /// The start of its text.
    text: u32,
    /// The text's length, at most 4,096, and above it whether case does not matter.
    len: u16,
    /// Where in the text the window or the region is that it is found by.
    at: u16,
}

const NOCASE: u16 = 1 << 15;

/// Bytes that are compared together. There are as many behind the last text.
const BLOCK: usize = 32;

/// For each number of bytes up to [`BLOCK`], those bytes of a block.
static FIRST_BYTES: [[u64; BLOCK / 8]; BLOCK + 1] = {
    let mut masks = [[0; BLOCK / 8]; BLOCK + 1];
    let mut at = 0;
    while at < (BLOCK + 1) * BLOCK {
        let (count, byte) = (at / BLOCK, at % BLOCK);
        if byte < count {
            masks[count][byte / 8] |= 0xff << (8 * (byte % 8));
        }
        at += 1;
    }
    masks
};

/// What a literal is compared by.
#[derive(Clone, Copy, Debug)]
pub struct Literal {
    start: usize,
    pub len: usize,
    pub nocase: bool,
    /// Where in its text the region is.
    pub at: usize,
}

impl Groups {
    /// Groups the literals of a set. Those for which case does not matter get small letters.
    pub fn new(set: &LiteralSet) -> Result<Self, ScanError> {
        let mut groups = Self { records: Vec::new(), ids: Vec::new(), texts: Vec::new() };
        // The texts one after another, so that they are compared without memory for each.
        let bytes = set.literals().iter().map(|literal| literal.bytes.len()).sum();
        let (mut texts, mut ends) = (Vec::with_capacity(bytes), Vec::with_capacity(set.len()));
        for literal in set.literals() {
            let start = texts.len();
            texts.extend_from_slice(&literal.bytes);
            // Letters are what case matters for.
            let nocase = literal.nocase || !literal.bytes.iter().any(u8::is_ascii_alphabetic);
            if nocase {
                texts[start..].make_ascii_lowercase();
            }
            ends.push((start..texts.len(), nocase));
        }
        let mut numbers = HashMap::with_capacity(set.len());
        let mut group_of = Vec::with_capacity(set.len());
        let mut counts = Vec::new();
        for (place, nocase) in ends {
            let text = &texts[place];
            let len = text.len() as u16 | if nocase { NOCASE } else { 0 };
            let (next, start) = (numbers.len(), groups.texts.len());
            let group = *numbers.entry((text, nocase)).or_insert_with(|| {
                groups.texts.extend_from_slice(text);
                groups.records.push(Record { ids: 0, text: start as u32, len, at: 0 });
                counts.push(0_u32);
                next
            });
            if u32::try_from(groups.texts.len()).is_err() {
                return Err(ScanError::TooLarge("their texts have more than 4 GiB".to_owned()));
            }
            counts[group] += 1;
            group_of.push(group);
        }
        let mut sum = 0;
        for (record, count) in groups.records.iter_mut().zip(counts) {
            record.ids = sum;
            sum += count;
        }
        let mut next: Vec<u32> = groups.records.iter().map(|record| record.ids).collect();
        groups.ids = vec![0; set.len()];
        for (id, group) in (0..).zip(group_of) {
            groups.ids[next[group] as usize] = id;
            next[group] += 1;
        }
        groups.records.push(Record { ids: sum, text: 0, len: 0, at: 0 });
        groups.records.shrink_to_fit();
        groups.texts.extend([0; BLOCK]);
        groups.texts.shrink_to_fit();
        Ok(groups)
    }

    pub fn len(&self) -> usize {
        self.records.len() - 1
    }

    #[inline]
    pub fn text(&self, group: u32) -> &[u8] {
        let record = &self.records[group as usize];
        let start = record.text as usize;
        &self.texts[start..start + usize::from(record.len & !NOCASE)]
    }

    /// The text with small letters.
    pub fn folded(&self, group: u32) -> Cow<'_, [u8]> {
        let text = self.text(group);
        if text.iter().any(u8::is_ascii_uppercase) {
            Cow::Owned(text.to_ascii_lowercase())
        } else {
            Cow::Borrowed(text)
        }
    }

    #[inline]
    pub fn is_nocase(&self, group: u32) -> bool {
        self.records[group as usize].len & NOCASE != 0
    }

    #[inline]
    pub fn literal(&self, group: u32) -> Literal {
        let record = &self.records[group as usize];
        Literal {
            start: record.text as usize,
            len: usize::from(record.len & !NOCASE),
            nocase: record.len & NOCASE != 0,
            at: record.at.into(),
        }
    }

    /// Whether `text` starts with a literal that has small letters. There are [`BLOCK`] bytes more
    /// behind the literal's last.
    #[inline]
    pub fn is_at(&self, literal: &Literal, text: &[u8]) -> bool {
        let (mut text, mut bytes, mut left) = (text, &self.texts[literal.start..], literal.len);
        loop {
            let blocks = [text, bytes].map(|bytes| {
                let block: &[u8; BLOCK] = bytes.first_chunk().expect("a block more is there");
                block.as_chunks::<8>().0
            });
            let words = blocks[0].iter().zip(blocks[1]).zip(&FIRST_BYTES[left.min(BLOCK)]);
            let different = words.fold(0, |all, ((text, byte), mask)| {
                all | (u64::from_le_bytes(*text) ^ u64::from_le_bytes(*byte)) & mask
            });
            if different != 0 || left <= BLOCK {
                return different == 0;
            }
            (text, bytes, left) = (&text[BLOCK..], &bytes[BLOCK..], left - BLOCK);
        }
    }

    /// Fetches into the cache what the other functions read of a group, but for its text.
    #[inline]
    pub fn prefetch(&self, group: u32) {
        kernel::prefetch(&self.records, group as usize);
    }

    /// Fetches a group's text into the cache.
    #[inline]
    pub fn prefetch_text(&self, group: u32) {
        kernel::prefetch(&self.texts, self.records[group as usize].text as usize);
    }

    /// The bytes from the group's region to the end of its text.
    #[inline]
    pub fn reach(&self, group: u32) -> usize {
        let record = &self.records[group as usize];
        usize::from(record.len & !NOCASE) - usize::from(record.at)
    }

    pub fn set_at(&mut self, group: u32, at: usize) {
        self.records[group as usize].at = at as u16;
    }

    /// The literals of a group.
    #[inline]
    pub fn ids(&self, group: u32) -> &[u32] {
        let [first, next] = [0, 1].map(|more| self.records[group as usize + more].ids as usize);
        &self.ids[first..next]
    }

    pub fn memory(&self) -> usize {
        size_of_val(&*self.records) + size_of_val(&*self.ids) + self.texts.len()
    }
}
