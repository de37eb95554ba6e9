//! Literals that are found by windows of one kind: a filter and the table behind it.

use super::buckets::Buckets;
use super::buffer::{Buffer, Bytes, FRONT};
use super::kernel::{self, Accepted, Hit, Level, Positions};
use super::model::Probabilities;
use super::plan::{REGION, Windows};
use super::table::{Bloom, Table};

/// Which windows a unit has.
#[derive(Clone, Debug)]
enum Kind {
    /// 4 bytes, four windows a literal, at every fourth position.
    Fourths,
    /// 4 bytes, at every position.
    Long(Option<Box<Buckets>>),
    /// 2 bytes, at every position.
    Short(Option<Box<Buckets>>),
}

/// A filter and a table of windows.
#[derive(Clone, Debug)]
pub struct Unit {
    kind: Kind,
    bloom: Bloom,
    table: Table,
}

/// Lists that a thread reuses.
#[derive(Clone, Debug)]
pub struct Lists {
    positions: Box<Positions>,
    slots: Vec<u32>,
    hits: Vec<Hit>,
    accepted: Box<Accepted>,
}

impl Default for Lists {
    fn default() -> Self {
        Self {
            positions: Box::new([0; _]),
            slots: Vec::new(),
            hits: Vec::new(),
            accepted: Box::new(Accepted::new()),
        }
    }
}

impl Unit {
    /// The unit of regions; `None` if these are none. Likewise below.
    pub fn fourths(windows: &Windows) -> Option<Self> {
        Self::new(windows, 4, REGION, Kind::Fourths)
    }

    pub fn long(windows: &Windows, probabilities: &Probabilities, level: Level) -> Option<Self> {
        Self::new(windows, 4, 4, Kind::Long(buckets(windows, probabilities, level)))
    }

    pub fn short(windows: &Windows, probabilities: &Probabilities, level: Level) -> Option<Self> {
        Self::new(windows, 2, 2, Kind::Short(buckets(windows, probabilities, level)))
    }

    fn new(windows: &Windows, window_len: usize, region_len: usize, kind: Kind) -> Option<Self> {
        (!windows.is_empty()).then(|| Self {
            kind,
            bloom: Bloom::new(windows.iter().map(|(window, _)| *window)),
            table: Table::new(window_len, region_len, windows),
        })
    }

    /// Calls `found` with entries whose checks are those of the text, in the order of their windows.
    pub fn find(
        &self,
        level: Level,
        buffer: &Buffer,
        lists: &mut Lists,
        mut found: impl FnMut(&Accepted),
    ) {
        let (text, len, positions) = (buffer.bytes(), buffer.len(), &mut *lists.positions);
        let count = match &self.kind {
            Kind::Fourths => kernel::probe_fourths(level, text, len, &self.bloom, positions),
            Kind::Long(buckets) => kernel::probe_all::<4>(
                level,
                text,
                len,
                (buckets.as_deref(), &self.bloom),
                positions,
            ),
            Kind::Short(buckets) => kernel::probe_all::<2>(
                level,
                text,
                len,
                (buckets.as_deref(), &self.bloom),
                positions,
            ),
        };
        self.look_up(text, &lists.positions[..count], &mut lists.slots, &mut lists.hits);
        let entries = (self.table.entries(), self.table.region_shift());
        let mut hits = &mut lists.hits[..];
        while !hits.is_empty() {
            let done = kernel::accept(level, text, hits, entries, &mut lists.accepted);
            found(&lists.accepted);
            hits = &mut hits[done..];
        }
    }

    /// Makes a hit of each position whose slot has entries. The slots of all are fetched before
    /// the first is read, and the entries of all likewise.
    fn look_up(&self, text: &Bytes, positions: &[u16], slots: &mut Vec<u32>, hits: &mut Vec<Hit>) {
        let first = self.table.first();
        slots.clear();
        slots.extend(positions.iter().map(|&position| {
            let window = read::<4>(text, FRONT + usize::from(position)) as u32;
            let slot = self.table.slot(window);
            kernel::prefetch(first, slot);
            slot as u32
        }));
        hits.clear();
        for (&position, &slot) in positions.iter().zip(&*slots) {
            let (first, end) = (first[slot as usize], first[slot as usize + 1]);
            if first < end {
                kernel::prefetch(self.table.entries(), first as usize);
                hits.push(Hit { position, first, end });
            }
        }
    }

    pub fn memory(&self) -> usize {
        let buckets = match &self.kind {
            Kind::Long(Some(_)) | Kind::Short(Some(_)) => size_of::<Buckets>(),
            _ => 0,
        };
        size_of::<Self>() + size_of_val(self.bloom.words()) + self.table.memory() + buckets
    }
}

/// Buckets, if so many windows are few enough for them.
fn buckets(windows: &Windows, probabilities: &Probabilities, level: Level) -> Option<Box<Buckets>> {
    let mut windows: Vec<u32> = windows.iter().map(|(window, _)| *window).collect();
    windows.sort_unstable();
    windows.dedup();
    (windows.len() <= level.most_in_buckets())
        .then(|| Box::new(Buckets::new(windows, probabilities)))
}

/// The number in `N` bytes, at most 8.
#[inline(always)]
fn read<const N: usize>(text: &Bytes, at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..N].copy_from_slice(&text[at..at + N]);
    u64::from_le_bytes(bytes)
}
