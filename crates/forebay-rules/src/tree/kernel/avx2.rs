//! The kernel with AVX2: a block of eight atoms in two halves of four.
#![allow(unsafe_code, reason = "vector loads of whole fields")]

use super::key::{BATCH, TreeKey, port_words};
use super::scalar;
use crate::tree::block::{Block, LANES};
use crate::tree::labels::NO_LABEL;
use crate::tree::layout::{BLOCK, NUMBER};
use crate::tree::matcher::Matcher;
use std::arch::x86_64::*;

/// Lowers each label to that of the first atom that its key matches.
///
/// # Safety
/// The machine has AVX2, BMI1 and BMI2.
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(super) unsafe fn classify<const Q: usize, K: TreeKey>(
    matcher: &Matcher<Q>,
    keys: &[K],
    labels: &mut [u32],
) {
    let forest = &matcher.forest;
    let mut at = [0_u32; BATCH];
    for (keys, labels) in keys.chunks(BATCH).zip(labels.chunks_mut(BATCH)) {
        for tree in 0..forest.roots.len() {
            let root = forest.root(tree);
            at[..keys.len()].fill(root);
            let mut inner = usize::from(root & BLOCK == 0);
            while inner != 0 {
                inner = 0;
                for (key, at) in keys.iter().zip(&mut at).filter(|(_, at)| **at & BLOCK == 0) {
                    let node = &forest.nodes[*at as usize];
                    let child = _pext_u64(key.word(node.word as usize), node.mask);
                    *at = forest.slots[node.base as usize + child as usize];
                    inner += usize::from(*at & BLOCK == 0);
                }
            }
            for ((key, label), at) in keys.iter().zip(labels.iter_mut()).zip(at) {
                *label = (*label).min(search(matcher, at & NUMBER, key));
            }
        }
        if let Some(wild) = &matcher.wild {
            for (key, label) in keys.iter().zip(labels) {
                *label = (*label).min(scalar::first_of(wild, &matcher.live, key));
            }
        }
    }
}

/// The least label in a list of blocks that `key` matches.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn search<const Q: usize, K: TreeKey>(matcher: &Matcher<Q>, mut at: u32, key: &K) -> u32 {
    let (first, second, kind, flags) = key.rest();
    let failed = matcher.tests.failed(kind, flags);
    let ports = port_words(first, second);
    loop {
        let block = matcher.forest.blocks.get(at);
        let hits = half(block, 0, key, ports, failed) | half(block, 1, key, ports, failed) << 4;
        if hits != 0 {
            return block.labels[hits.trailing_zeros() as usize % LANES];
        }
        if block.next == 0 {
            return NO_LABEL;
        }
        at = block.next;
    }
}

/// Which of four lanes of `block` the packet matches.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn half<const Q: usize, K: TreeKey>(
    block: &Block<Q>,
    half: usize,
    key: &K,
    ports: u64,
    failed: u32,
) -> u32 {
    let lanes = half * LANES / 2..(half + 1) * LANES / 2;
    let tests = u32::from_le_bytes(std::array::from_fn(|lane| block.tests[lanes.start + lane]));
    // SAFETY: all loads are of four whole lanes of a field of `block`, of which
    // each has eight.
    unsafe {
        let bounds = _mm256_load_si256((&raw const block.ports[lanes.start]).cast());
        let mut wrong = _mm256_subs_epu16(bounds, _mm256_set1_epi64x(ports as i64));
        let tests = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(tests as i32));
        let failed = _mm256_srlv_epi64(_mm256_set1_epi64x(failed.into()), tests);
        wrong = _mm256_or_si256(wrong, _mm256_and_si256(failed, _mm256_set1_epi64x(1)));
        for word in 0..Q {
            let mine = _mm256_set1_epi64x(key.word(word) as i64);
            let theirs = _mm256_load_si256((&raw const block.addresses[word][lanes.start]).cast());
            let shifts = _mm_loadl_epi64((&raw const block.shifts[word][lanes.start]).cast());
            let differ =
                _mm256_srlv_epi32(_mm256_xor_si256(mine, theirs), _mm256_cvtepu8_epi32(shifts));
            wrong = _mm256_or_si256(wrong, differ);
        }
        let right = _mm256_cmpeq_epi64(wrong, _mm256_setzero_si256());
        _mm256_movemask_pd(_mm256_castsi256_pd(right)) as u32
    }
}
