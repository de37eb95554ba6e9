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
//! | `group` | functions of primitives; of many that differ in one constant |
//! | `order` | the order in which the primitives of a list are tested |

mod group;
mod join;
mod order;
mod parse;
mod token;

use std::collections::HashMap;

use forebay_packet::LinkType;

use crate::compile::{
    CompileError, ExpressionError, Libpcap, MAX_EXPRESSION, SNAP_LEN, check, compile_as_written,
    compile_whole, with_libpcap,
};
use crate::ir::build::build;
use crate::ir::lower::lower;
use crate::ir::simplify::simplify;
use crate::ir::{Function, Terminator};
use crate::program::Program;
use crate::program::instruction::{Instruction, Operation};
use crate::verify::Profile;
use group::shape;
use join::Join;
use parse::{Expression, Leaf, parse};

/// The most primitives of an expression that libpcap optimises as a whole.
pub const MAX_LIBPCAP_TERMS: usize = 64;

/// The longest expression that is taken apart, in bytes.
pub const MAX_LIST: usize = 1 << 20;

/// The most primitives of an expression that libpcap compiles as a whole. They
/// take a second or two, during which the compilation cannot be cancelled.
pub const MAX_WHOLE_TERMS: usize = 1000;

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
pub enum Form {
    /// libpcap's program of the whole.
    Program(Program),
    /// The function assembled from its primitives.
    Function(Function),
}

/// Compiles `expression` for saved packets of link type `link`.
///
/// # Errors
/// As [`compile()`](crate::compile::compile).
pub fn compile_form(expression: &str, link: LinkType) -> Result<Form, CompileError> {
    form(expression, link, Lengths::Tested)
}

fn form(expression: &str, link: LinkType, lengths: Lengths) -> Result<Form, CompileError> {
    let (length, limit) = (expression.len(), MAX_LIST);
    if length > limit {
        return Err(CompileError::TooLong { length, limit });
    }
    match take_apart(expression, link, MAX_LIBPCAP_TERMS, lengths)? {
        Apart::Joined(function) => Ok(Form::Function(function)),
        Apart::Short => compile_whole(expression, link).map(Form::Program),
        Apart::Whole(terms) => compile_as_one(expression, link, terms).map(Form::Program),
    }
}

/// Whether the path through a function may depend on the number of captured
/// bytes.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lengths {
    /// It may.
    Tested,
    /// No: it becomes a program, which can only end if bytes are missing.
    Reject,
}

/// Compiles `expression` for saved packets of link type `link` to a function.
///
/// It returns for every packet the verdict of the program of
/// [`compile()`](crate::compile::compile).
///
/// # Errors
/// As [`compile()`](crate::compile::compile).
pub fn compile_function(expression: &str, link: LinkType) -> Result<Function, CompileError> {
    Ok(match compile_form(expression, link)? {
        Form::Function(function) => function,
        Form::Program(program) => of_program(&program),
    })
}

/// As [`compile()`](crate::compile::compile).
pub(crate) fn compile_program(expression: &str, link: LinkType) -> Result<Program, CompileError> {
    match form(expression, link, Lengths::Reject)? {
        Form::Program(program) => Ok(program),
        Form::Function(function) => match lower(&function) {
            Some(program) => Ok(program),
            None => compile_as_one(expression, link, terms_at_most(expression)),
        },
    }
}

/// The simplified function of a program.
#[must_use]
pub fn of_program(program: &Program) -> Function {
    let mut function = build(program);
    simplify(&mut function);
    function
}

/// The function of an expression of more than `most` primitives, assembled from
/// theirs; `None` if there are fewer, or the expression can only be parsed by
/// libpcap.
///
/// # Errors
/// As [`compile()`](crate::compile::compile).
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

/// A compiled primitive.
#[derive(Clone)]
struct Primitive {
    /// Equal for equal primitives.
    number: usize,
    program: Program,
    /// Equal for primitives whose programs differ in constants only.
    shape: usize,
}

/// The primitives of an expression.
struct Compiled {
    primitives: Vec<Primitive>,
    /// The common beginning of libpcap's programs for the whole. They return
    /// [`SNAP_LEN`] where the program continues.
    preludes: Vec<Function>,
}

/// Equal keys mean the same shape.
type ShapeKey<'a> = (&'a str, usize, Vec<Instruction>);

impl Compiled {
    /// Compiles each primitive of an expression of `length` bytes with libpcap;
    /// `None` if one of them cannot be compiled alone.
    ///
    /// # Errors
    /// The refusal of a primitive, and its number.
    fn of(
        parsed: &Expression,
        link: LinkType,
        length: usize,
    ) -> Result<Option<Self>, (CompileError, usize)> {
        let mut at = 0;
        let compiled = with_libpcap(link, length, |libpcap| Self::with(parsed, libpcap, &mut at));
        compiled.map_err(|error| (error, at))
    }

    /// As [`Compiled::of`]; sets `at` to the number of the primitive being
    /// compiled.
    fn with(
        parsed: &Expression,
        libpcap: &Libpcap,
        at: &mut usize,
    ) -> Result<Option<Self>, CompileError> {
        let contexts = contexts(parsed, libpcap, at)?;
        let mut known: HashMap<(String, usize), Primitive> = HashMap::new();
        let mut shapes: HashMap<ShapeKey, usize> = HashMap::new();
        let mut primitives = Vec::with_capacity(parsed.leaves.len());
        let mut preludes = Vec::new();
        for (number, leaf) in parsed.leaves.iter().enumerate() {
            *at = number;
            let next = known.len();
            let key = (leaf.text(), leaf.context);
            if let Some(primitive) = known.get(&key) {
                primitives.push(primitive.clone());
                continue;
            }
            let context = leaf.context.checked_sub(1).and_then(|last| contexts.get(last));
            let Some(program) = program(leaf, context, libpcap)? else { return Ok(None) };
            let other = shapes.len();
            let key_of_shape = (leaf.qualifiers, leaf.context, shape(&program));
            let shape = *shapes.entry(key_of_shape).or_insert(other);
            if shape == other && (number == 0 || stores(program.instructions())) {
                let Some(prelude) = prelude(leaf, libpcap)? else { return Ok(None) };
                if prelude.blocks.len() > 1 && !parsed.moving.is_empty() {
                    return Ok(None);
                }
                if !preludes.contains(&prelude) {
                    preludes.push(prelude);
                }
            }
            let primitive = Primitive { number: next, program, shape };
            primitives.push(primitive.clone());
            known.insert(key, primitive);
        }
        Ok(Some(Self { primitives, preludes }))
    }
}

/// A primitive that matches all packets and reads none of their bytes.
const TRUE: &str = "greater 0";

/// The common beginning of libpcap's programs for a primitive and for any
/// expression that contains it: it computes the lengths of variable link-layer
/// headers, or rejects packets that no primitive can match. `None` if the
/// program does not have libpcap's form.
fn prelude(leaf: &Leaf, libpcap: &Libpcap) -> Result<Option<Function>, CompileError> {
    let program = libpcap.compile_as_written(&format!("{TRUE} or {}", leaf.text()))?;
    let mut function = build(&program);
    simplify(&mut function);
    let is_verdict = |value| matches!(function.as_constant(value), Some(0 | SNAP_LEN));
    let are_verdicts = function.blocks.iter().all(|block| match block.end {
        Terminator::Return(value) => is_verdict(value),
        _ => true,
    });
    Ok(are_verdicts.then_some(function))
}

/// Whether a memory cell is written.
fn stores(instructions: &[Instruction]) -> bool {
    let is_store = |one: &Instruction| {
        matches!(one.decode(), Some(Operation::Store(_) | Operation::StoreX(_)))
    };
    instructions.iter().any(is_store)
}

/// An expression that matches all packets and shifts the header offsets like
/// some of [`Expression::moving`].
struct Context {
    text: String,
    /// The instructions that libpcap emits before those of what follows.
    instructions: Vec<Instruction>,
}

/// The contexts after one of the moving primitives, two, and so on; sets `at`
/// to the number of the last of them.
fn contexts(
    parsed: &Expression,
    libpcap: &Libpcap,
    at: &mut usize,
) -> Result<Vec<Context>, CompileError> {
    let mut contexts: Vec<Context> = Vec::new();
    for &leaf in &parsed.moving {
        *at = leaf;
        let moving = parsed.leaves[leaf].value;
        let before = contexts.last().map_or_else(String::new, |last| format!("{} and ", last.text));
        let text = format!("{before}({moving} or {TRUE})");
        let mut instructions = libpcap.compile_as_written(&text)?.instructions().to_vec();
        let is_return =
            |last: &Instruction| matches!(last.decode(), Some(Operation::ReturnConstant(_)));
        while instructions.pop_if(|last| is_return(last)).is_some() {}
        contexts.push(Context { text, instructions });
    }
    Ok(contexts)
}

/// The program of a primitive, without the prefix of a context; `None` if the
/// context does not just add a prefix.
fn program(
    leaf: &Leaf,
    context: Option<&Context>,
    libpcap: &Libpcap,
) -> Result<Option<Program>, CompileError> {
    let Some(context) = context else {
        return libpcap.compile_as_written(&leaf.text()).map(Some);
    };
    let whole = libpcap.compile_as_written(&format!("{} and {}", context.text, leaf.text()))?;
    let without_targets = |one: &Instruction| (one.code, one.k);
    let (before, own) =
        whole.instructions().split_at(context.instructions.len().min(whole.instructions().len()));
    let is_context =
        before.iter().map(without_targets).eq(context.instructions.iter().map(without_targets));
    Ok(if is_context { Some(Program::verify(own, Profile::Libpcap)?) } else { None })
}
