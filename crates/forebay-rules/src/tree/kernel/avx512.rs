//! The kernel with AVX-512.
//!
//! What a [`Matcher`] refers to is looked up without a check: [`Forest`] and [`WildcardIndex`] have
//! held all their references against what there is when they were made, and a forest each
//! that a change stores.
//!
//! [`Forest`]: crate::tree::layout::Forest
#![allow(unsafe_code, reason = "vector loads, and look-ups that were checked to be in range")]

use super::key::{BATCH, TreeKey};
use crate::atom::{KIND_PLACES, Tests};
use crate::packed::{FLAG_VALUES, HAS_ICMP, HAS_PORTS};
use crate::tree::block::{Block, LANES};
use crate::tree::labels::NO_LABEL;
use crate::tree::layout::{BLOCK, CHAIN, NUMBER};
use crate::tree::matcher::Matcher;
use crate::tree::wildcards::{CHUNK_LABELS, Chunk, FIELDS, PortClasses, WildcardIndex};
use std::arch::x86_64::*;
use std::mem::offset_of;

const _: () = assert!(KIND_PLACES == 1 << 10, "a place is nine bits of a kind, and whether");

/// In a key's word of kind and flags: that there are ports or an ICMP type.
const PRESENT: i32 = (HAS_PORTS | HAS_ICMP) as i32;

/// The node of each packet of a batch.
#[repr(C, align(64))]
struct Batch {
    /// Both ports as blocks compare them: each beside its complement.
    ports: [u64; BATCH],
    /// The tests that the packet does not fail.
    met: [u64; BATCH],
    /// The node or block that comes next.
    at: [u32; BATCH],
    /// The lanes of its block that match.
    hits: [u8; BATCH],
}

/// Lowers each label to that of the first atom that its key matches.
///
/// # Safety
/// The machine has AVX-512 F, BW, CD, DQ, VL and BITALG, and BMI1 and BMI2.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bitalg,bmi1,bmi2")]
pub(super) unsafe fn classify<const Q: usize, K: TreeKey>(
    matcher: &Matcher<Q>,
    keys: &[K],
    labels: &mut [u32],
) {
    let mut batch =
        Batch { ports: [0; BATCH], met: [0; BATCH], at: [BLOCK; BATCH], hits: [0; BATCH] };
    for (keys, labels) in keys.chunks(BATCH).zip(labels.chunks_mut(BATCH)) {
        // SAFETY: as this function's own; there are at most `BATCH` keys.
        unsafe {
            prepare(&matcher.tests, keys, &mut batch);
            for tree in 0..matcher.forest.roots.len() {
                descend(matcher, matcher.forest.root(tree), keys, &mut batch);
                compare_all(matcher, keys, &mut batch);
                let left = first_labels(matcher, &batch, labels);
                chains(matcher, keys, &mut batch, labels, left);
            }
            if let Some(wild) = &matcher.wild {
                for (keys, labels) in keys.chunks(WILD).zip(labels.chunks_mut(WILD)) {
                    join(wild, &matcher.live, &classes(wild, keys), labels);
                }
            }
        }
    }
}

/// What is the same for a packet in all trees.
///
/// # Safety
/// As [`classify`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bitalg,bmi1,bmi2")]
unsafe fn prepare<K: TreeKey>(tests: &Tests, keys: &[K], batch: &mut Batch) {
    const EACH: usize = 8;
    let words = (size_of::<K>() / size_of::<u64>()) as i64;
    let lanes = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    let places = _mm512_add_epi64(
        _mm512_mullo_epi64(lanes, _mm512_set1_epi64(words)),
        _mm512_set1_epi64(K::ADDRESS_WORDS as i64),
    );
    // Each 64-bit word's ports, both twice.
    let twice = _mm512_set1_epi64(0x0302_0302_0100_0100);
    let complement = _mm512_set1_epi64(0xffff_0000_ffff_0000_u64 as i64);
    for (from, keys) in (0..).step_by(EACH).zip(keys.chunks(EACH)) {
        let here = ((1_u32 << keys.len()) - 1) as __mmask8;
        // SAFETY: the word behind the addresses is one of the key, and only
        // those of `keys` are loaded; places of kinds and flags are below the
        // lengths of their tables; `from` is a multiple of 8 below `BATCH`.
        unsafe {
            let zero = _mm512_setzero_si512();
            let rest = _mm512_mask_i64gather_epi64::<8>(zero, here, places, keys.as_ptr().cast());
            let ports = _mm512_xor_si512(_mm512_shuffle_epi8(rest, spread(twice)), complement);
            _mm512_store_si512((&raw mut batch.ports[from]).cast(), ports);
            let (by_kind, by_flags) = tests.tables();
            let kind = _mm512_and_si512(_mm512_srli_epi64::<32>(rest), _mm512_set1_epi64(0x1ff));
            let present = _mm512_test_epi64_mask(rest, _mm512_set1_epi64(i64::from(PRESENT) << 32));
            let kind = _mm512_mask_or_epi64(kind, present, kind, _mm512_set1_epi64(512));
            let most = _mm512_set1_epi64(FLAG_VALUES as i64 - 1);
            let flags = _mm512_min_epu64(_mm512_srli_epi64::<48>(rest), most);
            let kind = _mm512_i64gather_epi32::<4>(kind, by_kind.as_ptr().cast());
            let flags = _mm512_i64gather_epi32::<4>(flags, by_flags.as_ptr().cast());
            let failed = _mm512_cvtepu32_epi64(_mm256_or_si256(kind, flags));
            let met = _mm512_xor_si512(failed, _mm512_set1_epi64(-1));
            _mm512_store_si512((&raw mut batch.met[from]).cast(), met);
        }
    }
}

/// A shuffle of the bytes of one 64-bit word, made one of each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn spread(word: __m512i) -> __m512i {
    // Byte shuffles count within 128 bits: the upper word's bytes begin at 8.
    _mm512_add_epi8(word, _mm512_set_epi64(S, 0, S, 0, S, 0, S, 0))
}

/// Eight, in each byte.
const S: i64 = 0x0808_0808_0808_0808;

/// The child of `node` that `key` belongs to.
///
/// # Safety
/// As [`classify`]; `node` is a node of `matcher`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bitalg,bmi1,bmi2")]
unsafe fn child<const Q: usize, K: TreeKey>(matcher: &Matcher<Q>, node: u32, key: &K) -> u32 {
    // SAFETY: nodes are referred to only where they are; a node's word is one
    // of the key's, which is a whole number of 64-bit words without padding
    // between fields; and its children are as many as its mask has subsets.
    unsafe {
        let node = matcher.forest.nodes.get_unchecked(node as usize);
        let word = *(&raw const *key).cast::<u64>().add(node.word as usize);
        let child = node.base as usize + _pext_u64(word, node.mask) as usize;
        *matcher.forest.slots.get_unchecked(child)
    }
}

/// Takes every packet from `root` to its block.
///
/// # Safety
/// As [`classify`]; `root` is one of the roots, `keys` at most `BATCH`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bitalg,bmi1,bmi2")]
unsafe fn descend<const Q: usize, K: TreeKey>(
    matcher: &Matcher<Q>,
    root: u32,
    keys: &[K],
    batch: &mut Batch,
) {
    if root & BLOCK != 0 {
        batch.at.fill(root);
        return;
    }
    for (key, at) in keys.iter().zip(&mut batch.at) {
        // SAFETY: the root is a node.
        *at = unsafe { child(matcher, root, key) };
    }
    // Packets that are not done are kept as bits, not as a list in memory: its
    // stores, to places known late, would hold up the loads of the next step.
    let mut left = inner(&batch.at) & (u64::MAX >> (BATCH - keys.len()));
    while left != 0 {
        let mut now = left;
        while now != 0 {
            let i = now.trailing_zeros() as usize;
            now &= now - 1;
            // SAFETY: the packets that are left are numbers of `keys`, and what
            // comes next for them is a node.
            unsafe {
                let at = batch.at.get_unchecked_mut(i);
                *at = child(matcher, *at, keys.get_unchecked(i));
            }
        }
        left &= inner(&batch.at);
    }
}

/// The packets that are at nodes, not at blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bitalg,bmi1,bmi2")]
fn inner(at: &[u32; BATCH]) -> u64 {
    let mut all = 0;
    for (part, at) in at.chunks_exact(16).enumerate() {
        // SAFETY: a chunk is 16 words.
        let at = unsafe { _mm512_loadu_si512(at.as_ptr().cast()) };
        all |= u64::from(_mm512_movepi32_mask(at)) << (16 * part);
    }
    !all
}

/// Holds every packet against the block it has come to.
///
/// # Safety
/// As [`classify`]; every packet has come to a block, `keys` at most `BATCH`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bitalg,bmi1,bmi2")]
unsafe fn compare_all<const Q: usize, K: TreeKey>(
    matcher: &Matcher<Q>,
    keys: &[K],
    batch: &mut Batch,
) {
    for (i, key) in keys.iter().enumerate() {
        // SAFETY: `i` is below the length of a batch; blocks are referred to
        // only where they are.
        unsafe {
            let at = batch.at.get_unchecked(i) & NUMBER;
            let block = matcher.forest.blocks.get_unchecked(at);
            let hits =
                compare(block, key, *batch.ports.get_unchecked(i), *batch.met.get_unchecked(i));
            *batch.hits.get_unchecked_mut(i) = hits;
        }
    }
}

/// Lowers the labels of packets by what their blocks have found; those that
/// have found nothing in a list that goes on.
///
/// # Safety
/// As [`classify`]; every packet has come to a block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bitalg,bmi1,bmi2")]
unsafe fn first_labels<const Q: usize>(
    matcher: &Matcher<Q>,
    batch: &Batch,
    labels: &mut [u32],
) -> u64 {
    const EACH: usize = 16;
    let words = const { (size_of::<Block<Q>>() / size_of::<u32>()) as i32 };
    let first = const { (offset_of!(Block<Q>, labels) / size_of::<u32>()) as i32 };
    let mut left = 0;
    for (from, labels) in (0..).step_by(EACH).zip(labels.chunks_mut(EACH)) {
        let here = ((1_u32 << labels.len()) - 1) as __mmask16;
        // SAFETY: `from` is a multiple of 16 below `BATCH`; a label is gathered
        // from a lane of a block there is; only those of `labels` are read and
        // written.
        unsafe {
            let at = _mm512_load_si512((&raw const batch.at[from]).cast());
            let hits = _mm512_cvtepu8_epi32(_mm_load_si128((&raw const batch.hits[from]).cast()));
            let hit = _mm512_mask_test_epi32_mask(here, hits, hits);
            let chain = _mm512_test_epi32_mask(at, _mm512_set1_epi32(CHAIN as i32));
            left |= u64::from(chain & !hit & here) << from;
            let lowest = _mm512_and_si512(hits, _mm512_sub_epi32(_mm512_setzero_si512(), hits));
            let lane = _mm512_sub_epi32(_mm512_set1_epi32(31), _mm512_lzcnt_epi32(lowest));
            let block = _mm512_and_si512(at, _mm512_set1_epi32(NUMBER as i32));
            let place = _mm512_add_epi32(
                _mm512_mullo_epi32(block, _mm512_set1_epi32(words)),
                _mm512_add_epi32(lane, _mm512_set1_epi32(first)),
            );
            let none = _mm512_set1_epi32(NO_LABEL as i32);
            let blocks = matcher.forest.blocks.as_ptr().cast();
            let found = _mm512_mask_i32gather_epi32::<4>(none, hit, place, blocks);
            let before = _mm512_maskz_loadu_epi32(here, labels.as_ptr().cast());
            let least = _mm512_min_epu32(before, found);
            _mm512_mask_storeu_epi32(labels.as_mut_ptr().cast(), here, least);
        }
    }
    left
}

/// Follows the lists of the packets in `left`, which match nothing in the first
/// blocks of theirs.
///
/// # Safety
/// As [`classify`]; the packets are numbers of `keys`, and at blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bitalg,bmi1,bmi2")]
unsafe fn chains<const Q: usize, K: TreeKey>(
    matcher: &Matcher<Q>,
    keys: &[K],
    batch: &mut Batch,
    labels: &mut [u32],
    mut left: u64,
) {
    while left != 0 {
        let i = left.trailing_zeros() as usize;
        left &= left - 1;
        // SAFETY: as this function's own; blocks are referred to only where
        // they are.
        unsafe {
            let block = |at: u32| matcher.forest.blocks.get_unchecked(at & NUMBER);
            let mut next = block(*batch.at.get_unchecked(i)).next;
            while next != 0 {
                let block = block(next);
                let (ports, met) = (*batch.ports.get_unchecked(i), *batch.met.get_unchecked(i));
                let hits = compare(block, keys.get_unchecked(i), ports, met);
                if hits != 0 {
                    let label = labels.get_unchecked_mut(i);
                    *label = (*label).min(block.labels[hits.trailing_zeros() as usize % LANES]);
                    break;
                }
                next = block.next;
            }
        }
    }
}

/// The lanes of `block` that the packet matches.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bitalg,bmi1,bmi2")]
fn compare<const Q: usize, K: TreeKey>(block: &Block<Q>, key: &K, ports: u64, met: u64) -> u8 {
    // SAFETY: all loads are of whole fields of `block`.
    unsafe {
        let bounds = _mm512_load_si512((&raw const block.ports).cast());
        // What is left of a bound is what the packet's word lacks.
        let mut wrong = _mm512_subs_epu16(bounds, _mm512_set1_epi64(ports as i64));
        for word in 0..Q {
            let mine = _mm512_set1_epi64(key.word(word) as i64);
            let theirs = _mm512_load_si512((&raw const block.addresses[word]).cast());
            let shifts =
                _mm512_cvtepu8_epi32(_mm_load_si128((&raw const block.shifts[word]).cast()));
            wrong = _mm512_or_si512(wrong, shift_right(_mm512_xor_si512(mine, theirs), shifts));
        }
        let tests = _mm_loadl_epi64((&raw const block.tests).cast());
        let met = _mm_bitshuffle_epi64_mask(_mm_set1_epi64x(met as i64), tests);
        _mm512_mask_testn_epi64_mask(met as u8, wrong, wrong)
    }
}

/// Each 32-bit word shifted right by its own count; 32 leaves 0.
///
/// The intrinsic does the same, but the compiler takes it apart and adds a
/// comparison of each count with 32, as if the instruction did not make one.
#[inline]
#[target_feature(enable = "avx512f")]
fn shift_right(words: __m512i, counts: __m512i) -> __m512i {
    let shifted;
    // SAFETY: an instruction on registers, of AVX-512 F.
    unsafe {
        std::arch::asm!(
            "vpsrlvd {shifted}, {words}, {counts}",
            shifted = lateout(zmm_reg) shifted,
            words = in(zmm_reg) words,
            counts = in(zmm_reg) counts,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    shifted
}

/// Packets whose classes are found together.
const WILD: usize = 16;

/// By field and packet: the class, which is where its vector begins.
#[repr(C, align(64))]
struct Classes([[u32; WILD]; FIELDS]);

/// The classes of up to 16 packets; of others there are none.
///
/// # Safety
/// As [`classify`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bitalg,bmi1,bmi2")]
unsafe fn classes<K: TreeKey>(wild: &WildcardIndex, keys: &[K]) -> Classes {
    let words = const { (size_of::<K>() / size_of::<u32>()) as i32 };
    let here = ((1_u32 << keys.len()) - 1) as __mmask16;
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let starts = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(words));
    let zero = _mm512_setzero_si512();
    let mut classes = Classes([[0; WILD]; FIELDS]);
    // SAFETY: only words of `keys` are gathered: the first of each address and
    // the two behind them. Bytes, places of kinds, and flags are below the
    // lengths of their tables, and the sum of a page and a byte is below that
    // of the classes.
    unsafe {
        let word = |at: usize| {
            let places = _mm512_add_epi32(starts, _mm512_set1_epi32(at as i32));
            _mm512_mask_i32gather_epi32::<4>(zero, here, places, keys.as_ptr().cast())
        };
        let of = |table: &[u32], places| _mm512_i32gather_epi32::<4>(places, table.as_ptr().cast());
        let low = |word, bits: u32| _mm512_and_si512(word, _mm512_set1_epi32((1 << bits) - 1));
        let port = |ports: &PortClasses, port| {
            let page = of(&ports.pages[..], _mm512_srli_epi32::<8>(port));
            of(&ports.classes, _mm512_add_epi32(page, low(port, 8)))
        };
        let ports = word(2 * K::ADDRESS_WORDS);
        let rest = word(2 * K::ADDRESS_WORDS + 1);
        let present = _mm512_test_epi32_mask(rest, _mm512_set1_epi32(PRESENT));
        let kind = low(rest, 9);
        let kind = _mm512_mask_or_epi32(kind, present, kind, _mm512_set1_epi32(1 << 9));
        let most = _mm512_set1_epi32(FLAG_VALUES as i32 - 1);
        let flags = _mm512_min_epu32(_mm512_srli_epi32::<16>(rest), most);
        let found = [
            of(&wild.sources[..], _mm512_srli_epi32::<24>(word(0))),
            of(&wild.destinations[..], _mm512_srli_epi32::<24>(word(K::ADDRESS_WORDS))),
            port(&wild.first, low(ports, 16)),
            port(&wild.second, _mm512_srli_epi32::<16>(ports)),
            of(&wild.kinds[..], kind),
            of(&wild.flags[..], flags),
        ];
        for (to, found) in classes.0.iter_mut().zip(found) {
            _mm512_store_si512((&raw mut *to).cast(), found);
        }
    }
    classes
}

/// Lowers each label to that of the first live bit set in all vectors of a packet.
///
/// # Safety
/// As [`classify`]; `classes` are of `wild`, and of as many packets as there
/// are labels.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bitalg,bmi1,bmi2")]
unsafe fn join(wild: &WildcardIndex, live: &[Chunk], classes: &Classes, labels: &mut [u32]) {
    let [sources, destinations, first, second, kinds, flags] = &classes.0;
    for (chunk, live) in live.iter().enumerate().take(wild.width) {
        // SAFETY: a class is where a vector of `width` chunks begins. The first
        // bit set is below 512; where there is none, 8 words are counted and
        // 64 bits of one, and there are as many labels.
        unsafe {
            let live = _mm512_load_si512((&raw const *live).cast());
            let vectors = wild.vectors.as_ptr().add(chunk);
            let names = wild.labels.as_ptr().add(chunk * CHUNK_LABELS);
            for (i, label) in labels.iter_mut().enumerate() {
                let vector = |field: &[u32; WILD]| {
                    _mm512_load_si512(vectors.add(*field.get_unchecked(i) as usize).cast())
                };
                let addresses =
                    _mm512_ternarylogic_epi64::<0x80>(live, vector(sources), vector(destinations));
                let ports =
                    _mm512_ternarylogic_epi64::<0x80>(addresses, vector(first), vector(second));
                let common = _mm512_ternarylogic_epi64::<0x80>(ports, vector(kinds), vector(flags));
                let words = _mm512_test_epi64_mask(common, common);
                let word = _mm512_maskz_compress_epi64(words, common);
                let bits = _mm_cvtsi128_si64(_mm512_castsi512_si128(word)) as u64;
                let at = _tzcnt_u32(u32::from(words) | 1 << 8) * 64 + _tzcnt_u64(bits) as u32;
                *label = (*label).min(*names.add(at as usize));
            }
        }
    }
}
