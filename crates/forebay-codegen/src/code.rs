//! What a compilation is asked for and what it gives.

use std::fmt;
use std::str::FromStr;

/// An instruction-set level. A level has all that the ones below it have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// x86-64 as it was first: no vector instruction is used.
    Scalar,
    /// AVX2.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512Bw,
    /// The same and AVX-512 VBMI.
    Avx512Vbmi,
}

impl Isa {
    /// All levels, lowest first.
    pub const ALL: [Self; 4] = [Self::Scalar, Self::Avx2, Self::Avx512Bw, Self::Avx512Vbmi];

    /// The name that users give it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512Bw => "avx512bw",
            Self::Avx512Vbmi => "avx512vbmi",
        }
    }
}

/// How a filter becomes code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// The reference interpreter: no code at all.
    Interp,
    /// A packet after another, basic blocks list-scheduled.
    List,
    /// Predicated, modulo-scheduled over the packets of a batch.
    Pe,
    /// Enhanced modulo scheduling: branches kept, one code pattern for each
    /// history of outcomes.
    Ems,
    /// What the cost model takes for the fastest.
    Auto,
}

impl Backend {
    /// All back ends.
    pub const ALL: [Self; 5] = [Self::Interp, Self::List, Self::Pe, Self::Ems, Self::Auto];

    /// The name that users give it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Interp => "interp",
            Self::List => "list",
            Self::Pe => "pe",
            Self::Ems => "ems",
            Self::Auto => "auto",
        }
    }
}

/// A name that is none of those there are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is no {what}; there are {known}")]
pub struct UnknownName {
    given: String,
    what: &'static str,
    known: String,
}

impl UnknownName {
    fn new(given: &str, what: &'static str, known: impl Iterator<Item = &'static str>) -> Self {
        let known = known.collect::<Vec<_>>().join(", ");
        Self { given: given.to_owned(), what, known }
    }
}

impl FromStr for Isa {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|isa| isa.name() == name).ok_or_else(|| {
            UnknownName::new(name, "instruction-set level", Self::ALL.iter().map(|isa| isa.name()))
        })
    }
}

impl FromStr for Backend {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|backend| backend.name() == name).ok_or_else(|| {
            UnknownName::new(name, "back end", Self::ALL.iter().map(|backend| backend.name()))
        })
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How far a loop of `pe` is scheduled, to show what each step gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Scheduling {
    /// Instructions in the order of selection.
    None,
    /// Each iteration list-scheduled by itself.
    List,
    /// Modulo-scheduled.
    #[default]
    Modulo,
}

/// What the compilation may choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The back end.
    pub backend: Backend,
    /// The instruction-set level.
    pub isa: Isa,
    /// Cycles that the scheduler takes a load to last.
    pub load_latency: u8,
    /// Packets ahead that headers are prefetched; 0 for none. Where loops have
    /// no branches, an out-of-order core has as many loads under way without
    /// it: for `pe` prefetching was measured to change nothing for packets in
    /// memory, and to cost a tenth for others. `ems` gains from it.
    pub prefetch: u16,
    /// How far loops of `pe` are scheduled.
    pub scheduling: Scheduling,
    /// The most code patterns that `ems` may make before `pe` takes over.
    pub ems_patterns: usize,
    /// Whether to keep what people may want to read: [`Code::notes`] and
    /// [`Code::schedule`]. It takes longer than the rest of a compilation.
    pub explain: bool,
}

impl Options {
    /// The usual choices for a machine of level `isa`.
    #[must_use]
    pub fn new(backend: Backend, isa: Isa) -> Self {
        Self {
            backend,
            isa,
            load_latency: 5,
            prefetch: if backend == Backend::Ems { 8 } else { 0 },
            scheduling: Scheduling::Modulo,
            ems_patterns: 256,
            explain: false,
        }
    }
}

/// Machine code and what a caller must know of it.
#[derive(Clone, Debug)]
pub struct Code {
    /// Instructions, then constants; position-independent. The start must lie
    /// at a multiple of 64 bytes.
    pub bytes: Vec<u8>,
    /// Where the instructions end and the constants begin.
    pub constants_at: usize,
    /// Where `list` code of the filter starts: for any packets.
    pub each: usize,
    /// Where code for batches starts, if it is not `list` code.
    pub batch: Option<BatchEntry>,
    /// The back end that `auto`, or a fall-back, ended with.
    pub backend: Backend,
    /// What to call stretches of the code: a byte offset and its text,
    /// ascending.
    pub notes: Vec<(usize, String)>,
    /// The schedules of its loops as text, for people.
    pub schedule: String,
    /// Why another back end was taken than the one asked for.
    pub remark: Option<String>,
}

/// Code for batches, and its demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchEntry {
    /// Where it starts.
    pub entry: usize,
    /// Packets a group.
    pub lanes: usize,
    /// Fewer packets than this go to `list` code: at least a group.
    pub least: usize,
    /// Bytes from a packet's start that must be readable, whatever was
    /// captured of it.
    pub reach: usize,
    /// Bytes of scratch memory.
    pub scratch: usize,
    /// Whether groups leave packets to `list` code: the group that starts at
    /// packet `s` then writes max(1, lanes / 8) bytes to `slow` + `s`, bit `j`
    /// for packet `s` + `j`. If not, nothing is written there.
    pub leaves: bool,
}
