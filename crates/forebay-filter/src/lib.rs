//! pcap filter expressions and classic BPF programs: compiled, verified,
//! interpreted.
//!
//! [`compile()`] turns an expression into a [`Program`] through libpcap's own
//! compiler; [`Program::from_text`] parses one from `tcpdump -ddd` text. Either
//! way the program satisfies the [`verify`] rules, and [`Program::run`] gives
//! libpcap's verdict.
//!
//! [`compile_function`] is the front end of the filter compiler: it gives the
//! filter as a simplified [`ir::Function`], from which the back ends in another
//! crate generate code. It is equivalent to the program; for lists of hundreds
//! of hosts, networks or ports see [`lists`].
//!
//! The crate does not depend on files, threads or stages. The interpreter is
//! the specification of every faster form of a filter.
#![forbid(unsafe_code)]

mod caret;
mod interp;
pub mod ir;
pub mod libpcap;
pub mod lists;
mod locate;
pub mod program;
pub mod verify;

pub use forebay_packet::cancel;
pub use libpcap::{CompileError, ExpressionError, compile_whole};
pub use lists::{compile, compile_function};
pub use program::instruction::Instruction;
pub use program::{Program, ProgramError};
pub use verify::{Profile, Rule, VerifyError};
