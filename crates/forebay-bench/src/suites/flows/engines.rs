//! The tables, each with the flows that it is given.
//!
//! Every table is made with room for a quarter more flows than it is to hold, and filled in the
//! same order. `hashbrown` stores keys of 16 bytes with the state beside them, and hashes with
//! ahash; its look-ups in batches compute all hashes first, as there is no prefetch in its
//! interface.

use std::hint::black_box;
use std::ops::Range;
use std::rc::Rc;

use ahash::RandomState;
use forebay_flow::{Level, Options, ShortKey, Table, TableKey};
use forebay_packet::{FlowKey, HashKey};
use hashbrown::HashTable;

use super::traffic::{peer_key, peer_whole_key, short_key, state, whole_key};
use crate::failure::Result;
use crate::peers::rte_hash::{Key, Keys, MOST_KEYS, RteHash};
use crate::rounds::{Contender, Role};

/// Flows of a batch.
pub const BATCH: usize = 64;
/// Flows of a call as stages make them.
pub const LONG_BATCH: usize = forebay_packet::BATCH;

/// The names of engines in the rows.
pub const EXACT: &str = "exact";
pub const EXACT_BATCH: &str = "exact-batch";
pub const LONG: &str = "exact-batch-256";
pub const AHEAD: &str = "exact-batch-ahead";
pub const WIDE: &str = "exact-wide";
pub const WIDE_BATCH: &str = "exact-wide-batch";
pub const BULK: &str = "rte_hash-bulk";
pub const BULK_WIDE: &str = "rte_hash-wide-bulk";

const HASH_KEY: HashKey = HashKey([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);

/// What is written for a flow that is not in the table.
pub const ABSENT: u32 = u32::MAX;

/// A table of flows, and the flows that it is given.
pub trait Engine {
    /// Takes flows in the table's own form, as a receiver would have their keys; not timed.
    fn load(&mut self, flows: &[u32]);

    /// Reads loaded keys, so that they are in the cache as those of packets just received.
    fn touch(&self, range: Range<usize>);

    /// Finds loaded flows, and writes for each where it is or what its state is. For mixed
    /// traffic: their packets arrive.
    fn run(&mut self, range: Range<usize>, found: &mut [u32]);

    /// Turns what `run` wrote into states or [`ABSENT`]; not timed.
    fn answers(&self, _found: &mut [u32]) {}

    /// Bytes of the table.
    fn bytes(&self) -> usize;
}

pub type Engines = Vec<Contender<dyn Engine>>;

/// Flows with which a table is made to hold `flows`.
pub fn room(flows: usize) -> usize {
    flows + flows / 4
}

/// Ranges of at most `batch` of a range, with the places of each in the output.
pub fn batches(
    range: Range<usize>,
    found: &mut [u32],
    batch: usize,
) -> impl Iterator<Item = (Range<usize>, &mut [u32])> {
    let starts = range.step_by(batch);
    starts.zip(found.chunks_mut(batch)).map(|(at, found)| (at..at + found.len(), found))
}

/// Keys that our table takes.
pub trait OurKey: TableKey + 'static {
    fn of(flow: u32) -> Self;
}

impl OurKey for ShortKey {
    fn of(flow: u32) -> Self {
        short_key(flow)
    }
}

impl OurKey for FlowKey {
    fn of(flow: u32) -> Self {
        whole_key(flow)
    }
}

pub fn new_table<K: OurKey>(flows: usize, lifetime: u8, level: Level) -> Result<Table<K>> {
    // It has room for a quarter more by itself.
    Ok(Table::empty(&Options { flows, lifetime, key: HASH_KEY, level })?)
}

/// Our table, looked up only.
struct Exact<K: OurKey> {
    table: Rc<Table<K>>,
    batch: usize,
    /// The keys of the next call are fetched before each.
    is_ahead: bool,
    keys: Vec<K>,
}

impl<K: OurKey> Engine for Exact<K> {
    fn load(&mut self, flows: &[u32]) {
        self.keys.clear();
        self.keys.extend(flows.iter().map(|&flow| K::of(flow)));
    }

    fn touch(&self, range: Range<usize>) {
        self.keys[range].iter().for_each(|key| _ = black_box(*key));
    }

    fn run(&mut self, range: Range<usize>, found: &mut [u32]) {
        let last = range.end;
        for (range, found) in batches(range, found, self.batch) {
            if self.is_ahead {
                let next = range.end..last.min(range.end + self.batch);
                self.table.prefetch(&self.keys[next]);
            }
            self.table.find(&self.keys[range], found);
        }
    }

    fn answers(&self, found: &mut [u32]) {
        found.iter_mut().for_each(|slot| *slot = self.table.state(*slot).map_or(ABSENT, u32::from));
    }

    fn bytes(&self) -> usize {
        self.table.bytes()
    }
}

/// Our table with flows `0..flows`.
fn filled<K: OurKey>(flows: u32, level: Level) -> Result<Table<K>> {
    let mut table = new_table(flows as usize, 1, level)?;
    let mut ended = 0;
    for first in (0..flows).step_by(BATCH) {
        let keys: Vec<K> = (first..flows.min(first + BATCH as u32)).map(K::of).collect();
        let each = |i: usize, found: &mut u16, _| *found = state(first + i as u32);
        table.packets(&keys, each, |_| ended += 1);
    }
    if ended > 0 || table.flows() != flows as usize {
        return Err(format!("{ended} of {flows} flows ended while the table was filled").into());
    }
    Ok(table)
}

/// Our tables: calls of one flow, of a batch, of a batch when the next one is fetched, and of a long
/// one at the machine's level, and of a batch at the others.
pub fn exact(flows: u32) -> Engines {
    let mut engines = Engines::new();
    let fastest = Level::fastest();
    for level in Level::all().into_iter().rev() {
        let table = filled::<ShortKey>(flows, level).map(Rc::new);
        let mut add = |name: &str, batch| {
            let engine = table.clone().map(|table| {
                let is_ahead = name == AHEAD;
                Box::new(Exact { table, batch, is_ahead, keys: Vec::new() }) as Box<dyn Engine>
            });
            engines.push(Contender::new(name, Role::Ours, engine));
        };
        if level == fastest {
            add(EXACT, 1);
            add(EXACT_BATCH, BATCH);
            add(AHEAD, BATCH);
            add(LONG, LONG_BATCH);
        } else {
            add(&at_level(level), BATCH);
        }
    }
    engines
}

/// Our table of whole keys: calls of one flow, and of a batch.
pub fn exact_wide(flows: u32) -> Engines {
    let table = filled::<FlowKey>(flows, Level::fastest()).map(Rc::new);
    let engine = |(name, batch)| {
        let engine = table.clone().map(|table| {
            let engine = Exact { table, batch, is_ahead: false, keys: Vec::new() };
            Box::new(engine) as Box<dyn Engine>
        });
        Contender::new(name, Role::Ours, engine)
    };
    [(WIDE, 1), (WIDE_BATCH, BATCH)].map(engine).into()
}

/// The name of the table in batches at a level that is not the machine's fastest.
pub fn at_level(level: Level) -> String {
    format!("{EXACT_BATCH}-{level:?}").to_lowercase()
}

/// DPDK's table, looked up only.
struct Rte<const WORDS: usize> {
    table: Rc<RteHash<WORDS>>,
    is_bulk: bool,
    /// The states by position.
    states: Rc<[u16]>,
    key: fn(u32) -> Key<WORDS>,
    keys: Keys<WORDS>,
}

impl<const WORDS: usize> Engine for Rte<WORDS> {
    fn load(&mut self, flows: &[u32]) {
        self.keys = Keys::new(flows.iter().map(|&flow| (self.key)(flow)).collect());
    }

    fn touch(&self, range: Range<usize>) {
        self.keys.touch(range);
    }

    fn run(&mut self, range: Range<usize>, found: &mut [u32]) {
        if !self.is_bulk {
            for (key, found) in self.keys[range].iter().zip(found) {
                *found = self.table.lookup(key).cast_unsigned();
            }
            return;
        }
        let mut positions = [0; MOST_KEYS];
        for (range, found) in batches(range, found, MOST_KEYS) {
            let positions = &mut positions[..found.len()];
            self.table.lookup_bulk(&self.keys, range, positions);
            for (found, position) in found.iter_mut().zip(positions) {
                *found = position.cast_unsigned();
            }
        }
    }

    fn answers(&self, found: &mut [u32]) {
        let state = |position: u32| self.states.get(position as usize);
        found.iter_mut().for_each(|one| *one = state(*one).map_or(ABSENT, |&one| one.into()));
    }

    fn bytes(&self) -> usize {
        self.table.bytes + size_of_val(&*self.states)
    }
}

/// DPDK's table with flows `0..flows`, asked one by one and in bulk.
pub fn rte_hash(flows: u32) -> Engines {
    rte_hash_of(flows, peer_key, [("rte_hash", false), (BULK, true)])
}

/// As [`rte_hash`], with whole keys.
pub fn rte_hash_wide(flows: u32) -> Engines {
    rte_hash_of(flows, peer_whole_key, [("rte_hash-wide", false), (BULK_WIDE, true)])
}

fn rte_hash_of<const WORDS: usize>(
    flows: u32,
    key: fn(u32) -> Key<WORDS>,
    engines: [(&str, bool); 2],
) -> Engines {
    let made = || -> Result<(Rc<RteHash<WORDS>>, Rc<[u16]>)> {
        let room = room(flows as usize);
        let (mut table, mut states) = (RteHash::new(room)?, vec![0_u16; room + 1]);
        for flow in 0..flows {
            states[table.add(&key(flow))?] = state(flow);
        }
        Ok((Rc::new(table), states.into()))
    };
    let made = made();
    let engine = |(name, is_bulk)| {
        let engine = made.clone().map(|(table, states)| {
            let keys = Keys::new(Vec::new());
            Box::new(Rte { table, is_bulk, states, key, keys }) as Box<dyn Engine>
        });
        Contender::new(name, Role::Peer, engine)
    };
    engines.map(engine).into()
}

/// An entry of hashbrown's table.
pub struct Flow {
    key: Key,
    pub state: u16,
    pub epoch: u8,
}

/// hashbrown's table.
pub struct Brown {
    pub table: HashTable<Flow>,
    hash: RandomState,
}

impl Brown {
    pub fn new(flows: usize) -> Self {
        let table = HashTable::with_capacity(room(flows));
        Self { table, hash: RandomState::with_seeds(1, 2, 3, 4) }
    }

    fn hash(hash: &RandomState, [a, b, c, d]: &Key) -> u64 {
        let [a, b, c, d] = [*a, *b, *c, *d].map(u128::from);
        hash.hash_one(a | b << 32 | c << 64 | d << 96)
    }

    fn find(&self, hash: u64, key: &Key) -> u32 {
        let flow = self.table.find(hash, |flow| flow.key == *key);
        flow.map_or(ABSENT, |flow| flow.state.into())
    }

    pub fn find_or_insert(&mut self, key: &Key) -> &mut Flow {
        let hash = Self::hash(&self.hash, key);
        let is_it = |flow: &Flow| flow.key == *key;
        let entry = self.table.entry(hash, is_it, |flow| Self::hash(&self.hash, &flow.key));
        entry.or_insert_with(|| Flow { key: *key, state: 0, epoch: 0 }).into_mut()
    }
}

/// hashbrown's table, looked up only.
struct BrownLookup {
    table: Rc<Brown>,
    batch: usize,
    keys: Vec<Key>,
}

impl Engine for BrownLookup {
    fn load(&mut self, flows: &[u32]) {
        self.keys.clear();
        self.keys.extend(flows.iter().map(|&flow| peer_key(flow)));
    }

    fn touch(&self, range: Range<usize>) {
        self.keys[range].iter().for_each(|key| _ = black_box(*key));
    }

    fn run(&mut self, range: Range<usize>, found: &mut [u32]) {
        let Brown { hash, .. } = &*self.table;
        let mut hashes = [0; BATCH];
        for (range, found) in batches(range, found, self.batch) {
            let keys = &self.keys[range];
            for (key, value) in keys.iter().zip(&mut hashes) {
                *value = Brown::hash(hash, key);
            }
            for ((key, hash), found) in keys.iter().zip(&hashes).zip(found) {
                *found = self.table.find(*hash, key);
            }
        }
    }

    fn bytes(&self) -> usize {
        self.table.table.allocation_size()
    }
}

/// hashbrown's table with flows `0..flows`, one by one and in batches.
pub fn hashbrown(flows: u32) -> Engines {
    let mut brown = Brown::new(flows as usize);
    for flow in 0..flows {
        brown.find_or_insert(&peer_key(flow)).state = state(flow);
    }
    let table = Rc::new(brown);
    let engine = |(name, batch)| {
        let table = Rc::clone(&table);
        let engine = Box::new(BrownLookup { table, batch, keys: Vec::new() });
        Contender::new(name, Role::Peer, Ok(engine as Box<dyn Engine>))
    };
    [("hashbrown", 1), ("hashbrown-batch", BATCH)].map(engine).into()
}
