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
mod single;
mod text;
mod unit;

use forebay_packet::Vectors;

use crate::literal::LiteralSet;
use crate::matches::Matches;
use crate::scanner::{ScanError, Stamps};
use buffer::{Buffer, CAPACITY, FRONT};
use kernel::Level;
use literals::Groups;
use model::Probabilities;
use plan::Plan;
use runs::Runs;
use single::Single;
use text::Text;
use unit::{Lists, Unit};

pub use model::TrafficModel;
pub use places::Places;

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
    /// The bytes from the first one that a literal is found by to its end, the most of any.
    reach: usize,
}

/// Memory of a thread.
#[derive(Clone, Debug)]
pub struct Work {
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
pub struct Job<'a> {
    pub texts: &'a [&'a [u8]],
    /// Bytes in front of each text that are of its stream.
    pub head: &'a [u8],
    /// The number of the first text in matches.
    pub first: u32,
}

impl<'a> Job<'a> {
    fn text(&self, index: usize) -> Text<'a> {
        Text { head: self.head, body: self.texts[index] }
    }
}

impl Work {
    pub fn new() -> Self {
        Self {
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
        let units = [
            Unit::fourths(&fourths),
            Unit::long(&long, probabilities, level),
            Unit::short(&short, probabilities, level),
        ];
        let reach = |group| groups.text(group).len() - groups.at(group);
        Some(Self {
            level,
            units: units.into_iter().flatten().collect(),
            runs: Runs::new(&groups, &runs),
            single: Single::new(&groups, &single),
            reach: (0..groups.len() as u32).map(reach).max().unwrap_or(1),
            groups,
        })
    }

    /// Appends the matches of each text that end in its body.
    pub fn scan(&self, job: Job<'_>, stamps: &mut Stamps, work: &mut Work, matches: &mut Matches) {
        let from = job.head.len().saturating_sub(self.reach - 1);
        let stamp = stamps.take(job.texts.len());
        work.buffer.clear();
        work.parts.clear();
        let mut scan = Scan { engine: self, job, from, stamp, stamps, work, matches };
        for index in 0..job.texts.len() {
            if let Some(next) = job.texts.get(index + AHEAD) {
                for line in (0..next.len().min(PREFETCHED)).step_by(64) {
                    kernel::prefetch(next, line);
                }
            }
            scan.add(index);
        }
        scan.flush();
    }

    pub fn memory(&self) -> usize {
        self.groups.memory()
            + self.units.iter().map(Unit::memory).sum::<usize>()
            + self.runs.as_ref().map_or(0, Runs::memory)
            + self.single.as_ref().map_or(0, Single::memory)
    }
}

/// A scan in progress.
struct Scan<'a> {
    engine: &'a Simd,
    job: Job<'a>,
    /// The position in texts from which they are filtered.
    from: usize,
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
        let mut offset = self.from;
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
        for part in self.work.parts.iter().filter(|part| part.offset == self.from) {
            let text = self.job.texts[part.text];
            single.find(text, |group| {
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

    fn find_windows(&mut self, unit: &Unit) {
        let Work { buffer, parts, lists, .. } = &mut *self.work;
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
                if self.stamps.has(found.group, stamp) {
                    continue;
                }
                let literal = groups.literal(found.group);
                let Some(at) = (part.offset + behind).checked_sub(literal.at) else { continue };
                let text = self.job.text(part.text);
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
        matches.push(job.first + part.text as u32, literal);
    }
}
