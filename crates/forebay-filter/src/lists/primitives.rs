//! The primitives of an expression, each compiled by libpcap.

use std::collections::HashMap;

use forebay_packet::LinkType;

use super::group::shape;
use super::parse::{Expression, Leaf};
use crate::ir::build::uncompacted;
use crate::ir::simplify::simplify;
use crate::ir::{Function, Terminator};
use crate::libpcap::{CompileError, Libpcap, SNAP_LEN, with_libpcap};
use crate::program::Program;
use crate::program::instruction::{Instruction, Operation};
use crate::verify::Profile;

/// A compiled primitive.
#[derive(Clone)]
pub(super) struct Primitive {
    /// Equal for equal primitives.
    pub(super) number: usize,
    pub(super) program: Program,
    /// Equal for primitives whose programs differ in constants only.
    pub(super) shape: usize,
}

/// The primitives of an expression.
pub(super) struct Compiled {
    pub(super) primitives: Vec<Primitive>,
    /// The common beginning of libpcap's programs for the whole. They return
    /// [`SNAP_LEN`] where the program continues.
    pub(super) preludes: Vec<Function>,
}

/// Equal keys mean the same shape.
type ShapeKey<'a> = (&'a str, usize, Vec<Instruction>);

impl Compiled {
    /// Compiles each primitive of an expression of `length` bytes with libpcap;
    /// `None` if one of them cannot be compiled alone.
    ///
    /// # Errors
    /// The refusal of a primitive, and its number.
    pub(super) fn of(
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
    let mut function = uncompacted(&program);
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
