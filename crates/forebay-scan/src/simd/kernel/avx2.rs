//! Loops over vectors of 256 bits.

use std::arch::x86_64::*;

use super::super::bitmap::Bitmap;
use super::super::bloom::Bloom;
use super::super::buckets::Buckets;
use super::super::buffer::{Bytes, CAPACITY, FRONT};
use super::super::hash::{self, FIRST_BIT, SECOND_BIT};
use super::super::pairs::{HIGH, Pairs};
use super::super::regions::{AROUND, BITS_AT, Candidates, START_AT, Shape};
use super::super::runs;
use super::{Positions, write};

pub fn is_here() -> bool {
    std::is_x86_feature_detected!("avx2")
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("popcnt")
}

/// The 32 bytes at a position.
///
/// # Safety
/// It is less than `CAPACITY + 64`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(text: &Bytes, position: usize) -> __m256i {
    debug_assert!(position < CAPACITY + 64);
    // SAFETY: the buffer has 128 bytes behind `CAPACITY`.
    unsafe { _mm256_loadu_si256(text.as_ptr().add(FRONT + position).cast()) }
}

/// # Safety
/// `to` is at least 32 bytes longer than `text`.
#[target_feature(enable = "avx2")]
pub unsafe fn fold(text: &[u8], to: &mut [u8]) {
    let (from, to, len) = (text.as_ptr(), to.as_mut_ptr(), text.len());
    let vector = |at: usize| {
        // SAFETY: there are 32 bytes at `at`, as the loops below have it.
        unsafe {
            let bytes = _mm256_loadu_si256(from.add(at).cast());
            _mm256_storeu_si256(to.add(at).cast(), small(bytes));
        }
    };
    if len >= 32 {
        for at in (0..len - 31).step_by(32) {
            vector(at);
        }
        // Bytes of the last vector may be folded twice, to the same.
        return vector(len - 32);
    }
    let half = |at: usize, bytes: __m128i| {
        let folded = _mm256_castsi256_si128(small(_mm256_castsi128_si256(bytes)));
        // SAFETY: 16 bytes are written at less than `len`, where `to` has room for 32.
        unsafe { _mm_storeu_si128(to.add(at).cast(), folded) };
    };
    // SAFETY: of `text` only bytes that there are are read.
    unsafe {
        if len >= 16 {
            half(0, _mm_loadu_si128(from.cast()));
            // In front of what is behind, so that its surplus is overwritten.
            half(len - 16, _mm_loadu_si128(from.add(len - 16).cast()));
        } else if len >= 8 {
            half(0, _mm_loadl_epi64(from.cast()));
            half(len - 8, _mm_loadl_epi64(from.add(len - 8).cast()));
        } else {
            for at in 0..len {
                to.add(at).write((*from.add(at)).to_ascii_lowercase());
            }
        }
    }
}

/// The bytes with ASCII capitals as small letters.
#[inline]
#[target_feature(enable = "avx2")]
fn small(bytes: __m256i) -> __m256i {
    // As signed numbers, only the capitals are then less than -128 + 26.
    let moved = _mm256_add_epi8(bytes, _mm256_set1_epi8((128 - b'A' as i16) as i8));
    let capital = _mm256_cmpgt_epi8(_mm256_set1_epi8(-128 + 26), moved);
    _mm256_or_si256(bytes, _mm256_and_si256(capital, _mm256_set1_epi8(0x20)))
}

/// For each set of 8 lanes, their numbers, lowest first.
static LANES: [[u8; 8]; 256] = {
    let mut lanes = [[0; 8]; 256];
    let mut set = 0;
    while set < 256 {
        let (mut lane, mut count) = (0, 0);
        while lane < 8 {
            if set >> lane & 1 == 1 {
                lanes[set][count] = lane as u8;
                count += 1;
            }
            lane += 1;
        }
        set += 1;
    }
    lanes
};

/// The words with these indices. Eight loads take less time than the instruction for it: on
/// Cascade Lake, with the microcode that isolates it, 0.5 ns each against 1.2 ns.
///
/// # Safety
/// The indices are less than the number of words.
#[inline]
#[target_feature(enable = "avx2")]
pub unsafe fn gather(words: &[u32], index: __m256i) -> __m256i {
    let (low, high) = (_mm256_castsi256_si128(index), _mm256_extracti128_si256::<1>(index));
    // SAFETY: as the caller promises.
    unsafe {
        let (low, high) = (gather_half(words, low), gather_half(words, high));
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
    }
}

/// # Safety
/// The indices are less than the number of words.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn gather_half(words: &[u32], index: __m128i) -> __m128i {
    let (first, last) = (_mm_cvtsi128_si64(index) as u64, _mm_extract_epi64::<1>(index) as u64);
    // SAFETY: as the caller promises.
    unsafe {
        let word = |index: u64| *words.get_unchecked(index as usize) as i32;
        let words = _mm_cvtsi32_si128(word(first & u64::from(u32::MAX)));
        let words = _mm_insert_epi32::<1>(words, word(first >> 32));
        let words = _mm_insert_epi32::<2>(words, word(last & u64::from(u32::MAX)));
        _mm_insert_epi32::<3>(words, word(last >> 32))
    }
}

/// A filter in registers.
struct Filter<'a> {
    words: &'a [u32],
    shift: __m128i,
}

impl<'a> Filter<'a> {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(bloom: &'a Bloom) -> Self {
        Self { words: bloom.words(), shift: _mm_cvtsi32_si128(bloom.shift() as i32) }
    }

    /// A bit for each window that passes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn pass(&self, windows: __m256i) -> u32 {
        let product = _mm256_mullo_epi32(windows, _mm256_set1_epi32(hash::WORD as i32));
        let index = _mm256_srl_epi32(product, self.shift);
        // SAFETY: an index is of as many bits as the filter has words for.
        let words = unsafe { gather(self.words, index) };
        let product = _mm256_mullo_epi32(windows, _mm256_set1_epi32(hash::BITS as i32));
        let first = _mm256_srli_epi32::<{ FIRST_BIT as i32 }>(product);
        let second = _mm256_srli_epi32::<{ SECOND_BIT as i32 }>(product);
        let second = _mm256_and_si256(second, _mm256_set1_epi32(31));
        let both =
            _mm256_and_si256(_mm256_srlv_epi32(words, first), _mm256_srlv_epi32(words, second));
        _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_slli_epi32::<31>(both))) as u32
    }
}

/// # Safety
/// `len` is at most `CAPACITY`.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub unsafe fn probe_fourths(
    text: &Bytes,
    len: usize,
    bloom: &Bloom,
    found: &mut Positions,
) -> usize {
    let filter = Filter::new(bloom);
    let mut count = 0;
    for start in (0..len).step_by(32) {
        // SAFETY: the position is less than `CAPACITY`.
        let passed = filter.pass(unsafe { load(text, start) });
        let lanes = &LANES[passed as usize];
        // SAFETY: 8 bytes are read, from a value of that size. 16 bytes are written behind at most
        // one position for each 4 bytes before `start`.
        unsafe {
            let lanes = _mm_cvtepu8_epi16(_mm_loadl_epi64(lanes.as_ptr().cast()));
            let positions = _mm_add_epi16(_mm_slli_epi16::<2>(lanes), _mm_set1_epi16(start as i16));
            _mm_storeu_si128(found.as_mut_ptr().add(count).cast(), positions);
        }
        count += passed.count_ones() as usize;
    }
    count
}

/// # Safety
/// `len` is at most `CAPACITY`.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub unsafe fn probe_each(
    text: &Bytes,
    len: usize,
    windows: &Bitmap,
    found: &mut Positions,
) -> usize {
    let two = _mm256_set1_epi32(0xffff);
    let low = _mm256_set1_epi32(31);
    let mut count = 0;
    for start in (0..len).step_by(32) {
        let mut passed = _mm256_setzero_si256();
        for phase in 0..4 {
            // SAFETY: the position is less than `CAPACITY + 4`.
            let text = unsafe { load(text, start + phase) };
            let window = _mm256_and_si256(text, two);
            // SAFETY: the bitmap has a word for each number of 11 bits.
            let words = unsafe { gather(windows.words(), _mm256_srli_epi32::<5>(window)) };
            let bit = _mm256_srlv_epi32(words, _mm256_and_si256(window, low));
            let bit = _mm256_and_si256(bit, _mm256_set1_epi32(1));
            let shift = _mm_cvtsi32_si128(8 * phase as i32);
            passed = _mm256_or_si256(passed, _mm256_sll_epi32(bit, shift));
        }
        let passed = _mm256_movemask_epi8(_mm256_slli_epi16::<7>(passed)) as u32;
        // SAFETY: at most `start` positions are written.
        count = unsafe { write(passed.into(), start, count, found) };
    }
    count
}

/// # Safety
/// `len` is at most `CAPACITY`.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub unsafe fn probe_pairs(text: &Bytes, len: usize, pairs: &Pairs, found: &mut Positions) -> usize {
    let shift = _mm_cvtsi32_si128(pairs.shift() as i32);
    let factor = _mm256_set1_epi32(hash::WORD as i32);
    let (one, nibble) = (_mm256_set1_epi32(1), _mm256_set1_epi32(15));
    let high = _mm256_set1_epi32(HIGH as i32);
    let runs = _mm256_set1_epi8(if pairs.has_run() { 0 } else { -1 });
    let mut count = 0;
    for start in (0..len).step_by(32) {
        let text: [_; 4] = std::array::from_fn(|phase| {
            // SAFETY: the position is less than `CAPACITY + 4`.
            unsafe { load(text, start + phase) }
        });
        let both = |[first, second]: [__m256i; 2]| {
            let product = _mm256_mullo_epi32(_mm256_srli_epi32::<8>(first), factor);
            // SAFETY: an index is of as many bits as the filter has words for.
            let words = unsafe { gather(pairs.words(), _mm256_srl_epi32(product, shift)) };
            let first = _mm256_srlv_epi32(words, _mm256_and_si256(first, nibble));
            let last = _mm256_and_si256(_mm256_srli_epi32::<24>(second), nibble);
            let second = _mm256_srlv_epi32(words, _mm256_or_si256(last, high));
            let second = _mm256_slli_epi32::<8>(_mm256_and_si256(second, one));
            _mm256_or_si256(_mm256_and_si256(first, one), second)
        };
        // Now a byte for each position.
        let [one, two, three, four] = text;
        let passed =
            _mm256_or_si256(both([one, two]), _mm256_slli_epi32::<16>(both([three, four])));
        let equal = _mm256_and_si256(_mm256_cmpeq_epi8(one, two), _mm256_cmpeq_epi8(two, three));
        let equal = _mm256_and_si256(equal, _mm256_cmpeq_epi8(three, four));
        let passed = _mm256_andnot_si256(_mm256_and_si256(equal, runs), passed);
        let passed = _mm256_movemask_epi8(_mm256_slli_epi16::<7>(passed)) as u32;
        // SAFETY: at most `start` positions are written.
        count = unsafe { write(passed.into(), start, count, found) };
    }
    count
}

/// # Safety
/// `len` is at most `CAPACITY`.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub unsafe fn probe_all<const W: usize>(
    text: &Bytes,
    len: usize,
    buckets: &Buckets,
    found: &mut Positions,
) -> usize {
    let tables: [[__m256i; 2]; W] =
        std::array::from_fn(|at| buckets.nibbles()[at].each_ref().map(|half| table(half)));
    let nibble = _mm256_set1_epi8(15);
    let mut count = 0;
    for start in (0..len).step_by(32) {
        let mut all = _mm256_set1_epi8(-1);
        for (at, [low, high]) in tables.iter().enumerate() {
            // SAFETY: the position is less than `CAPACITY + 4`.
            let bytes = unsafe { load(text, start + at) };
            let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble);
            let low = _mm256_shuffle_epi8(*low, _mm256_and_si256(bytes, nibble));
            let high = _mm256_shuffle_epi8(*high, upper);
            all = _mm256_and_si256(all, _mm256_and_si256(low, high));
        }
        let none = _mm256_cmpeq_epi8(all, _mm256_setzero_si256());
        let passed = !_mm256_movemask_epi8(none) as u32;
        // SAFETY: at most `start` positions are written.
        count = unsafe { write(passed.into(), start, count, found) };
    }
    count
}

/// # Safety
/// `len` is at most `CAPACITY`.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub unsafe fn repeats(
    text: &Bytes,
    len: usize,
    among: &runs::Bytes,
    repeats: &mut [u64; CAPACITY / 64],
) {
    let (low, high) = (table(&among.low), table(&among.high));
    let nibble = _mm256_set1_epi8(15);
    for (word, start) in repeats.iter_mut().zip((0..len).step_by(64)) {
        let half = |start: usize| {
            // SAFETY: the position is less than `CAPACITY + 32`.
            let bytes = unsafe { load(text, start) };
            // SAFETY: it is at most `CAPACITY + 32`.
            let next = unsafe { load(text, start + 1) };
            let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble);
            let low = _mm256_shuffle_epi8(low, _mm256_and_si256(bytes, nibble));
            let is_among = _mm256_and_si256(low, _mm256_shuffle_epi8(high, upper));
            let not = _mm256_cmpeq_epi8(is_among, _mm256_setzero_si256());
            let repeats = _mm256_andnot_si256(not, _mm256_cmpeq_epi8(bytes, next));
            _mm256_movemask_epi8(repeats) as u32
        };
        *word = u64::from(half(start + 32)) << 32 | u64::from(half(start));
    }
}

/// Twice the bytes of a table.
#[inline]
#[target_feature(enable = "avx2")]
fn table(bytes: &[u8; 16]) -> __m256i {
    // SAFETY: 16 bytes are read, from a value of that size.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
}

/// For each set of 4 lanes of 64 bits, the halves of these in order.
static HALVES: [[u32; 8]; 16] = {
    let mut halves = [[0; 8]; 16];
    let mut set = 0;
    while set < 16 {
        let (mut lane, mut count) = (0, 0);
        while lane < 4 {
            if set >> lane & 1 == 1 {
                halves[set][count] = 2 * lane;
                halves[set][count + 1] = 2 * lane + 1;
                count += 2;
            }
            lane += 1;
        }
        set += 1;
    }
    halves
};

/// All ways of a window are tried at once, in lanes of 64 bits.
///
/// # Safety
/// There are at most `TOGETHER` windows; the words of the filter are a power of two.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub unsafe fn probe_regions(
    text: &Bytes,
    windows: &[u16],
    (shape, filter): (&Shape, &[u32]),
    candidates: &mut Candidates,
) -> usize {
    // SAFETY: 32 bytes are read, from a value of that size.
    let places = unsafe { _mm256_loadu_si256(shape.places.as_ptr().cast()) };
    let factors = hash::REGION.map(|factor| _mm256_set1_epi64x(factor as i64));
    let large = _mm256_set1_epi64x(hash::LARGE as i64);
    let word_mask = filter.len() as u64 - 1;
    let before = shape.before.map(|before| (u64::from(before) << START_AT) as i64);
    let before = _mm256_set_epi64x(before[3], before[2], before[1], before[0]);
    let hash_mask = _mm256_set1_epi64x(!(u64::MAX << START_AT) as i64);
    let five = _mm256_set1_epi64x(31);
    let mut count = 0;
    for &window in windows {
        let window = FRONT + usize::from(window);
        let around: &[u8; 16] =
            text[window - AROUND..].first_chunk().expect("the buffer has room behind the text");
        let regions = _mm256_xor_si256(_mm256_shuffle_epi8(table(around), places), large);
        let low = _mm256_mul_epu32(regions, factors[0]);
        let high = _mm256_mul_epu32(_mm256_srli_epi64::<32>(regions), factors[1]);
        let sum = _mm256_add_epi64(low, high);
        let hash = _mm256_xor_si256(sum, _mm256_srli_epi64::<32>(sum));
        let word = |hash: i64| {
            // SAFETY: the index is less than the number of words.
            i64::from(unsafe { *filter.get_unchecked((hash as u64 & word_mask) as usize) })
        };
        let (one, two) = (_mm256_castsi256_si128(hash), _mm256_extracti128_si256::<1>(hash));
        let words = _mm256_set_epi64x(
            word(_mm_extract_epi64::<1>(two)),
            word(_mm_cvtsi128_si64(two)),
            word(_mm_extract_epi64::<1>(one)),
            word(_mm_cvtsi128_si64(one)),
        );
        let first = _mm256_srli_epi64::<{ BITS_AT[0] as i32 }>(hash);
        let second = _mm256_srli_epi64::<{ BITS_AT[1] as i32 }>(hash);
        let first = _mm256_srlv_epi64(words, _mm256_and_si256(first, five));
        let second = _mm256_srlv_epi64(words, _mm256_and_si256(second, five));
        let both = _mm256_slli_epi64::<63>(_mm256_and_si256(first, second));
        let passed = _mm256_movemask_pd(_mm256_castsi256_pd(both)) as u32;
        let starts = _mm256_sub_epi64(_mm256_set1_epi64x((window as i64) << START_AT), before);
        let hash = _mm256_or_si256(_mm256_and_si256(hash, hash_mask), starts);
        // SAFETY: 32 bytes are read, from a value of that size, and written behind at most
        // `WAYS` candidates for each window before this.
        unsafe {
            let halves = _mm256_loadu_si256(HALVES[passed as usize].as_ptr().cast());
            let passed = _mm256_permutevar8x32_epi32(hash, halves);
            _mm256_storeu_si256(candidates.as_mut_ptr().add(count).cast(), passed);
        }
        count += passed.count_ones() as usize;
    }
    count
}
