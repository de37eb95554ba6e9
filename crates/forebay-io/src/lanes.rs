//! Reads one capture with several threads, each reading its own blocks.
//!
//! Most of the work of reading a file is copying its pages, which can be parallel; finding
//! packet boundaries cannot, because each record has the offset of the next one. So each
//! lane reads every n-th block into its own memory, waits for its turn, parses the block
//! (the parser moves from lane to lane), and passes the turn on. The lane then processes
//! its packets while they are in its cache.
//!
//! Blocks are assigned round-robin: taking one result from each lane in turn gives the
//! packets in the order of the capture. Pipes and compressed input are always read by one
//! thread; lanes then share only the processing, and regions circulate between that thread
//! and the parser.
//!
//! A result has the batches of one block. A lane that is polled again has finished with its
//! last block, so memory is bounded: as many blocks as there are lanes, and for a long
//! record as many blocks as it spans.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use forebay_packet::{Batch, Interface};

use crate::error::Error;
use crate::reader::Reader;
use crate::source::{Filled, Piece, PlainFile, RegionPool};

/// A capture to be read by several lanes.
pub struct ParallelReader {
    shared: Arc<Shared>,
    blocks: Option<FileBlocks>,
}

/// The blocks of a plain file; there are none if the input is read sequentially.
#[derive(Clone)]
struct FileBlocks {
    file: PlainFile,
    /// The start of the unread part.
    start: u64,
    position: Arc<AtomicU64>,
    region_len: usize,
    headroom: usize,
}

/// Reads every n-th block of a capture.
pub struct Lane {
    shared: Arc<Shared>,
    blocks: Option<FileBlocks>,
    pool: RegionPool,
    /// The next block of this lane, and the number of lanes.
    block: u64,
    lanes: u64,
    /// An error to be returned after the last batches.
    error: Option<Error>,
}

struct Shared {
    reading: Mutex<Reading>,
    next: Condvar,
    /// Set when a lane is dropped: ends a wait for an idle pipe.
    given_up: Arc<AtomicBool>,
}

struct Reading {
    reader: Reader,
    /// Number of the block that may be parsed next.
    turn: u64,
    /// Whether all lanes have ended.
    ended: bool,
}

impl ParallelReader {
    /// Prepares a capture, from which nothing was received yet, for reading in lanes.
    #[must_use]
    pub fn new(mut reader: Reader) -> Self {
        let position = reader.position();
        let given_up = reader.given_up();
        let (region_len, headroom) = reader.input().region_layout();
        let file = reader.input().supplied_by_lanes();
        let blocks =
            file.map(|(file, start)| FileBlocks { file, start, position, region_len, headroom });
        let reading = Reading { reader, turn: 0, ended: false };
        let shared =
            Arc::new(Shared { reading: Mutex::new(reading), next: Condvar::new(), given_up });
        Self { shared, blocks }
    }

    /// The lanes: each must be polled by its own thread, and all in turn.
    #[must_use]
    pub fn split(&mut self, lanes: usize) -> Vec<Lane> {
        (0..lanes as u64)
            .map(|block| Lane {
                shared: Arc::clone(&self.shared),
                blocks: self.blocks.clone(),
                pool: RegionPool::default(),
                block,
                lanes: lanes as u64,
                error: None,
            })
            .collect()
    }

    /// The interfaces described so far.
    #[must_use]
    pub fn interfaces(&self) -> Arc<Vec<Interface>> {
        Arc::clone(self.shared.lock().reader.interfaces())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Reading> {
        // If a lane panics, its `drop` ends the reading.
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    /// The batches of the lane's next block, possibly none; `None` at the end.
    ///
    /// # Errors
    /// As [`crate::Rx::receive`]; all packets before the error were returned, by this lane
    /// or another.
    pub fn receive(&mut self) -> Result<Option<Vec<Batch>>, Error> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let read = self.read_block();
        let shared = Arc::clone(&self.shared);
        let mut reading = shared.lock();
        while reading.turn != self.block && !reading.ended {
            reading = shared.next.wait(reading).unwrap_or_else(PoisonError::into_inner);
        }
        if reading.ended {
            return Ok(None);
        }
        let (batches, error) = match read {
            Some((Some(piece), None)) => reading.reader.parse(Some(Filled::Piece(piece))),
            Some((piece, Some(last))) => {
                if let Some(piece) = piece {
                    reading.reader.input().supply(Filled::Piece(piece));
                }
                reading.reader.parse(Some(last))
            }
            // A full block always gives a piece.
            Some((None, None)) => (Vec::new(), None),
            None => reading.reader.parse_next(),
        };
        if let Some(blocks) = &self.blocks {
            self.pool.put(reading.reader.input().region(), blocks.region_len);
        }
        reading.ended = reading.reader.has_ended();
        reading.turn += 1;
        self.block += self.lanes;
        // A wait that ended because a lane was dropped is no error. Checked with the lock
        // held: no lane can have been dropped yet because this one has just ended.
        self.error = error.filter(|_| !shared.given_up.load(Ordering::Relaxed));
        drop(reading);
        shared.next.notify_all();
        Ok(Some(batches))
    }

    /// Reads the lane's next block of a plain file: its bytes, if there are any, and the
    /// end of the file, if it is reached.
    fn read_block(&mut self) -> Option<(Option<Piece>, Option<Filled>)> {
        let FileBlocks { file, start, position, region_len, headroom } = self.blocks.as_ref()?;
        let region = match self.pool.take(*region_len) {
            Ok(region) => region,
            Err(error) => return Some((None, Some(Filled::Failed(error)))),
        };
        let offset = start + self.block * (region_len - headroom) as u64;
        let (piece, last) = file.read_piece(region, *headroom, offset);
        position.fetch_add(piece.len() as u64, Ordering::Relaxed);
        Some(((piece.len() > 0).then_some(piece), last))
    }
}

impl Drop for Lane {
    /// A dropped lane ends the reading, as the others would wait for it.
    fn drop(&mut self) {
        self.shared.given_up.store(true, Ordering::Relaxed);
        self.shared.lock().ended = true;
        self.shared.next.notify_all();
    }
}
