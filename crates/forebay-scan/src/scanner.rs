//! Sets compiled for an engine.

use std::fmt;
use std::str::FromStr;

use forebay_packet::Vectors;

use crate::literal::LiteralSet;
use crate::matches::Matches;
use crate::oracle::Oracle;
use crate::simd::{self, Job, Places, Simd, Text, TrafficModel, Work};
use crate::stream::{ALL, StreamPart, StreamState};

/// How literals are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Filters by vector instructions, and exact comparison.
    #[default]
    Simd,
    /// Automata of the `aho-corasick` crate, the reference.
    Oracle,
}

impl Engine {
    /// All engines.
    pub const ALL: [Self; 2] = [Self::Simd, Self::Oracle];

    /// The engine's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Simd => "simd",
            Self::Oracle => "oracle",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Engine {
    type Err = ScanError;

    fn from_str(name: &str) -> Result<Self, ScanError> {
        let engine = Self::ALL.into_iter().find(|engine| engine.name() == name);
        engine.ok_or_else(|| ScanError::NoSuchEngine(name.to_owned()))
    }
}

/// Why a set was not compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// The engine has no room for the set.
    #[error("the literals are too many for the engine: {0}")]
    TooLarge(String),
    /// No engine has this name.
    #[error("expected an engine (simd, oracle), found {0:?}")]
    NoSuchEngine(String),
}

/// A set compiled for an engine. It does not change, and threads share it.
#[derive(Clone, Debug)]
pub struct Scanner {
    compiled: Compiled,
    literals: usize,
    max_literal_len: usize,
}

#[derive(Clone, Debug)]
enum Compiled {
    Simd(Box<Simd>),
    Oracle(Oracle),
}

/// Memory of one thread for scans by one [`Scanner`].
#[derive(Clone, Debug)]
pub struct Scratch {
    stamps: Stamps,
    work: Work,
}

/// For each literal, or group of equal ones, the text that it was last found in.
#[derive(Clone, Debug)]
pub(crate) struct Stamps {
    last: Vec<u32>,
    next: u32,
    /// The same for slots of windows.
    slots: Vec<u32>,
}

impl Scratch {
    /// For each part of the last [`Scanner::scan_parts`], what its stream's state is to know of it
    /// if no other bytes were appended since.
    #[must_use]
    pub fn again(&self) -> &[u8] {
        &self.work.again
    }
}

impl Stamps {
    fn new(count: usize, slots: usize) -> Self {
        Self { last: vec![0; count], next: 1, slots: vec![0; slots] }
    }

    /// The first of as many successive stamps, which no literal has.
    pub(crate) fn take(&mut self, texts: usize) -> u32 {
        let texts = u32::try_from(texts).expect("matches number texts by 32 bits");
        let first = match self.next.checked_add(texts) {
            Some(_) => self.next,
            None => {
                self.last.fill(0);
                self.slots.fill(0);
                1
            }
        };
        self.next = first.saturating_add(texts);
        first
    }

    /// The stamps of so many slots, also where there were fewer for another scanner.
    #[inline]
    pub(crate) fn slots(&mut self, count: usize) -> &mut [u32] {
        if self.slots.len() < count {
            self.slots.resize(count, 0);
        }
        &mut self.slots[..count]
    }

    /// The stamps of all literals.
    #[inline]
    pub(crate) fn all(&self) -> &[u32] {
        &self.last
    }

    /// Whether the literal has the stamp.
    #[inline]
    pub(crate) fn has(&self, literal: u32, stamp: u32) -> bool {
        self.last[literal as usize] == stamp
    }

    /// Gives the literal the stamp. Returns whether it had another one.
    #[inline]
    pub(crate) fn renew(&mut self, literal: u32, stamp: u32) -> bool {
        std::mem::replace(&mut self.last[literal as usize], stamp) != stamp
    }
}

impl Scanner {
    /// Compiles a set, for the widest vectors that the machine has and the process allows
    /// ([`Vectors::limit`]).
    ///
    /// # Errors
    /// The engine has no room for it.
    pub fn compile(set: &LiteralSet, engine: Engine) -> Result<Self, ScanError> {
        Self::compile_for(set, engine, Vectors::widest())
    }

    /// Compiles a set, for vectors that are not wider than `vectors`.
    ///
    /// # Errors
    /// The engine has no room for it.
    pub fn compile_for(
        set: &LiteralSet,
        engine: Engine,
        vectors: Vectors,
    ) -> Result<Self, ScanError> {
        Self::compile_with(set, engine, vectors, &TrafficModel::default())
    }

    /// Compiles a set for traffic of which `model` has learned. Only the speed depends on it.
    ///
    /// # Errors
    /// The engine has no room for it.
    pub fn compile_with(
        set: &LiteralSet,
        engine: Engine,
        vectors: Vectors,
        model: &TrafficModel,
    ) -> Result<Self, ScanError> {
        match engine {
            Engine::Simd => {
                Self::compile_and_place(set, vectors, model).map(|(scanner, _)| scanner)
            }
            Engine::Oracle => Ok(Self::of(set, Compiled::Oracle(Oracle::compile(set)?))),
        }
    }

    /// Compiles a set for [`Engine::Simd`], and returns by what the literals are found.
    pub(crate) fn compile_and_place(
        set: &LiteralSet,
        vectors: Vectors,
        model: &TrafficModel,
    ) -> Result<(Self, Places), ScanError> {
        let (simd, places) = Simd::compile(set, vectors, model)?;
        Ok((Self::of(set, Compiled::Simd(Box::new(simd))), places))
    }

    /// Compiles a set for [`Engine::Simd`], by places chosen before; `None` if these do not suit
    /// the literals.
    pub(crate) fn compile_at(
        set: &LiteralSet,
        vectors: Vectors,
        model: &TrafficModel,
        places: &Places,
    ) -> Result<Option<Self>, ScanError> {
        let simd = Simd::compile_at(set, vectors, model, places)?;
        Ok(simd.map(|simd| Self::of(set, Compiled::Simd(Box::new(simd)))))
    }

    fn of(set: &LiteralSet, compiled: Compiled) -> Self {
        let longest = set.literals().iter().map(|literal| literal.bytes.len()).max();
        Self { compiled, literals: set.len(), max_literal_len: longest.unwrap_or(0) }
    }

    /// Memory for a thread that scans.
    #[must_use]
    pub fn scratch(&self) -> Scratch {
        let slots = match &self.compiled {
            Compiled::Simd(simd) => simd.slots(),
            Compiled::Oracle(_) => 0,
        };
        Scratch { stamps: Stamps::new(self.literals, slots), work: Work::new() }
    }

    /// The most bytes of a [`Scratch`] that grow with the literals.
    #[must_use]
    pub fn scratch_bytes(literals: usize) -> usize {
        (literals + simd::most_slots(literals)) * size_of::<u32>()
    }

    /// The number of literals.
    #[must_use]
    pub fn literals(&self) -> usize {
        self.literals
    }

    /// The bytes of the longest literal; 0 if there is none.
    #[must_use]
    pub fn max_literal_len(&self) -> usize {
        self.max_literal_len
    }

    /// The bytes of the compiled set.
    #[must_use]
    pub fn memory(&self) -> usize {
        match &self.compiled {
            Compiled::Simd(simd) => simd.memory(),
            Compiled::Oracle(oracle) => oracle.memory(),
        }
    }

    /// Appends the matches of each text of a batch to `matches`.
    ///
    /// # Panics
    /// `scratch` is of a scanner with fewer literals, or there are 2^32 texts.
    pub fn scan(&self, texts: &[&[u8]], scratch: &mut Scratch, matches: &mut Matches) {
        self.scan_job(Job::Blocks(texts), scratch, matches);
    }

    /// Scans the next bytes of a stream. Appends, as matches of `text`, each literal of which an
    /// occurrence ends in `bytes`, once a call.
    ///
    /// # Panics
    /// `scratch` is of a scanner with fewer literals.
    pub fn scan_stream(
        &self,
        text: u32,
        bytes: &[u8],
        state: &mut StreamState,
        scratch: &mut Scratch,
        matches: &mut Matches,
    ) {
        let part = StreamPart { text, head: state.tail(), bytes, again: state.again() };
        self.scan_job(Job::Parts(&[part]), scratch, matches);
        self.append(bytes, state);
        state.set_again(scratch.again()[0]);
    }

    /// Appends to a stream's state bytes that are scanned by [`Scanner::scan_parts`]; what that finds
    /// out for the next bytes is set later.
    #[inline]
    pub fn append(&self, bytes: &[u8], state: &mut StreamState) {
        state.append(bytes, self.kept());
    }

    /// The most bytes of a stream that its state keeps: one fewer than the longest literal has.
    #[inline]
    #[must_use]
    pub fn kept(&self) -> usize {
        self.max_literal_len.saturating_sub(1)
    }

    /// Scans parts of streams together, which takes less time than one after another if they are
    /// short. For each of them, what [`Scanner::scan_stream`] appends is appended. Matches are
    /// ordered by text if the numbers of the parts are; of a number that several parts have, a
    /// literal can be there several times.
    ///
    /// # Panics
    /// `scratch` is of a scanner with fewer literals.
    pub fn scan_parts(
        &self,
        parts: &[StreamPart<'_>],
        scratch: &mut Scratch,
        matches: &mut Matches,
    ) {
        self.scan_job(Job::Parts(parts), scratch, matches);
    }

    fn scan_job(&self, job: Job<'_>, scratch: &mut Scratch, matches: &mut Matches) {
        let Scratch { stamps, work } = scratch;
        match &self.compiled {
            Compiled::Simd(simd) => simd.scan(job, stamps, work, matches),
            Compiled::Oracle(oracle) => {
                let stamp = stamps.take(job.len());
                work.again.clear();
                work.again.resize(job.len(), ALL);
                let mut whole = Vec::new();
                for index in 0..job.len() {
                    let Text { head, body } = job.text(index);
                    whole.clear();
                    whole.extend_from_slice(head);
                    whole.extend_from_slice(body);
                    oracle.scan(&whole, |literal, end| {
                        if end > head.len() && stamps.renew(literal, stamp + index as u32) {
                            matches.push(job.number(index), literal);
                        }
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_is_reported_once() {
        let mut set = LiteralSet::new();
        for (text, nocase) in [("ab", true), ("b", false), ("ab", false), ("ab", true)] {
            set.push(text.as_bytes(), nocase).unwrap();
        }
        for engine in Engine::ALL {
            let scanner = Scanner::compile(&set, engine).unwrap();
            let mut matches = Matches::new();
            scanner.scan(&[b"ABab", b"", b"aB"], &mut scanner.scratch(), &mut matches);
            let mut found: Vec<_> =
                matches.as_slice().iter().map(|found| (found.text, found.literal)).collect();
            found.sort_unstable();
            assert_eq!(found, [(0, 0), (0, 1), (0, 2), (0, 3), (2, 0), (2, 3)], "{engine}");
        }
    }

    #[test]
    fn stamps_start_again_when_they_end() {
        let mut stamps = Stamps::new(2, 1);
        stamps.next = u32::MAX - 3;
        let first = stamps.take(2);
        assert!(stamps.renew(1, first) && !stamps.renew(1, first));
        // That of a slot could be taken for one that is given anew.
        stamps.slots(1)[0] = 1;
        let next = stamps.take(2);
        assert_eq!(next, 1);
        assert!(!stamps.has(0, next) && !stamps.has(1, next + 1) && stamps.renew(1, next));
        assert_eq!(stamps.slots(1), [0]);
    }

    #[test]
    fn a_scratch_serves_a_scanner_with_as_many_literals_and_more_slots() {
        let set = |literals: &[&str]| {
            let mut set = LiteralSet::new();
            for text in literals {
                set.push(text.as_bytes(), true).unwrap();
            }
            Scanner::compile(&set, Engine::Simd).unwrap()
        };
        let (long, short) = (set(&["literal", "another", "third"]), set(&["ab", "cd", "efg"]));
        let mut scratch = long.scratch();
        for _ in 0..2 {
            for (scanner, text, count) in [(&long, "a literal", 1), (&short, "ab ab efg", 2)] {
                let mut matches = Matches::new();
                scanner.scan(&[text.as_bytes(), b""], &mut scratch, &mut matches);
                assert_eq!(matches.as_slice().len(), count, "{text}");
            }
        }
    }
}
