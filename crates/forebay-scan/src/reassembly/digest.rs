//! A keyed digest of bytes, to compare a retransmitted segment with one that is not kept.
//!
//! Method: blocks of 128 bytes are compressed by the NH function of UMAC with words of 64 bits
//! (Black, Halevi, Krawczyk, Krovetz and Rogaway, "UMAC: Fast and Secure Message Authentication",
//! CRYPTO 1999), and the results are a polynomial modulo 2^61 - 1. For a random key, two different
//! texts of one length up to 64 KiB have the same digest with a probability below 2^-50, and no
//! digest leaves the process. So a sender cannot construct such texts.

use forebay_packet::{HashKey, siphash13};

/// Words of a block.
const WORDS: usize = 16;
/// Bytes of a block.
const BLOCK: usize = WORDS * 8;
/// The modulus, a Mersenne prime.
const P: u64 = (1 << 61) - 1;

/// The secret of digests.
#[derive(Clone, Debug)]
pub(super) struct DigestKey {
    words: [u64; WORDS],
    point: u64,
}

impl DigestKey {
    /// Derives the key from another secret.
    pub(super) fn new(secret: &HashKey) -> Self {
        let word = |i: usize| siphash13(secret, &[i as u64]);
        Self { words: std::array::from_fn(word), point: word(WORDS) % P }
    }

    /// The digest of a text. Texts of different lengths may share one.
    pub(super) fn digest(&self, text: &[u8]) -> u64 {
        let (blocks, rest) = text.as_chunks::<BLOCK>();
        let mut digest = 0;
        for block in blocks {
            digest = self.step(digest, block);
        }
        if !rest.is_empty() {
            let mut block = [0; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            digest = self.step(digest, &block);
        }
        digest
    }

    #[inline]
    fn step(&self, digest: u64, block: &[u8; BLOCK]) -> u64 {
        let (pairs, _) = block.as_chunks::<16>();
        let mut sum = 0u128;
        for (pair, key) in pairs.iter().zip(self.words.as_chunks::<2>().0) {
            let pair = u128::from_le_bytes(*pair);
            let low = (pair as u64).wrapping_add(key[0]);
            let high = ((pair >> 64) as u64).wrapping_add(key[1]);
            sum = sum.wrapping_add(u128::from(low) * u128::from(high));
        }
        let sum = fold(sum);
        let product = u128::from(digest) * u128::from(self.point);
        let digest = fold(product + u128::from(sum));
        (digest & P) + (digest >> 61)
    }
}

/// A number below 2^63 that is congruent modulo [`P`], as 2^61 is congruent to 1.
fn fold(number: u128) -> u64 {
    (number as u64 & P) + ((number >> 61) as u64 & P) + (number >> 122) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, with division.
    fn plain(key: &DigestKey, text: &[u8]) -> u64 {
        let p = u128::from(P);
        let mut digest = 0u128;
        for block in text.chunks(BLOCK) {
            let word = |i: usize| {
                let byte = |j: usize| u64::from(*block.get(i * 8 + j).unwrap_or(&0)) << (j * 8);
                (0..8).map(byte).sum::<u64>().wrapping_add(key.words[i])
            };
            let pairs =
                (0..WORDS / 2).map(|i| u128::from(word(2 * i)) * u128::from(word(2 * i + 1)));
            let sum = pairs.fold(0u128, u128::wrapping_add);
            digest = (digest * u128::from(key.point) + sum % p) % p;
        }
        digest as u64
    }

    #[test]
    fn digests_are_those_of_the_definition() {
        for secret in [[0, 0], [1, 2], [u64::MAX; 2]] {
            let key = DigestKey::new(&HashKey(secret));
            for len in [0, 1, 7, 8, 127, 128, 129, 1448, 65_535] {
                for fill in [0, 0x5a, 0xff] {
                    let text: Vec<u8> = (0..len).map(|i| fill ^ (i % 251) as u8).collect();
                    assert_eq!(key.digest(&text) % P, plain(&key, &text), "{len} {fill}");
                }
            }
        }
    }

    #[test]
    fn a_changed_byte_changes_the_digest() {
        let key = DigestKey::new(&HashKey([3, 4]));
        let mut text = [0; 300];
        let digest = key.digest(&text);
        for i in 0..text.len() {
            text[i] = 1;
            assert_ne!(key.digest(&text), digest, "{i}");
            text[i] = 0;
        }
    }
}
