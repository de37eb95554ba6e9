//! The end of a stream, which is scanned again with the bytes that follow.
//!
//! A literal of n bytes that ends in new bytes starts at most n - 1 bytes before them. So the text
//! that is the last n - 1 bytes and the new ones, with n of the longest literal, has every literal
//! that ends in the new bytes. Literals within the tail are found again; they were found before.

use crate::stream::StreamState;

/// The last bytes of one direction of a flow.
#[derive(Clone, Debug, Default)]
pub struct StreamTail {
    state: StreamState,
}

impl StreamTail {
    /// The tail before the next bytes of the stream: the first part of their text.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.state.tail()
    }

    /// Moves on past `bytes`, for literals of at most `longest` bytes.
    pub fn advance(&mut self, bytes: &[u8], longest: usize) {
        self.state.append(bytes, longest.saturating_sub(1));
    }
}
