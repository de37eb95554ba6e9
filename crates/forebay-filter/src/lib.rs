//! pcap filter expressions and classic BPF programs: compiled, verified,
//! interpreted.
//!
//! [`compile()`] turns an expression into a [`Program`] through libpcap's own
//! compiler; [`Program::from_text`] reads one from `tcpdump -ddd` text. Either
//! way the program has passed the [`verify`] rules, and [`Program::run`] gives
//! the verdict that libpcap would give.
//!
//! [`compile_function`] is the front end of the compiler of filters: it gives
//! the filter as a simplified [`ir::Function`], which the back ends of another
//! crate make code of. It means what the program means; for lists of hundreds
//! of hosts, networks or ports see [`lists`].
//!
//! The crate knows nothing of files, threads or stages. What the interpreter
//! returns is the specification of every faster form of a filter.
#![forbid(unsafe_code)]

mod caret;
pub mod compile;
mod interp;
pub mod ir;
pub mod lists;
mod locate;
pub mod program;
pub mod verify;

pub use compile::{CompileError, ExpressionError, compile, compile_whole};
pub use forebay_packet::cancel;
pub use lists::compile_function;
pub use program::instruction::Instruction;
pub use program::{Program, ProgramError};
pub use verify::{Profile, Rule, VerifyError};
