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
/// Bytes of two words.
const PAIR: usize = 16;
/// The modulus, a Mersenne prime.
const P: u64 = (1 << 61) - 1;

/// The secret of digests.
#[derive(Clone, Debug)]
pub(super) struct DigestKey {
    words: [u64; WORDS],
    point: u64,
    /// The sums of the products of the words from each pair on: what zeros add there.
    zeros: [u128; WORDS / 2 + 1],
}

impl DigestKey {
    /// Derives the key from another secret.
    pub(super) fn new(secret: &HashKey) -> Self {
        let word = |i: usize| siphash13(secret, &[i as u64]);
        let words: [u64; WORDS] = std::array::from_fn(word);
        let mut zeros = [0u128; WORDS / 2 + 1];
        for (pair, key) in words.as_chunks::<2>().0.iter().enumerate().rev() {
            let product = u128::from(key[0]) * u128::from(key[1]);
            zeros[pair] = zeros[pair + 1].wrapping_add(product);
        }
        Self { words, point: word(WORDS) % P, zeros }
    }

    /// The digest of a text. Texts of different lengths may share one.
    pub(super) fn digest(&self, text: &[u8]) -> u64 {
        let (blocks, rest) = text.as_chunks::<BLOCK>();
        let mut digest = 0;
        for block in blocks {
            digest = self.step(digest, self.sum(block.as_chunks::<PAIR>().0));
        }
        if !rest.is_empty() {
            // The last block, as if with zeros behind it.
            let (pairs, last) = rest.as_chunks::<PAIR>();
            let mut sum = self.sum(pairs).wrapping_add(self.zeros[rest.len().div_ceil(PAIR)]);
            if !last.is_empty() {
                let mut pair = [0; PAIR];
                pair[..last.len()].copy_from_slice(last);
                sum = sum.wrapping_add(self.product(&pair, pairs.len()));
            }
            digest = self.step(digest, sum);
        }
        digest
    }

    /// The sum of the products of the first pairs of words of a block.
    #[inline]
    fn sum(&self, pairs: &[[u8; PAIR]]) -> u128 {
        let products = pairs.iter().enumerate().map(|(i, pair)| self.product(pair, i));
        products.fold(0, u128::wrapping_add)
    }

    /// The product of pair `i` of the words of a block.
    #[inline]
    fn product(&self, pair: &[u8; PAIR], i: usize) -> u128 {
        let pair = u128::from_le_bytes(*pair);
        let low = (pair as u64).wrapping_add(self.words[2 * i]);
        let high = ((pair >> 64) as u64).wrapping_add(self.words[2 * i + 1]);
        u128::from(low) * u128::from(high)
    }

    /// The digest with another block, of which this is the sum of products.
    #[inline]
    fn step(&self, digest: u64, sum: u128) -> u64 {
        let product = u128::from(digest) * u128::from(self.point);
        let digest = fold(product + u128::from(fold(sum)));
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
            for len in [0, 1, 7, 8, 15, 16, 17, 32, 100, 127, 128, 129, 1448, 65_535] {
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
