//! Inputs that are read sequentially, by a read-ahead thread or by the parser.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use forebay_packet::Region;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::pool::reuse;
use crate::source::input::Ending;
use crate::source::piece::{Filled, Piece};

/// Blocks with the reading thread: being filled, or waiting for the parser.
pub(super) const IN_FLIGHT: usize = 4;

/// An input that is read from beginning to end.
pub(super) enum Stream {
    /// A thread reads ahead.
    Thread(ReadingThread),
    /// The caller's reader, read by the parser.
    Caller(CallersInput),
}

/// An input that the parser reads in order.
pub(super) struct CallersInput {
    input: Box<dyn Read + Send>,
    eager: bool,
    /// How it ended, if not returned yet.
    last: Option<Filled>,
}

/// The thread that reads pipes and compressed input.
pub(super) struct ReadingThread {
    filled: Option<Receiver<Filled>>,
    empty: Option<Sender<Region>>,
    thread: Option<JoinHandle<()>>,
    ending: Ending,
    in_flight: usize,
}

impl Stream {
    /// The next piece, in a region that no batch holds any more, or a new one.
    pub(super) fn next(
        &mut self,
        retired: &mut Vec<Arc<Region>>,
        region_len: usize,
        headroom: usize,
    ) -> Filled {
        match self {
            Self::Thread(thread) => match thread.hand_out(retired, region_len) {
                Ok(()) => thread.receive(),
                Err(error) => Filled::Failed(error),
            },
            Self::Caller(caller) => match reuse(retired, region_len) {
                Ok(region) => caller.read(region, headroom),
                Err(error) => Filled::Failed(error),
            },
        }
    }
}

impl CallersInput {
    pub(super) fn new(input: Box<dyn Read + Send>, eager: bool) -> Self {
        Self { input, eager, last: None }
    }

    fn read(&mut self, mut region: Region, headroom: usize) -> Filled {
        if let Some(last) = self.last.take() {
            return last;
        }
        let block = &mut region.bytes_mut()[headroom..];
        let (len, last) = fill_block(&mut self.input, block, self.eager);
        match last {
            Some(last) if len == 0 => last,
            last => {
                self.last = last;
                Filled::Piece(Piece { region, start: headroom, end: headroom + len })
            }
        }
    }
}

/// Drops all capabilities: the thread parses untrusted compressed data from an open file
/// and needs none.
fn give_up_capabilities() {
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    // Dropping capabilities is always permitted.
    let _ = set_capabilities(None, none);
}

impl ReadingThread {
    pub(super) fn start(
        input: Box<dyn Read + Send>,
        eager: bool,
        headroom: usize,
        ending: Ending,
    ) -> io::Result<Self> {
        let (to_parser, filled) = sync_channel(IN_FLIGHT + 1);
        let (empty, from_parser) = channel();
        let (reads, begins) = channel::<()>();
        let work = move || {
            give_up_capabilities();
            drop(reads);
            fill_regions(input, eager, headroom, &from_parser, &to_parser);
        };
        let thread = std::thread::Builder::new().name("forebay-read".to_owned()).spawn(work)?;
        // The creator may soon confine the process, after which capabilities could not be
        // dropped.
        let _ = begins.recv();
        let (filled, empty, thread) = (Some(filled), Some(empty), Some(thread));
        Ok(Self { filled, empty, thread, ending, in_flight: 0 })
    }

    fn receive(&mut self) -> Filled {
        match self.filled.as_ref().and_then(|filled| filled.recv().ok()) {
            Some(filled) => {
                self.in_flight -= usize::from(matches!(filled, Filled::Piece(_)));
                filled
            }
            None => Filled::Failed(io::Error::other("the reading thread stopped")),
        }
    }

    /// Gives the thread more regions to fill, reusing those that no batch holds any more.
    fn hand_out(&mut self, retired: &mut Vec<Arc<Region>>, region_len: usize) -> io::Result<()> {
        while self.in_flight < IN_FLIGHT {
            let region = reuse(retired, region_len)?;
            // A thread that has ended needs no more regions.
            if let Some(empty) = &self.empty {
                let _ = empty.send(region);
            }
            self.in_flight += 1;
        }
        Ok(())
    }
}

impl Drop for ReadingThread {
    fn drop(&mut self) {
        self.filled = None;
        self.empty = None;
        drop(self.ending.0.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported as a failed read.
            let _ = thread.join();
        }
    }
}

/// The thread: fills regions until the input or the parser ends.
fn fill_regions(
    mut input: Box<dyn Read + Send>,
    eager: bool,
    headroom: usize,
    empty: &Receiver<Region>,
    filled: &SyncSender<Filled>,
) {
    while let Ok(mut region) = empty.recv() {
        let (len, last) = fill_block(&mut input, &mut region.bytes_mut()[headroom..], eager);
        if len > 0 {
            let piece = Piece { region, start: headroom, end: headroom + len };
            if filled.send(Filled::Piece(piece)).is_err() {
                return;
            }
        }
        if let Some(last) = last {
            // If the parser is gone, the result is not needed.
            let _ = filled.send(last);
            return;
        }
    }
}

/// Bytes read, and how the input ended if it did.
fn fill_block(
    input: &mut Box<dyn Read + Send>,
    block: &mut [u8],
    eager: bool,
) -> (usize, Option<Filled>) {
    let mut len = 0;
    while len < block.len() && !(eager && len > 0) {
        match input.read(&mut block[len..]) {
            Ok(0) => return (len, Some(Filled::End)),
            Ok(n) => len += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (len, Some(Filled::Failed(error))),
        }
    }
    (len, None)
}
