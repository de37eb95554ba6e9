//! Compiled filters, ready to run.
//!
//! `forebay-codegen` turns a filter into bytes; this crate makes them
//! executable, and runs them such that nothing a caller can do in safe code
//! makes them read or write what they must not. [`Filter`] is one filter,
//! [`FilterSet`] that of a capture with several link types; both run the
//! interpreter instead where that is asked for. [`Packets`] is how packets are
//! handed over: memory and tables that were checked to agree.
//!
//! The crate runs on Linux on x86-64.
#![deny(unsafe_code)]

pub mod call;
pub mod cpu;
mod error;
mod filter;
mod marks;
pub mod memory;
mod options;
mod packets;
pub mod perf_map;
pub mod planes;
mod set;
mod verified;

pub use call::{Kernel, Tally};
pub use error::JitError;
pub use filter::Filter;
pub use forebay_codegen::code::{Backend, Isa};
pub use options::Options;
pub use packets::{Packets, PacketsError};
pub use set::{FilterError, FilterSet, SetError};
pub use verified::Verified;
