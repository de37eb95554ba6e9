//! Packets in and out: capture files, read ahead and written whole.
//!
//! [`Reader`] takes pcap and pcapng, plain or compressed with gzip or zstd,
//! from a file or standard input, and gives batches whose packets lie where
//! they were read to: nothing is copied but the records that straddle two
//! blocks of input. [`Writer`] writes either format, copies whole runs of
//! records where it can, and lets a file appear under its name only when it
//! is whole. Both are the file kind of a port: [`Rx`] and [`Tx`] are all that
//! the rest of the program knows of where packets come from and go to.
#![forbid(unsafe_code)]

mod error;
mod lanes;
mod pcap;
mod pcapng;
mod port;
mod reader;
mod snap_len;
mod source;
mod whole_file;
mod writer;

pub use error::Error;
pub use lanes::{Lane, Lanes};
pub use port::{Rx, Tx};
pub use reader::{DEFAULT_BLOCK_LEN, ReadOptions, Reader};
pub use source::Compression;
pub use whole_file::WholeFile;
pub use writer::{Format, OutputName, Summary, WriteOptions, Writer, fits_pcap};
