//! Streams scanned segment by segment.

/// All that is kept of a stream passes the filters again.
pub(crate) const ALL: u8 = u8::MAX;

/// The least bytes that a state has room for, unless all that it keeps are fewer: most segments that
/// are shorter have others behind them.
const LEAST_ROOM: usize = 64;

/// The state of a scan of one direction of a flow: the last bytes of the stream, one fewer than
/// the longest literal has.
#[derive(Clone, Debug, Default)]
pub struct StreamState {
    /// The first `len` are kept.
    bytes: Box<[u8]>,
    len: u32,
    /// How many of the last bytes pass the filters again with those that follow: a literal that ends
    /// behind them has its region in these, or behind them. Or [`ALL`].
    again: u8,
}

/// Bytes of a stream that are scanned together with those of others.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamPart<'a> {
    /// The number that its matches have.
    pub text: u32,
    /// What the stream's state had before these bytes were appended to it.
    pub head: &'a [u8],
    /// The bytes.
    pub bytes: &'a [u8],
    /// [`StreamState::again`] before these bytes were appended.
    pub again: u8,
}

impl StreamState {
    /// Bytes of the state, with those of the stream that it keeps.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }

    /// The bytes of the stream that are kept.
    #[inline]
    #[must_use]
    pub fn tail(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }

    /// What a scan of the last bytes has found out for that of the next.
    #[inline]
    #[must_use]
    pub fn again(&self) -> u8 {
        self.again
    }

    /// Notes what a scan of all bytes so far has found out, as [`Scratch::again`] has it.
    ///
    /// [`Scratch::again`]: crate::Scratch::again
    #[inline]
    pub fn set_again(&mut self, again: u8) {
        self.again = again;
    }

    /// Begins another stream, in the same memory.
    pub fn clear(&mut self) {
        (self.len, self.again) = (0, 0);
    }

    /// Appends bytes of the stream, and keeps of all the last `keep`.
    pub(crate) fn append(&mut self, bytes: &[u8], keep: usize) {
        self.again = ALL;
        if let Some(skip) = bytes.len().checked_sub(keep) {
            if self.bytes.len() < keep {
                self.bytes = bytes[skip..].into();
            } else {
                self.bytes[..keep].copy_from_slice(&bytes[skip..]);
            }
            self.len = keep as u32;
            return;
        }
        let len = self.len as usize;
        let surplus = (len + bytes.len()).saturating_sub(keep);
        let (kept, wanted) = (len - surplus, len - surplus + bytes.len());
        if self.bytes.len() < wanted {
            // Twice as much, to copy each byte of a stream of short segments few times.
            let larger = (2 * wanted).max(LEAST_ROOM).min(keep);
            let mut larger = vec![0; larger].into_boxed_slice();
            larger[..kept].copy_from_slice(&self.bytes[surplus..len]);
            self.bytes = larger;
        } else if surplus > 0 {
            self.bytes.copy_within(surplus..len, 0);
        }
        self.bytes[kept..wanted].copy_from_slice(bytes);
        self.len = wanted as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_as_long_as_a_literal_demands() {
        for keep in [0, 1, 7, 300] {
            let (mut state, mut stream) = (StreamState::default(), Vec::new());
            for len in [0_u8, 3, 1, 200, 0, 90, 120, 1, 255, 2, 5] {
                let bytes: Vec<u8> = (0..len).collect();
                stream.extend_from_slice(&bytes);
                state.append(&bytes, keep);
                assert_eq!(state.tail(), &stream[stream.len().saturating_sub(keep)..]);
                assert!(state.memory() <= 64 + keep, "{} bytes of state", state.memory());
            }
        }
    }
}
