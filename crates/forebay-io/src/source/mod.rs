//! The bytes of a capture: from a file, a pipe or standard input, decompressed if
//! necessary.
//!
//! Compression is detected from the first bytes, never from the name: gzip (RFC 1952
//! section 2.3.1) and zstd (RFC 8878 sections 3.1.1 and 3.1.2, including skippable frames),
//! both with any number of members or frames.

mod input;
mod piece;
mod plain_file;
mod read_ahead;

pub(crate) use input::Source;
pub(crate) use piece::{Filled, Piece};
pub(crate) use plain_file::PlainFile;
pub(crate) use read_ahead::{ReadAhead, RegionPool};
