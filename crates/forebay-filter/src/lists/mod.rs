//! Functions of filter expressions, and a way to compile long ones fast.
//!
//! [`compile_function`] is the front end of the compiler: an expression,
//! through libpcap's program, becomes a simplified [`Function`].
//!
//! The time of libpcap's optimiser grows with the cube of the number of tests,
//! to minutes for a list of a thousand hosts, and code generation without the
//! optimiser is still quadratic. So an expression of more than
//! [`MAX_LIBPCAP_TERMS`] primitives is taken apart: libpcap compiles each
//! primitive alone, and the function is assembled from their programs along
//! `and`, `or` and `not`. Primitives that differ only in one constant become
//! one set lookup.
//!
//! The result is equivalent to libpcap's unoptimised program of the whole
//! expression, also for truncated packets: a load beyond the captured bytes
//! rejects the packet at once, under `not` as well, so the order of tests
//! matters; see `order`. The optimiser moves tests up and removes loads, by
//! rules that depend on their context, so a packet truncated within the headers
//! may be decided by tests that come after the one that rejects it.
//!
//! An expression that cannot be taken apart is compiled by libpcap as a whole,
//! up to [`MAX_WHOLE_TERMS`] primitives, also without its optimiser.
//!
//! | module | does |
//! |---|---|
//! | `token` | words and operators |
//! | `parse` | the primitives, and how they are joined |
//! | `primitives` | their programs, by libpcap |
//! | `group` | functions of primitives; of many that differ in one constant |
//! | `order` | the order in which the primitives of a list are tested |
//! | `join` | the function of the whole |

mod group;
mod join;
mod order;
mod parse;
mod primitives;
mod token;

use forebay_packet::LinkType;

use crate::ir::build::uncompacted;
use crate::ir::lower::lower;
use crate::ir::simplify::simplify;
use crate::ir::{Function, Terminator};
use crate::libpcap::{
    CompileError, ExpressionError, MAX_EXPRESSION, MAX_WHOLE_TERMS, check, compile_as_written,
    compile_whole, with_libpcap,
};
use crate::program::Program;
use join::Join;
use parse::{Leaf, parse};
use primitives::Compiled;

pub use join::Lengths;

/// The most primitives of an expression that libpcap optimises as a whole.
pub const MAX_LIBPCAP_TERMS: usize = 64;

/// The longest expression that is taken apart, in bytes.
pub const MAX_LIST: usize = 1 << 20;

/// The most primitives that shift the header offsets of those after them, in an
/// expression that is taken apart. For each, libpcap compiles a text with all
/// before it, so the time is quadratic in their number.
const MAX_MOVING: usize = 16;

/// The longest primitive of an expression that is taken apart, in bytes.
/// Arithmetic takes libpcap time quadratic in its length.
const MAX_PRIMITIVE: usize = 4096;

/// SunATM, where `lane` and `llc` shift the header offsets of later primitives.
/// No expression for it is taken apart.
const SUNATM: LinkType = LinkType(123);

/// A compiled expression.
#[derive(Clone, Debug, PartialEq)]
pub enum CompiledExpression {
    /// libpcap's program of the whole.
    Program(Program),
    /// The function assembled from its primitives.
    Function(Function),
}

/// Compiles `expression` for saved packets of link type `link`.
///
/// # Errors
/// As [`compile()`].
pub fn compile_expression(
    expression: &str,
    link: LinkType,
) -> Result<CompiledExpression, CompileError> {
    compile_with(expression, link, Lengths::Tested)
}

fn compile_with(
    expression: &str,
    link: LinkType,
    lengths: Lengths,
) -> Result<CompiledExpression, CompileError> {
    let (length, limit) = (expression.len(), MAX_LIST);
    if length > limit {
        return Err(CompileError::TooLong { length, limit });
    }
    match take_apart(expression, link, MAX_LIBPCAP_TERMS, lengths)? {
        Apart::Joined(function) => Ok(CompiledExpression::Function(function)),
        Apart::Short => compile_whole(expression, link).map(CompiledExpression::Program),
        Apart::Whole(terms) => {
            compile_as_one(expression, link, terms).map(CompiledExpression::Program)
        }
    }
}

/// Compiles `expression` for saved packets of link type `link` to a function.
///
/// It returns for every packet the verdict of the program of
/// [`compile()`].
///
/// # Errors
/// As [`compile()`].
pub fn compile_function(expression: &str, link: LinkType) -> Result<Function, CompileError> {
    Ok(match compile_expression(expression, link)? {
        CompiledExpression::Function(function) => function,
        CompiledExpression::Program(program) => of_program(&program),
    })
}

/// Compiles `expression` for saved packets of link type `link`. The empty
/// expression accepts every packet.
///
/// # Errors
/// If libpcap refuses the expression or the link type, or cannot be called.
pub fn compile(expression: &str, link: LinkType) -> Result<Program, CompileError> {
    match compile_with(expression, link, Lengths::Reject)? {
        CompiledExpression::Program(program) => Ok(program),
        CompiledExpression::Function(function) => match lower(&function) {
            Some(program) => Ok(program),
            None => compile_as_one(expression, link, terms_at_most(expression)),
        },
    }
}

/// The simplified function of a program.
#[must_use]
pub fn of_program(program: &Program) -> Function {
    let mut function = uncompacted(program);
    simplify(&mut function);
    function
}

/// The function of an expression of more than `most` primitives, assembled from
/// theirs; `None` if there are fewer, or the expression can only be parsed by
/// libpcap.
///
/// # Errors
/// As [`compile()`].
#[doc(hidden)]
pub fn compile_long(
    expression: &str,
    link: LinkType,
    most: usize,
    lengths: Lengths,
) -> Result<Option<Function>, CompileError> {
    Ok(match take_apart(expression, link, most, lengths)? {
        Apart::Joined(function) => Some(function),
        Apart::Short | Apart::Whole(_) => None,
    })
}

/// The result of taking an expression apart.
enum Apart {
    /// Its function.
    Joined(Function),
    /// It has no more primitives than libpcap optimises.
    Short,
    /// It has more, at most this many, and only libpcap can parse it.
    Whole(usize),
}

fn take_apart(
    expression: &str,
    link: LinkType,
    most: usize,
    lengths: Lengths,
) -> Result<Apart, CompileError> {
    let terms = terms_at_most(expression);
    if terms <= most {
        return Ok(Apart::Short);
    }
    let Some(parsed) = parse(expression) else { return Ok(Apart::Whole(terms)) };
    let terms = parsed.leaves.len();
    if terms <= most {
        return Ok(Apart::Short);
    }
    let is_long = |leaf: &Leaf| leaf.qualifiers.len() + leaf.value.len() > MAX_PRIMITIVE;
    if parsed.moving.len() > MAX_MOVING || link == SUNATM || parsed.leaves.iter().any(is_long) {
        return Ok(Apart::Whole(terms));
    }
    let joined = match Compiled::of(&parsed, link, expression.len()) {
        Ok(compiled) => compiled.and_then(|all| Join::new(&parsed, &all, lengths).function()),
        Err((CompileError::Expression(error), leaf)) => {
            match refusal(expression, *error, &parsed.leaves[leaf], link)? {
                Some(error) => return Err(CompileError::Expression(Box::new(error))),
                None => None,
            }
        }
        Err((error, _)) => return Err(error),
    };
    let Some(mut function) = joined else { return Ok(Apart::Whole(terms)) };
    simplify(&mut function);
    if let Terminator::Return(value) = function.blocks[0].end
        && function.as_constant(value) == Some(0)
    {
        let error = ExpressionError::rejects_all(expression, link);
        return Err(CompileError::Expression(Box::new(error)));
    }
    Ok(Apart::Joined(function))
}

/// libpcap's unoptimised program of a whole expression of `terms` primitives.
fn compile_as_one(expression: &str, link: LinkType, terms: usize) -> Result<Program, CompileError> {
    if terms <= MAX_WHOLE_TERMS {
        return compile_as_written(expression, link);
    }
    check(expression, link)?;
    Err(CompileError::TooMany { terms })
}

/// The error for an expression of which libpcap refuses a primitive; `None` if
/// it does not refuse the whole.
fn refusal(
    expression: &str,
    of_primitive: ExpressionError,
    leaf: &Leaf,
    link: LinkType,
) -> Result<Option<ExpressionError>, CompileError> {
    let mut message = of_primitive.message;
    let is_about_primitive = if expression.len() <= MAX_EXPRESSION {
        match with_libpcap(link, expression.len(), |libpcap| Ok(libpcap.refuses(expression)))? {
            Some(of_whole) => std::mem::replace(&mut message, of_whole) == message,
            None => return Ok(None),
        }
    } else {
        true
    };
    let start = leaf.value.as_ptr() as usize - expression.as_ptr() as usize;
    let span = is_about_primitive.then_some(start..start + leaf.value.len());
    Ok(Some(ExpressionError { expression: expression.to_owned(), link, message, span }))
}

/// An upper bound of the number of primitives: each but the first follows `and`
/// or `or`.
fn terms_at_most(expression: &str) -> usize {
    let joining = |word: &&str| ["and", "or"].contains(word);
    let is_between = |c: char| !c.is_ascii_alphanumeric();
    let words = expression.split(is_between).filter(joining).count();
    1 + words + expression.matches("||").count() + expression.matches("&&").count()
}
