//! The end of a stream, which is scanned again with the bytes that follow.
//!
//! A literal of n bytes that ends in new bytes starts at most n - 1 bytes before them. So the text
//! that is the last n - 1 bytes and the new ones, with n of the longest literal, has every literal
//! that ends in the new bytes. Literals within the tail are found again; they were found before.

/// The last bytes of one direction of a flow.
#[derive(Clone, Debug, Default)]
pub struct StreamTail {
    bytes: Vec<u8>,
}

impl StreamTail {
    /// The tail before the next bytes of the stream: the first part of their text.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Moves on past `bytes`, for literals of at most `longest` bytes.
    pub fn advance(&mut self, bytes: &[u8], longest: usize) {
        let keep = longest.saturating_sub(1);
        if bytes.len() >= keep {
            self.bytes.clear();
            self.bytes.extend_from_slice(&bytes[bytes.len() - keep..]);
        } else {
            let excess = (self.bytes.len() + bytes.len()).saturating_sub(keep);
            self.bytes.drain(..excess);
            self.bytes.extend_from_slice(bytes);
        }
    }
}
