//! A filter's control flow as a Boolean decision function.
//!
//! A node tests a conjunction of atoms and negated atoms and has two
//! successors. The blocks of an acyclic function without parameters become
//! nodes one for one, last block first. A block whose test matters only after
//! another's, and that shares a successor with it, joins that other's
//! conjunction: `if a then (if b then N else E) else E` tests `a and b`, and
//! `if a then N else (if b then N else E)` tests `not a and not b`, with the
//! successors exchanged. Lanes test a conjunction of atoms as fast as one, and
//! each negated atom with one more instruction.

use forebay_filter::cancel;
use forebay_filter::ir::{BlockId, Function, Terminator};

use super::atom::{Assumption, Atom, Literal, Reader};
use super::loops::Unsuited;
use super::sharing::Region;
use crate::explain::predicate::describe;

/// A successor of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The verdict: accept or reject.
    End(bool),
    /// A node with a lower number.
    Node(usize),
}

impl Target {
    /// The same with the new numbers of nodes.
    pub(super) fn renumbered(self, numbers: &[usize]) -> Self {
        match self {
            Self::Node(index) => Self::Node(numbers[index]),
            end => end,
        }
    }
}

/// A test of atoms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Atoms and whether each must hold; never empty.
    pub literals: Vec<(Atom, bool)>,
    /// The successor if all are so.
    pub then: Target,
    /// The successor if one is not.
    pub otherwise: Target,
    /// The test as text.
    pub text: String,
}

/// A condition under which a packet is left to `list`: the guard, if there is
/// one, holds, and so does the literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leave {
    /// An atom that holds for all packets that reach the assumption.
    pub guard: Option<Atom>,
    /// The atom, and the outcome that the assumption excludes.
    pub literal: (Atom, bool),
}

/// A decision function.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The nodes, each after its successors.
    pub nodes: Vec<Node>,
    /// The first node.
    pub entry: Target,
    /// The verdict for accepted packets.
    pub accept: u32,
    /// Conditions under which the function does not apply.
    pub leaves: Vec<Leave>,
    /// Fields that are in one of two places.
    pub(super) regions: Vec<Region>,
}

/// A block as its literal, before conjunctions are formed.
struct Test {
    literal: Literal,
    relied_on: u32,
}

impl Decision {
    /// The decision function of `function`; its nodes have texts if `explain`.
    ///
    /// # Errors
    /// Why there is none that lanes can evaluate.
    pub fn new(function: &Function, explain: bool) -> Result<Self, Unsuited> {
        let accept = accept_value(function)?;
        let mut reader = Reader::new(function);
        // The following code needs forward edges.
        let edges_into = edges_into(function)?;
        let mut tests = read_tests(function, &mut reader)?;
        let unlikely = unlikely(function, &tests);
        let leaves = leaves(function, &tests, &reader.assumptions, &unlikely);
        for index in unlikely {
            if let Some(test) = &mut tests[index] {
                test.literal = Literal::Always(false);
            }
        }
        // By block: whether its node has at most one incoming edge.
        let mut alone: Vec<bool> = edges_into.iter().map(|&edges| edges <= 1).collect();
        let mut targets = vec![Target::End(false); function.blocks.len()];
        let mut nodes = Vec::new();
        for index in (0..function.blocks.len()).rev() {
            cancel::check();
            targets[index] = match &function.blocks[index].end {
                Terminator::Return(value) => {
                    Target::End(function.as_constant(*value).is_some_and(|kept| kept != 0))
                }
                Terminator::Jump(edge) => {
                    alone[index] &= alone[edge.target.0 as usize];
                    targets[edge.target.0 as usize]
                }
                Terminator::Test { predicate, then, otherwise } => {
                    let (then, otherwise) = (then.target.0 as usize, otherwise.target.0 as usize);
                    let test = tests[index].as_ref().ok_or(Unsuited::ControlFlow)?;
                    let text = if explain { describe(function, *predicate) } else { String::new() };
                    let (atom, then, otherwise, text) = match test.literal {
                        Literal::Always(holds) => {
                            let next = if holds { then } else { otherwise };
                            alone[index] &= alone[next];
                            targets[index] = targets[next];
                            continue;
                        }
                        Literal::Is(atom) => (atom, then, otherwise, text),
                        Literal::Not(atom) => (atom, otherwise, then, negated(&text)),
                    };
                    if targets[then] == targets[otherwise] {
                        // Two edges lead to the node that this block becomes.
                        alone[index] = false;
                    }
                    let way = |block: usize| (targets[block], alone[block]);
                    join(&mut nodes, atom, text, way(then), way(otherwise))
                }
            };
        }
        let entry = without_implied_lengths(&mut nodes, targets[0]);
        let (nodes, entry) = reachable(nodes, entry);
        Ok(Self { nodes, entry, accept, leaves, regions: Vec::new() })
    }

    /// Checks that no length is compared with more than `most`.
    pub(super) fn lengths_fit(&self, most: u32) -> Result<(), Unsuited> {
        for node in &self.nodes {
            for (atom, _) in &node.literals {
                if let Atom::Captured(n) | Atom::WireAtLeast(n) | Atom::WireEqual(n) = *atom
                    && n > most
                {
                    return Err(Unsuited::Predicate(node.text.clone()));
                }
            }
        }
        Ok(())
    }

    /// All atoms that are evaluated, including those of [`Decision::leaves`] and of regions.
    pub fn atoms(&self) -> impl Iterator<Item = Atom> + '_ {
        let of_leaves = self.leaves.iter().flat_map(|leave| [leave.guard, Some(leave.literal.0)]);
        let literals = self.nodes.iter().flat_map(|node| &node.literals);
        let of_regions = self.regions.iter().map(Region::guard);
        literals.map(|(atom, _)| *atom).chain(of_leaves.flatten()).chain(of_regions)
    }
}

/// A successor of a block that is being added, and whether only that block
/// leads to it: only then may its test join the block's.
type Way = (Target, bool);

/// Adds the node that tests `atom`, and returns its number.
fn join(nodes: &mut Vec<Node>, atom: Atom, text: String, then: Way, otherwise: Way) -> Target {
    if then.0 == otherwise.0 {
        return then.0;
    }
    for (next, other, holds) in [(then, otherwise, true), (otherwise, then, false)] {
        let (Target::Node(index), true) = next else { continue };
        let node = &mut nodes[index];
        if node.literals.len() == 1 && node.then == other.0 {
            node.turn();
        }
        if node.otherwise == other.0 {
            node.literals.push((atom, holds));
            if !text.is_empty() {
                let text = if holds { text } else { negated(&text) };
                node.text = format!("{text} and {}", node.text);
            }
            return next.0;
        }
    }
    let literals = vec![(atom, true)];
    nodes.push(Node { literals, then: then.0, otherwise: otherwise.0, text });
    Target::Node(nodes.len() - 1)
}

impl Node {
    /// Negates a node of one literal by exchanging its successors.
    fn turn(&mut self) {
        for (_, holds) in &mut self.literals {
            *holds = !*holds;
        }
        std::mem::swap(&mut self.then, &mut self.otherwise);
        self.text = negated(&self.text);
    }
}

/// The negation of a text that is not a conjunction.
fn negated(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    text.strip_prefix("not ").map_or_else(|| format!("not {text}"), str::to_owned)
}

/// Removes tests of the captured length that later tests imply: if a packet
/// that is too short would be rejected, and every path to acceptance requires
/// at least that length, the packet is rejected anyway. Returns the new entry.
fn without_implied_lengths(nodes: &mut [Node], entry: Target) -> Target {
    // By node: its replacement, and the least length that it accepts.
    let mut known: Vec<(Target, u32)> = Vec::with_capacity(nodes.len());
    let look = |target: Target, known: &[(Target, u32)]| match target {
        Target::End(true) => (target, 0),
        Target::End(false) => (target, u32::MAX),
        Target::Node(index) => known[index],
    };
    for (index, node) in nodes.iter_mut().enumerate() {
        let (then, then_least) = look(node.then, &known);
        let (otherwise, otherwise_least) = look(node.otherwise, &known);
        (node.then, node.otherwise) = (then, otherwise);
        if otherwise == Target::End(false) {
            node.literals.retain(
                |literal| !matches!(literal, (Atom::Captured(bytes), true) if *bytes <= then_least),
            );
        }
        let asked = node.literals.iter().map(|literal| match literal {
            (Atom::Captured(bytes), true) => *bytes,
            _ => 0,
        });
        let least = then_least.max(asked.max().unwrap_or(0)).min(otherwise_least);
        let empty = node.literals.is_empty();
        known.push((if empty { then } else { Target::Node(index) }, least));
    }
    look(entry, &known).0
}

/// The nodes reachable from the entry, in the same order, and the entry.
pub(super) fn reachable(nodes: Vec<Node>, entry: Target) -> (Vec<Node>, Target) {
    let mut reached = vec![false; nodes.len()];
    if let Target::Node(index) = entry {
        reached[index] = true;
    }
    for index in (0..nodes.len()).rev() {
        for target in [nodes[index].then, nodes[index].otherwise] {
            if let (true, Target::Node(next)) = (reached[index], target) {
                reached[next] = true;
            }
        }
    }
    let mut numbers = vec![0; nodes.len()];
    let mut kept: Vec<Node> = Vec::with_capacity(nodes.len());
    for (index, mut node) in nodes.into_iter().enumerate().filter(|(index, _)| reached[*index]) {
        node.then = node.then.renumbered(&numbers);
        node.otherwise = node.otherwise.renumbered(&numbers);
        numbers[index] = kept.len();
        kept.push(node);
    }
    (kept, entry.renumbered(&numbers))
}

/// The only verdict besides 0.
fn accept_value(function: &Function) -> Result<u32, Unsuited> {
    let mut accept = None;
    for block in &function.blocks {
        if let Terminator::Return(value) = block.end {
            match function.as_constant(value) {
                Some(0) => {}
                Some(kept) if accept.is_none_or(|known| known == kept) => accept = Some(kept),
                _ => return Err(Unsuited::Returns),
            }
        }
    }
    Ok(accept.unwrap_or(0))
}

fn read_tests(function: &Function, reader: &mut Reader) -> Result<Vec<Option<Test>>, Unsuited> {
    function
        .blocks
        .iter()
        .map(|block| {
            let Terminator::Test { predicate, .. } = &block.end else { return Ok(None) };
            let (literal, relied_on) = reader
                .literal(predicate)
                .ok_or_else(|| Unsuited::Predicate(describe(function, *predicate)))?;
            Ok(Some(Test { literal, relied_on }))
        })
        .collect()
}

/// By block: the number of incoming edges. The function must be acyclic and
/// without parameters.
fn edges_into(function: &Function) -> Result<Vec<u32>, Unsuited> {
    let mut into = vec![0; function.blocks.len()];
    for (index, block) in function.blocks.iter().enumerate() {
        for edge in block.end.edges() {
            let target = edge.target.0 as usize;
            if target <= index || !edge.arguments.is_empty() {
                return Err(Unsuited::ControlFlow);
            }
            into[target] += 1;
        }
    }
    Ok(into)
}

/// Bytes from an IPv6 header's next-header field to that of a fragment header
/// after it (RFC 8200, sections 3 and 4.5), and the number of the latter.
const TO_FRAGMENT: u32 = 34;
const FRAGMENT: u32 = 44;

/// Blocks that test for an IPv6 fragment header before they read it. Few
/// packets have one, and its fields are far from all other bytes that are read,
/// so packets with one are left to `list`.
fn unlikely(function: &Function, tests: &[Option<Test>]) -> Vec<usize> {
    let field_of = |index: usize| match tests[index].as_ref()?.literal {
        Literal::Is(Atom::Equal(field, _)) | Literal::Not(Atom::Equal(field, _)) => Some(field),
        _ => None,
    };
    let looks_into = |mut index: usize, at: u32| {
        // The length is tested first.
        while let (Some(test), Terminator::Test { then, .. }) =
            (&tests[index], &function.blocks[index].end)
            && matches!(test.literal, Literal::Is(Atom::Captured(_)))
        {
            index = then.target.0 as usize;
        }
        field_of(index).is_some_and(|field| field.offset == at && field.bytes == 1)
    };
    let asks = |&index: &usize| {
        let Terminator::Test { then, .. } = &function.blocks[index].end else { return false };
        let literal = tests[index].as_ref().map(|test| test.literal);
        let Some(Literal::Is(Atom::Equal(field, FRAGMENT))) = literal else { return false };
        field.bytes == 1
            && field.mask == 0xff
            && looks_into(then.target.0 as usize, field.offset.saturating_add(TO_FRAGMENT))
    };
    (0..function.blocks.len()).filter(asks).collect()
}

/// The conditions for leaving packets to `list`: an assumption is wrong for a
/// test that relies on it, or a test that was taken to fail holds.
fn leaves(
    function: &Function,
    tests: &[Option<Test>],
    assumptions: &[Assumption],
    unlikely: &[usize],
) -> Vec<Leave> {
    if assumptions.is_empty() && unlikely.is_empty() {
        return Vec::new();
    }
    let dominators = Dominators::new(function);
    let guard = |block: usize| {
        dominators.guards(function, block).find_map(|(index, held)| {
            match (tests[index].as_ref()?.literal, held) {
                (Literal::Is(atom @ Atom::Equal(..)), true)
                | (Literal::Not(atom @ Atom::Equal(..)), false) => Some(atom),
                _ => None,
            }
        })
    };
    let wrong = assumptions.iter().enumerate().filter_map(|(bit, assumption)| {
        let users = tests
            .iter()
            .enumerate()
            .filter(|(_, test)| test.as_ref().is_some_and(|test| test.relied_on >> bit & 1 == 1));
        // `None` if only a discarded reading made the assumption.
        let common = users.map(|(index, _)| index).reduce(|a, b| dominators.common(a, b))?;
        let literal = (Atom::Equal(assumption.field, assumption.value), false);
        Some(Leave { guard: guard(common), literal })
    });
    let mut leaves: Vec<Leave> = wrong.collect();
    for &block in unlikely {
        if let Some(Test { literal: Literal::Is(atom), .. }) = tests[block] {
            // Hardly any other packet has this number here by chance, so a
            // guard would cost more than it saves.
            let leave = Leave { guard: None, literal: (atom, true) };
            if !leaves.contains(&leave) {
                leaves.push(leave);
            }
        }
    }
    leaves
}

/// Immediate dominators of a function that only goes forward (Cooper, Harvey
/// and Kennedy, "A Simple, Fast Dominance Algorithm", 2001; one pass is enough
/// here).
struct Dominators {
    /// By block; the entry dominates itself.
    above: Vec<usize>,
    /// By block: its only incoming edge, as the source block and whether it is
    /// the edge taken if the test holds; `None` if there are several.
    only_edge: Vec<Option<(usize, bool)>>,
}

impl Dominators {
    fn new(function: &Function) -> Self {
        let count = function.blocks.len();
        let mut this = Self { above: vec![0; count], only_edge: vec![None; count] };
        let mut seen = vec![false; count];
        for (index, block) in function.blocks.iter().enumerate() {
            for (side, edge) in block.end.edges().enumerate() {
                let BlockId(target) = edge.target;
                let target = target as usize;
                if seen[target] {
                    this.above[target] = this.common(this.above[target], index);
                    this.only_edge[target] = None;
                } else {
                    seen[target] = true;
                    this.above[target] = index;
                    this.only_edge[target] = Some((index, side == 0));
                }
            }
        }
        this
    }

    /// The lowest common dominator.
    fn common(&self, mut a: usize, mut b: usize) -> usize {
        while a != b {
            if a > b {
                a = self.above[a];
            } else {
                b = self.above[b];
            }
        }
        a
    }

    /// The tests whose outcome is certain in `block`, from the entry down: the
    /// block of each, and whether its predicate holds.
    fn guards(
        &self,
        function: &Function,
        block: usize,
    ) -> impl Iterator<Item = (usize, bool)> + use<> {
        let mut guards = Vec::new();
        let mut at = block;
        while at != 0 {
            if let Some((from, held)) = self.only_edge[at]
                && matches!(function.blocks[from].end, Terminator::Test { .. })
            {
                guards.push((from, held));
            }
            at = self.above[at];
        }
        guards.into_iter().rev()
    }
}
