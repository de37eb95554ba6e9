//! A text in one or two parts, which literals are compared with.

/// The bytes of a stream that came before, as many as are kept, and those that are scanned; for a
/// text that is not of a stream, the latter alone.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    pub head: &'a [u8],
    pub body: &'a [u8],
}

impl<'a> Text<'a> {
    pub fn len(self) -> usize {
        self.head.len() + self.body.len()
    }

    /// The byte at a position that is less than the length.
    #[inline]
    pub fn byte(self, at: usize) -> u8 {
        match at.checked_sub(self.head.len()) {
            None => self.head[at],
            Some(at) => self.body[at],
        }
    }

    /// Whether `literal` is at `start`, and ends in the body.
    #[inline]
    pub fn has(self, start: usize, literal: &[u8], nocase: bool) -> bool {
        let Some(end) = (start + literal.len()).checked_sub(self.head.len()) else { return false };
        if end == 0 || end > self.body.len() {
            return false;
        }
        match start.checked_sub(self.head.len()) {
            Some(start) => equal(&self.body[start..end], literal, nocase),
            None => {
                let (first, rest) = literal.split_at(literal.len() - end);
                equal(&self.head[start..], first, nocase) && equal(&self.body[..end], rest, nocase)
            }
        }
    }

    /// The parts of the text from `start` on, in order.
    pub fn from(self, start: usize) -> [&'a [u8]; 2] {
        match start.checked_sub(self.head.len()) {
            None => [&self.head[start..], self.body],
            Some(start) => [&[], &self.body[start..]],
        }
    }
}

/// Whether a text of the same length is equal to a literal; where case does not matter, the
/// literal has small letters.
#[inline]
fn equal(text: &[u8], literal: &[u8], nocase: bool) -> bool {
    if !nocase {
        return text == literal;
    }
    let ((words, rest), (literals, last)) = (text.as_chunks::<8>(), literal.as_chunks::<8>());
    words
        .iter()
        .zip(literals)
        .all(|(word, literal)| fold_word(u64::from_le_bytes(*word)) == u64::from_le_bytes(*literal))
        && rest.iter().map(u8::to_ascii_lowercase).eq(last.iter().copied())
}

/// Eight bytes, with ASCII capitals as small letters.
#[inline]
fn fold_word(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let low = word & !HIGH;
    // The high bit of each byte: whether it is at least `A`, and whether it is greater than `Z`.
    let from_a = low + ONES * (128 - b'A' as u64);
    let after_z = low + ONES * (127 - b'Z' as u64);
    let capital = (from_a & !after_z & !word) & HIGH;
    word | capital >> 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_fold_as_bytes_do() {
        for byte in 0..=255_u8 {
            for other in [0, b'A' - 1, b'Z', b'[', 0x80, 0xff] {
                let mut bytes = [other, byte, other, byte, byte, other, byte, byte];
                let folded = fold_word(u64::from_le_bytes(bytes));
                bytes.make_ascii_lowercase();
                assert_eq!(folded.to_le_bytes(), bytes, "byte {byte:#x}");
            }
        }
    }

    #[test]
    fn literals_are_found_across_the_parts() {
        let text = Text { head: b"abcd", body: b"eFgh" };
        for (start, literal, nocase, has) in [
            (2, &b"cdef"[..], true, true),
            (2, b"cdef", false, false),
            (4, b"eFgh", false, true),
            (0, b"abcd", true, false),
            (0, b"abcde", true, true),
            (6, b"ghi", true, false),
        ] {
            assert_eq!(text.has(start, literal, nocase), has, "{literal:?} at {start}");
        }
    }
}
