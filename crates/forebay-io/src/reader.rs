//! Reads captures of any format.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use forebay_packet::{Batch, Interface};

use crate::error::Error;
use crate::format::Format;
use crate::read_options::ReadOptions;
use crate::source::{Filled, ReadAhead, Source};
use crate::{pcap, pcapng};

/// A capture being read.
///
/// Batches come in file order, hold up to 256 packets of one region, and keep that region
/// alive. A reader's memory does not depend on the length of the capture, only on the block
/// length and on the number of batches kept.
pub struct Reader {
    input: ReadAhead,
    parser: Parser,
    /// The batch that was parsed in advance.
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
    /// [`Reader::interfaces`] has the interfaces described before them.
    ///
    /// # Errors
    /// If the file cannot be opened or is not a capture.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self, Error> {
        let (given_up, flags) = flags(options);
        Self::new(Source::open(path, flags, options.zstd_window)?, options, given_up)
    }

    /// Reads a capture from an open file, called `name` in messages; a regular file from
    /// its present position, which does not change.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn of_file(file: File, name: String, options: &ReadOptions) -> Result<Self, Error> {
        let (given_up, flags) = flags(options);
        Self::new(Source::of_file(file, name, flags, options.zstd_window)?, options, given_up)
    }

    /// Reads a capture from `input`, called `name` in messages.
    ///
    /// It is read by the thread that parses.
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

    /// The interfaces described so far: the only one of a pcap capture; of pcapng those
    /// before the end of the last batch returned, or of the first one.
    #[must_use]
    pub fn interfaces(&self) -> &Arc<Vec<Interface>> {
        match &self.parser {
            Parser::Pcap(parser) => parser.interfaces(),
            Parser::Pcapng(parser) => parser.interfaces(),
        }
    }

    /// The interfaces described before the first packet.
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

    /// Bytes of the input read so far, as stored: compressed bytes of a compressed capture.
    #[must_use]
    pub fn position(&self) -> Arc<AtomicU64> {
        self.input.position()
    }

    /// The value of [`Reader::position`] at the end, if known.
    #[must_use]
    pub fn total_len(&self) -> Option<u64> {
        self.input.total_len()
    }
}

impl Reader {
    /// Takes a piece of the input and parses all complete records. An error, if any, comes
    /// after the batches.
    pub(crate) fn parse(&mut self, filled: Option<Filled>) -> (Vec<Batch>, Option<Error>) {
        if let Some(filled) = filled {
            self.input.supply(filled);
        }
        let mut batches = Vec::new();
        loop {
            let result = self.next_batch();
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

    fn next_batch(&mut self) -> Result<Option<Batch>, Error> {
        self.ahead.take().unwrap_or_else(|| self.parser.next_batch(&mut self.input))
    }

    /// The batches of the next piece of a stream, possibly none. Waits for it, but only
    /// after all available batches were returned.
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

    /// The next batch, never empty; `None` at the end of the capture.
    ///
    /// # Errors
    /// An error of the capture. Every packet before it was returned by earlier calls; calls
    /// after the error return `None`.
    pub fn receive(&mut self) -> Result<Option<Batch>, Error> {
        if self.ended {
            return Ok(None);
        }
        let result = self.next_batch();
        self.ended = !matches!(result, Ok(Some(_)));
        result
    }

    /// Whether no more batches will come.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(crate) fn input(&mut self) -> &mut ReadAhead {
        &mut self.input
    }
}

/// The flag that ends waits for a pipe or terminal, and all such flags.
fn flags(options: &ReadOptions) -> (Arc<AtomicBool>, Vec<Arc<AtomicBool>>) {
    let given_up = Arc::default();
    let flags = options.stop.iter().chain([&given_up]).map(Arc::clone).collect();
    (given_up, flags)
}

/// Adds a batch to those before it. If interfaces were described in between, all get the
/// longest list, so that only one is kept.
fn add(batches: &mut Vec<Batch>, batch: Batch) {
    let list = batch.interfaces();
    if batches.last().is_some_and(|last| !Arc::ptr_eq(last.interfaces(), list)) {
        batches.iter_mut().for_each(|earlier| earlier.set_interfaces(list));
    }
    batches.push(batch);
}

/// The error that describes what the input is instead of a capture.
fn not_a_capture(input: &mut ReadAhead) -> Error {
    // Only for the message; the result does not matter.
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
