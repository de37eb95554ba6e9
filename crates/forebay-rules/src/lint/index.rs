//! Which regions may lie around, or touch, another one.
//!
//! Regions are taken in blocks. For each axis, a block has its regions sorted by
//! where they start, with a bitmap of the regions sorted so far at every few of
//! them, and the same by where they end. A question is two bounds an axis (starts
//! no later than, ends no sooner than), so the answer is the intersection of eight
//! bitmaps of a block. Bounds between two bitmaps are rounded so that no region is
//! missed, and gaps inside sides and kinds are not looked at: what is found are
//! candidates.
//!
//! For `n` regions the index takes 67 bytes a region, and a question `n / 64` steps
//! of eight words each.

use super::region::{AXES, Point, Region};
use std::array;
use std::cell::Cell;
use std::ops::Range;

/// Regions of a block.
const BLOCK: usize = 4096;
/// Regions from one bitmap to the next.
const STRIDE: usize = 64;
const WORDS: usize = BLOCK / 64;

/// The regions of a block as bits.
type Bitmap = [u64; WORDS];

/// What the hull of a region must be on each axis.
pub struct Bounds {
    /// It starts no later than this.
    starts_by: [u32; AXES],
    /// It ends no sooner than this.
    ends_from: [u32; AXES],
}

impl Bounds {
    /// Regions that may share a point with `region`.
    pub fn touching(region: &Region) -> Self {
        let hulls = region.sides.each_ref().map(|side| side.hull());
        Self { starts_by: hulls.map(|hull| hull.1), ends_from: hulls.map(|hull| hull.0) }
    }

    /// Regions that may cover `region`.
    pub fn around(region: &Region) -> Self {
        let hulls = region.sides.each_ref().map(|side| side.hull());
        Self { starts_by: hulls.map(|hull| hull.0), ends_from: hulls.map(|hull| hull.1) }
    }

    /// Regions that may contain `point`.
    pub fn at(point: &Point) -> Self {
        Self { starts_by: point.ranks, ends_from: point.ranks }
    }
}

/// The regions of a block in the order of one number of theirs, in runs of
/// [`STRIDE`].
struct Sorted {
    /// The least number of each run.
    least: Vec<u32>,
    /// The greatest number of each run.
    greatest: Vec<u32>,
    /// For each `n`, the regions of the first `n` runs.
    bitmaps: Vec<Bitmap>,
}

impl Sorted {
    fn new(numbers: impl Iterator<Item = u32>) -> Self {
        let mut order: Vec<_> = numbers.zip(0_usize..).collect();
        order.sort_unstable();
        let runs = || order.chunks(STRIDE);
        let least = runs().filter_map(|run| Some(run.first()?.0)).collect();
        let greatest = runs().filter_map(|run| Some(run.last()?.0)).collect();
        let mut bitmap = [0; WORDS];
        let mut bitmaps = vec![bitmap];
        for run in runs() {
            for &(_, region) in run {
                bitmap[region / 64] |= 1 << (region % 64);
            }
            bitmaps.push(bitmap);
        }
        Self { least, greatest, bitmaps }
    }

    /// All regions whose number is at most `bound`, and maybe some others.
    fn at_most(&self, bound: u32) -> &Bitmap {
        &self.bitmaps[count(&self.least, |least| least <= bound)]
    }

    /// Only regions whose number is below `bound`, but maybe not all of them.
    fn below(&self, bound: u32) -> &Bitmap {
        &self.bitmaps[count(&self.greatest, |greatest| greatest < bound)]
    }
}

/// How many of few numbers meet a test. Asking all of them is faster than a search
/// by halves, whose steps wait for memory one after the other.
fn count(numbers: &[u32], test: impl Fn(u32) -> bool) -> usize {
    numbers.iter().map(|&number| u32::from(test(number))).sum::<u32>() as usize
}

struct Block {
    starts: [Sorted; AXES],
    ends: [Sorted; AXES],
}

impl Block {
    fn new(regions: &[Region]) -> Self {
        let hulls = |axis: usize| regions.iter().map(move |region| region.sides[axis].hull());
        Self {
            starts: array::from_fn(|axis| Sorted::new(hulls(axis).map(|hull| hull.0))),
            ends: array::from_fn(|axis| Sorted::new(hulls(axis).map(|hull| hull.1))),
        }
    }

    /// The regions that may meet `bounds`; none if there are none.
    fn candidates(&self, bounds: &Bounds) -> Option<Bitmap> {
        let mut found = [u64::MAX; WORDS];
        for axis in 0..AXES {
            let started = self.starts[axis].at_most(bounds.starts_by[axis]);
            let ended = self.ends[axis].below(bounds.ends_from[axis]);
            let mut any = 0;
            for (found, (started, ended)) in found.iter_mut().zip(started.iter().zip(ended)) {
                *found &= started & !ended;
                any |= *found;
            }
            if any == 0 {
                return None;
            }
        }
        Some(found)
    }
}

/// What a block costs that is asked, in comparisons of two regions without gaps.
const BLOCK_COST: u64 = 64;

/// The index of a space's regions.
pub struct Index {
    blocks: Vec<Block>,
    cost: Cell<u64>,
}

impl Index {
    /// The index of `regions`.
    pub fn new(regions: &[Region]) -> Self {
        Self { blocks: regions.chunks(BLOCK).map(Block::new).collect(), cost: Cell::new(0) }
    }

    /// What the questions since the last call took, in comparisons.
    pub fn take_cost(&self) -> u64 {
        self.cost.take()
    }

    fn spend(&self, comparisons: u64) {
        self.cost.set(self.cost.get() + comparisons);
    }

    /// Calls `visit` with the numbers, ascending and all in `within`, of all
    /// regions that meet `bounds` and maybe others, until it returns false.
    pub fn candidates(
        &self,
        bounds: &Bounds,
        within: Range<usize>,
        mut visit: impl FnMut(usize) -> bool,
    ) {
        let blocks = within.start / BLOCK..within.end.div_ceil(BLOCK).min(self.blocks.len());
        for at in blocks {
            self.spend(BLOCK_COST);
            let Some(found) = self.blocks[at].candidates(bounds) else { continue };
            for (word_at, mut word) in found.into_iter().enumerate() {
                while word != 0 {
                    let region = at * BLOCK + word_at * 64 + word.trailing_zeros() as usize;
                    word &= word - 1;
                    self.spend(1);
                    if within.contains(&region) && !visit(region) {
                        return;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kinds::KindSet;
    use forebay_packet::random::Random;

    use super::super::region::Ranks;
    use super::*;

    /// Regions with sides of all lengths, some of them points.
    fn regions(count: usize) -> Vec<Region> {
        let mut random = Random::new(7);
        let mut side = || {
            let first = random.below(500) as u32;
            let length = 1 << random.below(11);
            Ranks::new(vec![(first, first + random.below(length) as u32)]).unwrap()
        };
        let mut region = || Region { sides: array::from_fn(|_| side()), classes: KindSet::one(0) };
        (0..count).map(|_| region()).collect()
    }

    /// The candidates that also pass `test`.
    fn found(
        index: &Index,
        bounds: &Bounds,
        within: Range<usize>,
        test: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let mut found = Vec::new();
        index.candidates(bounds, within, |region| {
            if test(region) {
                found.push(region);
            }
            true
        });
        found
    }

    #[test]
    fn no_region_is_missed_in_one_block_or_several() {
        let mut total = [0; 3];
        for count in [0, 1, 63, 64, 65, 4096, 9000] {
            let regions = regions(count);
            let index = Index::new(&regions);
            let within = count / 10..count - count / 20;
            for asked in self::regions(50) {
                let all = |test: &dyn Fn(usize) -> bool| {
                    within.clone().filter(|&region| test(region)).collect::<Vec<_>>()
                };
                let touches = |region: usize| regions[region].overlaps(&asked);
                let touching = found(&index, &Bounds::touching(&asked), within.clone(), touches);
                assert_eq!(touching, all(&touches));
                let covers = |region: usize| regions[region].covers(&asked);
                let around = found(&index, &Bounds::around(&asked), within.clone(), covers);
                assert_eq!(around, all(&covers));
                let point = asked.least();
                let contains = |region: usize| regions[region].contains(&point);
                let at = found(&index, &Bounds::at(&point), within.clone(), contains);
                assert_eq!(at, all(&contains));
                let counts = [touching.len(), around.len(), at.len()];
                total.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
            }
        }
        assert!(total.iter().all(|&total| total > 100), "few regions found: {total:?}");
    }

    #[test]
    fn a_visit_that_returns_false_is_the_last() {
        let regions = regions(5000);
        let index = Index::new(&regions);
        let all = Bounds { starts_by: [u32::MAX; AXES], ends_from: [0; AXES] };
        let mut visits = 0;
        index.candidates(&all, 0..regions.len(), |_| {
            visits += 1;
            visits < 3
        });
        assert_eq!(visits, 3);
    }
}
