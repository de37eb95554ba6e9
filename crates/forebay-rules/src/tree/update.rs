//! Changing a copy of a forest: leaves are copied, changed, and led to.
//!
//! To change a list of atoms, new blocks are written behind those there are, and the slots of
//! the copy lead to them. Readers of the forest that was copied follow its own slots, so that
//! they meet none of it.

use super::arena::Full;
use super::bits::{deposit, extract};
use super::block::{Block, Entry, LANES};
use super::labels::NO_LABEL;
use super::layout::{BLOCK, CHAIN, Forest, NUMBER};
use crate::atom::Ternary;

/// Words of the longest key.
const WORDS: usize = 5;

/// A slot that leads to a leaf, and what is known of the packets that come by.
struct Touched {
    slot: u32,
    region: [Ternary; WORDS],
}

/// One lane of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Lane<const Q: usize> {
    label: u32,
    test: u8,
    addresses: [[u32; 2]; Q],
    shifts: [[u8; 2]; Q],
    ports: [u16; 4],
}

impl<const Q: usize> Lane<Q> {
    fn of(block: &Block<Q>, lane: usize) -> Self {
        Self {
            label: block.labels[lane],
            test: block.tests[lane],
            addresses: std::array::from_fn(|word| block.addresses[word][lane]),
            shifts: std::array::from_fn(|word| block.shifts[word][lane]),
            ports: block.ports[lane],
        }
    }

    fn put(&self, block: &mut Block<Q>, lane: usize) {
        block.labels[lane] = self.label;
        block.tests[lane] = self.test;
        for word in 0..Q {
            block.addresses[word][lane] = self.addresses[word];
            block.shifts[word][lane] = self.shifts[word];
        }
        block.ports[lane] = self.ports;
    }

    /// Whether a packet of `region` can match, by its addresses.
    fn meets(&self, region: &[Ternary; WORDS]) -> bool {
        (0..Q).all(|word| {
            let counts = |half: usize| {
                u64::from(u32::MAX.checked_shl(self.shifts[word][half].into()).unwrap_or(0))
            };
            let [low, high] = self.addresses[word].map(u64::from);
            let care = (counts(0) | counts(1) << 32) & region[word].care;
            ((low | high << 32) ^ region[word].value) & care == 0
        })
    }
}

impl<const Q: usize> Forest<Q> {
    /// Puts `entry` into every leaf of the tree `tree` that a packet matching
    /// it can come to. True if it is in; false, with nothing changed, if that
    /// would take more than `most` leaves.
    ///
    /// # Errors
    /// If there is no room for new blocks; nothing is changed then.
    pub fn insert(&mut self, tree: usize, entry: &Entry, most: usize) -> Result<bool, Full> {
        let Some(touched) = self.touched(tree, &entry.words, most) else { return Ok(false) };
        let lane = Lane::of(&Block::of([entry]), 0);
        self.change(&touched, |lanes| {
            let at = lanes.partition_point(|other| other.label <= lane.label);
            lanes.insert(at, lane);
            true
        })?;
        let root = &mut self.roots[tree];
        root.least = root.least.min(entry.label);
        Ok(true)
    }

    /// Takes what has the label of `entry` out of every leaf that a packet
    /// matching `entry` can come to. True if there was any.
    ///
    /// # Errors
    /// If there is no room for new blocks; nothing is changed then.
    pub fn remove(&mut self, tree: usize, entry: &Entry) -> Result<bool, Full> {
        let touched = self.touched(tree, &entry.words, usize::MAX).unwrap_or_default();
        self.change(&touched, |lanes| {
            let before = lanes.len();
            lanes.retain(|lane| lane.label != entry.label);
            lanes.len() != before
        })
    }

    /// The slots by which packets that agree with `words` come to leaves; none
    /// if they are more than `most`.
    fn touched(&self, tree: usize, words: &[Ternary], most: usize) -> Option<Vec<Touched>> {
        let mut touched = Vec::new();
        let mut open =
            vec![Touched { slot: self.roots[tree].slot, region: [Ternary::default(); WORDS] }];
        while let Some(next) = open.pop() {
            let at = self.slots[next.slot as usize];
            if at & BLOCK != 0 {
                touched.push(next);
                if touched.len() > most {
                    return None;
                }
                continue;
            }
            let node = self.nodes[at as usize];
            let word = words[node.word as usize];
            let fixed = extract(word.value, node.mask);
            let free = extract(!word.care, node.mask);
            let mut subset = 0;
            loop {
                let child = fixed | subset;
                let mut region = next.region;
                let known = &mut region[node.word as usize];
                known.care |= node.mask;
                known.value |= deposit(child, node.mask);
                open.push(Touched { slot: node.base + child as u32, region });
                subset = subset.wrapping_sub(free) & free;
                if subset == 0 {
                    break;
                }
            }
        }
        Some(touched)
    }

    /// Applies `edit` to the lanes of each leaf; where it returns false the
    /// leaf stays. Slots are stored when all new blocks are written. True if
    /// any leaf was changed.
    fn change(
        &mut self,
        touched: &[Touched],
        mut edit: impl FnMut(&mut Vec<Lane<Q>>) -> bool,
    ) -> Result<bool, Full> {
        // Slots that share a list share what becomes of it.
        let mut by_list: Vec<_> =
            touched.iter().map(|touched| (self.slots[touched.slot as usize], touched)).collect();
        by_list.sort_unstable_by_key(|(list, _)| *list);
        let mut stores = Vec::with_capacity(touched.len());
        let (mut lanes, mut own) = (Vec::new(), Vec::new());
        for sharing in by_list.chunk_by(|a, b| a.0 == b.0) {
            self.read(sharing[0].0, &mut lanes);
            if !edit(&mut lanes) {
                continue;
            }
            if lanes.len() <= LANES {
                let new = self.write(&lanes)?;
                stores.extend(sharing.iter().map(|(_, touched)| (touched.slot, new)));
                continue;
            }
            // Other lists' atoms, which share the block, have to go; what is
            // left is for one slot alone.
            for (_, touched) in sharing {
                own.clear();
                own.extend(lanes.iter().filter(|lane| lane.meets(&touched.region)));
                stores.push((touched.slot, self.write(&own)?));
            }
        }
        for &(slot, new) in &stores {
            self.lead(slot, new);
        }
        Ok(!stores.is_empty())
    }

    /// Reads the lanes of the list that begins at `at`.
    fn read(&self, at: u32, lanes: &mut Vec<Lane<Q>>) {
        lanes.clear();
        let mut next = at & NUMBER;
        loop {
            let block = self.blocks.get(next);
            let used = (0..LANES).filter(|&lane| block.labels[lane] != NO_LABEL);
            lanes.extend(used.map(|lane| Lane::of(block, lane)));
            if block.next == 0 {
                return;
            }
            next = block.next;
        }
    }

    /// Writes a list, and gives the reference to it.
    fn write(&self, lanes: &[Lane<Q>]) -> Result<u32, Full> {
        if lanes.is_empty() {
            return Ok(BLOCK);
        }
        let mut next = 0;
        for part in lanes.chunks(LANES).rev() {
            let mut block = Block::EMPTY;
            part.iter().enumerate().for_each(|(at, lane)| lane.put(&mut block, at));
            block.next = next;
            next = self.push(block)?;
        }
        Ok(BLOCK | next | if lanes.len() > LANES { CHAIN } else { 0 })
    }
}
