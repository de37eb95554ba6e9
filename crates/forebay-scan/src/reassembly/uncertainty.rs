//! Why the bytes that a receiver got may differ from those that were scanned.

use std::fmt;

/// A cause of doubt about what was scanned. A flow with one may contain a literal that was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Uncertainty {
    /// The flow was first seen after its SYN.
    Middle,
    /// Two segments have different bytes at the same place.
    Overlap,
    /// A segment repeats bytes that were delivered, and it is not known whether they are the same.
    Unverified,
    /// The receiver acknowledged bytes that were not seen, or the connection ended before they
    /// came.
    Gap,
    /// A budget did not allow holding a segment until those before it came.
    Memory,
    /// A segment is further from the expected one than the largest window.
    OutOfWindow,
    /// A segment is not captured whole.
    Truncated,
    /// A segment has urgent data, which a receiver may take out of the stream.
    Urgent,
    /// A second SYN has another sequence number, and the connection had not ended.
    Syn,
    /// A second FIN is at another place.
    Fin,
    /// There are bytes behind the FIN.
    PastFin,
    /// Part of the flow is in fragments of IP datagrams.
    Fragment,
    /// A packet has headers that are not decoded.
    Undecoded,
    /// A segment that resets the connection has bytes, which a receiver may take for part of the
    /// stream.
    Reset,
    /// The literals changed while the flow was open.
    Reload,
}

impl Uncertainty {
    /// All causes.
    pub const ALL: [Self; 15] = [
        Self::Middle,
        Self::Overlap,
        Self::Unverified,
        Self::Gap,
        Self::Memory,
        Self::OutOfWindow,
        Self::Truncated,
        Self::Urgent,
        Self::Syn,
        Self::Fin,
        Self::PastFin,
        Self::Fragment,
        Self::Undecoded,
        Self::Reset,
        Self::Reload,
    ];

    /// The name of the cause's counter.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Middle => "middle",
            Self::Overlap => "overlap",
            Self::Unverified => "unverified",
            Self::Gap => "gap",
            Self::Memory => "memory",
            Self::OutOfWindow => "out_of_window",
            Self::Truncated => "truncated",
            Self::Urgent => "urgent",
            Self::Syn => "syn",
            Self::Fin => "fin",
            Self::PastFin => "past_fin",
            Self::Fragment => "fragment",
            Self::Undecoded => "undecoded",
            Self::Reset => "reset",
            Self::Reload => "reload",
        }
    }
}

impl fmt::Display for Uncertainty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncertainties(u16);

impl Uncertainties {
    /// Adds a cause.
    pub fn insert(&mut self, cause: Uncertainty) {
        self.0 |= 1 << cause as u8;
    }

    /// Adds the causes of another set.
    pub fn extend(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether a cause is in the set.
    #[must_use]
    pub fn contains(self, cause: Uncertainty) -> bool {
        self.0 & 1 << cause as u8 != 0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The causes in this set that are not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The causes.
    pub fn iter(self) -> impl Iterator<Item = Uncertainty> {
        Uncertainty::ALL.into_iter().filter(move |&cause| self.contains(cause))
    }
}
