//! SipHash over 64-bit words (Aumasson and Bernstein, "SipHash: a fast
//! short-input PRF", 2012), with one round a word and three at the end.
//!
//! Why this one: it is keyed, so that traffic cannot be crafted to fall on one
//! sensor; it needs only additions, rotations and exclusive ors of 64 bits,
//! which vector units and BPF programs have; and an IPv4 five-tuple is two words.

/// The secret key of the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashKey(pub [u64; 2]);

impl HashKey {
    /// The key used where none is given: fixed, so that a capture is split the
    /// same way each time. A broker on a live link draws its own.
    pub const OFFLINE: Self = Self([0x466f_7265_6261_7921, 0x7061_636b_6574_7321]);
}

/// The four words that a message is mixed into.
pub(crate) struct SipHashState(pub(crate) [u64; 4]);

impl SipHashState {
    /// The state before the first word.
    pub(crate) fn new(key: &HashKey) -> Self {
        // The constants of the paper's section 2.
        Self([
            key.0[0] ^ 0x736f_6d65_7073_6575,
            key.0[1] ^ 0x646f_7261_6e64_6f6d,
            key.0[0] ^ 0x6c79_6765_6e65_7261,
            key.0[1] ^ 0x7465_6462_7974_6573,
        ])
    }

    #[inline(always)]
    fn round(&mut self) {
        let [v0, v1, v2, v3] = &mut self.0;
        *v0 = v0.wrapping_add(*v1);
        *v2 = v2.wrapping_add(*v3);
        *v1 = v1.rotate_left(13) ^ *v0;
        *v3 = v3.rotate_left(16) ^ *v2;
        *v0 = v0.rotate_left(32);
        *v2 = v2.wrapping_add(*v1);
        *v0 = v0.wrapping_add(*v3);
        *v1 = v1.rotate_left(17) ^ *v2;
        *v3 = v3.rotate_left(21) ^ *v0;
        *v2 = v2.rotate_left(32);
    }
}

/// SipHash with `COMPRESS` rounds a word and `FINISH` at the end, of the
/// little-endian bytes of `words`.
#[inline]
fn siphash<const COMPRESS: usize, const FINISH: usize>(key: &HashKey, words: &[u64]) -> u64 {
    let mut state = SipHashState::new(key);
    let last = (words.len() as u64 * 8) << 56;
    for &word in words.iter().chain(std::iter::once(&last)) {
        state.0[3] ^= word;
        for _ in 0..COMPRESS {
            state.round();
        }
        state.0[0] ^= word;
    }
    state.0[2] ^= 0xff;
    for _ in 0..FINISH {
        state.round();
    }
    state.0[0] ^ state.0[1] ^ state.0[2] ^ state.0[3]
}

/// SipHash-1-3 of the little-endian bytes of `words`.
#[inline]
#[must_use]
pub fn siphash13(key: &HashKey, words: &[u64]) -> u64 {
    siphash::<1, 3>(key, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hasher;

    /// Test vectors of the reference implementation for SipHash-2-4: key bytes
    /// 0 to 15, message bytes 0, 1, 2 …; those whose length is whole words.
    #[test]
    fn siphash_2_4_vectors() {
        let key = HashKey([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        let words = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(siphash::<2, 4>(&key, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(siphash::<2, 4>(&key, &words[..1]), 0x93f5_f579_9a93_2462);
        assert_eq!(siphash::<2, 4>(&key, &words), 0x3f2a_cc7f_57c2_9bdb);
    }

    /// The standard library's hasher is SipHash-1-3 with a key of zeros.
    #[test]
    fn siphash_1_3_equals_the_standard_library() {
        let words = [1, u64::MAX, 0x0123_4567_89ab_cdef, 42, 0, 7];
        for n in 0..=words.len() {
            let mut hasher = std::hash::DefaultHasher::new();
            words[..n].iter().for_each(|&word| hasher.write_u64(word));
            assert_eq!(siphash13(&HashKey([0, 0]), &words[..n]), hasher.finish());
        }
    }
}
