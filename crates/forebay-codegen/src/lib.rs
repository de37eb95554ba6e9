//! Compiles filters to machine code for x86-64.
#![forbid(unsafe_code)]

pub mod c;
pub mod code;
pub mod compile;
pub mod convention;
pub mod cost;
pub mod emit;
pub mod ems;
pub mod explain;
pub mod list;
pub mod machine;
pub mod mir;
pub mod pe;
pub mod regalloc;
pub mod sched;
pub mod sliced;
pub mod tables;
