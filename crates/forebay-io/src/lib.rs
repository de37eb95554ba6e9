//! Input and output of packets: capture files, network devices, rings in memory.
//!
//! [`Rx`] and [`Tx`] are the interface of ports to the rest of the program. The kinds of
//! ports:
//!
//! | module | port |
//! |---|---|
//! | (capture files) | [`CaptureRx`], [`CaptureTx`], over [`Reader`] and [`Writer`] |
//! | [`af_packet`] | a network device, with rings shared with the kernel's stack |
//! | [`af_xdp`] | a network device's queues, below that stack |
//! | [`redirect`] | (output only) a device that accepts redirected XDP frames |
//! | [`tap`] | a TAP device, whose other side is the host |
//! | [`mem`] | rings in memory |
//!
//! [`device`] describes network devices and checks their suitability as ports. [`text`]
//! reads files whole, up to a limit.
//!
//! [`Reader`] reads pcap and pcapng, plain or compressed with gzip or zstd, from a file or
//! standard input, and returns batches that refer to the memory read: only records that
//! straddle two blocks of input are copied. [`Writer`] writes either format, copies whole
//! runs of records where it can, and creates the file under its name only when it is
//! complete. [`Series`] writes one file after another, by size and by time.
#![deny(unsafe_code)]

pub mod af_packet;
pub mod af_xdp;
mod compression;
pub mod date;
pub mod device;
mod error;
mod file_port;
mod format;
mod frame;
mod lanes;
pub mod mem;
mod partial;
mod pcap;
mod pcapng;
mod port;
mod read_options;
mod reader;
pub mod redirect;
mod series;
mod snap_len;
mod source;
pub mod tap;
pub mod text;
mod whole_file;
mod writer;

pub use compression::Compression;
pub use error::Error;
pub use file_port::{CaptureRx, CaptureTx, OnFull};
pub use format::Format;
pub use lanes::{Lane, ParallelReader};
pub use port::{Losses, Received, Recorded, Rx, RxCounters, Tx, TxCounters};
pub use read_options::{
    DEFAULT_BLOCK_LEN, DEFAULT_LONGEST_RECORD, DEFAULT_ZSTD_WINDOW, ReadOptions,
};
pub use reader::Reader;
pub use series::{BadPattern, Naming, Numbered, Series, SeriesOptions};
pub use whole_file::{Placement, WholeFile, is_stream};
pub use writer::{OutputName, Summary, Tally, WriteOptions, Writer, fits_pcap};
