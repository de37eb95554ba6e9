//! The system call `bpf(2)`, and memory shared with BPF programs.
//!
//! Each command has its own structure, the beginning of the kernel's `union bpf_attr` as
//! laid out in `<linux/bpf.h>`, including padding, since the kernel checks every byte; the
//! rest counts as zeros. The safe functions here guarantee to the kernel that pointers are
//! to buffers at least as long as it reads or writes. For maps that follows from the sizes
//! that a [`RawMap`] was created with, which are checked at every call.
//!
//! All descriptors are closed on exec and nothing is pinned: maps, programs and links end
//! with the process that holds them.
#![allow(unsafe_code, reason = "a system call with pointers, and a shared mapping")]

mod call;
pub(crate) mod layout;
mod map;
mod program;

pub(crate) use call::wait_for_programs;
pub(crate) use map::{MapKind, MapLayout, Mapping, OwnMemory, RawMap};
pub(crate) use program::{
    ProgramLayout, TestRun, link_create, link_update, program_load, raw_tracepoint_open, test_run,
};

// The programs index arrays of these lengths by these numbers.
const _: () = assert!(layout::Reason::LinkDown as usize + 1 == layout::REASONS);
const _: () = assert!((layout::Counter::NotMarked as usize) < layout::COUNTERS);
