//! The steps of a batch with vectors, for each level of instructions.
//!
//! What a [`Matcher`] refers to is looked up without a check: [`Forest`] and [`WildcardIndex`] have
//! held all their references against what there is when they were made, and a forest each
//! that a change stores.
//!
//! [`Forest`]: crate::tree::layout::Forest
#![allow(unsafe_code, reason = "look-ups that were checked to be in range when a list was built")]

use super::key::{BATCH, TreeKey, port_words};
use crate::atom::Tests;
use crate::tree::block::{Block, LANES};
use crate::tree::labels::NO_LABEL;
use crate::tree::layout::{BLOCK, CHAIN, NUMBER, Node};
use crate::tree::matcher::Matcher;
use crate::tree::wildcards::{CHUNK_LABELS, Chunk, FIELDS, WildcardIndex};
use forebay_packet::fetch_value;
use std::arch::x86_64::{__m256i, __m512i, _pext_u64};

/// The instructions of a level, which has those of BMI2.
pub(super) trait Level {
    /// A bit for each number that is greater than `least`.
    ///
    /// # Safety
    /// The machine has the level. Likewise below.
    unsafe fn above(numbers: &[u32; BATCH], least: u32) -> u64;

    /// The lanes of `block` that the packet matches, which has these ports, by [`port_words`], and
    /// fails these tests.
    ///
    /// # Safety
    /// See above.
    unsafe fn compare<const Q: usize, K: TreeKey>(
        block: &Block<Q>,
        key: &K,
        ports: u64,
        failed: u32,
    ) -> u32;

    /// The first bit that is set in all chunks; if none is, one of [`CHUNK_LABELS`] behind them.
    ///
    /// # Safety
    /// See above.
    unsafe fn first_common(chunks: [&Chunk; FIELDS + 1]) -> usize;
}

/// Defines a function that shifts each 32-bit word of a vector right by its own count; 32 leaves 0.
///
/// The intrinsics do the same, but the compiler takes them apart where counts are bytes, and clears by
/// up to four more instructions what the one has cleared.
macro_rules! shift_right {
    ($name:ident, $level:literal, $vector:ty, $register:ident) => {
        #[inline]
        #[target_feature(enable = $level)]
        pub(super) fn $name(words: $vector, counts: $vector) -> $vector {
            let shifted;
            // SAFETY: an instruction on registers, of the level.
            unsafe {
                std::arch::asm!(
                    "vpsrlvd {shifted}, {words}, {counts}",
                    shifted = lateout($register) shifted,
                    words = in($register) words,
                    counts = in($register) counts,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            shifted
        }
    };
}

shift_right!(shift_right_256, "avx2", __m256i, ymm_reg);
shift_right!(shift_right_512, "avx512f", __m512i, zmm_reg);

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// The packets of a batch.
struct Batch {
    /// Both ports as blocks compare them.
    ports: [u64; BATCH],
    /// The tests that the packet fails.
    failed: [u32; BATCH],
    /// The node or block that comes next.
    at: [u32; BATCH],
    /// The least label found.
    labels: [u32; BATCH],
}

/// Lowers each label to that of the first atom that its key matches. It is compiled into a function
/// with the instructions of the level.
///
/// # Safety
/// The machine has the level.
#[inline(always)]
pub(super) unsafe fn classify<L: Level, const Q: usize, K: TreeKey>(
    matcher: &Matcher<Q>,
    keys: &[K],
    labels: &mut [u32],
) {
    let mut batch = Batch {
        ports: [0; BATCH],
        failed: [0; BATCH],
        at: [BLOCK; BATCH],
        labels: [NO_LABEL; BATCH],
    };
    const { assert!(size_of::<K>() <= LINE) };
    let mut rest = keys;
    for (keys, labels) in keys.chunks(BATCH).zip(labels.chunks_mut(BATCH)) {
        // The processor itself does not foresee that it will read on where it stopped.
        rest = &rest[keys.len()..];
        rest.iter().take(BATCH).step_by(LINE / size_of::<K>()).for_each(fetch_value);
        batch.labels[..labels.len()].copy_from_slice(labels);
        // SAFETY: as this function's own; there are at most `BATCH` keys.
        unsafe {
            prepare(&matcher.tests, keys, &mut batch);
            for (tree, root) in matcher.forest.roots.iter().enumerate() {
                // What is more general stands behind what is more specific, in most lists, so that
                // few packets are held against all parts of a list.
                let mut open = L::above(&batch.labels, root.least) & all(keys.len());
                if open.count_ones() as usize > keys.len() * 3 / 4 {
                    open = all(keys.len());
                }
                descend::<L, Q, K>(matcher, matcher.forest.root(tree), keys, &mut batch, open);
                let left = compare_all::<L, Q, K>(matcher, keys, &mut batch, open);
                chains::<L, Q, K>(matcher, keys, &mut batch, left);
            }
            if let Some(wild) = &matcher.wild {
                join::<L, K>(wild, &matcher.live, keys, &mut batch.labels);
            }
        }
        labels.copy_from_slice(&batch.labels[..labels.len()]);
    }
}

/// What is the same for a packet in all trees.
#[inline(always)]
fn prepare<K: TreeKey>(tests: &Tests, keys: &[K], batch: &mut Batch) {
    for ((key, ports), failed) in keys.iter().zip(&mut batch.ports).zip(&mut batch.failed) {
        let (first, second, kind, flags) = key.rest();
        *ports = port_words(first, second);
        *failed = tests.failed(kind, flags);
    }
}

/// The numbers of the bits that are set, from the lowest on.
#[inline(always)]
fn numbers(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let number = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        number
    })
}

/// Calls `with` with the numbers of the bits that are set, of so many.
#[inline(always)]
fn each(bits: u64, count: usize, with: impl FnMut(usize)) {
    if bits == all(count) {
        // Shorter than bit by bit.
        (0..count).for_each(with);
    } else {
        numbers(bits).for_each(with);
    }
}

/// So many bits, one to [`BATCH`].
#[inline(always)]
fn all(count: usize) -> u64 {
    u64::MAX >> (BATCH - count)
}

/// The child of `node` that `key` belongs to, of the trees of these nodes and slots.
///
/// # Safety
/// As [`classify`]; `node` is one of the nodes.
#[inline(always)]
unsafe fn child<K: TreeKey>((nodes, slots): (&[Node], &[u32]), node: u32, key: &K) -> u32 {
    // SAFETY: the machine has BMI2; nodes are referred to only where they are; a node's word is one
    // of the key's, which is a whole number of 64-bit words without padding
    // between fields; and its children are as many as its mask has subsets.
    unsafe {
        let node = nodes.get_unchecked(node as usize);
        let word = *(&raw const *key).cast::<u64>().add(node.word as usize);
        let child = node.base as usize + _pext_u64(word, node.mask) as usize;
        *slots.get_unchecked(child)
    }
}

/// Takes the packets of `open` from `root` to their blocks.
///
/// # Safety
/// As [`classify`]; `root` is one of the roots, and `open` has bits of `keys`.
#[inline(always)]
unsafe fn descend<L: Level, const Q: usize, K: TreeKey>(
    matcher: &Matcher<Q>,
    root: u32,
    keys: &[K],
    batch: &mut Batch,
    open: u64,
) {
    if root & BLOCK != 0 {
        batch.at.fill(root);
        return;
    }
    // Once, not with each packet, behind whose stores the compiler would load them again.
    let trees = (&*matcher.forest.nodes, &*matcher.forest.slots);
    each(open, keys.len(), |i| {
        // SAFETY: the root is a node; bits are of `keys`.
        unsafe {
            *batch.at.get_unchecked_mut(i) = child(trees, root, keys.get_unchecked(i));
        }
    });
    const { assert!(BLOCK == 1 << 31, "references to blocks are the greater numbers") };
    // Packets that are not done are kept as bits, not as a list in memory: its
    // stores, to places known late, would hold up the loads of the next step.
    // SAFETY: as this function's own.
    let mut left = !unsafe { L::above(&batch.at, BLOCK - 1) } & open;
    while left != 0 {
        for i in numbers(left) {
            // SAFETY: bits are of `keys`, and what comes next for the packets that are left is a
            // node.
            unsafe {
                let at = batch.at.get_unchecked_mut(i);
                *at = child(trees, *at, keys.get_unchecked(i));
            }
        }
        // SAFETY: as this function's own.
        left &= !unsafe { L::above(&batch.at, BLOCK - 1) };
    }
}

/// Holds the packets of `open` against the blocks they have come to, and lowers their labels by what
/// is found. Returns those that have found nothing in a list that goes on.
///
/// # Safety
/// As [`classify`]; the packets have come to blocks, and `open` has bits of `keys`.
#[inline(always)]
unsafe fn compare_all<L: Level, const Q: usize, K: TreeKey>(
    matcher: &Matcher<Q>,
    keys: &[K],
    batch: &mut Batch,
    open: u64,
) -> u64 {
    let mut left = 0;
    let blocks = matcher.forest.blocks.cells();
    each(open, keys.len(), |i| {
        // SAFETY: bits are of `keys`; blocks are referred to only where they are.
        unsafe {
            let at = *batch.at.get_unchecked(i);
            let block = blocks.get_unchecked(at & NUMBER);
            let (ports, failed) = (*batch.ports.get_unchecked(i), *batch.failed.get_unchecked(i));
            let hits = L::compare(block, keys.get_unchecked(i), ports, failed);
            let label = batch.labels.get_unchecked_mut(i);
            *label = (*label).min(label_of(block, hits));
            left |= u64::from(hits == 0 && at & CHAIN != 0) << i;
        }
    });
    left
}

/// The label of the first of these lanes; [`NO_LABEL`] if there are none.
#[inline(always)]
fn label_of<const Q: usize>(block: &Block<Q>, hits: u32) -> u32 {
    block.labels[(hits | 1 << LANES).trailing_zeros() as usize]
}

/// Follows the lists of the packets in `left`, which match nothing in the first
/// blocks of theirs.
///
/// # Safety
/// As [`classify`]; the packets are numbers of `keys`, and at blocks.
#[inline(always)]
unsafe fn chains<L: Level, const Q: usize, K: TreeKey>(
    matcher: &Matcher<Q>,
    keys: &[K],
    batch: &mut Batch,
    left: u64,
) {
    let blocks = matcher.forest.blocks.cells();
    for i in numbers(left) {
        // SAFETY: as this function's own; blocks are referred to only where
        // they are.
        unsafe {
            let block = |at: u32| blocks.get_unchecked(at & NUMBER);
            let (ports, failed) = (*batch.ports.get_unchecked(i), *batch.failed.get_unchecked(i));
            let mut next = block(*batch.at.get_unchecked(i)).next;
            while next != 0 {
                let block = block(next);
                let hits = L::compare(block, keys.get_unchecked(i), ports, failed);
                if hits != 0 {
                    let label = batch.labels.get_unchecked_mut(i);
                    *label = (*label).min(label_of(block, hits));
                    break;
                }
                next = block.next;
            }
        }
    }
}

/// Packets whose vectors are found together.
const WILD: usize = 16;

/// Lowers each label to that of the first live bit set in all vectors of a packet.
///
/// # Safety
/// As [`classify`]; `keys` are at most `BATCH`.
#[inline(always)]
unsafe fn join<L: Level, K: TreeKey>(
    wild: &WildcardIndex,
    live: &[Chunk],
    keys: &[K],
    labels: &mut [u32; BATCH],
) {
    let first = wild.labels.first().copied().unwrap_or(NO_LABEL);
    // SAFETY: as this function's own.
    let mut open = numbers(unsafe { L::above(labels, first) } & all(keys.len()));
    loop {
        let (mut packets, mut count) = ([(0, [0; FIELDS]); WILD], 0);
        // Of the packets first: no bit is taken for which there is no room.
        for (packet, i) in packets.iter_mut().zip(open.by_ref()) {
            // SAFETY: bits are of `keys`.
            let key = unsafe { keys.get_unchecked(i) };
            let (first, second, kind, flags) = key.rest();
            *packet = (i, wild.classes(key.leading(), (first, second), kind, flags));
            count += 1;
        }
        if count == 0 {
            return;
        }
        for (chunk, live) in live.iter().enumerate().take(wild.width) {
            for &(i, classes) in &packets[..count] {
                // SAFETY: a class is where a vector of `width` chunks begins; each chunk has labels for
                // all that a search returns; the packet has a label.
                unsafe {
                    let vector = |class: u32| wild.vectors.get_unchecked(class as usize + chunk);
                    let [a, b, c, d, e, f] = classes.map(vector);
                    let bit = L::first_common([live, a, b, c, d, e, f]);
                    let found = *wild.labels.get_unchecked(chunk * CHUNK_LABELS + bit);
                    let label = labels.get_unchecked_mut(i);
                    *label = (*label).min(found);
                }
            }
        }
    }
}
