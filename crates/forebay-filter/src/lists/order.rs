//! The order in which the primitives of a run are tested.
//!
//! A *run* is a sequence of operands of `or`, or of negated operands of `and`:
//! the first primitive that matches decides. libpcap's program tests them in
//! the order in which they are written. For packets that were captured in full
//! any other order is equivalent. For others it is not, as the first read of a
//! byte that was not captured ends the program.
//!
//! But if a primitive of a shape did not match, without an early end, one of
//! the same shape cannot end early either, since it reads the same bytes. So
//! from the second on, the primitives of a shape may be tested together, and
//! shapes in any order, up to a part that may end early: a primitive of a new
//! shape, or anything that is no primitive.
//!
//! If all bytes that a shape reads were captured, none of its primitives ends
//! early. Then its first primitive need not be tested before the others, if
//! those follow.

use forebay_packet::cancel;
use rustc_hash::{FxHashMap, FxHashSet};

use super::group::with_set;
use crate::ir::{Arithmetic, Block, Function, Predicate, Terminator, Value};
use crate::program::Program;

/// One part of a run.
pub(super) enum Item<'a> {
    /// A primitive that libpcap compiled.
    Primitive {
        /// Equal for equal primitives.
        number: usize,
        leaf: usize,
        program: &'a Program,
        /// Equal for primitives of one shape.
        shape: usize,
    },
    /// Anything else.
    Part(usize),
}

/// One step of the test order.
pub(super) enum Step {
    /// Primitives of one shape.
    Shape(Function),
    /// A primitive.
    Primitive(usize),
    /// A primitive that the next step tests too. If at least `captured` bytes
    /// were captured, it need not be tested first.
    First { leaf: usize, captured: u32 },
    /// A part of the run, by its number.
    Part(usize),
}

/// The order in which a run is tested.
pub(super) fn order(items: &[Item]) -> Vec<Step> {
    let mut members: FxHashMap<usize, Vec<&Program>> = FxHashMap::default();
    let mut seen = FxHashSet::default();
    let mut distinct = Vec::with_capacity(items.len());
    for item in items {
        if let Item::Primitive { number, program, shape, .. } = *item {
            if !seen.insert(number) {
                continue;
            }
            members.entry(shape).or_default().push(program);
        }
        distinct.push(item);
    }
    // Shapes whose primitives combine into one function.
    members.retain(|_, programs| with_set(programs).is_some());
    // The first primitive of each of these shapes, once it is tested.
    let mut tested: FxHashMap<usize, (usize, &Program)> = FxHashMap::default();
    let mut waiting = ShapeGroups::default();
    let mut steps = Vec::new();
    for item in distinct {
        match *item {
            Item::Primitive { leaf, program, shape, .. } => {
                if let Some(&first) = tested.get(&shape) {
                    waiting.add(shape, first, leaf, program);
                    continue;
                }
                std::mem::take(&mut waiting).into_steps(&mut steps);
                steps.push(Step::Primitive(leaf));
                if members.contains_key(&shape) {
                    tested.insert(shape, (leaf, program));
                }
            }
            Item::Part(node) => {
                std::mem::take(&mut waiting).into_steps(&mut steps);
                steps.push(Step::Part(node));
            }
        }
    }
    waiting.into_steps(&mut steps);
    steps
}

/// Primitives still to be tested, by shape, in the order of the first of each.
#[derive(Default)]
struct ShapeGroups<'a> {
    places: FxHashMap<usize, usize>,
    groups: Vec<ShapeGroup<'a>>,
}

struct ShapeGroup<'a> {
    /// A primitive that did not match.
    first: usize,
    leaves: Vec<usize>,
    /// The programs of the first and of the leaves. The first changes nothing
    /// where it was tested; it is often part of another set as well, which is
    /// then the same.
    programs: Vec<&'a Program>,
}

impl<'a> ShapeGroups<'a> {
    /// Adds a primitive of a shape whose `first` was tested.
    fn add(
        &mut self,
        shape: usize,
        first: (usize, &'a Program),
        leaf: usize,
        program: &'a Program,
    ) {
        let place = *self.places.entry(shape).or_insert(self.groups.len());
        if place == self.groups.len() {
            self.groups.push(ShapeGroup {
                first: first.0,
                leaves: Vec::new(),
                programs: vec![first.1],
            });
        }
        self.groups[place].leaves.push(leaf);
        self.groups[place].programs.push(program);
    }

    fn into_steps(self, steps: &mut Vec<Step>) {
        for ShapeGroup { first, leaves, programs } in self.groups {
            cancel::check();
            match with_set(&programs) {
                Some(function) => {
                    let last = steps.last_mut();
                    let last =
                        last.filter(|s| matches!(s, Step::Primitive(leaf) if *leaf == first));
                    if let (Some(last), Some(captured)) = (last, looked_at(&function)) {
                        *last = Step::First { leaf: first, captured };
                    }
                    steps.push(Step::Shape(function));
                }
                None => steps.extend(leaves.into_iter().map(Step::Primitive)),
            }
        }
    }
}

/// The number of captured bytes with which `function` never ends early, if it
/// is the same for all packets. A function can end early at tests of captured
/// bytes and at division by 0.
fn looked_at(function: &Function) -> Option<u32> {
    let divides = |value: &Value| {
        matches!(value, Value::Binary { op: Arithmetic::Div | Arithmetic::Mod, .. })
    };
    if function.values().iter().any(divides) {
        return None;
    }
    let bytes = |block: &Block| match block.end {
        Terminator::Test { predicate: Predicate::Captured { index, bytes }, .. } => {
            index.is_none().then_some(bytes)
        }
        _ => Some(0),
    };
    function.blocks.iter().map(bytes).try_fold(0, |most, bytes| Some(most.max(bytes?)))
}
