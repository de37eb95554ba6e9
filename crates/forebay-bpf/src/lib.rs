//! BPF programs for the kernel.
//!
//! The kernel side of a live port is a few small programs that depend on settings. Programs
//! are written in C (`programs/`), and compiled by `cargo xtask bpf`; settings are constants
//! that are set when they are loaded. A user's filter is translated and assembled here,
//! instruction by instruction. All are checked by the kernel's verifier:
//!
//! * [`asm`]: the assembler;
//! * [`translate`]: classic filters as BPF code;
//! * [`flow`]: the flow of a packet and its hash, as in `forebay-packet`;
//! * [`programs`]: the programs attached to sockets and interfaces;
//! * [`map`], [`program`], [`link`]: the kernel's objects.
//!
//! The crate needs Linux 5.18 or later, CAP_BPF and CAP_NET_ADMIN; filters with loads at
//! variable offsets (after an IPv4 header, say) need CAP_PERFMON as well. Nothing is
//! pinned: all objects end with the process. Words of shared memory hold packet fields in
//! little-endian byte order.
#![deny(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!("forebay-bpf supports little-endian machines only");

pub mod asm;
mod error;
pub mod flow;
pub mod link;
pub mod map;
mod object;
pub mod program;
pub mod programs;
mod sys;
pub mod translate;

pub use error::{BpfError, Refusal};
pub use link::{TracepointLink, XdpLink, XdpMode};
pub use program::{Action, Kind, Program};
