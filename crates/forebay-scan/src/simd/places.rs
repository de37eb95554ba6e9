//! Where in each literal of a set the bytes are that it is found by.

use super::literals::Groups;
use super::model::Probabilities;
use super::plan::{self, REGION};

/// Where in its literal the window or the region is that it is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The literal is one byte.
    Single,
    /// It is a run of one byte.
    Run,
    /// It has 2 or 3 bytes, and its window is here.
    Short(u16),
    /// Its window is here, found at every position.
    Long(u16),
    /// Its region is here, found at every fourth position.
    Fourths(u16),
}

/// Bits of a position: those of [`crate::MAX_LITERAL_LEN`].
const AT_BITS: u32 = 13;

impl Place {
    /// Whether a literal that has this folded text can be found here; `is_run` tells whether it is
    /// a run of one byte before it is folded.
    pub fn suits(self, text: &[u8], is_run: bool) -> bool {
        let fits = |at: u16, bytes| usize::from(at) + bytes <= text.len();
        match self {
            Self::Single => text.len() == 1,
            Self::Run => text.len() > 1 && is_run,
            Self::Short(at) => !is_run && text.len() < 4 && fits(at, 2),
            Self::Long(at) => !is_run && fits(at, 4),
            Self::Fourths(at) => !is_run && fits(at, REGION),
        }
    }

    fn code(self) -> u16 {
        let (kind, at) = match self {
            Self::Single => (0, 0),
            Self::Run => (1, 0),
            Self::Short(at) => (2, at),
            Self::Long(at) => (3, at),
            Self::Fourths(at) => (4, at),
        };
        kind << AT_BITS | at
    }

    fn of_code(code: u16) -> Option<Self> {
        let at = code & ((1 << AT_BITS) - 1);
        match (code >> AT_BITS, at) {
            (0, 0) => Some(Self::Single),
            (1, 0) => Some(Self::Run),
            (2, _) => Some(Self::Short(at)),
            (3, _) => Some(Self::Long(at)),
            (4, _) => Some(Self::Fourths(at)),
            _ => None,
        }
    }
}

/// The place of each group of equal literals of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places(Vec<Place>);

impl Places {
    /// The bytes of a place in a file.
    pub const BYTES: usize = 2;

    /// Chooses the places for traffic with these probabilities.
    pub(super) fn choose(groups: &Groups, probabilities: &Probabilities) -> Self {
        Self(plan::choose(groups, probabilities))
    }

    /// In the order of the groups.
    pub(super) fn all(&self) -> &[Place] {
        &self.0
    }

    /// The places as a file has them.
    pub fn to_bytes(&self) -> impl Iterator<Item = u8> {
        self.0.iter().flat_map(|place| place.code().to_le_bytes())
    }

    /// The places of a file; `None` if that has others.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (codes, rest) = bytes.as_chunks();
        if !rest.is_empty() {
            return None;
        }
        let places = codes.iter().map(|code| Place::of_code(u16::from_le_bytes(*code)));
        places.collect::<Option<_>>().map(Self)
    }
}
