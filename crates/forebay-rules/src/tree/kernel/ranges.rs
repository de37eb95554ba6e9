//! Going down a hierarchy of boxes, a packet after another.
#![allow(unsafe_code, reason = "vector instructions by intrinsics, on whole columns of blocks")]

use super::key::TreeKey;
use crate::packed::{HAS_PORTS, NOT_TCP};
use crate::rule::UDP;
use crate::tree::ranges::{ALWAYS, Block, Column, LANES, LEAF, Ranges};
use forebay_codegen::code::Isa;
use std::arch::x86_64::*;

/// What a packet is to boxes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    source: u32,
    destination: u32,
    /// Both ports, the second in the upper half.
    ports: u32,
    /// The tests that it meets.
    met: u32,
    kind: u16,
    flags: u16,
}

impl Numbers {
    /// A packet of these four numbers, which meets these tests.
    pub fn of([source, destination, first, second]: [u32; 4], met: u32) -> Self {
        let kind = u16::from(UDP) | HAS_PORTS;
        Self { source, destination, ports: first | second << 16, met, kind, flags: NOT_TCP }
    }

    fn of_key<K: TreeKey>(ranges: &Ranges, key: &K) -> Self {
        let (first, second, kind, flags) = key.rest();
        let [source, destination] = match &ranges.axes {
            None => {
                let both = key.word(0);
                [both as u32, (both >> 32) as u32]
            }
            Some(axes) => {
                let [source, destination] = key.addresses();
                [axes[0].piece(source), axes[1].piece(destination)]
            }
        };
        let ports = u32::from(first) | u32::from(second) << 16;
        let met = !ranges.tests.failed(kind, flags) | ALWAYS;
        Self { source, destination, ports, met, kind, flags }
    }

    fn numbers(&self) -> [u32; 4] {
        [self.source, self.destination, self.ports & 0xffff, self.ports >> 16]
    }
}

/// Counts steps, or does not.
pub(crate) trait Count {
    fn block(&mut self) {}
    fn check(&mut self) {}
}

impl Count for () {}

/// Steps that were made.
#[derive(Default)]
pub(crate) struct Tally {
    pub blocks: u64,
    pub checks: u64,
}

impl Count for Tally {
    fn block(&mut self) {
        self.blocks += 1;
    }
    fn check(&mut self) {
        self.checks += 1;
    }
}

/// Holds a packet against a block.
trait Hits {
    /// The boxes, a bit each, that admit the packet and have a label below `best`.
    ///
    /// # Safety
    /// The machine has the instructions of the type.
    unsafe fn hits(block: &Block, packet: &Numbers, best: u32) -> u32;
}

struct Scalar;
struct Avx2;
struct Avx512;

impl Hits for Scalar {
    // SAFETY: no instructions are needed that a machine may lack.
    #[inline(always)]
    unsafe fn hits(block: &Block, packet: &Numbers, best: u32) -> u32 {
        let within = |at: usize, lane: usize, number: u32| {
            number.wrapping_sub(block.low[at][lane]) <= block.span[at][lane]
        };
        let ports = |lane: usize| {
            let (low, span) = (block.low[2][lane], block.span[2][lane]);
            let half = |word: u32, at: u32| (word >> (16 * at)) as u16;
            let within = |at| half(packet.ports, at).wrapping_sub(half(low, at)) <= half(span, at);
            within(0) & within(1)
        };
        (0..LANES).fold(0, |hits, lane| {
            let hit = within(0, lane, packet.source)
                & within(1, lane, packet.destination)
                & ports(lane)
                & (block.tests[lane] & packet.met != 0)
                & (block.labels[lane] < best);
            hits | u32::from(hit) << lane
        })
    }
}

impl Hits for Avx2 {
    // SAFETY: AVX2.
    #[inline(always)]
    unsafe fn hits(block: &Block, packet: &Numbers, best: u32) -> u32 {
        // SAFETY: as the caller promises.
        unsafe {
            let low = eight(block, 0, packet, best);
            low | eight(block, LANES / 2, packet, best) << (LANES / 2)
        }
    }
}

/// [`Hits::hits`] of the eight boxes from `at`, the first or the last of a block.
///
/// # Safety
/// AVX2.
#[inline(always)]
unsafe fn eight(block: &Block, at: usize, packet: &Numbers, best: u32) -> u32 {
    // SAFETY: as the caller promises.
    unsafe {
        let zero = _mm256_setzero_si256();
        let source =
            _mm256_sub_epi32(_mm256_set1_epi32(packet.source as i32), half(&block.low[0], at));
        let near = _mm256_min_epu32(source, half(&block.span[0], at));
        let source = _mm256_cmpeq_epi32(near, source);
        let destination =
            _mm256_sub_epi32(_mm256_set1_epi32(packet.destination as i32), half(&block.low[1], at));
        let near = _mm256_min_epu32(destination, half(&block.span[1], at));
        let destination = _mm256_cmpeq_epi32(near, destination);
        let ports =
            _mm256_sub_epi16(_mm256_set1_epi32(packet.ports as i32), half(&block.low[2], at));
        let beyond = _mm256_subs_epu16(ports, half(&block.span[2], at));
        let ports = _mm256_cmpeq_epi32(beyond, zero);
        let met = _mm256_set1_epi32(packet.met as i32);
        let unmet = _mm256_cmpeq_epi32(_mm256_and_si256(half(&block.tests, at), met), zero);
        // A label is below `best` unless it is the greater of both.
        let labels = half(&block.labels, at);
        let greater = _mm256_max_epu32(labels, _mm256_set1_epi32(best as i32));
        let wrong = _mm256_or_si256(unmet, _mm256_cmpeq_epi32(greater, labels));
        let right = _mm256_and_si256(_mm256_and_si256(source, destination), ports);
        _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_andnot_si256(wrong, right))) as u32
    }
}

/// Eight words of a column.
///
/// # Safety
/// AVX2; `at` is 0 or 8.
#[inline(always)]
unsafe fn half(column: &Column, at: usize) -> __m256i {
    // SAFETY: as the caller promises; columns are aligned to their size.
    unsafe { _mm256_load_si256(column.as_ptr().add(at).cast()) }
}

impl Hits for Avx512 {
    // SAFETY: AVX-512 F and BW.
    #[inline(always)]
    unsafe fn hits(block: &Block, packet: &Numbers, best: u32) -> u32 {
        // SAFETY: as the caller promises.
        unsafe {
            let source =
                _mm512_sub_epi32(_mm512_set1_epi32(packet.source as i32), whole(&block.low[0]));
            let hits = _mm512_cmple_epu32_mask(source, whole(&block.span[0]));
            let destination = _mm512_sub_epi32(
                _mm512_set1_epi32(packet.destination as i32),
                whole(&block.low[1]),
            );
            let hits = _mm512_mask_cmple_epu32_mask(hits, destination, whole(&block.span[1]));
            let ports =
                _mm512_sub_epi16(_mm512_set1_epi32(packet.ports as i32), whole(&block.low[2]));
            let beyond = _mm512_subs_epu16(ports, whole(&block.span[2]));
            let hits = _mm512_mask_testn_epi32_mask(hits, beyond, beyond);
            let met = _mm512_set1_epi32(packet.met as i32);
            let hits = _mm512_mask_test_epi32_mask(hits, whole(&block.tests), met);
            let best = _mm512_set1_epi32(best as i32);
            u32::from(_mm512_mask_cmplt_epu32_mask(hits, whole(&block.labels), best))
        }
    }
}

/// A column.
///
/// # Safety
/// AVX-512 F.
#[inline(always)]
unsafe fn whole(column: &Column) -> __m512i {
    // SAFETY: as the caller promises; columns are aligned to their size.
    unsafe { _mm512_load_si512(column.as_ptr().cast()) }
}

/// References that are kept at most, each with its least label: of each level all lanes
/// but one.
type Open = [(u32, u32); 512];

/// None, with room for them.
const NONE_OPEN: Open = [(0, 0); 512];

/// Lowers `best` to the label of the first rule that admits the packet, but for
/// those that are `gone`.
///
/// # Safety
/// The machine has the instructions of `H`.
#[inline(always)]
unsafe fn least<H: Hits>(
    ranges: &Ranges,
    gone: &[u32],
    packet: &Numbers,
    mut best: u32,
    open: &mut Open,
    count: &mut impl Count,
) -> u32 {
    for &root in &ranges.roots {
        if root.0 >= best {
            break;
        }
        open[0] = root;
        let mut left = 1;
        while left > 0 {
            left -= 1;
            let (label, at) = open[left];
            if label >= best {
                continue;
            }
            count.block();
            let block = &ranges.blocks[(at & !LEAF) as usize];
            // SAFETY: as the caller promises.
            let mut hits = unsafe { H::hits(block, packet, best) };
            if at & LEAF != 0 {
                best = first_of(ranges, gone, packet, block, hits, count).unwrap_or(best);
                continue;
            }
            // The least label is on top in the end.
            while hits != 0 {
                let lane = (31 - hits.leading_zeros()) as usize % LANES;
                hits &= !(1 << lane);
                let next = block.next[lane];
                // What is on top is read at once, and what is below it meanwhile fetched.
                prefetch(&ranges.blocks[(next & !LEAF) as usize]);
                open[left] = (block.labels[lane], next);
                left += 1;
            }
        }
    }
    best
}

/// Has all lines of a block fetched.
#[inline(always)]
fn prefetch(block: &Block) {
    const LINE: usize = 64;
    let lines = std::ptr::from_ref(block).cast::<i8>();
    for at in (0..size_of::<Block>()).step_by(LINE) {
        // SAFETY: SSE is there on every machine of this architecture, and the address is
        // within the block; nothing is read.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(lines.add(at)) };
    }
}

/// The label of the first of `hits` that passes its check.
#[inline(always)]
fn first_of(
    ranges: &Ranges,
    gone: &[u32],
    packet: &Numbers,
    block: &Block,
    mut hits: u32,
    count: &mut impl Count,
) -> Option<u32> {
    while hits != 0 {
        let lane = hits.trailing_zeros() as usize % LANES;
        hits &= hits - 1;
        let (label, check) = (block.labels[lane], block.next[lane] as usize);
        let admitted = check == 0 || {
            count.check();
            ranges.checks[check - 1].admits(packet.numbers(), packet.kind, packet.flags)
        };
        if admitted && (gone.is_empty() || gone.binary_search(&label).is_err()) {
            return Some(label);
        }
    }
    None
}

/// [`least`] with every step counted.
pub(crate) fn visit(
    ranges: &Ranges,
    gone: &[u32],
    packet: &Numbers,
    best: u32,
    tally: &mut Tally,
) -> u32 {
    // SAFETY: it needs no instructions that a machine may lack.
    unsafe { least::<Scalar>(ranges, gone, packet, best, &mut { NONE_OPEN }, tally) }
}

/// Lowers each label to that of the first rule that admits its key, with the
/// instructions of `isa`, which the machine has.
pub(super) fn classify<K: TreeKey>(
    isa: Isa,
    ranges: &Ranges,
    gone: &[u32],
    keys: &[K],
    labels: &mut [u32],
) {
    match isa {
        Isa::Scalar => {
            // SAFETY: it needs no instructions that a machine may lack.
            unsafe { all::<Scalar, K>(ranges, gone, keys, labels) }
        }
        Isa::Avx2 => {
            // SAFETY: the caller has found that the machine has this level.
            unsafe { avx2(ranges, gone, keys, labels) }
        }
        Isa::Avx512Bw | Isa::Avx512Vbmi => {
            // SAFETY: likewise.
            unsafe { avx512(ranges, gone, keys, labels) }
        }
    }
}

/// # Safety
/// The machine has the instructions of `H`.
#[inline(always)]
unsafe fn all<H: Hits, K: TreeKey>(ranges: &Ranges, gone: &[u32], keys: &[K], labels: &mut [u32]) {
    // Once for all: it is longer than the way of most packets.
    let mut open = NONE_OPEN;
    for (key, label) in keys.iter().zip(labels) {
        let packet = Numbers::of_key(ranges, key);
        // SAFETY: as the caller promises.
        *label = unsafe { least::<H>(ranges, gone, &packet, *label, &mut open, &mut ()) };
    }
}

/// # Safety
/// AVX2, BMI1, BMI2 and LZCNT.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
unsafe fn avx2<K: TreeKey>(ranges: &Ranges, gone: &[u32], keys: &[K], labels: &mut [u32]) {
    // SAFETY: as the caller promises.
    unsafe { all::<Avx2, K>(ranges, gone, keys, labels) };
}

/// # Safety
/// AVX-512 F and BW, BMI1, BMI2 and LZCNT.
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,lzcnt")]
unsafe fn avx512<K: TreeKey>(ranges: &Ranges, gone: &[u32], keys: &[K], labels: &mut [u32]) {
    // SAFETY: as the caller promises.
    unsafe { all::<Avx512, K>(ranges, gone, keys, labels) };
}
