//! pcap filter expressions and classic BPF programs: compiled, verified,
//! interpreted.
//!
//! [`compile()`] turns an expression into a [`Program`] through libpcap's own
//! compiler; [`Program::from_text`] reads one from `tcpdump -ddd` text. Either
//! way the program has passed the [`verify`] rules, and [`Program::run`] gives
//! the verdict that libpcap would give. [`FilterSet`] holds the programs of
//! one filter for captures with several link types.
//!
//! The crate knows nothing of files, threads or stages. What the interpreter
//! returns is the specification of every faster form of a filter.
#![forbid(unsafe_code)]

mod caret;
pub mod compile;
mod filter_set;
mod interp;
pub mod ir;
pub mod lists;
mod locate;
pub mod program;
pub mod verify;

pub use compile::{CompileError, ExpressionError, compile};
pub use filter_set::{FilterError, FilterSet};
pub use lists::compile_function;
pub use program::instruction::Instruction;
pub use program::{Program, ProgramError};
pub use verify::{Profile, Rule, VerifyError};
