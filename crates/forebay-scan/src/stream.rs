//! Streams scanned segment by segment.

/// The state of a scan of one direction of a flow: the last bytes of the stream, one fewer than
/// the longest literal has.
#[derive(Clone, Debug, Default)]
pub struct StreamState {
    tail: Vec<u8>,
}

impl StreamState {
    /// Bytes of the state, with those of the stream that it keeps.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.tail.capacity()
    }

    pub(crate) fn tail(&self) -> &[u8] {
        &self.tail
    }

    /// Appends bytes of the stream, and keeps of all the last `keep`.
    pub(crate) fn append(&mut self, bytes: &[u8], keep: usize) {
        if let Some(skip) = bytes.len().checked_sub(keep) {
            self.tail.clear();
            self.tail.reserve_exact(keep);
            self.tail.extend_from_slice(&bytes[skip..]);
            return;
        }
        let surplus = (self.tail.len() + bytes.len()).saturating_sub(keep);
        self.tail.drain(..surplus);
        let wanted = self.tail.len() + bytes.len();
        if self.tail.capacity() < wanted {
            // Twice as much, to copy each byte of a stream of short segments few times.
            self.tail.reserve_exact((2 * wanted).min(keep) - self.tail.len());
        }
        self.tail.extend_from_slice(bytes);
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
