//! Register allocation within a block.
//!
//! Every value of a block is pure, so its register can be freed at any time: a
//! value that is needed later is computed again from packet bytes in the L1
//! cache. Only values that the block itself still reads are spilled to the
//! frame. The allocator prefers free registers, then registers whose value has
//! no reader left, then registers that need saving on entry, then the register
//! that is read again last.

use iced_x86::{Code, MemoryOperand};

use super::graph::Place;
use super::output::Output;
use super::registers::{Gpr, VALUES};
use super::select::Key;

/// The content of each register of [`VALUES`].
pub(crate) type Contents = [Option<Key>; VALUES.len()];

/// The uses of keys in an extended basic block, and the registers and slots
/// that hold them at the current position.
pub(crate) struct Registers {
    contents: Contents,
    /// Registers that are not allocated, by position in [`VALUES`].
    reserved: [bool; VALUES.len()],
    /// By key: readers left in the block.
    pending: Vec<u32>,
    /// Values in the frame, for this block.
    saved: Vec<(Key, MemoryOperand)>,
    /// Free slots of the frame.
    slots: Vec<MemoryOperand>,
    /// By key: its uses in a tree.
    uses: Vec<Uses>,
    /// All reads of the tree; the reads of one key are linked in order of
    /// position.
    reads: Vec<Read>,
    tree: u32,
    place: Place,
}

#[derive(Clone, Copy, Default)]
struct Uses {
    /// The number of the tree, from 1.
    tree: u32,
    count: u32,
    /// Position of the first node that reads it.
    first: u32,
    /// Index of the last of its reads.
    last: u32,
    /// Index of its first read that may lie ahead.
    next: u32,
}

/// A read of a key.
#[derive(Clone, Copy)]
struct Read {
    /// Position of the node.
    position: u32,
    /// Index of the key's next read, or of this one if there is none.
    next: u32,
}

impl Registers {
    /// An allocator that never allocates `reserved` registers.
    pub(crate) fn new(keys: usize, reserved: &[Gpr]) -> Self {
        Self {
            contents: [None; VALUES.len()],
            reserved: VALUES.map(|gpr| reserved.contains(&gpr)),
            pending: vec![0; keys],
            saved: Vec::new(),
            slots: Vec::new(),
            uses: vec![Uses::default(); keys],
            reads: Vec::new(),
            tree: 0,
            place: Place::default(),
        }
    }

    /// Whether `gpr` is reserved.
    pub(crate) fn is_reserved(&self, gpr: Gpr) -> bool {
        VALUES.iter().zip(self.reserved).any(|(&place, reserved)| reserved && place == gpr)
    }

    /// Begins a tree: no key is used yet.
    pub(super) fn begin_tree(&mut self) {
        self.tree += 1;
        self.reads.clear();
    }

    /// Records that the node at `position` of the tree reads `key`. Nodes come
    /// in order. Returns the first and the last read recorded before.
    pub(super) fn add_use(&mut self, key: Key, position: u32) -> Option<[u32; 2]> {
        let index = self.reads.len() as u32;
        self.reads.push(Read { position, next: index });
        let tree = self.tree;
        let uses = &mut self.uses[key.index()];
        if uses.tree != tree {
            *uses = Uses { tree, count: 1, first: position, last: index, next: index };
            return None;
        }
        let last = &mut self.reads[uses.last as usize];
        last.next = index;
        let before = [uses.first, last.position];
        uses.count += 1;
        uses.last = index;
        Some(before)
    }

    /// The number of nodes of the tree that read `key`.
    pub(crate) fn use_count(&self, key: Key) -> u32 {
        let uses = self.uses[key.index()];
        if uses.tree == self.tree { uses.count } else { 0 }
    }

    /// The next read of `key` by a descendant of this node.
    fn next_use(&mut self, key: Key) -> Option<u32> {
        let uses = &mut self.uses[key.index()];
        if uses.tree != self.tree {
            return None;
        }
        // Nodes come in order of position, so reads behind it are never needed
        // again.
        let mut read = self.reads[uses.next as usize];
        while read.position <= self.place.position && read.next > uses.next {
            uses.next = read.next;
            read = self.reads[uses.next as usize];
        }
        let is_later = read.position > self.place.position;
        (is_later && self.place.has(read.position)).then_some(read.position)
    }

    /// Begins a node with the registers left by its parent.
    pub(crate) fn begin_node(&mut self, place: Place, contents: Contents) {
        self.place = place;
        self.contents = contents;
        self.slots.extend(self.saved.drain(..).map(|(_, slot)| slot));
    }

    /// The current content of the registers.
    pub(crate) fn contents(&self) -> Contents {
        self.contents
    }

    /// The register that holds `key`.
    pub(crate) fn find(&self, key: Key) -> Option<Gpr> {
        self.contents.iter().position(|&held| held == Some(key)).map(|at| VALUES[at])
    }

    /// Records a future reader of `key` in the block.
    pub(crate) fn expect(&mut self, key: Key) {
        self.pending[key.index()] += 1;
    }

    /// Removes a reader of `key`: it has read, or will not.
    pub(crate) fn consumed(&mut self, key: Key) {
        self.pending[key.index()] -= 1;
        if self.is_dead(key)
            && let Some(at) = self.contents.iter().position(|&held| held == Some(key))
        {
            self.contents[at] = None;
        }
    }

    /// Whether the current read of `key` is its last.
    pub(crate) fn is_last_read(&mut self, key: Key) -> bool {
        self.pending[key.index()] == 1 && self.next_use(key).is_none()
    }

    fn is_dead(&mut self, key: Key) -> bool {
        self.pending[key.index()] == 0 && self.next_use(key).is_none()
    }

    /// The register that holds `key`, which must have been computed; loads it
    /// from the frame if it was spilled. Does not evict registers in `pinned`.
    pub(crate) fn read(&mut self, key: Key, pinned: &[Gpr], output: &mut Output) -> Gpr {
        if let Some(gpr) = self.find(key) {
            return gpr;
        }
        let gpr = self.take(pinned, output);
        if let Some(&(_, slot)) = self.saved.iter().find(|&&(saved, _)| saved == key) {
            output.rm(Code::Mov_r32_rm32, gpr.r32(), slot);
        }
        self.put(gpr, key);
        gpr
    }

    /// Records that `gpr` now holds `key`.
    pub(crate) fn put(&mut self, gpr: Gpr, key: Key) {
        for (held, place) in self.contents.iter_mut().zip(VALUES) {
            if place == gpr {
                *held = Some(key);
            } else if *held == Some(key) {
                *held = None;
            }
        }
    }

    /// A register to be overwritten, none of `pinned`.
    pub(crate) fn take(&mut self, pinned: &[Gpr], output: &mut Output) -> Gpr {
        let at = self.choose(pinned, output);
        let gpr = VALUES[at];
        if let Some(key) = self.contents[at].take()
            && self.pending[key.index()] > 0
            && !self.saved.iter().any(|&(saved, _)| saved == key)
        {
            let slot = self.slots.pop().unwrap_or_else(|| output.slot(4));
            output.mr(Code::Mov_rm32_r32, slot, gpr.r32());
            self.saved.push((key, slot));
        }
        output.writes(gpr);
        gpr
    }

    /// The position in [`VALUES`] of the register that is cheapest to free.
    fn choose(&mut self, pinned: &[Gpr], output: &Output) -> usize {
        let mut best = (u32::MAX, u32::MAX, 0);
        for (at, &gpr) in VALUES.iter().enumerate() {
            if self.reserved[at] || pinned.contains(&gpr) {
                continue;
            }
            let is_paid = output.is_paid(gpr);
            let (cost, distance) = match self.contents[at] {
                None if is_paid => (0, 0),
                None => (2, 0),
                Some(key) => match (self.pending[key.index()], self.next_use(key)) {
                    (0, None) if is_paid => (1, 0),
                    (0, next) => (3, next.map_or(0, |next| u32::MAX - next)),
                    (_, next) => (4, next.map_or(0, |next| u32::MAX - next)),
                },
            };
            best = best.min((cost, distance, at));
        }
        best.2
    }
}
