//! Several threads read one capture, each its own blocks.
//!
//! Copying a file's pages is most of the work of reading it, and it can be shared;
//! finding where packets begin cannot, because each record says where the next one
//! starts. So each lane reads every n-th block into memory of its own, waits for its
//! turn, parses the block (the parser goes from lane to lane), and hands the turn on.
//! What a lane then does with its packets, it does with its own cache still warm.
//!
//! Blocks are dealt in turn: taking one answer from each lane in turn gives the
//! packets in the order of the capture. Pipes and compressed input are read by one
//! thread in any case; there the lanes share only what follows, and the regions go round
//! between that thread and the parser.
//!
//! An answer is what one block has. A lane that is asked for the next one is done with the
//! last, so what lanes hold is bounded: as many blocks as there are lanes, and a long record
//! for as many blocks as it has bytes for.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use forebay_packet::{Batch, Interface, Region};

use crate::error::Error;
use crate::reader::Reader;
use crate::source::{Filled, Piece, PlainFile, RegionPool};

/// A capture that is read in lanes.
pub struct ParallelReader {
    shared: Arc<Shared>,
    /// The file and where its unread part begins; nothing where the input is read in order.
    file: Option<(PlainFile, u64)>,
    position: Arc<AtomicU64>,
    region_len: usize,
    headroom: usize,
}

/// Reads every n-th block of a capture.
pub struct Lane {
    shared: Arc<Shared>,
    file: Option<(PlainFile, u64)>,
    position: Arc<AtomicU64>,
    region_len: usize,
    headroom: usize,
    pool: RegionPool,
    /// The block that this lane does next, and how many lanes there are.
    block: u64,
    lanes: u64,
    /// What went wrong behind the last batches.
    error: Option<Error>,
}

struct Shared {
    state: Mutex<State>,
    next: Condvar,
    /// Set when a lane is given up: ends a wait for a pipe that has nothing to give.
    given_up: Arc<AtomicBool>,
}

struct State {
    reader: Reader,
    /// Number of the block whose lane may parse.
    turn: u64,
    /// No lane has anything more to do.
    ended: bool,
}

impl ParallelReader {
    /// Prepares a capture, of which nothing was received yet, to be read in lanes.
    #[must_use]
    pub fn new(mut reader: Reader) -> Self {
        let position = reader.position();
        let given_up = reader.given_up();
        let (region_len, headroom) = reader.input().region_layout();
        let file = reader.input().supplied_by_lanes();
        let state = State { reader, turn: 0, ended: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), next: Condvar::new(), given_up });
        Self { shared, file, position, region_len, headroom }
    }

    /// The lanes: all of them must be asked in turn, each by a thread of its own.
    #[must_use]
    pub fn split(&mut self, lanes: usize) -> Vec<Lane> {
        (0..lanes as u64)
            .map(|block| Lane {
                shared: Arc::clone(&self.shared),
                file: self.file.clone(),
                position: Arc::clone(&self.position),
                region_len: self.region_len,
                headroom: self.headroom,
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
    fn lock(&self) -> MutexGuard<'_, State> {
        // A lane that panicked has ended the reading: see its `drop`.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    /// The batches of the lane's next block, perhaps none; nothing at the end.
    ///
    /// # Errors
    /// As [`crate::Rx::receive`]; all packets before the fault were given out, by
    /// this lane or another.
    pub fn receive(&mut self) -> Result<Option<Vec<Batch>>, Error> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let read = self.read_block();
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        while state.turn != self.block && !state.ended {
            state = shared.next.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.ended {
            return Ok(None);
        }
        let (batches, error) = match read {
            Some((Some(piece), None)) => state.reader.parse(Some(Filled::Piece(piece))),
            Some((piece, Some(last))) => {
                if let Some(piece) = piece {
                    state.reader.input().supply(Filled::Piece(piece));
                }
                state.reader.parse(Some(last))
            }
            // A full block is a piece.
            Some((None, None)) => (Vec::new(), None),
            None => state.reader.parse_next(),
        };
        if self.file.is_some() {
            self.pool.put(state.reader.input().region(), self.region_len);
        }
        state.ended = state.reader.has_ended();
        state.turn += 1;
        self.block += self.lanes;
        // A wait that was ended because no lane reads on did not fail. Checked with the
        // lock held: no lane can have gone yet because this one has just ended.
        self.error = error.filter(|_| !shared.given_up.load(Ordering::Relaxed));
        drop(state);
        shared.next.notify_all();
        Ok(Some(batches))
    }

    /// Reads the lane's next block of a plain file: the bytes, if there are any,
    /// and how the file ends, if it does.
    fn read_block(&mut self) -> Option<(Option<Piece>, Option<Filled>)> {
        let (file, start) = self.file.as_ref()?;
        let region: io::Result<Region> = self.pool.take(self.region_len);
        let region = match region {
            Ok(region) => region,
            Err(error) => return Some((None, Some(Filled::Failed(error)))),
        };
        let block_len = (self.region_len - self.headroom) as u64;
        let offset = start + self.block * block_len;
        let (piece, last) = Piece::read(region, self.headroom, file, offset);
        self.position.fetch_add(piece.len() as u64, Ordering::Relaxed);
        Some(((piece.len() > 0).then_some(piece), last))
    }
}

impl Drop for Lane {
    /// A lane that is given up ends the reading: the others would wait for it.
    fn drop(&mut self) {
        self.shared.given_up.store(true, Ordering::Relaxed);
        self.shared.lock().ended = true;
        self.shared.next.notify_all();
    }
}
