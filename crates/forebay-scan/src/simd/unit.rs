//! Literals that are found by windows of one kind: a filter and the regions behind it.

use super::bloom::Bloom;
use super::buckets::Buckets;
use super::buffer::Buffer;
use super::kernel::{self, Level, Positions};
use super::model::Probabilities;
use super::pairs::Pairs;
use super::plan::Windows;
use super::regions::{self, Candidates, Found, Regions, TOGETHER};

/// How windows are found.
#[derive(Clone, Debug)]
enum Filter {
    /// Of 4 bytes, at every fourth position.
    Fourths(Bloom),
    /// Of 4 bytes, at every position.
    Long(Pairs),
    /// The same, if they are few.
    LongBuckets(Box<Buckets>, Bloom),
}

/// A filter and what its windows belong to.
#[derive(Clone, Debug)]
pub struct Unit {
    filter: Filter,
    regions: Regions,
}

/// Lists that a thread reuses.
#[derive(Clone, Debug)]
pub struct Lists {
    pub positions: Box<Positions>,
    candidates: Box<Candidates>,
    found: Vec<Found>,
}

impl Default for Lists {
    fn default() -> Self {
        Self { positions: Box::new([0; _]), candidates: Box::new([0; _]), found: Vec::new() }
    }
}

impl Unit {
    /// The unit of regions at every fourth position; `None` if these are none. Likewise below.
    pub fn fourths(windows: &Windows) -> Option<Self> {
        let windows_of = distinct(windows)?;
        let filter = Filter::Fourths(Bloom::new(&windows_of));
        Some(Self { filter, regions: Regions::new(&regions::FOURTHS, &windows.regions) })
    }

    pub fn long(windows: &Windows, probabilities: &Probabilities, level: Level) -> Option<Self> {
        let distinct = distinct(windows)?;
        let filter = if distinct.len() <= level.most_in_buckets() {
            let bloom = Bloom::new(&distinct);
            Filter::LongBuckets(Box::new(Buckets::new(distinct, probabilities)), bloom)
        } else {
            Filter::Long(Pairs::new(&distinct))
        };
        Some(Self { filter, regions: Regions::new(&regions::LONG, &windows.regions) })
    }

    /// Calls `found` with groups whose regions are in the text, in the order of the regions.
    pub fn find(
        &self,
        level: Level,
        buffer: &Buffer,
        lists: &mut Lists,
        mut found: impl FnMut(&[Found]),
    ) {
        let (text, len, positions) = (buffer.bytes(), buffer.len(), &mut *lists.positions);
        let count = match &self.filter {
            Filter::Fourths(bloom) => kernel::probe_fourths(level, text, len, bloom, positions),
            Filter::Long(pairs) => kernel::probe_pairs(level, text, len, pairs, positions),
            Filter::LongBuckets(buckets, bloom) => {
                let count = kernel::probe_all::<4>(level, text, len, buckets, positions);
                kernel::retain(text, bloom, positions, count)
            }
        };
        for windows in lists.positions[..count].chunks(TOGETHER) {
            let count = self.regions.probe(level, text, windows, &mut lists.candidates);
            self.regions.look_up(&lists.candidates[..count], &mut lists.found, &mut found);
        }
    }

    pub fn memory(&self) -> usize {
        let filter = match &self.filter {
            Filter::Fourths(bloom) => size_of_val(bloom.words()),
            Filter::Long(pairs) => size_of_val(pairs.words()),
            Filter::LongBuckets(_, bloom) => size_of::<Buckets>() + size_of_val(bloom.words()),
        };
        size_of::<Self>() + filter + self.regions.memory()
    }
}

/// The windows, each once, unless there are none.
fn distinct(windows: &Windows) -> Option<Vec<u32>> {
    let mut distinct = windows.windows.clone();
    distinct.sort_unstable();
    distinct.dedup();
    (!distinct.is_empty()).then_some(distinct)
}
