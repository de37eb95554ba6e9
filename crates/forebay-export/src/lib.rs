//! Records of flows in the formats that other programs read.
//!
//! A [`Row`] is a record with names. A [`RecordWriter`] writes rows as [CSV, JSON lines or
//! Parquet](RecordFormat), with the same content. [`RecordFiles`] are written one after another, by
//! size and by time, and a [`RecordStream`] goes to a program that reads it. The crate is apart from `forebay-flow`, so
//! that programs which only count flows are built without Parquet.
#![forbid(unsafe_code)]

mod columns;
mod files;
mod lines;
pub mod naming;
mod output;
mod row;
mod stream;
mod writer;

pub use files::{FileOptions, RecordFiles};
pub use lines::as_json;
pub use output::RecordOutput;
pub use row::{Origin, Row};
pub use stream::{LineFormat, RecordStream, StreamTarget, Waiting};
pub use writer::{RecordFormat, RecordWriter};
