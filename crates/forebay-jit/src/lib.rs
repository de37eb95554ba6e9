//! Compiled filters, ready to run.
//!
//! `forebay-codegen` turns a filter into bytes; this crate makes them
//! executable, and calls them such that safe code cannot make them read or
//! write out of bounds. [`Filter`] is one filter, [`FilterSet`] that of a
//! capture with several link types; both run the interpreter instead if
//! requested. [`Packets`] is the form in which packets are passed: memory and
//! tables that were checked against each other.
//!
//! The crate supports Linux on x86-64.
#![deny(unsafe_code)]

pub mod call;
pub mod cpu;
mod error;
mod filter;
mod loops;
mod marks;
pub mod memory;
mod options;
mod packets;
pub mod perf_map;
pub mod planes;
mod residence;
mod set;
mod verified;

pub use call::{Kernel, Tally};
pub use error::{JitError, SetError};
pub use filter::Filter;
pub use forebay_codegen::code::{Backend, Isa};
pub use options::Options;
pub use packets::{Packets, PacketsError};
pub use set::{FilterError, FilterSet};
pub use verified::Verified;
