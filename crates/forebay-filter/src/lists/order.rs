//! The order in which the primitives of a run are tested.
//!
//! A *run* is what stands between `or` and `or`, or `not`s between `and` and
//! `and`: the first primitive that holds decides. For packets of which all was
//! captured the order means nothing. For others it does, as the first look at
//! a byte that was not captured ends the program. libpcap tests primitives in
//! the order in which they are written, except that its optimiser moves a
//! comparison up to an earlier one of the same bytes where nothing but
//! comparisons that lead to the same place is in between. What it comes to for
//! a long list is known from short ones:
//!
//! - Addresses among addresses are such comparisons, and ports among ports. So
//!   primitives of one shape are tested together, where the first of them stands.
//! - Between addresses and ports, and at all else, it moves nothing.
//!
//! But once a primitive of a shape was found not to hold, with no early end, one
//! of the same shape cannot end early either: it looks at the same bytes. From
//! there on order means nothing among such shapes, and they are brought together
//! over any distance, up to a primitive of a new shape.

use forebay_packet::cancel;
use rustc_hash::{FxHashMap, FxHashSet};

use super::group::with_set;
use crate::ir::Function;
use crate::program::Program;
use crate::program::instruction::{Alu, Operand, Operation, Test};

/// Primitives between which libpcap moves comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Address,
    Port,
}

impl Class {
    /// The class of primitives with these qualifiers.
    pub fn of(qualifiers: &str) -> Option<Self> {
        // Of `src and dst`, what holds leads to another test: nothing moves past it.
        if qualifiers.contains(" and ") || qualifiers.contains("&&") {
            return None;
        }
        let mut words = qualifiers.split_ascii_whitespace();
        let first = words.clone().next()?;
        match words.next_back()? {
            "host" | "net" | "src" | "dst" => {
                (!["ether", "link", "wlan", "fddi", "tr"].contains(&first)).then_some(Self::Address)
            }
            "port" => Some(Self::Port),
            _ => None,
        }
    }
}

/// Whether bits are compared to 0, as those of `net 0.0.0.0/8` are. libpcap's
/// optimiser makes that a test of bits, and moves nothing to or past it.
pub(super) fn tests_bits(program: &Program) -> bool {
    let operations: Vec<_> = program.instructions().iter().map(|one| one.decode()).collect();
    operations.windows(2).any(|pair| {
        matches!(
            pair,
            [
                Some(Operation::Arithmetic(Alu::And, Operand::K(_))),
                Some(Operation::Branch(Test::Eq, Operand::K(0), ..))
            ]
        )
    })
}

/// One part of a run.
pub(super) enum Item<'a> {
    /// A primitive that libpcap compiled.
    Primitive {
        /// Equal for equal primitives.
        number: usize,
        leaf: usize,
        program: &'a Program,
        class: Option<(Class, usize)>,
        /// Equal for primitives of one shape.
        shape: usize,
    },
    /// Anything else.
    Part(usize),
}

/// What is tested.
pub(super) enum Step {
    /// Primitives of one shape.
    Shape(Function),
    /// A primitive.
    Primitive(usize),
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
    members.retain(|_, programs| with_set(programs).is_some());
    let mut order = Order { shared: members.into_keys().collect(), ..Order::default() };
    let mut rest = distinct.as_slice();
    while let Some(first) = rest.first() {
        let class = class(first);
        let same = |item: &&&Item| class.is_some() && self::class(item) == class;
        let (segment, behind) = rest.split_at(rest.iter().take_while(same).count().max(1));
        order.segment(segment);
        rest = behind;
    }
    order.flush();
    order.steps
}

fn class(item: &Item) -> Option<(Class, usize)> {
    match item {
        Item::Primitive { class, .. } => *class,
        Item::Part(_) => None,
    }
}

/// Primitives of one shape.
type Group<'a> = Vec<(usize, &'a Program)>;

#[derive(Default)]
struct Order<'a> {
    /// Shapes that have a function for many primitives.
    shared: FxHashSet<usize>,
    /// Shapes of which one was tested: they end early no more.
    tested: FxHashSet<usize>,
    /// Primitives of such shapes, yet to be tested.
    waiting: Groups<'a>,
    steps: Vec<Step>,
}

/// Groups in the order of their first primitives.
#[derive(Default)]
struct Groups<'a> {
    places: FxHashMap<usize, usize>,
    groups: Vec<Group<'a>>,
}

impl<'a> Groups<'a> {
    fn add(&mut self, shape: usize, leaf: usize, program: &'a Program) {
        let place = *self.places.entry(shape).or_insert(self.groups.len());
        if place == self.groups.len() {
            self.groups.push(Vec::new());
        }
        self.groups[place].push((leaf, program));
    }

    fn into_steps(self, steps: &mut Vec<Step>) {
        for group in self.groups {
            cancel::check();
            let programs: Vec<_> = group.iter().map(|&(_, program)| program).collect();
            match with_set(&programs) {
                Some(function) => steps.push(Step::Shape(function)),
                None => steps.extend(group.into_iter().map(|(leaf, _)| Step::Primitive(leaf))),
            }
        }
    }
}

impl<'a> Order<'a> {
    /// Primitives of one class, or one item.
    fn segment(&mut self, items: &[&Item<'a>]) {
        let waits = |item: &&Item| matches!(item, Item::Primitive { shape, .. } if self.tested.contains(shape));
        let all_wait = items.iter().all(waits);
        if !all_wait {
            self.flush();
        }
        let mut groups = Groups::default();
        for item in items {
            match **item {
                Item::Primitive { leaf, program, shape, .. } if all_wait => {
                    self.waiting.add(shape, leaf, program);
                }
                Item::Primitive { leaf, program, shape, .. } if self.shared.contains(&shape) => {
                    groups.add(shape, leaf, program);
                    self.tested.insert(shape);
                }
                Item::Primitive { leaf, program, .. } => {
                    // A number that no shape has.
                    groups.add(usize::MAX - leaf, leaf, program);
                }
                Item::Part(node) => self.steps.push(Step::Part(node)),
            }
        }
        groups.into_steps(&mut self.steps);
    }

    fn flush(&mut self) {
        std::mem::take(&mut self.waiting).into_steps(&mut self.steps);
    }
}
