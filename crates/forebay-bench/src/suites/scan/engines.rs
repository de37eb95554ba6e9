//! The engines, each with a compiled set. An engine scans payloads one by one, many a call, or as
//! the parts of streams.

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, MatchKind};
use forebay_packet::Vectors;
use forebay_scan::{
    CacheUse, CachedScanner, Matches, Scanner, Scratch, SetCache, StreamState, TrafficModel,
};
use serde_json::{Map, Value, json};

use super::literals::{Text, set_of};
use crate::clock::nanos_of;
use crate::failure::Result;
use crate::named::named;
use crate::options::Options;
use crate::peers::vectorscan::{Mode, Variant, Vectorscan};
use crate::rounds::{Contender, Role};
use crate::stats::Sample;

/// The names of engines in the rows.
pub const VECTORSCAN: &str = "vectorscan";
pub const DFA: &str = "aho-corasick-dfa";
pub const NFA: &str = "aho-corasick-nfa";
pub const AUTOMATIC: &str = "aho-corasick-auto";

/// Ours, by the width of vectors.
pub const OURS: [(&str, Vectors); 3] = [
    ("simd-avx512", Vectors::Avx512),
    ("simd-avx2", Vectors::Avx2),
    ("simd-scalar", Vectors::Scalar),
];

/// Values of rows: milliseconds to compile a set, anew and with its file in a cache, its bytes, and those of the state of a stream.
pub const COMPILE_MS: &str = "compile_ms";
pub const CACHED_MS: &str = "cached_ms";
pub const BYTES: &str = "bytes";
pub const STREAM_BYTES: &str = "stream_bytes";

/// How often a set is compiled; the median counts. Long compilations are timed once.
const COMPILATIONS: usize = 5;

/// Runs by which a variant is chosen.
const TRIALS: usize = 3;

/// Payloads of a call with many.
const TOGETHER: usize = 32;

/// The most bytes that an automaton may take: others are left out.
const MOST_BYTES: usize = 1 << 30;

named! {
    /// How payloads are given to an engine.
    pub enum Set {
        /// One a call.
        Block = "block",
        /// Many a call.
        Batch = "batch",
        /// One a call, each the next part of a stream.
        Stream = "stream",
    }
}

/// Payloads and the streams that they are parts of.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    pub texts: &'a [&'a [u8]],
    pub streams: &'a [u32],
    pub stream_count: usize,
}

/// A compiled set with room for what is found.
pub trait Engine {
    /// Begins all streams anew; not timed.
    fn reset(&mut self, _streams: usize) -> Result<()> {
        Ok(())
    }

    /// Scans all payloads.
    fn run(&mut self, input: &Input<'_>);

    /// Takes what was found since the last call, as payloads and literals, each pair once; in no
    /// order, not timed.
    fn found(&mut self) -> Vec<(u32, u32)>;
}

pub type Engines = Vec<Contender<dyn Engine>>;

impl Engine for (Vectorscan, Set) {
    fn reset(&mut self, streams: usize) -> Result<()> {
        if self.1 == Set::Stream { self.0.open_streams(streams) } else { Ok(()) }
    }

    fn run(&mut self, input: &Input<'_>) {
        let (engine, set) = self;
        for (number, (text, &stream)) in (0..).zip(input.texts.iter().zip(input.streams)) {
            match set {
                Set::Stream => engine.scan_stream(number, stream as usize, text),
                Set::Block | Set::Batch => engine.scan(number, text),
            }
        }
    }

    fn found(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(self.0.matches())
    }
}

/// An automaton of the crate `aho-corasick`.
struct Automaton {
    automaton: AhoCorasick,
    stamps: Vec<u64>,
    stamp: u64,
    matches: Vec<(u32, u32)>,
}

impl Automaton {
    fn new(literals: &[Text], kind: Option<AhoCorasickKind>) -> Result<Self> {
        if kind == Some(AhoCorasickKind::DFA) {
            // A row of 256 transitions for each state, of which there are about as many as bytes.
            let bytes: usize = literals.iter().map(Vec::len).sum::<usize>() * 1_024;
            ensure_room(bytes)?;
        }
        let automaton = AhoCorasickBuilder::new()
            .match_kind(MatchKind::Standard)
            .ascii_case_insensitive(true)
            .kind(kind)
            .build(literals)?;
        Ok(Self { automaton, stamps: vec![0; literals.len()], stamp: 0, matches: Vec::new() })
    }
}

fn ensure_room(bytes: usize) -> Result<()> {
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    Err(format!("left out, as it would take some {} MiB", bytes >> 20).into())
}

impl Engine for Automaton {
    fn run(&mut self, input: &Input<'_>) {
        for (number, text) in (0..).zip(input.texts) {
            self.stamp += 1;
            for found in self.automaton.find_overlapping_iter(text) {
                let literal = found.pattern().as_u32();
                let last = &mut self.stamps[literal as usize];
                if *last != self.stamp {
                    *last = self.stamp;
                    self.matches.push((number, literal));
                }
            }
        }
    }

    fn found(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.matches)
    }
}

/// Ours.
struct Ours {
    scanner: Scanner,
    scratch: Scratch,
    matches: Matches,
    found: Vec<(u32, u32)>,
    set: Set,
    streams: Vec<StreamState>,
}

impl Ours {
    fn new(literals: &[Text], set: Set, vectors: Vectors) -> Result<Self> {
        let engine = forebay_scan::Engine::Simd;
        let scanner = Scanner::compile_for(&set_of(literals)?, engine, widest(vectors))?;
        let (scratch, matches) = (scanner.scratch(), Matches::new());
        Ok(Self { scanner, scratch, matches, found: Vec::new(), set, streams: Vec::new() })
    }

    /// Takes the matches of texts, of which the first has this number.
    fn take(&mut self, first: u32) {
        let hits = self.matches.as_slice().iter();
        self.found.extend(hits.map(|hit| (first + hit.text, hit.literal)));
        self.matches.clear();
    }
}

impl Engine for Ours {
    fn reset(&mut self, streams: usize) -> Result<()> {
        self.streams.clear();
        self.streams.resize_with(streams, StreamState::default);
        Ok(())
    }

    fn run(&mut self, input: &Input<'_>) {
        if self.set == Set::Stream {
            for (number, (text, &stream)) in (0..).zip(input.texts.iter().zip(input.streams)) {
                let Self { scanner, scratch, matches, streams, .. } = self;
                scanner.scan_stream(0, text, &mut streams[stream as usize], scratch, matches);
                self.take(number);
            }
            return;
        }
        let together = if self.set == Set::Batch { TOGETHER } else { 1 };
        for (first, texts) in (0..).step_by(together).zip(input.texts.chunks(together)) {
            self.scanner.scan(texts, &mut self.scratch, &mut self.matches);
            self.take(first);
        }
    }

    fn found(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.found)
    }
}

/// All engines for a set of literals.
pub fn all(options: &Options, literals: &[Text], set: Set, input: &Input<'_>) -> Engines {
    let mut all = vec![vectorscan(literals, set, input)];
    if set == Set::Block {
        let kinds = [
            (DFA, Some(AhoCorasickKind::DFA)),
            (NFA, Some(AhoCorasickKind::ContiguousNFA)),
            (AUTOMATIC, None),
        ];
        all.extend(kinds.map(|(name, kind)| {
            compiled((name, Role::Peer), || {
                let engine = Automaton::new(literals, kind)?;
                let bytes = engine.automaton.memory_usage();
                Ok((Box::new(engine) as Box<dyn Engine>, values(bytes)))
            })
        }));
    }
    all.extend(OURS.map(|(name, vectors)| {
        let contender = compiled((name, Role::Ours), || {
            if !vectors.are_here() {
                return Err("this machine lacks the instructions".into());
            }
            let engine = Ours::new(literals, set, vectors)?;
            let bytes = engine.scanner.memory();
            Ok((Box::new(engine) as Box<dyn Engine>, values(bytes)))
        });
        if !vectors.are_here() {
            return contender;
        }
        match cached_millis(literals, vectors) {
            Ok(millis) => contender.with(CACHED_MS, millis),
            Err(why) => Contender::new(name, Role::Ours, Err(why)),
        }
    }));
    all.retain(|one| options.has_engine(&one.name));
    all
}

/// The most instructions that go with vectors of this width.
fn widest(vectors: Vectors) -> Vectors {
    if vectors == Vectors::Avx512 { Vectors::Avx512Vbmi } else { vectors }
}

/// Milliseconds to compile a set that has a file in a cache.
fn cached_millis(literals: &[Text], vectors: Vectors) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let cache = SetCache::new(folder.path().to_owned());
    let (set, model) = (set_of(literals)?, TrafficModel::default());
    let engine = forebay_scan::Engine::Simd;
    let compile = || CachedScanner::compile(&set, engine, widest(vectors), &model, Some(&cache));
    compile()?;
    let times = (0..COMPILATIONS).map(|_| {
        let (compiled, nanos) = nanos_of(compile);
        match compiled?.cache {
            Some(CacheUse::Read) => Ok(nanos / 1e6),
            used => Err(format!("the cache was not read: {used:?}").into()),
        }
    });
    Ok(Sample::new(times.collect::<Result<Vec<f64>>>()?).median())
}

/// An engine whose compilation is timed.
fn compiled(
    engine: (&str, Role),
    make: impl FnMut() -> Result<(Box<dyn Engine>, Map<String, Value>)>,
) -> Contender<dyn Engine> {
    Contender::timed(engine, COMPILATIONS, (COMPILE_MS, 1e3), make)
}

/// The values of a row of an engine that takes so many bytes.
fn values(bytes: usize) -> Map<String, Value> {
    Map::from_iter([(BYTES.to_owned(), json!(bytes))])
}

/// Vectorscan in the variant that is the fastest for these literals on these payloads.
fn vectorscan(literals: &[Text], set: Set, input: &Input<'_>) -> Contender<dyn Engine> {
    let fastest = match fastest_variant(literals, set, input) {
        Ok(fastest) => fastest,
        Err(why) => return Contender::new(VECTORSCAN, Role::Peer, Err(why)),
    };
    let contender = compiled((VECTORSCAN, Role::Peer), || {
        let engine = Vectorscan::new(literals, fastest, mode(set))?;
        let mut more = values(engine.bytes());
        if set == Set::Stream {
            more.insert(STREAM_BYTES.to_owned(), json!(engine.stream_bytes()));
        }
        Ok((Box::new((engine, set)) as Box<dyn Engine>, more))
    });
    contender.with("variant", fastest.name())
}

fn mode(set: Set) -> Mode {
    if set == Set::Stream { Mode::Stream } else { Mode::Block }
}

fn fastest_variant(literals: &[Text], set: Set, input: &Input<'_>) -> Result<Variant> {
    // In a stream, `HS_FLAG_SINGLEMATCH` leaves out matches in later parts.
    let variants = Variant::ALL.into_iter().filter(|one| set != Set::Stream || !one.single);
    let mut best: Option<(f64, Variant)> = None;
    for variant in variants {
        // As a literal it refuses one that begins with NUL.
        let engine = match Vectorscan::new(literals, variant, mode(set)) {
            Ok(engine) => engine,
            Err(_) if variant.literals => continue,
            Err(why) => return Err(why),
        };
        let mut engine = (engine, set);
        let times = (0..TRIALS).map(|_| {
            engine.reset(input.stream_count)?;
            let ((), nanos) = nanos_of(|| engine.run(input));
            engine.found();
            Ok(nanos)
        });
        let nanos = Sample::new(times.collect::<Result<Vec<f64>>>()?).median();
        if best.is_none_or(|(least, _)| nanos < least) {
            best = Some((nanos, variant));
        }
    }
    best.map(|(_, variant)| variant).ok_or_else(|| "no variant".into())
}
