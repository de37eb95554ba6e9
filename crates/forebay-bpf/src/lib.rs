//! BPF programs made at run time.
//!
//! The kernel side of a live port is a few small programs that depend on settings:
//! a filter, a hash key, the number of workers. They are not compiled from C, but
//! put together here, instruction by instruction, for exactly the settings at hand,
//! loaded, and checked by the kernel's verifier:
//!
//! * [`asm`]: the assembler;
//! * [`translate`]: classic filters as BPF code;
//! * [`flow`]: the flow of a packet and its hash, as in `forebay-packet`;
//! * [`programs`]: what is attached to sockets and interfaces;
//! * [`map`], [`program`], [`link`]: the kernel's objects.
//!
//! It takes Linux 5.18 or later, CAP_BPF and CAP_NET_ADMIN; filters with loads at variable
//! offsets (behind an IPv4 header, say) take CAP_PERFMON as well. Nothing is pinned: all
//! ends with the process. Words of shared memory hold packets' fields as they lie on
//! little-endian machines.
#![deny(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!("forebay-bpf supports little-endian machines only");

pub mod asm;
mod btf;
mod error;
pub mod flow;
pub mod link;
pub mod map;
pub mod program;
pub mod programs;
mod sys;
pub mod translate;

pub use error::{BpfError, Refusal};
pub use link::{TracepointLink, XdpLink, XdpMode};
pub use program::{Action, Kind, Program};
