//! Records of flows in the formats that other programs read.
//!
//! A [`Row`] is a record with names. A [`RecordWriter`] writes rows as [CSV, JSON lines or
//! Parquet](RecordFormat), with the same content. [`RecordFiles`] are written one after another, by
//! size and by time. The crate is apart from `forebay-flow`, so
//! that programs which only count flows are built without Parquet.
#![forbid(unsafe_code)]

mod columns;
mod files;
mod lines;
pub mod naming;
mod row;
mod writer;

pub use files::{FileOptions, RecordFiles};
pub use lines::as_json;
pub use row::{Origin, Row};
pub use writer::{RecordFormat, RecordWriter};
