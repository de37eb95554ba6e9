//! The tables with mixed traffic: flows begin, have packets, and end when they were silent.

use std::hint::black_box;
use std::ops::Range;

use forebay_flow::{Level, ShortKey, Table};
use forebay_packet::FlowKey;

use super::engines::{
    ABSENT, BATCH, BULK, Brown, EXACT, EXACT_BATCH, Engine, Engines, Flow, LONG, LONG_BATCH,
    OurKey, WIDE_BATCH, at_level, batches, new_table, room,
};
use super::traffic::{LIFETIME, peer_key};
use crate::failure::Result;
use crate::peers::rte_hash::{Key, Keys, MOST_KEYS, RteHash};
use crate::rounds::{Contender, Role};

/// Time as it passes in mixed traffic: epochs by packets.
#[derive(Clone, Copy)]
pub struct Pace {
    packets: usize,
    per_epoch: usize,
}

impl Pace {
    pub fn new(per_epoch: usize) -> Self {
        Self { packets: 0, per_epoch }
    }

    /// So many packets have come. Returns the epoch.
    fn pass(&mut self, packets: usize) -> u64 {
        self.packets += packets;
        (self.packets / self.per_epoch) as u64
    }
}

/// Our table with mixed traffic.
struct ExactMixed<K: OurKey> {
    table: Table<K>,
    batch: usize,
    pace: Pace,
    keys: Vec<K>,
}

impl<K: OurKey> ExactMixed<K> {
    fn contender(
        name: &str,
        (flows, batch, level): (usize, usize, Level),
        pace: Pace,
    ) -> Contender<dyn Engine> {
        let engine = new_table::<K>(flows, LIFETIME, level).map(|table| {
            let engine = Self { table, batch, pace, keys: Vec::new() };
            Box::new(engine) as Box<dyn Engine>
        });
        Contender::new(name, Role::Ours, engine)
    }
}

impl<K: OurKey> Engine for ExactMixed<K> {
    fn load(&mut self, flows: &[u32]) {
        self.keys.clear();
        self.keys.extend(flows.iter().map(|&flow| K::of(flow)));
    }

    fn touch(&self, range: Range<usize>) {
        self.keys[range].iter().for_each(|key| _ = black_box(*key));
    }

    fn run(&mut self, range: Range<usize>, found: &mut [u32]) {
        for (range, found) in batches(range, found, self.batch) {
            self.table.advance(self.pace.pass(found.len()));
            let each = |i: usize, packets: &mut u16, _| {
                found[i] = u32::from(*packets);
                *packets = packets.wrapping_add(1);
            };
            self.table.packets(&self.keys[range], each, |_| ());
        }
    }

    fn bytes(&self) -> usize {
        self.table.bytes()
    }
}

/// What is kept of a flow beside DPDK's table, by position.
#[derive(Clone, Copy, Default)]
struct Beside {
    packets: u16,
    epoch: u8,
    is_there: bool,
}

/// DPDK's table with mixed traffic. For each packet the next position is looked at: a flow there
/// that was silent for its lifetime is removed.
struct RteMixed {
    table: RteHash,
    flows: Vec<Beside>,
    cursor: usize,
    batch: usize,
    pace: Pace,
    keys: Keys,
}

impl RteMixed {
    fn packet(&mut self, at: usize, position: i32, epoch: u8) -> Result<u32> {
        let position = match usize::try_from(position) {
            // What was looked up may have been removed since.
            Ok(position) if self.flows[position].is_there => position,
            _ => self.table.add(&self.keys[at])?,
        };
        let flow = &mut self.flows[position];
        if !flow.is_there {
            *flow = Beside { is_there: true, ..Beside::default() };
        }
        let before = flow.packets;
        (flow.packets, flow.epoch) = (before.wrapping_add(1), epoch);
        self.cursor = (self.cursor + 1) % self.flows.len();
        let flow = &mut self.flows[self.cursor];
        if flow.is_there && epoch.wrapping_sub(flow.epoch) >= LIFETIME {
            flow.is_there = false;
            self.table.remove(self.cursor);
        }
        Ok(before.into())
    }
}

impl Engine for RteMixed {
    fn load(&mut self, flows: &[u32]) {
        self.keys = Keys::new(flows.iter().map(|&flow| peer_key(flow)).collect());
    }

    fn touch(&self, range: Range<usize>) {
        self.keys.touch(range);
    }

    fn run(&mut self, range: Range<usize>, found: &mut [u32]) {
        let mut positions = [0; MOST_KEYS];
        for (range, found) in batches(range, found, self.batch) {
            let positions = &mut positions[..found.len()];
            match &mut *positions {
                [position] => *position = self.table.lookup(&self.keys[range.start]),
                _ => self.table.lookup_bulk(&self.keys, range.clone(), positions),
            }
            let epoch = self.pace.pass(found.len()) as u8;
            for ((at, position), found) in range.zip(&*positions).zip(found) {
                *found = self.packet(at, *position, epoch).unwrap_or(ABSENT);
            }
        }
    }

    fn bytes(&self) -> usize {
        self.table.bytes + size_of_val(&*self.flows)
    }
}

/// hashbrown's table with mixed traffic. For each packet the next two buckets are looked at.
struct BrownMixed {
    brown: Brown,
    cursor: usize,
    pace: Pace,
    keys: Vec<Key>,
}

impl Engine for BrownMixed {
    fn load(&mut self, flows: &[u32]) {
        self.keys.clear();
        self.keys.extend(flows.iter().map(|&flow| peer_key(flow)));
    }

    fn touch(&self, range: Range<usize>) {
        self.keys[range].iter().for_each(|key| _ = black_box(*key));
    }

    fn run(&mut self, range: Range<usize>, found: &mut [u32]) {
        for (key, found) in self.keys[range].iter().zip(found) {
            let epoch = self.pace.pass(1) as u8;
            let flow = self.brown.find_or_insert(key);
            *found = flow.state.into();
            (flow.state, flow.epoch) = (flow.state.wrapping_add(1), epoch);
            for _ in 0..2 {
                let table = &mut self.brown.table;
                self.cursor = (self.cursor + 1) % table.num_buckets();
                let is_idle = |flow: &Flow| epoch.wrapping_sub(flow.epoch) >= LIFETIME;
                if table.get_bucket(self.cursor).is_some_and(is_idle)
                    && let Ok(flow) = table.get_bucket_entry(self.cursor)
                {
                    flow.remove();
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        self.brown.table.allocation_size()
    }
}

/// All tables for mixed traffic, empty, made for `flows` flows.
pub fn engines(flows: usize, pace: Pace) -> Engines {
    let exact = |name: &str, batch, level| {
        ExactMixed::<ShortKey>::contender(name, (flows, batch, level), pace)
    };
    let rte = |name, batch| {
        let engine = RteHash::new(room(flows)).map(|table| {
            let (keys, flows) = (Keys::default(), vec![Beside::default(); room(flows) + 1]);
            let engine = RteMixed { table, flows, cursor: 0, batch, pace, keys };
            Box::new(engine) as Box<dyn Engine>
        });
        Contender::new(name, Role::Peer, engine)
    };
    let brown = BrownMixed { brown: Brown::new(flows), cursor: 0, pace, keys: Vec::new() };
    let fastest = Level::fastest();
    let mut engines = vec![
        rte("rte_hash", 1),
        rte(BULK, MOST_KEYS),
        Contender::new("hashbrown", Role::Peer, Ok(Box::new(brown) as Box<dyn Engine>)),
        exact(EXACT, 1, fastest),
        exact(EXACT_BATCH, BATCH, fastest),
        exact(LONG, LONG_BATCH, fastest),
        ExactMixed::<FlowKey>::contender(WIDE_BATCH, (flows, BATCH, fastest), pace),
    ];
    let others = Level::all().into_iter().rev().skip(1);
    engines.extend(others.map(|level| exact(&at_level(level), BATCH, level)));
    engines
}
