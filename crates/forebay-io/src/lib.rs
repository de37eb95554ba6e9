//! Packets in and out: capture files, network devices, rings in memory.
//!
//! [`Rx`] and [`Tx`] are all that the rest of the program knows of where packets come from
//! and go to. Their kinds:
//!
//! | module | packets come from and go to |
//! |---|---|
//! | (capture files) | [`CaptureRx`], [`CaptureTx`], over [`Reader`] and [`Writer`] |
//! | [`af_packet`] | a network device, by rings shared with the kernel's stack |
//! | [`af_xdp`] | a network device's queues, below that stack |
//! | [`redirect`] | (only to) a device that takes frames from XDP programs |
//! | [`tap`] | a device of our own making, whose other side the host sees |
//! | [`mem`] | rings in memory |
//!
//! [`device`] tells what a network device is and whether it is fit to be a port. [`text`]
//! reads files whole, up to a limit.
//!
//! [`Reader`] takes pcap and pcapng, plain or compressed with gzip or zstd,
//! from a file or standard input, and gives batches whose packets lie where
//! they were read to: nothing is copied but the records that straddle two
//! blocks of input. [`Writer`] writes either format, copies whole runs of
//! records where it can, and lets a file appear under its name only when it
//! is whole. [`Series`] writes one file after another, by size and by time.
#![deny(unsafe_code)]

pub mod af_packet;
pub mod af_xdp;
pub mod date;
pub mod device;
mod error;
mod file_port;
mod frame;
mod lanes;
pub mod mem;
mod partial;
mod pcap;
mod pcapng;
mod port;
mod reader;
pub mod redirect;
mod series;
mod snap_len;
mod source;
pub mod tap;
pub mod text;
mod whole_file;
mod writer;

pub use error::Error;
pub use file_port::{CaptureRx, CaptureTx, OnFull};
pub use lanes::{Lane, ParallelReader};
pub use port::{Losses, Received, Recorded, Rx, RxCounters, Tx, TxCounters};
pub use reader::{
    DEFAULT_BLOCK_LEN, DEFAULT_LONGEST_RECORD, DEFAULT_ZSTD_WINDOW, ReadOptions, Reader,
};
pub use series::{BadPattern, Naming, Series, SeriesOptions};
pub use source::Compression;
pub use whole_file::{Placement, WholeFile, is_stream};
pub use writer::{Format, OutputName, Summary, Tally, WriteOptions, Writer, fits_pcap};
