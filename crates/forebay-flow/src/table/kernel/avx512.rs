//! One vector for a bucket; four keys in a vector of AES.

use std::arch::x86_64::*;

use super::{View, avx2, find_with};
use crate::key::{KEY_MASK, ShortKey};
use crate::table::bucket::Bucket;

/// The bits of a key in four entries.
const MASK: [u128; 4] = [KEY_MASK; 4];

/// The low word of each block.
const LOW_WORDS: u8 = 0x55;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,aes,bmi1")]
pub(super) fn find(view: View<'_>, keys: &[ShortKey], slots: &mut [u32]) {
    // SAFETY: 64 bytes are read, from a value of that size.
    let mask = unsafe { _mm512_loadu_si512(MASK.as_ptr().cast()) };
    let hashes = |keys: &[ShortKey], hashes: &mut [u64]| {
        // SAFETY: 16 bytes are read, from a value of that size.
        let block = |bits: &u128| unsafe { _mm_loadu_si128(std::ptr::from_ref(bits).cast()) };
        let round_keys = view.secret.round_keys;
        let [first, rest @ ..] = round_keys.map(|key| _mm512_broadcast_i32x4(block(&key)));
        let (four, last) = keys.as_chunks::<4>();
        let (to_four, to_last) = hashes.as_chunks_mut::<4>();
        for (keys, hashes) in four.iter().zip(to_four) {
            // SAFETY: 64 bytes are read, from a value of that size: keys are 16 bytes each.
            let keys = unsafe { _mm512_loadu_si512(keys.as_ptr().cast()) };
            let mut state = _mm512_xor_si512(keys, first);
            for round_key in rest {
                state = _mm512_aesenc_epi128(state, round_key);
            }
            let words = _mm512_castsi512_si256(_mm512_maskz_compress_epi64(LOW_WORDS, state));
            // SAFETY: 32 bytes are written, to a value of that size.
            unsafe { _mm256_storeu_si256(hashes.as_mut_ptr().cast(), words) };
        }
        for (key, hash) in last.iter().zip(to_last) {
            *hash = avx2::hash(&round_keys, key.0);
        }
    };
    let matches = |bucket: &Bucket, key: u128| {
        // SAFETY: 16 bytes are read, from a value of that size.
        let key = unsafe { _mm_loadu_si128(std::ptr::from_ref(&key).cast()) };
        // SAFETY: 64 bytes are read: the bucket, which is aligned.
        let entries = unsafe { _mm512_load_si512(bucket.0.as_ptr().cast()) };
        let different = _mm512_xor_si512(entries, _mm512_broadcast_i32x4(key));
        let words = u32::from(_mm512_testn_epi64_mask(different, mask));
        words & words >> 1 & 0x55
    };
    find_with(view, keys, slots, hashes, matches);
}
