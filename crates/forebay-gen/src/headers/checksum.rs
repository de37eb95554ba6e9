//! The checksum of Internet protocols (RFC 1071).

/// The sum of 16-bit words of RFC 1071 without the carries; an odd last byte
/// counts as if a zero followed. Sums of parts of even length can be added.
///
/// The sum does not depend on the order of the bytes of a word (section 2(B)),
/// so 32-bit words are added as the machine has them and swapped at the end.
#[must_use]
pub fn sum_words(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum: u64 = words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).sum();
    let mut tail = [0; 4];
    tail[..rest.len()].copy_from_slice(rest);
    sum += u64::from(u32::from_le_bytes(tail));
    u64::from((!fold(sum)).swap_bytes())
}

/// Folds a sum to 16 bits and complements it (RFC 1071 section 1).
#[must_use]
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_the_example_in_rfc_1071() {
        // Section 3: 0001 f203 f4f5 f6f7 sums to 2ddf0, folded ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum_words(&bytes)), !0xddf2);
        assert_eq!(
            fold(sum_words(&bytes[..7])),
            fold(sum_words(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0]))
        );
    }

    #[test]
    fn chunks_sum_as_the_whole_at_even_cuts() {
        let bytes: Vec<u8> = (0..101_u8).collect();
        for cut in (0..100).step_by(2) {
            let parts = sum_words(&bytes[..cut]) + sum_words(&bytes[cut..]);
            assert_eq!(fold(parts), fold(sum_words(&bytes)));
        }
    }
}
