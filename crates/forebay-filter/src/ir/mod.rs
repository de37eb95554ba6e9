//! The compiler's intermediate representation (IR) of a filter.
//!
//! A [`Function`] is a control-flow graph in static single assignment form with
//! block parameters in place of φ functions (Appel, "Modern Compiler
//! Implementation", section 19.1). A block only branches: it tests one *atomic
//! predicate* and continues, or returns. The operands of predicates are
//! *values*: pure expressions over the packet, shared by structure, that belong
//! to no block and so may be computed anywhere. A filter with only forward
//! jumps is thus a Boolean decision function over predicates, and a back end
//! may evaluate the predicates in any order, or all at once.
//!
//! This is sound because nothing is implicit. Classic BPF ends a program inside
//! a load beyond the captured bytes, and inside a division by zero. Here both
//! are explicit tests, [`Predicate::Captured`] and a comparison with zero, and
//! [`mod@verify`] checks that each load and each division is used only after
//! its test. The value itself may be computed earlier: a load whose test fails
//! then gives meaningless bytes, and nothing depends on them.
//!
//! | module | holds |
//! |---|---|
//! | [`build`](mod@build) | classic BPF → `Function` |
//! | [`simplify`] | simplifications before code generation |
//! | [`verify`](mod@verify) | the rules of a well-formed `Function` |
//! | `function` | the parts of a `Function` |
//! | `interp` | [`Function::run`], the verdict on a packet: the meaning of a `Function` |
//! | [`text`] | printed and parsed form |
//! | `join` | joins functions into one, for long expressions |
//! | [`lower`](mod@lower) | `Function` → classic BPF |
//! | `facts` | facts on the path to a block, for `simplify` |
//! | `map` | persistent maps, for `facts` and `verify` |
//! | `bounds` | bounds of values by their expressions |

mod arithmetic;
mod bounds;
pub mod build;
mod facts;
mod function;
mod interp;
pub(crate) mod join;
pub mod lower;
mod map;
pub mod simplify;
pub mod text;
pub mod verify;

pub use bounds::greatest_values;
pub use function::{
    Arithmetic, Block, BlockId, Edge, Function, Predicate, Relation, SetId, Terminator, Value,
    ValueId, Width,
};
