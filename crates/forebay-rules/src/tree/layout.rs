//! Trees in memory: nodes, their children, and blocks of eight atoms.
//!
//! A *block* is what one packet is held against at once: eight atoms in the
//! order of their labels, each lane complete in itself. A block may therefore
//! serve several lists of one tree: whatever it finds truly matches. Short lists that lie
//! near each other are packed together, which fills the blocks and brings an
//! atom to about 27 bytes. Lists of more than eight go on in further blocks.

use super::arena::{Arena, Full};
use super::block::{Block, Entry, LANES};
use super::cut_tree::CutTree;
use super::error::{MAX_BLOCKS, MAX_SLOTS, TreeError};
use super::labels::NO_LABEL;
use forebay_packet::cancel;
use std::collections::HashMap;
use std::sync::Arc;

/// In a reference: to a block, not to a node.
pub(crate) const BLOCK: u32 = 1 << 31;

/// In a reference to a block: the list goes on behind it.
pub(crate) const CHAIN: u32 = 1 << 30;

/// The number of the node or block that a reference is to.
pub(crate) const NUMBER: u32 = CHAIN - 1;

/// A node: which bits of the key number its children.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Node {
    /// The bits.
    pub mask: u64,
    /// The 64-bit word of the key that they are bits of.
    pub word: u32,
    /// Where its children begin.
    pub base: u32,
}

/// Several trees that share their arrays. A copy has slots of its own and shares all else:
/// blocks that are added to one of them are reached from no slot of the others.
#[derive(Clone)]
pub(crate) struct Forest<const Q: usize> {
    /// The nodes of all trees.
    pub nodes: Arc<[Node]>,
    /// The children of all nodes: references to nodes, or with [`BLOCK`] to blocks.
    pub slots: Vec<u32>,
    /// The blocks of all trees; the first is empty.
    pub blocks: Arc<Arena<Block<Q>>>,
    /// The trees, in the order in which they are searched.
    pub roots: Vec<Root>,
}

/// What a tree begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Root {
    pub slot: u32,
    /// No atom of the tree has a lower label.
    pub least: u32,
}

/// How many blocks packing looks back at for room.
const WINDOW: usize = 24;

/// Lays trees out.
struct Builder<'a, const Q: usize> {
    entries: &'a [Entry],
    nodes: Vec<Node>,
    slots: Vec<u32>,
    blocks: Vec<Block<Q>>,
    /// The block that each list begins with.
    known: HashMap<Vec<u32>, u32>,
    /// Members of the blocks in which lists were put last.
    open: Vec<(u32, Vec<u32>)>,
    /// The least label of the tree so far.
    least: u32,
}

impl<const Q: usize> Forest<Q> {
    /// `trees` in memory, with room for so many more blocks for each that
    /// there is, in percent.
    ///
    /// # Errors
    /// If there would be more blocks or children than can be numbered.
    pub fn new(entries: &[Entry], trees: &[CutTree], spare: usize) -> Result<Self, TreeError> {
        let mut builder = Builder {
            entries,
            nodes: Vec::new(),
            slots: Vec::new(),
            blocks: vec![Block::EMPTY],
            known: HashMap::new(),
            open: Vec::new(),
            least: NO_LABEL,
        };
        let mut roots = Vec::with_capacity(trees.len());
        for tree in trees {
            // A change looks for an atom in its own tree only: no block may be
            // reached from two.
            builder.open.clear();
            builder.known.clear();
            let slot = builder.slots.len();
            builder.least = NO_LABEL;
            builder.slots.push(BLOCK);
            builder.slots[slot] = builder.place(tree);
            roots.push(Root { slot: slot as u32, least: builder.least });
        }
        let Builder { nodes, slots, blocks, .. } = builder;
        let more = if spare == 0 { 0 } else { LEAST_SPARE + blocks.len() * spare / 100 };
        if blocks.len() + more > MAX_BLOCKS || slots.len() > MAX_SLOTS {
            return Err(TreeError::Blocks { blocks: blocks.len(), slots: slots.len() });
        }
        let blocks = Arc::new(Arena::new(blocks, more));
        let forest = Self { nodes: nodes.into(), slots, blocks, roots };
        assert!(forest.is_closed(), "a tree refers to what it has");
        Ok(forest)
    }

    /// Whether all references are to what there is, and lists end: kernels follow them
    /// without a check of their own. Changes keep that, by [`Forest::lead`] and
    /// [`Forest::push`].
    fn is_closed(&self) -> bool {
        let roots = self.roots.iter().all(|root| (root.slot as usize) < self.slots.len());
        // The key has the words of both addresses and one behind them.
        let nodes = self.nodes.iter().all(|node| {
            let children = 1_u64.checked_shl(node.mask.count_ones()).unwrap_or(u64::MAX);
            let end = u64::from(node.base).saturating_add(children);
            node.word as usize <= Q && end <= self.slots.len() as u64
        });
        let slots = self.slots.iter().all(|&slot| self.has(slot));
        let count = self.blocks.len() as u32;
        let lists = (0..count).all(|at| match self.blocks.get(at).next {
            0 => true,
            next => next > at && next < count,
        });
        count > 0 && roots && nodes && slots && lists
    }

    /// Whether a reference is to a node or a block that there is.
    fn has(&self, at: u32) -> bool {
        match at & BLOCK {
            0 => (at as usize) < self.nodes.len(),
            _ => ((at & NUMBER) as usize) < self.blocks.len(),
        }
    }

    /// Adds a block, behind which its list goes on in one that there is.
    ///
    /// # Errors
    /// If there is no room.
    pub fn push(&self, block: Block<Q>) -> Result<u32, Full> {
        assert!(self.has(BLOCK | block.next), "a list goes on in a block that there is");
        self.blocks.push(block)
    }

    /// Has a slot lead to what there is.
    pub fn lead(&mut self, slot: u32, to: u32) {
        assert!(self.has(to), "a slot leads to what there is");
        self.slots[slot as usize] = to;
    }

    /// No trees.
    pub fn empty() -> Self {
        let blocks = Arc::new(Arena::new(vec![Block::EMPTY], 0));
        Self { nodes: Arc::default(), slots: Vec::new(), blocks, roots: Vec::new() }
    }

    /// What the tree `tree` begins with.
    #[inline]
    pub fn root(&self, tree: usize) -> u32 {
        self.slots[self.roots[tree].slot as usize]
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.nodes[..])
            + size_of_val(&self.slots[..])
            + self.blocks.bytes()
            + size_of_val(&self.roots[..])
    }
}

const _: () = {
    assert!(MAX_BLOCKS * size_of::<Block<4>>() / size_of::<u32>() < 1 << 31);
    assert!(MAX_SLOTS <= NUMBER as usize);
};

/// Blocks that a forest which is to be changed has room for at least.
const LEAST_SPARE: usize = 4096;

impl<const Q: usize> Builder<'_, Q> {
    fn place(&mut self, tree: &CutTree) -> u32 {
        match tree {
            CutTree::Leaf(members) => BLOCK | self.place_list(members),
            CutTree::Node(cut, children) => {
                let base = self.slots.len();
                self.slots.extend(children.iter().map(|_| BLOCK));
                let node = self.nodes.len() as u32;
                let (mask, word) = (cut.mask, cut.word as u32);
                self.nodes.push(Node { mask, word, base: base as u32 });
                for (at, child) in children.iter().enumerate() {
                    self.slots[base + at] = self.place(child);
                }
                node
            }
        }
    }

    fn place_list(&mut self, members: &[u32]) -> u32 {
        cancel::check();
        if members.is_empty() {
            return 0;
        }
        let labels = members.iter().map(|&at| self.entries[at as usize].label);
        self.least = labels.fold(self.least, u32::min);
        if let Some(&block) = self.known.get(members) {
            return block;
        }
        let block =
            if members.len() > LANES { CHAIN | self.chain(members) } else { self.pack(members) };
        self.known.insert(members.to_vec(), block);
        block
    }

    /// A list over several blocks of its own, one behind the other.
    fn chain(&mut self, members: &[u32]) -> u32 {
        let first = self.blocks.len() as u32;
        for part in members.chunks(LANES) {
            self.push(part);
        }
        let last = self.blocks.len() - 1;
        for block in first as usize..last {
            self.blocks[block].next = block as u32 + 1;
        }
        first
    }

    fn push(&mut self, members: &[u32]) -> u32 {
        let entries = members.iter().map(|&member| &self.entries[member as usize]);
        self.blocks.push(Block::of(entries));
        self.blocks.len() as u32 - 1
    }

    /// A short list: into the open block that grows least by it, or a new one.
    fn pack(&mut self, members: &[u32]) -> u32 {
        let growth = |held: &[u32]| members.iter().filter(|member| !held.contains(member)).count();
        let fits = |(at, (_, held)): (usize, &(u32, Vec<u32>))| {
            let more = growth(held);
            (held.len() + more <= LANES).then_some((more, at))
        };
        let best = self.open.iter().enumerate().filter_map(fits).min();
        let Some((_, at)) = best else {
            if self.open.len() == WINDOW {
                self.open.remove(0);
            }
            let block = self.push(members);
            self.open.push((block, members.to_vec()));
            return block;
        };
        let (block, held) = &mut self.open[at];
        held.extend(members);
        held.sort_unstable();
        held.dedup();
        let entries = held.iter().map(|&member| &self.entries[member as usize]);
        self.blocks[*block as usize] = Block::of(entries);
        *block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of two leaves, one of them a list of two blocks.
    fn forest() -> Forest<1> {
        let slots = vec![0, BLOCK, BLOCK | CHAIN | 1];
        let nodes = [Node { mask: 1 << 40, word: 1, base: 1 }].into();
        let blocks = vec![Block::EMPTY, Block { next: 2, ..Block::EMPTY }, Block::EMPTY];
        Forest {
            nodes,
            slots,
            blocks: Arc::new(Arena::new(blocks, 1)),
            roots: vec![Root { slot: 0, least: 0 }],
        }
    }

    #[test]
    fn a_tree_that_refers_to_what_it_lacks_is_refused() {
        fn node(forest: &mut Forest<1>) -> &mut Node {
            &mut Arc::make_mut(&mut forest.nodes)[0]
        }
        let list = |next| Arc::new(Arena::new(vec![Block { next, ..Block::EMPTY }; 3], 0));
        assert!(forest().is_closed());
        let broken: [&dyn Fn(&mut Forest<1>); 9] = [
            &|forest: &mut Forest<1>| forest.roots.push(Root { slot: 3, least: 0 }),
            &|forest: &mut Forest<1>| node(forest).base = 2,
            &|forest: &mut Forest<1>| node(forest).base = u32::MAX,
            &|forest: &mut Forest<1>| node(forest).mask = 3,
            &|forest: &mut Forest<1>| node(forest).word = 2,
            &|forest: &mut Forest<1>| forest.slots[0] = 1,
            &|forest: &mut Forest<1>| forest.slots[1] = BLOCK | 3,
            &|forest: &mut Forest<1>| forest.blocks = list(1),
            &|forest: &mut Forest<1>| forest.blocks = list(3),
        ];
        for (number, break_it) in broken.into_iter().enumerate() {
            let mut forest = forest();
            break_it(&mut forest);
            assert!(!forest.is_closed(), "{number}");
        }
    }

    #[test]
    #[should_panic(expected = "a slot leads to what there is")]
    fn a_change_leads_to_what_there_is() {
        let mut forest = forest();
        assert_eq!(forest.push(Block { next: 2, ..Block::EMPTY }), Ok(3));
        forest.lead(1, BLOCK | 3);
        forest.lead(1, BLOCK | 4);
    }
}
