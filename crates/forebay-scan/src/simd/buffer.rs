//! The text that filters read: folded, several texts one after another, with room on both sides.
//!
//! Filters load whole vectors. A copy with room around it lets them do so without reading outside
//! a text, and lets short texts share vectors. Bytes of one text and the next one can pass a
//! filter together; the confirmation compares with the text itself and refuses those.

use super::kernel::{self, Level};

/// The most bytes in a buffer. It fits the first-level cache together with the filter.
pub const CAPACITY: usize = 8192;

/// Readable bytes in front of the text.
pub const FRONT: usize = 64;

/// Readable bytes behind the text: a vector that starts at its last byte, and as much again.
pub const BACK: usize = 128;

const SIZE: usize = FRONT + CAPACITY + BACK;

/// A folded text of up to [`CAPACITY`] bytes.
#[derive(Clone)]
pub struct Buffer {
    bytes: Box<[u8; SIZE]>,
    len: usize,
}

impl Buffer {
    pub fn new() -> Self {
        Self { bytes: Box::new([0; SIZE]), len: 0 }
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn room(&self) -> usize {
        CAPACITY - self.len
    }

    /// Appends `text`, folded. It is at most as long as the room.
    #[inline]
    pub fn append(&mut self, text: &[u8], level: Level) {
        let start = FRONT + self.len;
        let to = &mut self.bytes[start..];
        assert!(text.len() + BACK <= to.len(), "a text is not longer than the room");
        kernel::fold(level, text, to);
        self.len += text.len();
    }

    /// Writes zeros behind the text, as far as filters read.
    pub fn seal(&mut self) {
        let end = FRONT + self.len;
        self.bytes[end..end + BACK].fill(0);
    }

    /// All bytes; the text starts at [`FRONT`].
    pub fn bytes(&self) -> &[u8; SIZE] {
        &self.bytes
    }
}

/// The type of [`Buffer::bytes`].
pub type Bytes = [u8; SIZE];

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).finish_non_exhaustive()
    }
}
