//! Pieces of an input in memory.

use std::io;

use forebay_packet::Region;

/// A region and the range of input bytes in it.
pub(crate) struct Piece {
    pub(super) region: Region,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Piece {
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }
}

/// The result of reading.
pub(crate) enum Filled {
    Piece(Piece),
    End,
    Failed(io::Error),
}
