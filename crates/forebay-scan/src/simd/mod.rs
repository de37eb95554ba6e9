//! The engine: filters that leave few positions of the text, and exact comparison at these.
//!
//! Texts are copied, folded, to a buffer ([`buffer`]), several short ones together. Each literal is
//! found in one of five ways, by its length and bytes ([`plan`]): regions of 7 bytes at every
//! fourth position, windows of 4 or of 2 bytes at every position ([`unit`]), runs of one byte
//! ([`runs`]), single bytes ([`single`]). Filters ignore case; a position that passes them is looked
//! up with the bytes about it ([`regions`]), and literals that have these are compared with the
//! text ([`text`], [`literals`]).
//!
//! `docs/scan-engine.md` derives the sizes and has measurements.

mod bitmap;
mod bloom;
mod buckets;
mod buffer;
mod hash;
mod kernel;
mod literals;
mod model;
mod pairs;
mod places;
mod plan;
mod regions;
mod runs;
mod short;
mod single;
mod text;
mod unit;

use forebay_packet::Vectors;

use crate::literal::LiteralSet;
use crate::matches::Matches;
use crate::scanner::{ScanError, Stamps};
use crate::stream::{ALL, StreamPart};
use buffer::{Buffer, CAPACITY, FRONT};
use kernel::Level;
use literals::Groups;
use model::Probabilities;
use plan::Plan;
use runs::Runs;
use short::Short;
use single::Single;
use unit::{Lists, Unit};

pub use kernel::prefetch_all;
pub use model::TrafficModel;
pub use places::Places;
pub use short::most_slots;
pub use text::Text;

/// Bytes that a part of a text has in common with the one before, at least those of a region.
const OVERLAP: usize = 8;

const _: () = assert!(OVERLAP >= plan::REGION && OVERLAP >= runs::SHORTEST);

/// Texts are fetched into the cache while so many before them are copied.
const AHEAD: usize = 2;
/// Bytes of a text that are fetched; the processor fetches the others when these are read.
const PREFETCHED: usize = 1024;

/// The least room in the buffer that a part of a longer text is put in.
const LEAST_PART: usize = 512;

/// A compiled set.
#[derive(Clone, Debug)]
pub struct Simd {
    level: Level,
    groups: Groups,
    units: Vec<Unit>,
    runs: Option<Runs>,
    single: Option<Single>,
    short: Option<Short>,
    /// The bytes from the first one that a literal is found by to its end, the most of any.
    reach: usize,
}

/// Memory of a thread.
#[derive(Clone, Debug)]
pub struct Work {
    /// For each part of a stream, how many of its last bytes pass the filters again.
    pub again: Vec<u8>,
    buffer: Buffer,
    parts: Vec<Part>,
    lists: Lists,
    repeats: Box<runs::Repeats>,
    starts: Box<runs::Repeats>,
}

/// A part of a text in the buffer.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: usize,
    end: usize,
    /// The index of the text.
    text: usize,
    /// The position of the part in its text.
    offset: usize,
}

/// Texts that are scanned together.
#[derive(Clone, Copy)]
pub enum Job<'a> {
    /// Each by itself; matches have their indices.
    Blocks(&'a [&'a [u8]]),
    /// Parts of streams; matches have their numbers.
    Parts(&'a [StreamPart<'a>]),
}

impl<'a> Job<'a> {
    pub fn len(&self) -> usize {
        match self {
            Self::Blocks(texts) => texts.len(),
            Self::Parts(parts) => parts.len(),
        }
    }

    #[inline]
    pub fn text(&self, index: usize) -> Text<'a> {
        match self {
            Self::Blocks(texts) => Text { head: &[], body: texts[index] },
            Self::Parts(parts) => Text { head: parts[index].head, body: parts[index].bytes },
        }
    }

    /// The number of a text in matches.
    #[inline]
    pub fn number(&self, index: usize) -> u32 {
        match self {
            Self::Blocks(_) => index as u32,
            Self::Parts(parts) => parts[index].text,
        }
    }

    /// The position from which a text is filtered, by a set that reaches so far: all before it was
    /// filtered with the bytes before.
    #[inline]
    fn from(&self, index: usize, reach: usize) -> usize {
        match self {
            Self::Blocks(_) => 0,
            Self::Parts(parts) => {
                let StreamPart { head, again, .. } = parts[index];
                let again = if again == ALL { reach - 1 } else { usize::from(again) };
                head.len().saturating_sub(again.min(reach - 1))
            }
        }
    }

    /// Fetches a text into the cache ahead of its use.
    #[inline]
    fn prefetch(&self, index: usize) {
        if index < self.len() {
            let body = self.text(index).body;
            prefetch_all(&body[..body.len().min(PREFETCHED)]);
        }
    }
}

impl Work {
    pub fn new() -> Self {
        Self {
            again: Vec::new(),
            buffer: Buffer::new(),
            parts: Vec::new(),
            lists: Lists::default(),
            repeats: Box::new([0; _]),
            starts: Box::new([0; _]),
        }
    }
}

impl Simd {
    /// Compiles a set, and returns by what the literals are found.
    pub fn compile(
        set: &LiteralSet,
        limit: Vectors,
        model: &TrafficModel,
    ) -> Result<(Self, Places), ScanError> {
        let (groups, probabilities) = (Groups::new(set)?, model.probabilities());
        let places = Places::choose(&groups, &probabilities);
        let engine = Self::build(groups, &places, &probabilities, Level::within(limit));
        Ok((engine.expect("places suit what they were chosen for"), places))
    }

    /// Compiles a set, by places chosen before; `None` if these do not suit the literals.
    pub fn compile_at(
        set: &LiteralSet,
        limit: Vectors,
        model: &TrafficModel,
        places: &Places,
    ) -> Result<Option<Self>, ScanError> {
        let groups = Groups::new(set)?;
        Ok(Self::build(groups, places, &model.probabilities(), Level::within(limit)))
    }

    fn build(
        mut groups: Groups,
        places: &Places,
        probabilities: &Probabilities,
        level: Level,
    ) -> Option<Self> {
        let Plan { fourths, long, short, runs, single } = plan::plan(&mut groups, places)?;
        let units = [Unit::fourths(&fourths), Unit::long(&long, probabilities, level)];
        Some(Self {
            level,
            units: units.into_iter().flatten().collect(),
            runs: Runs::new(&groups, &runs),
            single: Single::new(&groups, &single),
            short: Short::new(&groups, &short, probabilities, level),
            reach: (0..groups.len() as u32).map(|group| groups.reach(group)).max().unwrap_or(1),
            groups,
        })
    }

    /// Appends the matches of each text that end in its body.
    pub fn scan(&self, job: Job<'_>, stamps: &mut Stamps, work: &mut Work, matches: &mut Matches) {
        let stamp = stamps.take(job.len());
        work.buffer.clear();
        work.parts.clear();
        work.again.clear();
        work.again.resize(job.len(), OVERLAP as u8);
        let mut scan = Scan { engine: self, job, stamp, stamps, work, matches };
        for index in 0..job.len() {
            job.prefetch(index + AHEAD);
            scan.add(index);
        }
        scan.flush();
    }

    /// Slots of windows that have stamps.
    pub fn slots(&self) -> usize {
        self.short.as_ref().map_or(0, Short::slots)
    }

    pub fn memory(&self) -> usize {
        self.groups.memory()
            + self.units.iter().map(Unit::memory).sum::<usize>()
            + self.runs.as_ref().map_or(0, Runs::memory)
            + self.single.as_ref().map_or(0, Single::memory)
            + self.short.as_ref().map_or(0, Short::memory)
    }
}

/// A scan in progress.
struct Scan<'a> {
    engine: &'a Simd,
    job: Job<'a>,
    /// The stamp of the first text.
    stamp: u32,
    stamps: &'a mut Stamps,
    work: &'a mut Work,
    matches: &'a mut Matches,
}

impl Scan<'_> {
    /// Puts a text into the buffer, in parts if it is long, and scans what is in the buffer when
    /// that is full.
    fn add(&mut self, index: usize) {
        let text = self.job.text(index);
        let mut offset = self.job.from(index, self.engine.reach);
        while offset < text.len() {
            let (rest, room) = (text.len() - offset, self.work.buffer.room());
            let wait = rest <= CAPACITY || room < LEAST_PART;
            if rest > room && wait && room < CAPACITY {
                self.flush();
                continue;
            }
            let (start, take) = (self.work.buffer.len(), rest.min(room));
            let [head, body] = text.from(offset);
            let head = &head[..head.len().min(take)];
            if !head.is_empty() {
                self.work.buffer.append(head, self.engine.level);
            }
            self.work.buffer.append(&body[..take - head.len()], self.engine.level);
            self.work.parts.push(Part { start, end: start + take, text: index, offset });
            if take == rest {
                return;
            }
            offset += take - OVERLAP;
        }
    }

    /// Scans the buffer and empties it.
    fn flush(&mut self) {
        let before = self.matches.as_slice().len();
        self.work.buffer.seal();
        self.find_single();
        self.find_runs();
        self.find_short();
        for unit in &self.engine.units {
            self.find_windows(unit);
        }
        if self.work.parts.len() > 1 {
            self.matches.sort_from(before);
        }
        self.work.buffer.clear();
        self.work.parts.clear();
    }

    fn find_single(&mut self) {
        let Some(single) = &self.engine.single else { return };
        for part in &self.work.parts {
            let text = self.job.text(part.text);
            if part.offset != self.job.from(part.text, self.engine.reach) {
                continue;
            }
            single.find(text.body, |group| {
                if self.stamps.renew(group, self.stamp + part.text as u32) {
                    report(self.matches, self.engine, &self.job, part, group);
                }
            });
        }
    }

    fn find_runs(&mut self) {
        let Some(runs) = &self.engine.runs else { return };
        let Work { buffer, parts, repeats, starts, .. } = &mut *self.work;
        kernel::repeats(self.engine.level, buffer.bytes(), buffer.len(), runs.bytes(), repeats);
        runs.starts(repeats, buffer.len(), starts);
        let mut next = Runs::next(starts, buffer.len(), 0);
        for part in parts {
            if next >= part.end {
                continue;
            }
            let text = (self.job.text(part.text), part.offset);
            runs.find((repeats, starts), (part.start, part.end), text, |group| {
                if self.stamps.renew(group, self.stamp + part.text as u32) {
                    report(self.matches, self.engine, &self.job, part, group);
                }
            });
            next = Runs::next(starts, buffer.len(), part.end);
        }
    }

    fn find_short(&mut self) {
        let Some(short) = &self.engine.short else { return };
        let Work { buffer, parts, lists, .. } = &mut *self.work;
        let count = short.probe(self.engine.level, buffer, &mut lists.positions);
        let (text, mut positions) = (buffer.bytes(), &mut lists.positions[..count]);
        for part in parts {
            let of_part = positions.iter().take_while(|&&at| usize::from(at) < part.end).count();
            let (mut windows, rest) = positions.split_at_mut(of_part);
            positions = rest;
            // A window across the end is found again with the bytes that follow in its text.
            if windows.last().is_some_and(|&at| usize::from(at) + 1 == part.end) {
                windows = windows.split_last_mut().expect("there is one").1;
            }
            let whole = self.job.text(part.text);
            let stamp = self.stamp + part.text as u32;
            // The first position whose window ends in the body.
            let body =
                (part.start + whole.head.len().saturating_sub(part.offset)).saturating_sub(1);
            let stamps = self.stamps.slots(short.slots());
            let kept = short.retain(text, windows, body, stamp, stamps);
            for &at in &windows[..kept] {
                for literal in short.at(text, at) {
                    let (at, group) = (usize::from(at), literal.group);
                    let is_within =
                        at >= part.start + literal.before() && at + literal.behind() <= part.end;
                    if !is_within || self.stamps.has(group, stamp) {
                        continue;
                    }
                    let groups = &self.engine.groups;
                    let start = part.offset + (at - part.start) - literal.before();
                    // In the body it is there if its case does not matter.
                    let is_there = literal.nocase && at > body
                        || whole.has(start, groups.text(group), literal.nocase);
                    if is_there {
                        self.stamps.renew(group, stamp);
                        report(self.matches, self.engine, &self.job, part, group);
                    }
                }
            }
        }
    }

    fn find_windows(&mut self, unit: &Unit) {
        let Work { again, buffer, parts, lists, .. } = &mut *self.work;
        let groups = &self.engine.groups;
        let mut next = 0;
        unit.find(self.engine.level, buffer, lists, |found| {
            // Of a large set, little is in the near caches: all are fetched before the first is
            // read.
            for found in found {
                kernel::prefetch(self.stamps.all(), found.group as usize);
                groups.prefetch(found.group);
            }
            for found in found {
                groups.prefetch_text(found.group);
            }
            for found in found {
                let start = found.start as usize;
                while parts.get(next).is_some_and(|part| FRONT + part.end <= start) {
                    next += 1;
                }
                let Some(part) = parts.get(next) else { return };
                let Some(behind) = start.checked_sub(FRONT + part.start) else { continue };
                let stamp = self.stamp + part.text as u32;
                let text = self.job.text(part.text);
                let to_end = text.len() - (part.offset + behind);
                if to_end < self.engine.reach && groups.reach(found.group) > to_end {
                    // It is there only with bytes that follow.
                    let again = &mut again[part.text];
                    *again = (*again).max(u8::try_from(to_end).unwrap_or(ALL));
                    continue;
                }
                if self.stamps.has(found.group, stamp) {
                    continue;
                }
                let literal = groups.literal(found.group);
                let Some(at) = (part.offset + behind).checked_sub(literal.at) else { continue };
                // In the buffer are the part's bytes, folded; a longer text goes on behind them.
                let end = start + literal.len - literal.at;
                let is_within = literal.at <= behind && end <= FRONT + part.end;
                let is_there = if literal.nocase && is_within {
                    at + literal.len > text.head.len()
                        && groups.is_at(&literal, &buffer.bytes()[start - literal.at..])
                } else {
                    text.has(at, groups.text(found.group), literal.nocase)
                };
                if is_there {
                    self.stamps.renew(found.group, stamp);
                    report(self.matches, self.engine, &self.job, part, found.group);
                }
            }
        });
    }
}

/// Appends the literals of a group to the matches.
fn report(matches: &mut Matches, engine: &Simd, job: &Job<'_>, part: &Part, group: u32) {
    for &literal in engine.groups.ids(group) {
        matches.push(job.number(part.text), literal);
    }
}
