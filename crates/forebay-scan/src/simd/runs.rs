//! Literals that are runs of one byte, of two bytes or more.
//!
//! Runs of the text are found by comparing it with itself, one byte further. Each run is processed
//! once: it has all literals of its byte that are not longer.

use std::mem;

use super::buffer::CAPACITY;
use super::literals::Groups;
use super::text::Text;

/// A bit for each position whose byte is as the one behind it.
pub type Repeats = [u64; CAPACITY / 64];

/// The runs of a set.
#[derive(Clone, Debug)]
pub struct Runs {
    /// Bytes of the shortest run, at most [`SHORTEST`].
    shortest: usize,
    /// By folded byte, and then by length.
    runs: Vec<Run>,
    /// For each byte the index of its first run; one more that ends the last.
    first: [u32; 257],
    bytes: Bytes,
}

/// A set of bytes, and others if it has more than 8: a byte is in it if the values of its low and
/// its high 4 bits have a bit in common.
#[derive(Clone, Debug, Default)]
pub struct Bytes {
    pub low: [u8; 16],
    pub high: [u8; 16],
}

impl Bytes {
    pub fn new(bytes: impl Iterator<Item = u8>) -> Self {
        let mut set = Self::default();
        for (number, byte) in bytes.enumerate() {
            let bit = 1 << (number % 8);
            set.low[usize::from(byte & 15)] |= bit;
            set.high[usize::from(byte >> 4)] |= bit;
        }
        set
    }

    pub fn has(&self, byte: u8) -> bool {
        self.low[usize::from(byte & 15)] & self.high[usize::from(byte >> 4)] != 0
    }
}

/// Runs of more bytes are found as those of so many.
pub const SHORTEST: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Run {
    folded: u8,
    /// The byte if its case matters and it is a letter.
    exact: Option<u8>,
    len: u16,
    group: u32,
}

impl Runs {
    /// The runs of some groups; `None` if these are none.
    pub fn new(groups: &Groups, runs: &[u32]) -> Option<Self> {
        let mut runs: Vec<Run> = runs
            .iter()
            .map(|&group| {
                let text = groups.text(group);
                let exact =
                    (!groups.is_nocase(group) && text[0].is_ascii_alphabetic()).then_some(text[0]);
                Run { folded: text[0].to_ascii_lowercase(), exact, len: text.len() as u16, group }
            })
            .collect();
        runs.sort_unstable_by_key(|run| (run.folded, run.len));
        let shortest = runs.iter().map(|run| usize::from(run.len)).min()?.min(SHORTEST);
        let first = std::array::from_fn(|byte| {
            runs.partition_point(|run| usize::from(run.folded) < byte) as u32
        });
        let mut bytes: Vec<u8> = runs.iter().map(|run| run.folded).collect();
        bytes.dedup();
        Some(Self { shortest, runs, first, bytes: Bytes::new(bytes.into_iter()) })
    }

    /// The bytes that there are runs of, folded, and perhaps others.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    fn of(&self, byte: u8) -> &[Run] {
        let byte = usize::from(byte);
        &self.runs[self.first[byte] as usize..self.first[byte + 1] as usize]
    }

    /// Writes the positions at which there are as many equal bytes as the shortest run has.
    pub fn starts(&self, repeats: &Repeats, len: usize, starts: &mut Repeats) {
        let next = repeats.iter().skip(1).chain([&0]);
        for ((starts, word), next) in
            starts.iter_mut().zip(repeats).zip(next).take(len.div_ceil(64))
        {
            let thrice = word & (word >> 1 | next << 63) & (word >> 2 | next << 62);
            if *word == 0 || self.shortest > 3 && thrice == 0 {
                *starts = 0;
                continue;
            }
            let mut bits = u128::from(*next) << 64 | u128::from(*word);
            let (mut have, wanted) = (1, self.shortest - 1);
            while have < wanted {
                let more = have.min(wanted - have);
                bits &= bits >> more;
                have += more;
            }
            *starts = bits as u64;
        }
    }

    /// The first start from a position on, or one behind the text.
    pub fn next(starts: &Repeats, len: usize, from: usize) -> usize {
        let (first, words) = (from / 64, len.div_ceil(64));
        let mut before = u64::MAX << (from % 64);
        for (word, bits) in (first..words).zip(starts.iter().skip(first)) {
            let bits = bits & mem::replace(&mut before, u64::MAX);
            if bits != 0 {
                return word * 64 + bits.trailing_zeros() as usize;
            }
        }
        len
    }

    /// Calls `found` with the groups of runs in the bytes of `text` that are at `start..end` of the
    /// buffer, `offset` being the position in `text` of the first. Each has a run that ends in the
    /// text's body.
    pub fn find(
        &self,
        (repeats, starts): (&Repeats, &Repeats),
        (start, end): (usize, usize),
        (text, offset): (Text<'_>, usize),
        mut found: impl FnMut(u32),
    ) {
        // The byte of which all runs have been found.
        let mut done = None;
        let mut from = start;
        while from < end {
            let word = from / 64;
            let starts = starts[word] & u64::MAX << (from % 64);
            if starts == 0 {
                from = (word + 1) * 64;
                continue;
            }
            let at = word * 64 + starts.trailing_zeros() as usize;
            if at >= end {
                return;
            }
            let run_end = run_end(repeats, at).min(end);
            let byte = text.byte(offset + at - start).to_ascii_lowercase();
            if done != Some(byte) {
                let runs = self.of(byte);
                if let Some(longest) = runs.last() {
                    let mut bounds = (offset + at - start, offset + run_end - start);
                    if at == start || run_end == end {
                        bounds = extend(text, bounds, longest);
                    }
                    if report(runs, text, bounds, &mut found) {
                        done = Some(byte);
                    }
                }
            }
            from = run_end;
        }
    }

    pub fn memory(&self) -> usize {
        size_of_val(&*self.runs) + size_of_val(&self.first)
    }
}

/// The end of the run at a position.
fn run_end(repeats: &Repeats, at: usize) -> usize {
    let mut word = at / 64;
    let mut different = !repeats[word] & u64::MAX << (at % 64);
    while different == 0 {
        word += 1;
        match repeats.get(word) {
            Some(repeats) => different = !repeats,
            None => return word * 64,
        }
    }
    word * 64 + different.trailing_zeros() as usize + 1
}

/// The bounds of a run of which some are known, as far as literals reach.
fn extend(text: Text<'_>, (mut start, mut end): (usize, usize), longest: &Run) -> (usize, usize) {
    let is_of_run = |at| text.byte(at).to_ascii_lowercase() == longest.folded;
    let most = usize::from(longest.len);
    let (least, limit) = (start.saturating_sub(most), text.len().min(end + most));
    while start > least && is_of_run(start - 1) {
        start -= 1;
    }
    while end < limit && is_of_run(end) {
        end += 1;
    }
    (start, end)
}

/// Calls `found` with those of `runs` that are in a run of the text, and returns whether all are.
fn report(
    runs: &[Run],
    text: Text<'_>,
    (start, end): (usize, usize),
    found: &mut impl FnMut(u32),
) -> bool {
    if end <= text.head.len() {
        return false;
    }
    // Of small and of capital letters, found once for all literals.
    let mut longest = [None; 2];
    let mut all = true;
    for run in runs {
        // The others are longer.
        if usize::from(run.len) > end - start {
            return false;
        }
        let is_there = run.exact.is_none_or(|byte| {
            let longest = &mut longest[usize::from(byte.is_ascii_uppercase())];
            let longest = longest.get_or_insert_with(|| longest_exact(text, (start, end), byte));
            usize::from(run.len) <= *longest
        });
        if is_there {
            found(run.group);
        }
        all &= is_there;
    }
    all
}

/// The most bytes in a row that are `byte`, the last of them in the body.
fn longest_exact(text: Text<'_>, (start, end): (usize, usize), byte: u8) -> usize {
    let (mut run, mut longest) = (0, 0);
    for at in start..end {
        run = if text.byte(at) == byte { run + 1 } else { 0 };
        if at >= text.head.len() {
            longest = longest.max(run);
        }
    }
    longest
}
