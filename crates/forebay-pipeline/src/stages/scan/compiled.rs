//! What a scan stage searches for, and how: compiled once, shared by all workers.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use forebay_flow::FlowTable;
use forebay_packet::{DecodeOptions, Vectors};
use forebay_scan::reassembly::Limits;
use forebay_scan::{
    CacheError, CacheUse, CachedScanner, Engine, LiteralSet, ScanError, Scanner, SetCache,
    TrafficModel,
};

use super::flows::ScannedFlows;
use super::rules::ScanRules;

/// The most literals that are counted apart.
pub const MOST_COUNTED: usize = 1000;

/// What is one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanMode {
    /// The payload of each packet by itself.
    Packet,
    /// Each direction of a TCP connection; otherwise the payload of each packet.
    Stream,
}

impl ScanMode {
    /// All modes.
    pub const ALL: [Self; 2] = [Self::Packet, Self::Stream];

    /// The mode's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Stream => "stream",
        }
    }
}

impl fmt::Display for ScanMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ScanMode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let mode = Self::ALL.into_iter().find(|mode| mode.name() == name);
        mode.ok_or_else(|| format!("`{name}`: expected one of `packet`, `stream`"))
    }
}

/// How packets are scanned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScanOptions {
    /// What is one text.
    pub mode: ScanMode,
    /// How literals are found.
    pub engine: Engine,
    /// The most flows whose verdicts are kept at a time.
    pub flows: usize,
    /// Nanoseconds of silence after which a flow's verdict is forgotten.
    pub idle: u64,
    /// The memory for reassembly of one worker.
    pub reassembly: Limits,
    /// Which headers are decoded.
    pub decode: DecodeOptions,
}

impl ScanOptions {
    /// For this mode, with 250,000 flows, and 60 s of silence.
    #[must_use]
    pub fn new(mode: ScanMode, engine: Engine) -> Self {
        Self {
            mode,
            engine,
            flows: 250_000,
            idle: 60_000_000_000,
            reassembly: Limits::default(),
            decode: DecodeOptions::default(),
        }
    }
}

/// Literals or rules compiled for the stage, with their counters.
#[derive(Debug)]
pub struct CompiledScan {
    subject: Subject,
    scanner: Arc<Scanner>,
    cache: Option<CacheUse>,
    cache_errors: Vec<CacheError>,
    options: ScanOptions,
    hits: HitCounters,
}

/// What is scanned for.
#[derive(Debug)]
enum Subject {
    Literals(LiteralSet),
    Rules(Box<ScanRules>),
}

impl Subject {
    fn literals(&self) -> &LiteralSet {
        match self {
            Self::Literals(literals) => literals,
            Self::Rules(rules) => rules.literals().set(),
        }
    }
}

impl CompiledScan {
    /// Compiles a set, with a cache of such if there is one.
    ///
    /// # Errors
    /// The engine has no room for it.
    pub fn new(
        literals: LiteralSet,
        options: ScanOptions,
        cache: Option<&SetCache>,
    ) -> Result<Self, ScanError> {
        Self::compile(Subject::Literals(literals), options, cache)
    }

    /// With a set that `scanner` was compiled of.
    ///
    /// # Panics
    /// The set and the scanner have different numbers of literals.
    #[must_use]
    pub fn with_scanner(literals: LiteralSet, scanner: Arc<Scanner>, options: ScanOptions) -> Self {
        assert_eq!(literals.len(), scanner.literals());
        let hits = HitCounters::new(literals.len());
        let subject = Subject::Literals(literals);
        Self { subject, scanner, cache: None, cache_errors: Vec::new(), options, hits }
    }

    /// Compiles the literals of rules, as [`CompiledScan::new`] does.
    ///
    /// # Errors
    /// The engine has no room for them.
    ///
    /// # Panics
    /// `options` are for single packets: what rules say of their literals holds for streams.
    pub fn of_rules(
        rules: ScanRules,
        options: ScanOptions,
        cache: Option<&SetCache>,
    ) -> Result<Self, ScanError> {
        assert_eq!(options.mode, ScanMode::Stream);
        Self::compile(Subject::Rules(Box::new(rules)), options, cache)
    }

    fn compile(
        subject: Subject,
        options: ScanOptions,
        cache: Option<&SetCache>,
    ) -> Result<Self, ScanError> {
        let (literals, model) = (subject.literals(), TrafficModel::default());
        let compiled =
            CachedScanner::compile(literals, options.engine, Vectors::widest(), &model, cache)?;
        let CachedScanner { scanner, cache, errors } = compiled;
        let scanner = Arc::new(scanner);
        let hits = HitCounters::new(literals.len());
        Ok(Self { subject, scanner, cache, cache_errors: errors, options, hits })
    }

    /// The literals.
    #[must_use]
    pub fn literals(&self) -> &LiteralSet {
        self.subject.literals()
    }

    /// The rules, if it is they that are scanned for.
    #[must_use]
    pub fn rules(&self) -> Option<&ScanRules> {
        match &self.subject {
            Subject::Literals(_) => None,
            Subject::Rules(rules) => Some(rules),
        }
    }

    /// Whether a literal that was found is a hit: not one that is only a trigger or a marker of
    /// rules.
    #[inline]
    pub(super) fn is_hit(&self, literal: u32) -> bool {
        self.rules().is_none_or(|rules| rules.has_rule(literal))
    }

    /// How packets are scanned.
    #[must_use]
    pub fn options(&self) -> &ScanOptions {
        &self.options
    }

    /// What the cache of compiled sets was good for, if there was one.
    #[must_use]
    pub fn cache(&self) -> Option<CacheUse> {
        self.cache
    }

    /// Why files of the cache were not used or not written.
    #[must_use]
    pub fn cache_errors(&self) -> &[CacheError] {
        &self.cache_errors
    }

    /// The compiled literals.
    #[must_use]
    pub fn scanner(&self) -> &Scanner {
        &self.scanner
    }

    /// The counters of the literals.
    #[must_use]
    pub fn hits(&self) -> &HitCounters {
        &self.hits
    }

    /// The most bytes that a stage takes for these options and so many literals, of which the
    /// longest has this length.
    #[must_use]
    pub fn memory_bytes(options: &ScanOptions, literals: usize, longest: usize) -> u64 {
        let flow = ScannedFlows::bytes_of_flow(options.mode, longest);
        FlowTable::most_bytes(options.flows)
            + options.flows as u64 * flow
            + Scanner::scratch_bytes(literals) as u64
            + match options.mode {
                ScanMode::Packet => 0,
                // A packet can deliver what is held of both directions, which is copied.
                ScanMode::Stream => {
                    options.reassembly.bytes() + 2 * options.reassembly.connection as u64
                }
            }
    }
}

/// In how many packets each literal was found; in a stream, the packets that complete it.
#[derive(Debug)]
pub struct HitCounters {
    packets: Box<[AtomicU64]>,
    /// The literals that were found first, at most [`MOST_COUNTED`].
    shown: Mutex<Vec<u32>>,
}

/// Counters of literals by their indices, as they are published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// Literals and packets, in the order in which the literals were found first.
    pub literals: Vec<(u32, u64)>,
    /// The packets of the other literals together.
    pub others: u64,
}

impl HitCounters {
    fn new(literals: usize) -> Self {
        Self {
            packets: (0..literals).map(|_| AtomicU64::new(0)).collect(),
            shown: Mutex::default(),
        }
    }

    /// Counts packets. A literal that is not `shown` is never counted apart.
    #[inline]
    fn count(&self, literal: u32, count: u32, shown: bool) {
        let Some(packets) = self.packets.get(literal as usize) else { return };
        if packets.fetch_add(count.into(), Ordering::Relaxed) == 0 && shown {
            self.found_first(literal);
        }
    }

    /// Has a literal counted apart, if there is room. It takes a lock, once for each literal.
    #[cold]
    fn found_first(&self, literal: u32) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.len() < MOST_COUNTED {
            shown.push(literal);
        }
    }

    /// The counters.
    #[must_use]
    pub fn read(&self) -> Hits {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let of = |literal: &u32| self.packets[*literal as usize].load(Ordering::Relaxed);
        let literals: Vec<_> = shown.iter().map(|literal| (*literal, of(literal))).collect();
        let all: u64 = self.packets.iter().map(|packets| packets.load(Ordering::Relaxed)).sum();
        let counted: u64 = literals.iter().map(|(_, packets)| packets).sum();
        Hits { literals, others: all.saturating_sub(counted) }
    }
}

/// What one worker found in a batch. Counters that it shares with others take longer to change, and
/// often the same literals are in many packets of a batch.
#[derive(Debug, Default)]
pub(super) struct BatchHits {
    /// Packets by literals.
    packets: Vec<u32>,
    /// The literals that were found, in order.
    literals: Vec<u32>,
}

impl BatchHits {
    pub(super) fn new(literals: usize) -> Self {
        Self { packets: vec![0; literals], literals: Vec::new() }
    }

    /// Counts a packet in which a literal was found.
    #[inline]
    pub(super) fn count(&mut self, literal: u32) {
        let packets = &mut self.packets[literal as usize];
        if *packets == 0 {
            self.literals.push(literal);
        }
        *packets += 1;
    }

    /// Adds what was counted since the last time to the counters of all workers.
    pub(super) fn publish(&mut self, compiled: &CompiledScan) {
        for literal in self.literals.drain(..) {
            let packets = std::mem::take(&mut self.packets[literal as usize]);
            compiled.hits.count(literal, packets, compiled.is_hit(literal));
        }
    }
}
