//! Reads captures of any format.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use forebay_packet::{Batch, Interface};

use crate::error::Error;
use crate::source::{Filled, ReadAhead, Source};
use crate::writer::Format;
use crate::{pcap, pcapng};

/// Bytes read at a time unless told otherwise. Blocks in flight should fit the
/// cache that the reading thread and the parser share, and still hold a few
/// hundred packets, so that batches are full.
pub const DEFAULT_BLOCK_LEN: usize = 256 << 10;

/// The largest window of zstd unless told otherwise: what RFC 8878 section 3.1.1.1.2
/// recommends that every decoder takes.
pub const DEFAULT_ZSTD_WINDOW: u64 = 8 << 20;

/// The longest record that is read unless told otherwise. Packets of one link type, D-Bus,
/// may be longer.
pub const DEFAULT_LONGEST_RECORD: u64 = 16 << 20;

/// How to read a capture.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Bytes read at a time, from 64 to 256 MiB: values outside are moved in.
    pub block_len: usize,
    /// Cut packets to the capture's snap length, as libpcap does. Without it
    /// a packet that was stored longer is kept whole.
    pub clamp_to_snap_len: bool,
    /// When set, reading ends: it does not wait for a pipe or terminal that has no data,
    /// and fails.
    pub stop: Option<Arc<AtomicBool>>,
    /// The largest window of zstd in bytes, from 1 KiB to 2 GiB, rounded down to a power of
    /// two: decompressing takes so much memory.
    pub zstd_window: u64,
    /// The longest record in bytes, at least 256 KiB: reading takes about twice as much
    /// memory.
    pub longest_record: u64,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            block_len: DEFAULT_BLOCK_LEN,
            clamp_to_snap_len: false,
            stop: None,
            zstd_window: DEFAULT_ZSTD_WINDOW,
            longest_record: DEFAULT_LONGEST_RECORD,
        }
    }
}

/// A capture being read.
///
/// Batches come in file order, hold up to 256 packets of one region, and keep
/// that region alive. A reader's memory does not depend on the length of the
/// capture, only on the block length and on how many batches are held on to.
pub struct Reader {
    input: ReadAhead,
    parser: Parser,
    /// What was parsed before it was asked for.
    ahead: Option<Result<Option<Batch>, Error>>,
    ended: bool,
    given_up: Arc<AtomicBool>,
}

enum Parser {
    Pcap(pcap::Parser),
    Pcapng(pcapng::Parser),
}

impl Parser {
    fn next_batch(&mut self, input: &mut ReadAhead) -> Result<Option<Batch>, Error> {
        match self {
            Self::Pcap(parser) => parser.next_batch(input),
            Self::Pcapng(parser) => parser.next_batch(input),
        }
    }
}

impl Reader {
    /// Opens a capture file; `-` is standard input.
    ///
    /// A pcapng capture is read up to its first batch of packets, so that
    /// [`Reader::interfaces`] tells of the interfaces described before them.
    ///
    /// # Errors
    /// When the file cannot be opened or does not begin as a capture does.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self, Error> {
        let (given_up, flags) = flags(options);
        Self::new(Source::open(path, flags, options.zstd_window)?, options, given_up)
    }

    /// Reads a capture from an open file, which messages call `name`; a regular file from its
    /// position on, which stays as it is.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn of_file(file: File, name: String, options: &ReadOptions) -> Result<Self, Error> {
        let (given_up, flags) = flags(options);
        Self::new(Source::of_file(file, name, flags, options.zstd_window)?, options, given_up)
    }

    /// Reads a capture from `input`, which messages call `name`.
    ///
    /// It is read where it is parsed, without a thread.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn from_read(
        input: Box<dyn Read + Send>,
        name: String,
        options: &ReadOptions,
    ) -> Result<Self, Error> {
        Self::new(Source::from_read(input, name, options.zstd_window)?, options, Arc::default())
    }

    fn new(
        source: Source,
        options: &ReadOptions,
        given_up: Arc<AtomicBool>,
    ) -> Result<Self, Error> {
        let mut input = ReadAhead::new(source, options.block_len)?;
        input.fill(4)?;
        let mut ahead = None;
        let parser = match input.unread().first_chunk() {
            Some(head) if pcap::Parser::recognises(*head) => {
                Parser::Pcap(pcap::Parser::open(&mut input, options)?)
            }
            Some(head) if pcapng::Parser::recognises(*head) => {
                let mut parser = pcapng::Parser::open(&mut input, options)?;
                ahead = Some(parser.next_batch(&mut input));
                Parser::Pcapng(parser)
            }
            _ => return Err(not_a_capture(&mut input)),
        };
        Ok(Self { input, parser, ahead, ended: false, given_up })
    }

    /// The interfaces described so far: the only one of a pcap capture; of pcapng
    /// those before the end of the last batch given out, or of the first one.
    #[must_use]
    pub fn interfaces(&self) -> &Arc<Vec<Interface>> {
        match &self.parser {
            Parser::Pcap(parser) => parser.interfaces(),
            Parser::Pcapng(parser) => parser.interfaces(),
        }
    }

    /// Those of the interfaces that were described before the first packet: all that
    /// is known of a capture without looking at its packets.
    #[must_use]
    pub fn first_interfaces(&self) -> &[Interface] {
        match &self.parser {
            Parser::Pcap(parser) => parser.interfaces(),
            Parser::Pcapng(parser) => parser.first_interfaces(),
        }
    }

    /// The format of the capture, never [`Format::Auto`].
    #[must_use]
    pub fn format(&self) -> Format {
        match &self.parser {
            Parser::Pcap(_) => Format::Pcap,
            Parser::Pcapng(_) => Format::Pcapng,
        }
    }

    /// Bytes of the input that were read so far, as they are stored: of a
    /// compressed capture, compressed bytes.
    #[must_use]
    pub fn position(&self) -> Arc<AtomicU64> {
        self.input.position()
    }

    /// What [`Reader::position`] will be at the end, where that is known.
    #[must_use]
    pub fn total_len(&self) -> Option<u64> {
        self.input.total_len()
    }
}

impl Reader {
    /// Takes a piece of the input over and parses all that is whole. The error, if
    /// any, comes after the batches.
    pub(crate) fn parse(&mut self, filled: Option<Filled>) -> (Vec<Batch>, Option<Error>) {
        if let Some(filled) = filled {
            self.input.supply(filled);
        }
        let mut batches = Vec::new();
        loop {
            let result = match self.ahead.take() {
                Some(result) => result,
                None => self.parser.next_batch(&mut self.input),
            };
            if self.input.take_starved() {
                return (batches, None);
            }
            match result {
                Ok(Some(batch)) => add(&mut batches, batch),
                Ok(None) => break,
                Err(error) => {
                    self.ended = true;
                    return (batches, Some(error));
                }
            }
        }
        self.ended = true;
        (batches, None)
    }

    /// The batches of the next piece of a stream, perhaps none: waits for it, but not before
    /// what is there was given out.
    pub(crate) fn parse_next(&mut self) -> (Vec<Batch>, Option<Error>) {
        let (batches, error) = self.parse(None);
        if !batches.is_empty() || error.is_some() || self.ended {
            return (batches, error);
        }
        let filled = self.input.read_on();
        self.parse(filled)
    }

    /// A flag that ends waits for a pipe or terminal.
    pub(crate) fn given_up(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.given_up)
    }

    /// The next batch, never an empty one; nothing once the capture has ended.
    ///
    /// # Errors
    /// What is wrong with the capture. Every packet before the fault was given
    /// out by earlier calls; calls after the error return nothing.
    pub fn receive(&mut self) -> Result<Option<Batch>, Error> {
        if self.ended {
            return Ok(None);
        }
        let result = match self.ahead.take() {
            Some(result) => result,
            None => self.parser.next_batch(&mut self.input),
        };
        self.ended = !matches!(result, Ok(Some(_)));
        result
    }

    /// Whether nothing more will come.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(crate) fn input(&mut self) -> &mut ReadAhead {
        &mut self.input
    }
}

/// A flag that ends waits for a pipe or terminal, and all flags that do.
fn flags(options: &ReadOptions) -> (Arc<AtomicBool>, Vec<Arc<AtomicBool>>) {
    let given_up = Arc::default();
    let flags = options.stop.iter().chain([&given_up]).map(Arc::clone).collect();
    (given_up, flags)
}

/// Adds a batch to those before it. Where interfaces were described in between, all get the
/// longest list, so that no more than one is kept.
fn add(batches: &mut Vec<Batch>, batch: Batch) {
    let list = batch.interfaces();
    if batches.last().is_some_and(|last| !Arc::ptr_eq(last.interfaces(), list)) {
        batches.iter_mut().for_each(|earlier| earlier.set_interfaces(list));
    }
    batches.push(batch);
}

/// Says what the input is instead of a capture.
fn not_a_capture(input: &mut ReadAhead) -> Error {
    // Only for the message: whatever follows changes nothing.
    let _ = input.fill(8);
    let head = &input.unread()[..input.unread().len().min(8)];
    let what = if head.is_empty() {
        "is empty".to_owned()
    } else {
        let hex: Vec<String> = head.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("is no capture: it begins with the bytes {}", hex.join(" "))
    };
    Error::NotACapture { file: input.name().to_owned(), what }
}
