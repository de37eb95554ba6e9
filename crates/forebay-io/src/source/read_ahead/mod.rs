//! Reads input into blocks in which packets are then parsed.
//!
//! A block is a [`Region`]: headroom, then up to `block_len` bytes of input. If a record
//! straddles two blocks, its beginning is copied into the headroom right before the second
//! block's data, so that the parser always sees contiguous records. A record too long for
//! the headroom gets its own region, whose pages are only used as its bytes arrive: a
//! record that claims a length beyond the input costs nothing.
//!
//! Pipes and compressed input are read ahead by a thread, whose regions circulate: the
//! thread fills one, the parser puts it into batches, and when the last batch is dropped
//! the region is filled again. The parser keeps [`IN_FLIGHT`](stream::IN_FLIGHT) of them
//! with the thread, allocating new ones if batches still hold the old ones, so the thread
//! never waits for the consumer. Memory is bounded by `IN_FLIGHT` blocks, as many spare
//! ones, and those of the batches. Lanes hold few batches: the parser reads on only when a
//! lane is polled, a lane is polled only when its last batches are dropped, and a result
//! has one block.
//!
//! A plain file is read by the thread that parses, so that packets are still in that
//! processor's cache: by the parser itself, or block by block by several
//! [lanes](crate::Lane), which pass their blocks to [`ReadAhead::supply`].

mod pool;
mod stream;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_packet::Region;

use super::input::{Input, Source};
use super::piece::{Filled, Piece};
use super::plain_file::PlainFile;
use crate::compression::{Compression, is_large_window};
use crate::error::Error;
pub(crate) use pool::RegionPool;
use pool::reuse;
use stream::{CallersInput, ReadingThread, Stream};

/// The longest partial record that is moved to the next block: the largest ordinary packet
/// (262,144 bytes) with room for its headers, in whole pages so that input is page-aligned.
const HEADROOM: usize = 272 << 10;

/// Limits of a block's length: offsets in a region are 32 bits wide.
const BLOCK_LEN: std::ops::RangeInclusive<usize> = 64..=256 << 20;

/// The source of pieces.
enum Feed {
    /// An input that is read sequentially.
    Stream(Stream),
    /// The parser reads a file, from this offset on.
    File { file: PlainFile, offset: u64 },
    /// Lanes supply pieces, and report the end. They read them from a file, or one by one
    /// from the stream.
    Supplied { supply: VecDeque<Filled>, stream: Option<Stream> },
}

/// The parser's view of the input: a window of bytes that moves forward.
pub(crate) struct ReadAhead {
    name: String,
    compression: Option<Compression>,
    position: Arc<AtomicU64>,
    total_len: Option<u64>,
    feed: Feed,
    headroom: usize,
    region_len: usize,
    region: Arc<Region>,
    start: usize,
    end: usize,
    /// Input after the window, left over when a long record got its own region.
    pending: Option<Piece>,
    retired: Vec<Arc<Region>>,
    /// The largest window of zstd, for messages.
    window: u64,
    offset: u64,
    ended: bool,
    /// More input was needed and had not been supplied yet.
    starved: bool,
}

impl ReadAhead {
    pub(crate) fn new(source: Source, block_len: usize) -> Result<Self, Error> {
        let block_len = block_len.clamp(*BLOCK_LEN.start(), *BLOCK_LEN.end());
        let headroom = HEADROOM.min(block_len);
        let Source { name, input, compression, position, total_len, window } = source;
        let failed = |source| Error::Open { file: name.clone(), source };
        let feed = match input {
            Input::Plain(file) => {
                let offset = file.start();
                Feed::File { file, offset }
            }
            Input::Stream { input, eager, ending: None } => {
                Feed::Stream(Stream::Caller(CallersInput::new(input, eager)))
            }
            Input::Stream { input, eager, ending: Some(ending) } => Feed::Stream(Stream::Thread(
                ReadingThread::start(input, eager, headroom, ending).map_err(failed)?,
            )),
        };
        let region = Arc::new(Region::new(0).map_err(failed)?);
        Ok(Self {
            name,
            compression,
            position,
            total_len,
            feed,
            headroom,
            region_len: headroom + block_len,
            region,
            start: 0,
            end: 0,
            pending: None,
            retired: Vec::new(),
            window,
            offset: 0,
            ended: false,
            starved: false,
        })
    }

    /// Switches to pieces supplied by lanes. Returns the file and the offset of its unread
    /// part, for lanes to read; `None` if [`ReadAhead::read_on`] provides the pieces.
    pub(crate) fn supplied_by_lanes(&mut self) -> Option<(PlainFile, u64)> {
        let nothing = Feed::Supplied { supply: VecDeque::new(), stream: None };
        match std::mem::replace(&mut self.feed, nothing) {
            Feed::File { file, offset } => return Some((file, offset)),
            Feed::Stream(stream) => {
                self.feed = Feed::Supplied { supply: VecDeque::new(), stream: Some(stream) };
            }
            supplied @ Feed::Supplied { .. } => self.feed = supplied,
        }
        None
    }

    /// Takes a piece, or the end of the input.
    pub(crate) fn supply(&mut self, filled: Filled) {
        if let Feed::Supplied { supply, .. } = &mut self.feed {
            supply.push_back(filled);
        }
    }

    /// Waits for the next piece of a stream, to be supplied; `None` if lanes read a file.
    pub(crate) fn read_on(&mut self) -> Option<Filled> {
        match &mut self.feed {
            Feed::Supplied { stream: Some(stream), .. } => {
                Some(stream.next(&mut self.retired, self.region_len, self.headroom))
            }
            _ => None,
        }
    }

    /// Whether the last call of [`ReadAhead::fill`] failed only because more input has to
    /// be supplied; resets the flag.
    pub(crate) fn take_starved(&mut self) -> bool {
        std::mem::take(&mut self.starved)
    }

    /// Length of a region and of the headroom in it.
    pub(crate) fn region_layout(&self) -> (usize, usize) {
        (self.region_len, self.headroom)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of the input read so far, before decompression.
    pub(crate) fn position(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.position)
    }

    pub(crate) fn total_len(&self) -> Option<u64> {
        self.total_len
    }

    /// The bytes not yet consumed. An incomplete record needs [`ReadAhead::fill`].
    pub(crate) fn unread(&self) -> &[u8] {
        &self.region.bytes()[self.start..self.end]
    }

    /// The region of the unread bytes.
    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Offset in the region of the unread bytes.
    pub(crate) fn window_start(&self) -> usize {
        self.start
    }

    /// Offset in the decompressed input of the first unread byte.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Consumes `n` bytes, at most as many as are unread.
    pub(crate) fn consume(&mut self, n: usize) {
        self.start += n;
        self.offset += n as u64;
    }

    /// Reads on until `need` bytes are unread, in one region. Returns false if the input
    /// ends before.
    pub(crate) fn fill(&mut self, need: usize) -> Result<bool, Error> {
        while self.end - self.start < need {
            let Some(piece) = self.next_piece()? else { return Ok(false) };
            if self.end - self.start <= piece.start {
                self.carry_into(piece);
            } else {
                self.append(piece, need)?;
            }
        }
        Ok(true)
    }

    /// The error for an input that ends within the record at the window.
    pub(crate) fn cut_off(&self, need: usize) -> Error {
        let have = self.end - self.start;
        let what = format!("{have} bytes are left of {need} expected");
        Error::CutOff { file: self.name.clone(), offset: self.offset, what }
    }

    /// Makes `piece` the window, with the unread bytes in front of it.
    fn carry_into(&mut self, mut piece: Piece) {
        let carry = &self.region.bytes()[self.start..self.end];
        let start = piece.start - carry.len();
        piece.region.bytes_mut()[start..piece.start].copy_from_slice(carry);
        let old = std::mem::replace(&mut self.region, Arc::new(piece.region));
        (self.start, self.end) = (start, piece.end);
        self.retire(old);
    }

    /// Keeps a region to be filled again.
    fn retire(&mut self, region: Arc<Region>) {
        // Lanes keep the regions that they read into.
        let is_ours = !matches!(self.feed, Feed::Supplied { stream: None, .. });
        if region.len() == self.region_len && is_ours {
            self.retired.push(region);
        }
    }

    /// Appends the bytes that a record of `need` bytes lacks, from `piece`, to a window in
    /// a region of its own.
    fn append(&mut self, mut piece: Piece, need: usize) -> Result<(), Error> {
        let have = self.end - self.start;
        let take = (need - have).min(piece.end - piece.start);
        let room_behind = self.region.len() - self.end;
        let in_place = self.region.len() != self.region_len && room_behind >= take;
        if !in_place || Arc::get_mut(&mut self.region).is_none() {
            // Longer than the circulating regions, so that `retire` can distinguish them.
            let mut own = Region::new(need.max(self.region_len + 1))
                .map_err(|source| self.read_failed(source))?;
            own.bytes_mut()[..have].copy_from_slice(self.unread());
            let old = std::mem::replace(&mut self.region, Arc::new(own));
            (self.start, self.end) = (0, have);
            self.retire(old);
        }
        let taken = &piece.region.bytes()[piece.start..piece.start + take];
        if let Some(own) = Arc::get_mut(&mut self.region) {
            own.bytes_mut()[self.end..self.end + take].copy_from_slice(taken);
        }
        self.end += take;
        piece.start += take;
        if piece.start < piece.end {
            self.pending = Some(piece);
        } else {
            self.retire(Arc::new(piece.region));
        }
        Ok(())
    }

    fn next_piece(&mut self) -> Result<Option<Piece>, Error> {
        if let Some(piece) = self.pending.take() {
            return Ok(Some(piece));
        }
        if self.ended {
            return Ok(None);
        }
        let filled = match &mut self.feed {
            Feed::Stream(stream) => stream.next(&mut self.retired, self.region_len, self.headroom),
            Feed::Supplied { supply, .. } => match supply.pop_front() {
                Some(filled) => filled,
                None => {
                    self.starved = true;
                    return Ok(None);
                }
            },
            Feed::File { file, offset } => match reuse(&mut self.retired, self.region_len) {
                Ok(region) => {
                    let (piece, last) = file.read_piece(region, self.headroom, *offset);
                    *offset += piece.len() as u64;
                    self.position.fetch_add(piece.len() as u64, Ordering::Relaxed);
                    // A short piece is the last; the next call returns how the file ends.
                    last.filter(|_| piece.len() == 0).unwrap_or(Filled::Piece(piece))
                }
                Err(error) => Filled::Failed(error),
            },
        };
        match filled {
            Filled::Piece(piece) => Ok(Some(piece)),
            Filled::End => {
                self.ended = true;
                Ok(None)
            }
            Filled::Failed(source) => {
                self.ended = true;
                Err(self.read_failed(source))
            }
        }
    }

    /// Maps a read error to its cause.
    fn read_failed(&self, source: io::Error) -> Error {
        let file = self.name.clone();
        let offset = self.offset + (self.end - self.start) as u64;
        if source.kind() == io::ErrorKind::UnexpectedEof {
            let what = match self.compression {
                Some(compression) => {
                    format!("the {compression} data end after {offset} decompressed bytes")
                }
                None => source.to_string(),
            };
            return Error::CutOff { file, offset: self.offset, what };
        }
        match self.compression {
            Some(Compression::Zstd) if is_large_window(&source) => {
                Error::WindowTooLarge { file, offset, limit: self.window }
            }
            Some(compression) if source.raw_os_error().is_none() => {
                Error::Decompress { file, offset, compression, source }
            }
            _ => Error::Read { file, offset, source },
        }
    }
}
