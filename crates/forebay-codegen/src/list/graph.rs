//! The blocks in layout order, and facts about them.
//!
//! A [`Node`] is a block, or an edge that needs code: an edge from a test that
//! passes arguments or leads backwards. Nodes form *extended basic blocks*:
//! trees in which every node but the root has a single predecessor, its parent,
//! by a forward edge. Children inherit the register contents of their parent; a
//! root starts with none.

use forebay_filter::ir::{BlockId, Edge, Function, Predicate, Terminator, ValueId};
use rustc_hash::FxHashMap;

/// Index of a [`Node`].
pub(crate) type NodeId = u32;

/// The end of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End<'f> {
    Test { predicate: Predicate, then: NodeId, otherwise: NodeId },
    Jump { target: NodeId, edge: &'f Edge, backward: bool },
    Return(ValueId),
}

/// A block or an edge in the layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'f> {
    /// The block; `None` for an edge.
    pub block: Option<BlockId>,
    pub end: End<'f>,
    /// The node whose registers it inherits.
    pub parent: Option<NodeId>,
}

/// The position of a node in the order in which every node is followed by its
/// descendants.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub position: u32,
    /// The number of its descendants and itself.
    size: u32,
}

impl Place {
    /// Whether the node at `position` is this one or a descendant.
    pub(crate) fn has(self, position: u32) -> bool {
        (self.position..self.position + self.size).contains(&position)
    }
}

/// All nodes reachable from the entry.
pub(crate) struct Graph<'f> {
    pub nodes: Vec<Node<'f>>,
    /// Nodes in the order of their code.
    pub layout: Vec<NodeId>,
    /// By node: the node whose code it shares; itself, except for equal
    /// returns.
    pub alias: Vec<NodeId>,
    /// By node that is a block: the number of incoming edges.
    pub entered: Vec<u32>,
    /// By node: the nodes whose tests were merged into it.
    pub fused: FxHashMap<NodeId, Vec<NodeId>>,
    pub has_backward_edges: bool,
}

/// Incoming edges of a block.
#[derive(Clone, Copy, Default)]
struct Entries {
    count: u32,
    backward: bool,
}

impl<'f> Graph<'f> {
    /// The graph of the reachable blocks of `function`.
    pub(crate) fn new(function: &'f Function) -> Self {
        let entries = entries(function);
        let mut builder = Builder::new(function, &entries);
        builder.add_blocks();
        builder.finish()
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node<'f> {
        &self.nodes[id as usize]
    }

    /// The nodes that have code, each followed by its descendants, and the
    /// position of each.
    pub(crate) fn trees(&self) -> (Vec<NodeId>, Vec<Place>) {
        let mut places = vec![Place::default(); self.nodes.len()];
        let mut in_layout = self.layout.clone();
        // A parent has a lower number than its children.
        in_layout.sort_unstable();
        for &id in in_layout.iter().rev() {
            places[id as usize].size += 1;
            if let Some(parent) = self.node(id).parent {
                places[parent as usize].size += places[id as usize].size;
            }
        }
        let mut free = vec![0; self.nodes.len()];
        let mut next_root = 0;
        let mut trees = vec![0; in_layout.len()];
        for &id in &in_layout {
            let size = places[id as usize].size;
            let next = match self.node(id).parent {
                Some(parent) => &mut free[parent as usize],
                None => &mut next_root,
            };
            let position = *next;
            *next += size;
            free[id as usize] = position + 1;
            places[id as usize].position = position;
            trees[position as usize] = id;
        }
        (trees, places)
    }

    /// The two constants returned by the successors of a test.
    pub(super) fn either_constant(
        &self,
        function: &Function,
        then: NodeId,
        otherwise: NodeId,
    ) -> Option<(u32, u32)> {
        let then = self.returned_constant(function, then)?;
        let otherwise = self.returned_constant(function, otherwise)?;
        (then != otherwise).then_some((then, otherwise))
    }

    /// Removes nodes that no code reaches from the layout: successors of tests
    /// that are `decided`, and returns that their tests perform themselves.
    pub(super) fn keep_entered(
        &mut self,
        function: &Function,
        decided: impl Fn(NodeId) -> Option<bool>,
    ) {
        let mut is_entered = vec![false; self.nodes.len()];
        let mut pending: Vec<NodeId> = self.layout.first().copied().into_iter().collect();
        while let Some(id) = pending.pop() {
            let id = self.alias[id as usize];
            if std::mem::replace(&mut is_entered[id as usize], true) {
                continue;
            }
            match self.node(id).end {
                End::Return(_) => {}
                End::Jump { target, .. } => pending.push(target),
                End::Test { then, otherwise, .. } => match decided(id) {
                    Some(holds) => pending.push(if holds { then } else { otherwise }),
                    None if self.either_constant(function, then, otherwise).is_some() => {}
                    None => pending.extend([then, otherwise]),
                },
            }
        }
        self.layout.retain(|&id| is_entered[id as usize]);
    }

    /// The constant that `id` returns, if it does nothing else.
    pub(crate) fn returned_constant(&self, function: &Function, id: NodeId) -> Option<u32> {
        match self.node(id).end {
            End::Return(value) => function.as_constant(value),
            _ => None,
        }
    }
}

/// By block: its incoming edges from reachable blocks; none for unreachable
/// blocks, except the entry.
fn entries(function: &Function) -> Vec<Entries> {
    let count = function.blocks.len();
    let mut entries = vec![Entries::default(); count];
    let mut reached = vec![false; count];
    let mut pending = vec![0_usize];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    while let Some(index) = pending.pop() {
        let Some(block) = function.blocks.get(index) else { continue };
        for edge in block.end.edges() {
            let target = edge.target.0 as usize;
            let entry = &mut entries[target];
            entry.count += 1;
            entry.backward |= target <= index;
            if !reached[target] {
                reached[target] = true;
                pending.push(target);
            }
        }
    }
    entries
}

struct Builder<'f, 'e> {
    function: &'f Function,
    entries: &'e [Entries],
    /// By block: its node, if it is reachable.
    nodes_of: Vec<Option<NodeId>>,
    nodes: Vec<Node<'f>>,
    layout: Vec<NodeId>,
    /// Edge nodes; their code follows all blocks.
    aside: Vec<NodeId>,
    has_backward_edges: bool,
}

impl<'f, 'e> Builder<'f, 'e> {
    fn new(function: &'f Function, entries: &'e [Entries]) -> Self {
        let mut next = 0;
        let nodes_of = entries
            .iter()
            .enumerate()
            .map(|(index, entry)| {
                (index == 0 || entry.count > 0).then(|| {
                    next += 1;
                    next - 1
                })
            })
            .collect();
        Self {
            function,
            entries,
            nodes_of,
            nodes: Vec::with_capacity(next as usize + 8),
            layout: Vec::with_capacity(next as usize + 8),
            aside: Vec::new(),
            has_backward_edges: entries.iter().any(|entry| entry.backward && entry.count > 0),
        }
    }

    fn add_blocks(&mut self) {
        let function = self.function;
        for (index, block) in function.blocks.iter().enumerate() {
            if self.nodes_of[index].is_none() {
                continue;
            }
            let end = match &block.end {
                Terminator::Return(value) => End::Return(*value),
                Terminator::Jump(edge) => self.jump(index, edge),
                // Filled in below: edge nodes are numbered after all blocks.
                Terminator::Test { then, .. } => self.jump(index, then),
            };
            let block = Some(BlockId(index as u32));
            self.nodes.push(Node { block, end, parent: None });
        }
        for (index, block) in function.blocks.iter().enumerate() {
            let Some(id) = self.nodes_of[index] else { continue };
            self.layout.push(id);
            if let Terminator::Test { predicate, then, otherwise } = &block.end {
                let then = self.target(index, id, then, true);
                let otherwise = self.target(index, id, otherwise, false);
                self.nodes[id as usize].end = End::Test { predicate: *predicate, then, otherwise };
            } else if let Terminator::Jump(edge) = &block.end {
                self.adopt(edge, id, index);
            }
        }
    }

    fn jump(&self, from: usize, edge: &'f Edge) -> End<'f> {
        End::Jump {
            target: self.node_of(edge.target),
            edge,
            backward: edge.target.0 as usize <= from,
        }
    }

    /// The node of a reachable block.
    fn node_of(&self, block: BlockId) -> NodeId {
        self.nodes_of[block.0 as usize].unwrap_or(0)
    }

    /// The target of `edge` from a test of block `from`: its block's node, or a
    /// node for the edge.
    fn target(&mut self, from: usize, parent: NodeId, edge: &'f Edge, is_then: bool) -> NodeId {
        let backward = edge.target.0 as usize <= from;
        if !backward && edge.arguments.is_empty() {
            self.adopt(edge, parent, from);
            return self.node_of(edge.target);
        }
        let id = self.nodes.len() as NodeId;
        let end = self.jump(from, edge);
        self.nodes.push(Node { block: None, end, parent: Some(parent) });
        if is_then {
            self.aside.push(id);
        } else {
            self.layout.push(id);
        }
        id
    }

    /// Makes the target of an edge a child of `parent` if it has no other
    /// incoming edge.
    fn adopt(&mut self, edge: &Edge, parent: NodeId, from: usize) {
        let target = edge.target.0 as usize;
        let entry = self.entries[target];
        if target > from && target != 0 && entry.count == 1 && edge.arguments.is_empty() {
            let child = self.node_of(edge.target);
            self.nodes[child as usize].parent = Some(parent);
        }
    }

    fn finish(mut self) -> Graph<'f> {
        self.layout.append(&mut self.aside);
        let alias = self.share_returns();
        let reached = self.nodes_of.iter().zip(self.entries).filter(|(node, _)| node.is_some());
        let entered = reached.map(|(_, entries)| entries.count).collect();
        Graph {
            nodes: self.nodes,
            layout: self.layout,
            alias,
            entered,
            fused: FxHashMap::default(),
            has_backward_edges: self.has_backward_edges,
        }
    }

    /// Lets returns of the same constant share the code of the first, and
    /// removes the others from the layout.
    fn share_returns(&mut self) -> Vec<NodeId> {
        let mut alias: Vec<NodeId> = (0..self.nodes.len() as NodeId).collect();
        let mut first = FxHashMap::default();
        let (function, nodes) = (self.function, &self.nodes);
        self.layout.retain(|&id| {
            let End::Return(value) = nodes[id as usize].end else { return true };
            let Some(constant) = function.as_constant(value) else { return true };
            let shared = *first.entry(constant).or_insert(id);
            alias[id as usize] = shared;
            shared == id
        });
        for &shared in first.values() {
            self.nodes[shared as usize].parent = None;
        }
        alias
    }
}
