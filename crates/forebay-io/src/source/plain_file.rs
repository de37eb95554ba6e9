//! Regular files: read at any offset, so that several threads can share one.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use forebay_packet::Region;

use super::piece::{Filled, Piece};

/// A regular file, read at any offset, by several threads if necessary. Reports a file that
/// ends before its known length.
#[derive(Clone)]
pub(crate) struct PlainFile {
    file: Arc<File>,
    /// Start of the capture: standard input may have been read before.
    start: u64,
    opened_len: u64,
}

impl PlainFile {
    /// Opens access to `file`, which has `opened_len` bytes; the capture begins at `start`.
    pub(super) fn new(file: File, start: u64, opened_len: u64) -> Self {
        Self { file: Arc::new(file), start, opened_len }
    }

    /// Offset of the capture in the file.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Fills `block` with the bytes at `offset`. Returns their number and, if the file ends
    /// before the block does, how it ends.
    pub(super) fn read_block(&self, block: &mut [u8], offset: u64) -> (usize, Option<Filled>) {
        let mut len = 0;
        while len < block.len() {
            match self.file.read_at(&mut block[len..], offset + len as u64) {
                Ok(0) => return (len, Some(self.end_at(offset + len as u64))),
                Ok(n) => len += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (len, Some(Filled::Failed(error))),
            }
        }
        (len, None)
    }

    /// Fills a region from `headroom` on with the bytes at `offset`.
    pub(crate) fn read_piece(
        &self,
        mut region: Region,
        headroom: usize,
        offset: u64,
    ) -> (Piece, Option<Filled>) {
        let (len, last) = self.read_block(&mut region.bytes_mut()[headroom..], offset);
        (Piece { region, start: headroom, end: headroom + len }, last)
    }

    fn end_at(&self, offset: u64) -> Filled {
        let Some(lost) = self.opened_len.checked_sub(offset).filter(|&lost| lost > 0) else {
            return Filled::End;
        };
        Filled::Failed(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!(
                "the file had {} bytes when it was opened and lost {lost} since",
                self.opened_len
            ),
        ))
    }
}

/// A regular file read sequentially.
pub(super) struct FromStart {
    pub(super) file: PlainFile,
    pub(super) offset: u64,
}

impl Read for FromStart {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let (len, last) = self.file.read_block(buf, self.offset);
        self.offset += len as u64;
        match last {
            Some(Filled::Failed(error)) if len == 0 => Err(error),
            _ => Ok(len),
        }
    }
}
