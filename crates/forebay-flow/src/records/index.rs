//! From the hash of a key to the number of its record: extendible hashing (Fagin,
//! Nievergelt, Pippenger and Strong, 1979) over segments of one page.
//!
//! The first bits of a hash find a segment by the directory. There an entry is in one of two
//! buckets, which the last bits name; each is a cache line of eight. When both are full, the
//! segment's entries are parted into two segments by the next of the first bits, each entry
//! staying in the same bucket. An entry has the first 32 bits of its hash, so that nothing
//! else is read for this. So growth costs at most a segment's 512 entries at once, and a run
//! of the directory, or its doubling, once for each bit: some nanoseconds for each 16 bytes, of up
//! to 4 MiB.

use super::chunks::Chunks;
use crate::table::kernel::prefetch;

/// No number: the entry is free.
pub(super) const NONE: u32 = u32::MAX;

/// Entries of a bucket.
const SLOTS: usize = 8;

/// Buckets of a segment: a page.
const BUCKETS: usize = 64;

/// Flows for each segment of a full directory, so that a table has room for all its flows: a
/// segment is parted when both buckets of a new flow are full, which begins at half of the
/// entries, and is most unlikely for an eighth.
const FLOWS_PER_SEGMENT: usize = SLOTS * BUCKETS / 8;

#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    tags: [u32; SLOTS],
    numbers: [u32; SLOTS],
}

/// The buckets of a segment.
type Segment = [Bucket; BUCKETS];

const FREE: Bucket = Bucket { tags: [0; SLOTS], numbers: [NONE; SLOTS] };

/// Both buckets of the key are full, and their segment cannot be parted.
#[derive(Debug)]
pub(super) struct Full;

/// Numbers by hashes. Several may have the same hash.
#[derive(Debug)]
pub(super) struct Index {
    /// Segments by the first `bits` bits of hashes. It has no more bits than its deepest segment, so
    /// that it stays in a near cache, but room for `most_bits`.
    directory: Vec<u32>,
    bits: u32,
    most_bits: u32,
    segments: Chunks<Segment>,
    /// For each segment, how many first bits of the hash all its entries have in common.
    depths: Vec<u8>,
}

/// The part of a hash that an entry has.
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// The two buckets of a hash in its segment.
fn choices(hash: u64) -> [usize; 2] {
    [hash as usize % BUCKETS, hash as usize / BUCKETS % BUCKETS]
}

impl Bucket {
    /// The number of the entry with this tag, or [`NONE`]; of several with it some other number.
    /// Without branches, for vectors.
    #[inline]
    fn number_of(&self, tag: u32) -> u32 {
        let number = |n: usize| self.numbers[n] | if self.tags[n] == tag { 0 } else { NONE };
        (0..SLOTS).fold(NONE, |all, n| all & number(n))
    }

    fn slot_of(&self, number: u32) -> Option<usize> {
        self.numbers.iter().position(|&one| one == number)
    }
}

impl Index {
    /// Segments of a full directory, for this many flows.
    fn most_segments(flows: usize) -> usize {
        flows.div_ceil(FLOWS_PER_SEGMENT).next_power_of_two()
    }

    /// The most bytes that the index of this many flows takes.
    pub(super) fn most_bytes(flows: usize) -> u64 {
        let each = size_of::<Segment>() + size_of::<u32>() + size_of::<u8>();
        (Self::most_segments(flows) * each) as u64
    }

    /// Empty, for this many flows.
    pub(super) fn new(flows: usize, huge_pages: bool) -> Self {
        let most = Self::most_segments(flows);
        let mut directory = Vec::with_capacity(most);
        directory.push(0);
        let mut segments = Chunks::new(huge_pages);
        segments.push([const { FREE }; BUCKETS]);
        Self { directory, bits: 0, most_bits: most.ilog2(), segments, depths: vec![0] }
    }

    /// Segments in use.
    pub(super) fn segments(&self) -> usize {
        self.segments.len()
    }

    fn segment_of(&self, hash: u64) -> usize {
        self.directory[(u64::from(tag(hash)) << self.bits >> 32) as usize] as usize
    }

    /// The segment of a hash, whose first bucket there is prefetched.
    #[inline]
    pub(super) fn choose(&self, hash: u64) -> u32 {
        let segment = self.segment_of(hash);
        prefetch(&self.segments[segment][choices(hash)[0]]);
        segment as u32
    }

    fn buckets(&self, hash: u64) -> [&Bucket; 2] {
        let segment = &self.segments[self.segment_of(hash)];
        choices(hash).map(|at| &segment[at])
    }

    /// The number in the first bucket of a hash that most likely has it, or any; [`NONE`] if there
    /// is none, and then the second bucket is prefetched. `segment` was chosen before; since then,
    /// flows may have moved to others.
    #[inline]
    pub(super) fn first_candidate(&self, hash: u64, segment: u32) -> u32 {
        let segment = &self.segments[segment as usize];
        let buckets = choices(hash).map(|bucket| &segment[bucket]);
        let number = buckets[0].number_of(tag(hash));
        // Without a branch, which would be taken at random. What was found is in the cache.
        prefetch(buckets[usize::from(number == NONE)]);
        number
    }

    /// As [`Index::first_candidate`], of the second bucket.
    #[inline]
    pub(super) fn second_candidate(&self, hash: u64, segment: u32) -> u32 {
        self.segments[segment as usize][choices(hash)[1]].number_of(tag(hash))
    }

    /// The number with this hash for which `is` holds.
    pub(super) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let buckets = self.buckets(hash).into_iter();
        buckets.filter(|bucket| bucket.number_of(tag(hash)) != NONE).find_map(|bucket| {
            let of_tag = bucket.tags.iter().zip(bucket.numbers);
            let mut numbers = of_tag.filter(|(one, _)| **one == tag(hash)).map(|(_, n)| n);
            numbers.find(|&number| number != NONE && is(number))
        })
    }

    /// All numbers in the buckets of a hash.
    pub(super) fn neighbours(&self, hash: u64) -> impl Iterator<Item = u32> {
        let numbers = self.buckets(hash).into_iter().flat_map(|bucket| bucket.numbers);
        numbers.filter(|&number| number != NONE)
    }

    /// Enters a number.
    pub(super) fn insert(&mut self, hash: u64, number: u32) -> Result<(), Full> {
        loop {
            let at = self.segment_of(hash);
            let segment = &mut self.segments[at];
            for bucket in choices(hash) {
                let bucket = &mut segment[bucket];
                if let Some(slot) = bucket.slot_of(NONE) {
                    (bucket.tags[slot], bucket.numbers[slot]) = (tag(hash), number);
                    return Ok(());
                }
            }
            if u32::from(self.depths[at]) == self.bits && !self.deepen() {
                return Err(Full);
            }
            self.part(at, hash);
        }
    }

    /// Takes a number out.
    pub(super) fn remove(&mut self, hash: u64, number: u32) {
        let at = self.segment_of(hash);
        for bucket in choices(hash) {
            let bucket = &mut self.segments[at][bucket];
            if let Some(slot) = bucket.slot_of(number) {
                (bucket.tags[slot], bucket.numbers[slot]) = (0, NONE);
                return;
            }
        }
    }

    /// Gives the directory another bit. Returns whether it has room for it.
    #[cold]
    fn deepen(&mut self) -> bool {
        let has_room = self.bits < self.most_bits;
        if has_room {
            let segments = self.directory.len();
            self.directory.resize(2 * segments, 0);
            for prefix in (0..segments).rev() {
                let segment = self.directory[prefix];
                self.directory[2 * prefix..][..2].fill(segment);
            }
            self.bits += 1;
        }
        has_room
    }

    /// Parts segment `at`, to which `hash` leads, in two.
    #[cold]
    fn part(&mut self, at: usize, hash: u64) {
        let new = self.segments.len() as u32;
        let depth = u32::from(self.depths[at]) + 1;
        let bit = 1 << (32 - depth);
        let mut other = [const { FREE }; BUCKETS];
        for (from, to) in self.segments[at].iter_mut().zip(&mut other) {
            for slot in 0..SLOTS {
                if from.tags[slot] & bit != 0 {
                    (to.tags[slot], to.numbers[slot]) = (from.tags[slot], from.numbers[slot]);
                    (from.tags[slot], from.numbers[slot]) = (0, NONE);
                }
            }
        }
        // All that lead to both halves are a run of the directory, the new one's behind.
        let run = 1 << (self.bits - depth);
        let prefix = (u64::from(tag(hash)) << depth >> 32) as usize | 1;
        self.directory[prefix * run..(prefix + 1) * run].fill(new);
        self.segments.push(other);
        self.depths[at] = depth as u8;
        self.depths.push(depth as u8);
    }
}
