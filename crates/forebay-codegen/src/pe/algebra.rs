//! The decision function as operations on masks of packets.
//!
//! Nodes are evaluated from the ends to the entry, so each is evaluated once,
//! whatever the number of paths to it. The mask of a node has a bit for each
//! packet that would be accepted from there. Mostly one of a node's successors
//! is an end, and the node is one instruction: a test under the mask of the
//! other successor.
//!
//! * `if p then N else reject` is `p` under the mask of `N`;
//! * `if p then accept else N` rejects `not p` under the complement of the mask
//!   of `N`.
//!
//! Where such instructions have long latencies, a conjunction of many tests is made in parts
//! ([`Logic::CHAIN`]), which are then combined with the other successor's mask.
//!
//! So a mask is kept either plain or complemented, whichever suits the nodes
//! that use it. If both successors are nodes, two tests and an `or` make the
//! mask, or, where a test under a mask is an instruction more
//! ([`Logic::PREDICATED`]), one test and a selection.

use super::atom::Atom;
use super::decision::{Decision, Node, Target};
use super::layout::Layout;
use crate::mir::Reg;

/// A test that one or a few instructions make for all packets of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// All relevant bits of the signature match.
    Signature {
        /// The plane.
        plane: usize,
        /// The relevant bits.
        care: u32,
    },
    /// None of the predicates of the relevant bits holds.
    NoneOf {
        /// The plane.
        plane: usize,
        /// The relevant bits, each of one predicate.
        care: u32,
    },
    /// The field was found in its set.
    Found {
        /// The plane.
        plane: usize,
    },
    /// The captured length is at least this.
    Captured(u32),
    /// The length on the wire is at least this.
    WireAtLeast(u32),
    /// The length on the wire is this.
    WireEqual(u32),
    /// An atom, where there are no signatures.
    Lanes(Atom),
}

/// A mask of packets, or its complement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask {
    /// The register.
    pub reg: Reg,
    /// Whether it holds the complement.
    pub inverted: bool,
}

impl Mask {
    /// A plain mask in `reg`.
    #[must_use]
    pub fn plain(reg: Reg) -> Self {
        Self { reg, inverted: false }
    }
}

/// The result of a node, or of the whole function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The same for all packets.
    Always(bool),
    /// A mask of packets.
    Packets(Mask),
}

/// Operations on masks with an instruction set.
pub trait Logic {
    /// Comparisons that a conjunction of tests makes one under the other. If it has more, it is made in parts
    /// that wait neither for one another nor for the mask that it is under. A test, also one of a set, is
    /// in one part.
    const CHAIN: usize = usize::MAX;

    /// Whether a test under a mask takes no more instructions than one without.
    const PREDICATED: bool;

    /// `a & b`.
    fn and(&mut self, a: Reg, b: Reg) -> Reg;
    /// `b & !a`.
    fn and_not(&mut self, a: Reg, b: Reg) -> Reg;
    /// `a | b`.
    fn or(&mut self, a: Reg, b: Reg) -> Reg;
    /// The complement.
    fn not(&mut self, a: Reg) -> Reg;

    /// `mask & set | clear & !mask`.
    fn select(&mut self, mask: Reg, set: Reg, clear: Reg) -> Reg {
        let (set, clear) = (self.and(mask, set), self.and_not(mask, clear));
        self.or(set, clear)
    }

    /// `mask`, or its complement if not `holds`, among the packets of `under`.
    fn among(&mut self, mask: Reg, holds: bool, under: Option<Reg>) -> Mask {
        match under {
            None => Mask { reg: mask, inverted: !holds },
            Some(under) if holds => Mask::plain(self.and(mask, under)),
            Some(under) => Mask::plain(self.and_not(mask, under)),
        }
    }

    /// Notes the purpose of the next operations, and returns the note's number.
    fn note(&mut self, text: &str) -> u32;
}

/// The masks of tests.
pub trait Masks {
    /// The operations on them.
    type Logic: Logic;

    /// The operations on them.
    fn logic(&mut self) -> &mut Self::Logic;

    /// The number of comparisons that a test makes one under the other.
    fn comparisons(&self, _test: Test) -> usize {
        1
    }

    /// The packets of `under` for which `test` has the outcome `holds`.
    fn test(&mut self, test: Test, holds: bool, under: Option<Reg>) -> Mask;
}

/// A test and its required outcome.
pub type Literal = (Test, bool);

/// The tests for a conjunction of atoms and negated atoms.
#[must_use]
pub fn literals(literals: &[(Atom, bool)], layout: &Layout) -> Vec<Literal> {
    let held: Vec<Atom> = literals.iter().filter(|(_, holds)| *holds).map(|l| l.0).collect();
    let mut all: Vec<Literal> = tests(&held, layout).into_iter().map(|t| (t, true)).collect();
    let mut none_of: Vec<(usize, u32)> = Vec::new();
    for (atom, _) in literals.iter().filter(|(_, holds)| !holds) {
        match layout.place(atom) {
            // One bit each: `not a and not b` is one test of both.
            Some(place) if !matches!(atom, Atom::Member(..)) && place.care.is_power_of_two() => {
                match none_of.iter_mut().find(|(plane, _)| *plane == place.plane) {
                    Some((_, care)) => *care |= place.care,
                    None => none_of.push((place.plane, place.care)),
                }
            }
            // One test each, since an atom lies in one plane; the negation of
            // several tests would not be a conjunction.
            _ => all.extend(tests(&[*atom], layout).into_iter().map(|test| (test, false))),
        }
    }
    all.extend(none_of.into_iter().map(|(plane, care)| match care.count_ones() {
        1 => (Test::Signature { plane, care }, false),
        _ => (Test::NoneOf { plane, care }, true),
    }));
    all
}

/// The tests for a conjunction of atoms.
#[must_use]
pub fn tests(atoms: &[Atom], layout: &Layout) -> Vec<Test> {
    let mut tests: Vec<Test> = Vec::new();
    for atom in atoms {
        match *atom {
            Atom::Captured(bytes) => match find(&mut tests, |t| matches!(t, Test::Captured(_))) {
                Some(Test::Captured(most)) => *most = bytes.max(*most),
                _ => tests.push(Test::Captured(bytes)),
            },
            Atom::WireAtLeast(bytes) => tests.push(Test::WireAtLeast(bytes)),
            Atom::WireEqual(bytes) => tests.push(Test::WireEqual(bytes)),
            Atom::Equal(..) | Atom::AtLeast(..) => {
                if let Some(place) = layout.place(atom) {
                    let same = |t: &Test| matches!(t, Test::Signature { plane, .. } if *plane == place.plane);
                    match find(&mut tests, same) {
                        Some(Test::Signature { care, .. }) => *care |= place.care,
                        _ => {
                            let (plane, care) = (place.plane, place.care);
                            tests.push(Test::Signature { plane, care });
                        }
                    }
                }
            }
            Atom::Computed(..) | Atom::CapturedFrom(..) | Atom::ComputedMember(..) => {
                tests.push(Test::Lanes(*atom))
            }
            Atom::Member(..) => {
                let found = layout.place(atom);
                tests.extend(found.map(|place| Test::Found { plane: place.plane }));
            }
        }
    }
    tests
}

fn find(tests: &mut [Test], which: impl Fn(&Test) -> bool) -> Option<&mut Test> {
    tests.iter_mut().find(|test| which(test))
}

/// Evaluates the decision function; `group` returns the tests of a node.
pub fn evaluate(
    decision: &Decision,
    group: impl Fn(&Node) -> Vec<Literal>,
    masks: &mut impl Masks,
) -> Accepted {
    let groups: Vec<Vec<Literal>> = decision.nodes.iter().map(group).collect();
    evaluate_groups(decision, &groups, masks)
}

/// Evaluates the decision function; `groups` has the tests of each node.
pub fn evaluate_groups(
    decision: &Decision,
    groups: &[Vec<Literal>],
    masks: &mut impl Masks,
) -> Accepted {
    let inverted = wanted_inverted(decision);
    let mut outcomes: Vec<Accepted> = Vec::with_capacity(decision.nodes.len());
    let outcome = |target: Target, outcomes: &[Accepted]| match target {
        Target::End(accepted) => Accepted::Always(accepted),
        Target::Node(index) => outcomes[index],
    };
    for ((index, node), group) in decision.nodes.iter().enumerate().zip(groups) {
        let then = outcome(node.then, &outcomes);
        let otherwise = outcome(node.otherwise, &outcomes);
        masks.logic().note(&node.text);
        let result = choose(group, then, otherwise, inverted[index], masks);
        outcomes.push(result);
    }
    outcome(decision.entry, &outcomes)
}

/// The packets that are left to `list`, if any may be; `tests` returns the tests of an atom.
pub fn left(
    decision: &Decision,
    tests: impl Fn(Atom) -> Vec<Test>,
    masks: &mut impl Masks,
) -> Option<Reg> {
    let mut all: Option<Reg> = None;
    for leave in &decision.leaves {
        masks.logic().note("left to list");
        let mut under = None;
        for test in leave.guard.into_iter().flat_map(&tests) {
            let guarded = masks.test(test, true, under);
            under = Some(plain(guarded, masks));
        }
        let (atom, holds) = leave.literal;
        for test in tests(atom) {
            let wrong = masks.test(test, holds, under);
            let wrong = plain(wrong, masks);
            all = Some(all.map_or(wrong, |others| masks.logic().or(others, wrong)));
        }
    }
    all
}

/// By node: whether most of the nodes that lead to it need its complement.
fn wanted_inverted(decision: &Decision) -> Vec<bool> {
    let mut votes = vec![0_i32; decision.nodes.len()];
    for index in (0..decision.nodes.len()).rev() {
        let node = &decision.nodes[index];
        let own = if votes[index] > 0 { 1 } else { -1 };
        match (node.then, node.otherwise) {
            (Target::End(accepted), Target::Node(next)) => {
                votes[next] += if accepted { 1 } else { -1 };
            }
            (Target::Node(next), Target::End(accepted)) => {
                votes[next] += if accepted { 1 } else { -1 };
            }
            (Target::Node(a), Target::Node(b)) => {
                votes[a] += own;
                votes[b] += own;
            }
            (Target::End(_), Target::End(_)) => {}
        }
    }
    votes.into_iter().map(|votes| votes > 0).collect()
}

/// `then` where all tests have their required outcomes, `otherwise` elsewhere.
fn choose(
    tests: &[Literal],
    then: Accepted,
    otherwise: Accepted,
    inverted: bool,
    masks: &mut impl Masks,
) -> Accepted {
    use Accepted::{Always, Packets};
    // An empty conjunction holds.
    if tests.is_empty() {
        return then;
    }
    let mask = match (then, otherwise) {
        (Always(a), Always(b)) if a == b => return Always(a),
        (Always(accepted), Always(_)) => {
            // For one test, either form costs the same.
            let all = accepted != inverted || tests.len() > 1;
            // Plain if the computed mask has the accepted packets.
            flip(so(tests, all, None, masks), all != accepted)
        }
        (Packets(mask), Always(false)) => so_among(tests, mask, masks),
        // Accepted unless the tests succeed and `then` rejects.
        (Packets(mask), Always(true)) => flip(so_among(tests, flip(mask, true), masks), true),
        (Always(false), Packets(mask)) => not_so_among(tests, mask, masks),
        (Always(true), Packets(mask)) => flip(not_so_among(tests, flip(mask, true), masks), true),
        (Packets(then), Packets(otherwise)) => either(tests, then, otherwise, masks),
    };
    Packets(mask)
}

fn flip(mask: Mask, really: bool) -> Mask {
    Mask { inverted: mask.inverted != really, ..mask }
}

/// The packets of `under` for which all tests have their required outcomes; or,
/// for `all` false and without `under`, those for which one has not.
fn so(tests: &[Literal], all: bool, under: Option<Reg>, masks: &mut impl Masks) -> Mask {
    if let ([(test, holds)], false) = (tests, all) {
        return masks.test(*test, !holds, under);
    }
    flip(conjunction(tests, under, masks), !all)
}

/// The packets of `under` for which all tests, of which there are some, have their required outcomes.
fn conjunction<M: Masks>(tests: &[Literal], under: Option<Reg>, masks: &mut M) -> Mask {
    if tests.iter().map(|(test, _)| masks.comparisons(*test)).sum::<usize>() <= M::Logic::CHAIN {
        return chain(tests, under, masks);
    }
    let mut held = under;
    let mut rest = tests;
    while !rest.is_empty() {
        let mut comparisons = 0;
        let fits = |(test, _): &&Literal| {
            comparisons += masks.comparisons(*test);
            comparisons <= M::Logic::CHAIN
        };
        let (part, behind) = rest.split_at(rest.iter().take_while(fits).count().max(1));
        let mask = chain(part, None, masks);
        let part = plain(mask, masks);
        held = Some(held.map_or(part, |held| masks.logic().and(held, part)));
        rest = behind;
    }
    held.map_or(NOTHING, Mask::plain)
}

/// The same, each test under the mask of those before it.
fn chain(tests: &[Literal], under: Option<Reg>, masks: &mut impl Masks) -> Mask {
    let mut among = under.map(Mask::plain);
    for (test, holds) in tests {
        among = Some(match among {
            Some(Mask { reg, inverted: true }) => {
                let next = masks.test(*test, *holds, None);
                if next.inverted {
                    flip(Mask::plain(masks.logic().or(reg, next.reg)), true)
                } else {
                    Mask::plain(masks.logic().and_not(reg, next.reg))
                }
            }
            _ => masks.test(*test, *holds, among.map(|mask| mask.reg)),
        });
    }
    among.unwrap_or(NOTHING)
}

/// Stands for the mask of no test at all, which `choose` does not ask for.
const NOTHING: Mask = Mask { reg: Reg(0), inverted: false };

/// The register of `mask`, complemented if it has the complement.
fn plain(mask: Mask, masks: &mut impl Masks) -> Reg {
    if mask.inverted { masks.logic().not(mask.reg) } else { mask.reg }
}

/// The packets of `mask` for which all tests have their required outcomes.
fn so_among(tests: &[Literal], mask: Mask, masks: &mut impl Masks) -> Mask {
    if !mask.inverted {
        return so(tests, true, Some(mask.reg), masks);
    }
    let held = so(tests, true, None, masks);
    if held.inverted {
        return flip(Mask::plain(masks.logic().or(held.reg, mask.reg)), true);
    }
    Mask::plain(masks.logic().and_not(mask.reg, held.reg))
}

/// The packets of `mask` for which some test has not its required outcome.
fn not_so_among(tests: &[Literal], mask: Mask, masks: &mut impl Masks) -> Mask {
    if let ([(test, holds)], false) = (tests, mask.inverted) {
        return masks.test(*test, !holds, Some(mask.reg));
    }
    let held = so(tests, true, None, masks);
    match (held.inverted, mask.inverted) {
        (false, false) => Mask::plain(masks.logic().and_not(held.reg, mask.reg)),
        (false, true) => flip(Mask::plain(masks.logic().or(held.reg, mask.reg)), true),
        (true, false) => Mask::plain(masks.logic().and(held.reg, mask.reg)),
        (true, true) => Mask::plain(masks.logic().and_not(mask.reg, held.reg)),
    }
}

/// `then` for the packets for which all tests have their required outcomes,
/// `otherwise` for the others.
fn either<M: Masks>(tests: &[Literal], then: Mask, otherwise: Mask, masks: &mut M) -> Mask {
    let otherwise = if otherwise.inverted == then.inverted {
        otherwise.reg
    } else {
        masks.logic().not(otherwise.reg)
    };
    let reg = if let ([(test, holds)], true) = (tests, M::Logic::PREDICATED) {
        let a = masks.test(*test, *holds, Some(then.reg));
        let b = masks.test(*test, !holds, Some(otherwise));
        let (a, b) = (plain(a, masks), plain(b, masks));
        masks.logic().or(a, b)
    } else {
        let held = so(tests, true, None, masks);
        let (set, clear) =
            if held.inverted { (otherwise, then.reg) } else { (then.reg, otherwise) };
        masks.logic().select(held.reg, set, clear)
    };
    Mask { reg, inverted: then.inverted }
}
