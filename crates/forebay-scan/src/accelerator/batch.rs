//! A batch of texts in private memory, and its scan.

use std::sync::Arc;

use super::{BatchLimits, Cause, Refused};
use crate::matches::{Match, Matches};
use crate::scanner::{Scanner, Scratch};

/// Bytes that a text of `len` bytes occupies: texts start at multiples of 8.
pub(super) fn padded(len: usize) -> usize {
    len.next_multiple_of(8)
}

/// The bytes of all parts; none if no text can have so many.
pub(super) fn total_len(parts: &[&[u8]]) -> Option<usize> {
    let add = |sum: usize, part: &&[u8]| sum.checked_add(part.len());
    parts.iter().try_fold(0, add).filter(|&len| u32::try_from(len).is_ok())
}

/// Texts, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// The start and the length of each text.
    texts: Vec<(usize, usize)>,
}

impl Batch {
    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.texts.clear();
    }

    /// Appends a text if the limits allow it.
    pub(super) fn push(&mut self, parts: &[&[u8]], limits: &BatchLimits) -> Result<(), Refused> {
        let most = limits.bytes as usize;
        let len = total_len(parts).filter(|&len| padded(len) <= most);
        let len = len.ok_or(Refused::MayMatch(Cause::TooLong))?;
        if self.bytes.len() + padded(len) > most || self.len() == limits.texts as usize {
            return Err(Refused::Full);
        }
        let start = self.bytes.len();
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.bytes.resize(start + padded(len), 0);
        self.texts.push((start, len));
        Ok(())
    }

    /// The texts.
    fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.texts.iter().map(|&(start, len)| &self.bytes[start..start + len])
    }
}

/// Texts scanned by one call of the scanner.
const TOGETHER: usize = 32;

/// A scanner, and one thread's memory for it.
#[derive(Debug)]
pub(super) struct BatchScanner {
    scanner: Arc<Scanner>,
    scratch: Scratch,
    matches: Matches,
    most: usize,
}

impl BatchScanner {
    /// A scan with more than `most` matches overflows.
    pub(super) fn new(scanner: Arc<Scanner>, most: u32) -> Self {
        let scratch = scanner.scratch();
        Self { scanner, scratch, matches: Matches::new(), most: most as usize }
    }

    /// Scans texts in order, in groups, and appends the matches.
    pub(super) fn scan_all<'a>(
        &mut self,
        mut texts: impl ExactSizeIterator<Item = &'a [u8]>,
        found: &mut Vec<Match>,
    ) -> Result<(), Cause> {
        let mut first = 0;
        while texts.len() > 0 {
            let mut group = [&[][..]; TOGETHER];
            let count = TOGETHER.min(texts.len());
            group.iter_mut().zip(&mut texts).for_each(|(place, text)| *place = text);
            self.matches.clear();
            self.scanner.scan(&group[..count], &mut self.scratch, &mut self.matches);
            let matches = self.matches.as_slice();
            if found.len() + matches.len() > self.most {
                return Err(Cause::Overflow);
            }
            found.extend(matches.iter().map(|one| Match { text: one.text + first, ..*one }));
            first += count as u32;
        }
        Ok(())
    }

    /// Scans a batch.
    pub(super) fn scan(&mut self, batch: &Batch) -> Result<Vec<Match>, Cause> {
        let mut found = Vec::new();
        self.scan_all(batch.iter(), &mut found)?;
        found.sort_unstable();
        Ok(found)
    }
}
