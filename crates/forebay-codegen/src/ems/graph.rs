//! The filter as a graph of tests.
//!
//! A node is a block with a test. Jumps, constant tests and tests without
//! effect are left out. A packet in flight is at one node at a time, and the
//! node alone determines the work left for the packet: two histories that lead
//! to the same node are one state.
//!
//! The *data register* of a packet is loaded with the operand of the next test
//! before the packet reaches that test: each node has a [`Content`] that its
//! predecessors load, unless the register already holds it. A test of the
//! captured length has no operand; before it the register is loaded for the
//! test after it.
//!
//! Consecutive tests of the same content for equality with different numbers,
//! with the same target if equal, become one test. That saves a branch, and the
//! remaining branch is mispredicted less often.

use forebay_filter::cancel;
use forebay_filter::ir::{BlockId, Function, Terminator, ValueId};

use super::comparison::{Content, Reading, Test, read};
use super::error::EmsError;
use super::value::passes_through;
use crate::list::select::Key;

/// The most numbers of a merged test.
const MOST_NUMBERS: usize = 3;

/// Index of a [`Node`].
pub(super) type NodeId = u32;

/// What a filter returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// A number.
    Constant(u32),
    /// A value computed from the packet.
    Computed(ValueId),
}

/// The target of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Target {
    /// A node with a higher number.
    Node(NodeId),
    /// The end of the filter.
    Verdict(Verdict),
}

/// A load of a data register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Load {
    pub content: Content,
    /// The content of the register from which the new content is computed.
    pub from: Option<Key>,
}

/// A test and its successors.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The blocks merged into it: it holds if the test of one of them does.
    pub blocks: Vec<BlockId>,
    pub test: Test,
    /// What the data register holds when a packet reaches this node; `None` if
    /// neither this test nor the one right after it reads the register.
    pub content: Option<Content>,
    pub then: Target,
    pub otherwise: Target,
    /// The load on the way to either successor, unless the register already
    /// holds its content.
    pub loads: [Option<Load>; 2],
}

impl Node {
    /// The two verdicts, if both successors are constant verdicts.
    pub(super) fn decides(&self) -> Option<(u32, u32)> {
        match (self.then, self.otherwise) {
            (
                Target::Verdict(Verdict::Constant(holds)),
                Target::Verdict(Verdict::Constant(fails)),
            ) => Some((holds, fails)),
            _ => None,
        }
    }
}

/// The tests of a filter.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    /// The nodes reachable from the entry, each before its successors.
    pub nodes: Vec<Node>,
    pub entry: Target,
}

impl Graph {
    /// The tests of `function`, which must be acyclic and without parameters.
    ///
    /// # Errors
    /// [`EmsError::ControlFlow`] if it is not.
    pub(super) fn new(function: &Function) -> Result<Self, EmsError> {
        let mut targets: Vec<Option<Target>> = vec![None; function.blocks.len()];
        // Last block first, so that the successors of a block are known.
        let mut nodes: Vec<Node> = Vec::new();
        for (index, block) in function.blocks.iter().enumerate().rev() {
            cancel::check();
            for edge in block.end.edges() {
                if edge.target.0 as usize <= index || !edge.arguments.is_empty() {
                    return Err(EmsError::ControlFlow);
                }
            }
            let target = |block: BlockId| targets.get(block.0 as usize).copied().flatten();
            targets[index] = match &block.end {
                Terminator::Return(value) => {
                    let constant = function.as_constant(*value).map(Verdict::Constant);
                    Some(Target::Verdict(constant.unwrap_or(Verdict::Computed(*value))))
                }
                Terminator::Jump(edge) => target(edge.target),
                Terminator::Test { predicate, then, otherwise } => {
                    let (Some(then), Some(otherwise)) =
                        (target(then.target), target(otherwise.target))
                    else {
                        return Err(EmsError::ControlFlow);
                    };
                    match read(function, *predicate) {
                        Reading::Constant(true) => Some(then),
                        Reading::Constant(false) => Some(otherwise),
                        Reading::Test(..) if then == otherwise => Some(then),
                        Reading::Test(test, content) => {
                            let blocks = vec![BlockId(index as u32)];
                            let loads = [None, None];
                            let node = Node { blocks, test, content, then, otherwise, loads };
                            let mut node = joined(node, &nodes);
                            node.content = node.content.or(behind(&node, &nodes));
                            node.loads = [node.then, node.otherwise]
                                .map(|target| load(function, node.content, target, &nodes));
                            nodes.push(node);
                            Some(Target::Node(nodes.len() as NodeId - 1))
                        }
                    }
                }
            };
        }
        let entry = targets.first().copied().flatten().ok_or(EmsError::ControlFlow)?;
        Ok(Self::reached(&nodes, entry))
    }

    /// The nodes reachable from `entry`, in the order of their blocks.
    fn reached(nodes: &[Node], entry: Target) -> Self {
        let mut reached = vec![false; nodes.len()];
        if let Target::Node(entry) = entry {
            reached[entry as usize] = true;
        }
        for (index, node) in nodes.iter().enumerate().rev() {
            for target in [node.then, node.otherwise] {
                if let (true, Target::Node(target)) = (reached[index], target) {
                    reached[target as usize] = true;
                }
            }
        }
        let mut numbers: Vec<NodeId> = vec![0; nodes.len()];
        let kept = (0..nodes.len()).rev().filter(|&index| reached[index]);
        for (number, index) in kept.clone().enumerate() {
            numbers[index] = number as NodeId;
        }
        let renumbered = |target| match target {
            Target::Node(node) => Target::Node(numbers[node as usize]),
            Target::Verdict(_) => target,
        };
        let nodes = kept.map(|index| Node {
            then: renumbered(nodes[index].then),
            otherwise: renumbered(nodes[index].otherwise),
            ..nodes[index].clone()
        });
        Self { nodes: nodes.collect(), entry: renumbered(entry) }
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    /// The required content of the data register of a packet that reaches
    /// `target`.
    pub(super) fn content(&self, target: Target) -> Option<Content> {
        match target {
            Target::Node(node) => self.node(node).content,
            Target::Verdict(_) => None,
        }
    }

    /// The values that are returned as verdicts.
    pub(super) fn computed_verdicts(&self) -> impl Iterator<Item = ValueId> + '_ {
        let targets = self.nodes.iter().flat_map(|node| [node.then, node.otherwise]);
        targets.chain([self.entry]).filter_map(|target| match target {
            Target::Verdict(Verdict::Computed(value)) => Some(value),
            Target::Verdict(Verdict::Constant(_)) | Target::Node(_) => None,
        })
    }
}

/// `node`, merged with the test that follows if it fails, where possible.
fn joined(mut node: Node, nodes: &[Node]) -> Node {
    if let Target::Node(next) = node.otherwise {
        let next = &nodes[next as usize];
        if node.content.is_some()
            && next.content == node.content
            && next.then == node.then
            && let Some(test) = node.test.either(&next.test, MOST_NUMBERS)
        {
            node.test = test;
            node.otherwise = next.otherwise;
            node.blocks.extend(&next.blocks);
        }
    }
    node
}

/// The content of the data register at a test that does not read it: that of
/// the next test.
fn behind(node: &Node, nodes: &[Node]) -> Option<Content> {
    [node.then, node.otherwise].into_iter().find_map(|target| match target {
        Target::Node(next) => nodes[next as usize].content,
        Target::Verdict(_) => None,
    })
}

/// The load on the way to `target`, given that the register has `content`.
fn load(
    function: &Function,
    content: Option<Content>,
    target: Target,
    nodes: &[Node],
) -> Option<Load> {
    let Target::Node(next) = target else { return None };
    let wanted =
        nodes[next as usize].content.filter(|_| content != nodes[next as usize].content)?;
    let whole = content.filter(|content| content.mask == u32::MAX).map(|content| content.key);
    let from = whole.filter(|&key| passes_through(function, wanted.key, key));
    Some(Load { content: wanted, from })
}
