//! Back end `list`: native code that takes one packet after another.
//!
//! It compiles every [`Function`] and refuses none: conditions, sets,
//! arithmetic, loads at computed places, division, parameters, loops and
//! computed verdicts. The other back ends leave to it what they do not do.
//!
//! Each block becomes a comparison and a branch, the operations before it in
//! the order of a list schedule. Values are pure, so what a block computed
//! stays in its register for the blocks that only it leads to, and where paths
//! merge it is forgotten and computed again when needed. Every load is behind its test of the captured length, as
//! the IR has it; none is done early.
//!
//! | module | holds |
//! |---|---|
//! | `graph` | blocks in layout order, extended basic blocks |
//! | `select`, `fuse` | the comparison of each predicate, or of several |
//! | `block` | what a block computes, scheduled |
//! | `allocate` | which register holds what |
//! | `generate` | the driver: node after node, verdicts, parameters |
//! | `value`, `test`, `member`, `edges` | instructions |
//! | `output` | prologue, epilogue, frame |

pub(crate) mod allocate;
pub(crate) mod block;
mod edges;
mod fuse;
mod generate;
mod graph;
pub(crate) mod member;
pub(crate) mod output;
pub(crate) mod registers;
pub(crate) mod select;
pub(crate) mod test;
pub(crate) mod value;

use forebay_filter::ir::Function;

use crate::code::{Backend, Code, Options};
use crate::emit::assembler::{Assembler, EncodeError, Label};

/// Appends code for `function` to `assembler`: a function by the calling
/// convention for any number of packets from 1, whatever their captured
/// lengths. It reads no byte beyond a packet's captured length.
///
/// # Errors
/// When an instruction cannot be encoded, which is a mistake of this back end.
pub fn compile(
    function: &Function,
    options: &Options,
    assembler: &mut Assembler,
) -> Result<Label, EncodeError> {
    generate::generate(function, options, assembler)
}

/// The whole code of `function` by this back end.
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
