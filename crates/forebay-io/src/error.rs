//! Errors of ports. Each names the file or the device, and, where applicable, the byte of
//! the (decompressed) capture.

use std::io;

use crate::compression::Compression;
use crate::device::DeviceError;

/// Why a port cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input is not a capture.
    #[error(
        "{file} {what}; expected a pcap or pcapng capture, plain or compressed by gzip or zstd"
    )]
    NotACapture {
        /// The input.
        file: String,
        /// What the input is instead.
        what: String,
    },
    /// The input ends within a record.
    #[error("{file} is cut off: the record at byte {offset} is not whole: {what}")]
    CutOff {
        /// The input.
        file: String,
        /// Start of the truncated record, in bytes of the decompressed capture.
        offset: u64,
        /// What was found and what was expected.
        what: String,
    },
    /// An invalid header, record or block.
    #[error("{file} is damaged at byte {offset}: {what}")]
    BadRecord {
        /// The input.
        file: String,
        /// Start of the record, in bytes of the decompressed capture.
        offset: u64,
        /// What was found and what was expected.
        what: String,
    },
    /// A pcapng packet refers to an interface that its section does not describe.
    #[error(
        "{file} is damaged at byte {offset}: a packet of interface {id}, \
         but the section describes {described} interface(s) up to there"
    )]
    UndefinedInterface {
        /// The input.
        file: String,
        /// Start of the packet's block.
        offset: u64,
        /// The number of the interface in the block.
        id: u32,
        /// Interfaces of the section so far.
        described: usize,
    },
    /// A pcapng capture describes more interfaces than batches can refer to.
    #[error("{file} describes more than {limit} interfaces at byte {offset}")]
    TooManyInterfaces {
        /// The input.
        file: String,
        /// Start of the block of the first interface too many.
        offset: u64,
        /// The limit.
        limit: usize,
    },
    /// A pcapng capture describes its interfaces at greater length than a reader keeps.
    #[error("{file} describes {what} at byte {offset}")]
    TooMuchDescribed {
        /// The input.
        file: String,
        /// Start of the interface's block.
        offset: u64,
        /// What exceeds which limit.
        what: String,
    },
    /// A record is longer than [`ReadOptions::longest_record`](crate::ReadOptions).
    #[error(
        "{file}: the record at byte {offset} takes {len} bytes; at most {limit} are read at once"
    )]
    RecordTooLong {
        /// The input.
        file: String,
        /// Start of the record, in bytes of the decompressed capture.
        offset: u64,
        /// Its size in memory, without a header.
        len: u64,
        /// The limit.
        limit: u64,
    },
    /// Decompressing takes a larger window than [`ReadOptions::zstd_window`](crate::ReadOptions).
    #[error(
        "{file}: after {offset} decompressed bytes, the zstd data need a window of more than \
         {} MiB", limit >> 20
    )]
    WindowTooLarge {
        /// The input.
        file: String,
        /// Decompressed bytes before the frame.
        offset: u64,
        /// The largest window accepted, in bytes.
        limit: u64,
    },
    /// The compressed data are damaged.
    #[error(
        "{file}: the {compression} data are damaged after {offset} decompressed bytes: {source}"
    )]
    Decompress {
        /// The input.
        file: String,
        /// Decompressed bytes before the damage.
        offset: u64,
        /// How the input is compressed.
        compression: Compression,
        /// The decompressor's error.
        source: io::Error,
    },
    /// The input cannot be opened.
    #[error("cannot open {file}: {source}")]
    Open {
        /// The input.
        file: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The input cannot be read.
    #[error("cannot read {file} after byte {offset}: {source}")]
    Read {
        /// The input.
        file: String,
        /// Bytes of the decompressed capture before the failure.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// The output cannot be created.
    #[error("cannot create {file}: {source}")]
    Create {
        /// The output.
        file: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The output cannot be written: a full disk, a closed pipe.
    #[error("cannot write {file}: {source}")]
    Write {
        /// The output.
        file: String,
        /// The system's reason.
        source: io::Error,
    },
    /// What is to be written does not fit the format of the output.
    #[error("{file} cannot hold this: {what}")]
    DoesNotFit {
        /// The output.
        file: String,
        /// What does not fit, and into what.
        what: String,
    },
    /// A network device cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
