//! Options and results of a compilation.

use std::fmt;
use std::str::FromStr;

/// An instruction-set level. Each level includes the levels below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// Baseline x86-64; no vector instruction is used.
    Scalar,
    /// AVX2.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512Bw,
    /// [`Isa::Avx512Bw`] and AVX-512 VBMI.
    Avx512Vbmi,
}

impl Isa {
    /// All levels, lowest first.
    pub const ALL: [Self; 4] = [Self::Scalar, Self::Avx2, Self::Avx512Bw, Self::Avx512Vbmi];

    /// The name used in options and reports.
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
    /// The reference interpreter; generates no code.
    Interp,
    /// One packet after another; basic blocks are list-scheduled.
    List,
    /// Predicated, modulo-scheduled over the packets of a batch.
    Pe,
    /// Enhanced modulo scheduling: branches are kept, with one code pattern for
    /// each history of outcomes.
    Ems,
    /// The back end that the cost model predicts to be fastest.
    Auto,
}

impl Backend {
    /// All back ends.
    pub const ALL: [Self; 5] = [Self::Interp, Self::List, Self::Pe, Self::Ems, Self::Auto];

    /// The name used in options and reports.
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

/// An unknown name.
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

/// How far a loop of `pe` is scheduled; lower settings measure single steps.
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

/// Where packets are when a filter reads them; for [`Backend::Auto`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum PacketsIn {
    /// Who calls the code finds out: loops that prefetch get a second form that does not
    /// ([`BatchEntry::resident`]).
    #[default]
    Unknown,
    /// In memory or another processor's cache: code for batches that reads packets prefetches them.
    Memory,
    /// In this processor's cache: none is prefetched.
    Cache,
}

/// Options of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The back end.
    pub backend: Backend,
    /// The instruction-set level.
    pub isa: Isa,
    /// Whether the processor executes 512-bit instructions in two halves. `auto` may then use loops of
    /// [`Isa::Avx2`] at higher levels, too ([`crate::cost::limit_in_halves`]).
    pub in_halves: bool,
    /// Load latency that the scheduler assumes, in cycles.
    pub load_latency: u8,
    /// Prefetch distance for headers, in packets; 0 for none. Short `pe` loops
    /// have no need of it: an out-of-order core keeps as many loads in flight
    /// without it. Code with branches gains much from memory. `auto` chooses for itself.
    pub prefetch: u16,
    /// Where packets are when the filter reads them: `auto` chooses by it what prefetches, and how far.
    pub packets: PacketsIn,
    /// How far loops of `pe` are scheduled.
    pub scheduling: Scheduling,
    /// Which form of `pe`'s loops: of those that a filter has, least work first, the first from this
    /// one on that there are registers for. Each is right, and tests run them all.
    pub pe_form: usize,
    /// The most code patterns of `ems`; beyond, `pe` is used.
    pub ems_patterns: usize,
    /// Whether to record [`Code::notes`] and [`Code::schedule`]. Recording
    /// takes longer than the rest of a compilation.
    pub explain: bool,
}

impl Options {
    /// The default options for a machine of level `isa`.
    #[must_use]
    pub fn new(backend: Backend, isa: Isa) -> Self {
        Self {
            backend,
            isa,
            in_halves: false,
            load_latency: 5,
            prefetch: if backend == Backend::Ems { 8 } else { 0 },
            packets: PacketsIn::Unknown,
            scheduling: Scheduling::Modulo,
            pe_form: 0,
            ems_patterns: 256,
            explain: false,
        }
    }
}

/// Machine code and its requirements.
#[derive(Clone, Debug)]
pub struct Code {
    /// Instructions, then constants; position-independent. Must be loaded at a
    /// multiple of 64 bytes.
    pub bytes: Vec<u8>,
    /// Offset where the instructions end and the constants begin.
    pub constants_at: usize,
    /// Offset of the `list` code, which takes any packet.
    pub each: usize,
    /// Offset and requirements of batch code; `None` if there is only `list`.
    pub batch: Option<BatchEntry>,
    /// The back end that was used, after `auto` or a fall-back.
    pub backend: Backend,
    /// Labels for the listing: byte offset and text, ascending.
    pub notes: Vec<(usize, String)>,
    /// The schedules of the loops as text.
    pub schedule: String,
    /// Why another back end was used than the requested one.
    pub remark: Option<String>,
}

/// Code for batches and its requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchEntry {
    /// Offset of the function.
    pub entry: usize,
    /// Offset of a function with the same results and requirements that does not prefetch, for packets in
    /// the cache, where the other one prefetches and that takes longer.
    pub resident: Option<usize>,
    /// Packets a group.
    pub lanes: usize,
    /// The least number of packets; smaller batches go to `list` code. At least
    /// one group.
    pub least: usize,
    /// Bytes from a packet's start that must be readable, even beyond its
    /// captured length.
    pub reach: usize,
    /// Bytes of scratch memory.
    pub scratch: usize,
    /// Whether groups leave packets to `list` code. If so, the group that
    /// starts at packet `s` writes max(1, lanes / 8) bytes to `slow` + `s`,
    /// with bit `j` for packet `s` + `j`. If not, nothing is written there.
    pub leaves: bool,
}
