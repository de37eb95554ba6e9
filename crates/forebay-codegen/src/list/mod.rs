//! Back end `list`: native code that takes one packet after another.
//!
//! It compiles every [`Function`]: conditions, sets, arithmetic, loads at
//! computed offsets, division, parameters, loops and computed verdicts. The
//! other back ends leave to it what they do not support.
//!
//! Each block becomes the operations of its test in the order of a list
//! schedule, a comparison and a branch. Values are pure, so a value stays in
//! its register for blocks that are reached only through the block that
//! computed it; where paths merge, the registers are forgotten and values are
//! computed again when needed. Every load follows its test of the captured
//! length, as in the IR; none is done early.
//!
//! | module | holds |
//! |---|---|
//! | `graph` | blocks in layout order, extended basic blocks |
//! | `select`, `fuse` | the comparison of each predicate, or of several |
//! | `block` | the operations of a block, scheduled |
//! | `allocate` | register allocation |
//! | `generate` | the driver: node after node, verdicts, parameters |
//! | `value`, `predicate`, `member`, `edges` | instructions |
//! | `prefetch` | headers of later packets |
//! | `output` | prologue, epilogue, frame |

pub(crate) mod allocate;
pub(crate) mod block;
mod edges;
mod fuse;
mod generate;
mod graph;
pub(crate) mod member;
pub(crate) mod output;
mod predicate;
pub(crate) mod prefetch;
pub(crate) mod registers;
pub(crate) mod select;
pub(crate) mod value;

use forebay_filter::ir::Function;

use crate::code::{Backend, Code, Options};
use crate::emit::assembler::{Assembler, EncodeError, Label};

/// Appends code for `function` to `assembler`: a function with the calling
/// convention of `list` code for any number of packets from 1 (none is not allowed), whatever their
/// captured lengths. It reads no byte beyond a packet's captured length.
///
/// # Errors
/// If an instruction cannot be encoded, which is a bug in this back end.
pub fn compile(
    function: &Function,
    options: &Options,
    assembler: &mut Assembler,
) -> Result<Label, EncodeError> {
    generate::generate(function, options, assembler)
}

/// Compiles `function` with this back end alone.
///
/// # Errors
/// As [`compile`].
pub fn program(function: &Function, options: &Options) -> Result<Code, EncodeError> {
    let mut assembler = Assembler::default();
    let entry = compile(function, options, &mut assembler)?;
    let assembled = assembler.finish()?;
    Ok(Code {
        each: assembled.offset(entry).unwrap_or(0),
        constants_at: assembled.constants_at,
        batch: None,
        backend: Backend::List,
        schedule: String::new(),
        remark: None,
        notes: assembled.notes,
        bytes: assembled.bytes,
    })
}
