//! Both tables with the flows of a traffic, and look-ups in them: recorded, and timed.

use std::ops::Range;

use forebay_flow::{Compact, Level, OneWay, Options, ShortKey, Table};
use forebay_packet::HashKey;

use super::simulator::Access;
use super::traffic::{Flow, Traffic};
use crate::failure::{Result, ensure};
use crate::named::named;

named! {
    /// A table, and how it is used.
    pub enum Engine {
        /// The exact table, one key a call.
        Exact = "exact",
        /// The same, [`BATCH`] keys a call.
        Batch = "exact-batch",
        /// The paper's.
        Compact = "compact",
    }
}

/// Keys of a call.
const BATCH: usize = 64;

/// Where the keys of packets are in recorded accesses: behind every table.
const KEYS: usize = 1 << 40;

#[derive(Debug)]
pub struct Tables {
    exact: Table,
    compact: Compact,
    /// Flows that share the entry of another in the compact table.
    pub merged: usize,
}

/// The accesses to tables among those recorded.
pub fn without_keys(mut accesses: Vec<Access>) -> Vec<Access> {
    accesses.retain(|access| access.address < KEYS);
    accesses
}

/// Keys of packets in the form of a table.
#[derive(Debug)]
pub enum Keys {
    Exact(Vec<ShortKey>, usize),
    Compact(Vec<OneWay>),
}

impl Keys {
    pub fn new(engine: Engine, packets: &[Flow]) -> Self {
        let exact = || packets.iter().map(|flow| flow.exact).collect();
        match engine {
            Engine::Exact => Self::Exact(exact(), 1),
            Engine::Batch => Self::Exact(exact(), BATCH),
            Engine::Compact => Self::Compact(packets.iter().map(|flow| flow.compact).collect()),
        }
    }

    /// Bytes of a key.
    fn bytes(&self) -> usize {
        match self {
            Self::Exact(..) => size_of::<ShortKey>(),
            Self::Compact(_) => size_of::<OneWay>(),
        }
    }
}

impl Tables {
    pub fn new(traffic: &Traffic, level: Level) -> Result<Self> {
        let flows = traffic.flows.len();
        let options = Options { flows, lifetime: 16, key: HashKey([1, 2]), level };
        let mut tables = Self {
            exact: Table::new(&options)?,
            compact: Compact::new(traffic.destinations)?,
            merged: 0,
        };
        for flow in &traffic.flows {
            tables.exact.packets(
                &[flow.exact],
                |_, state, _| *state = Traffic::state(flow),
                |_| (),
            );
            let (state, is_new) = tables.compact.state(flow.compact)?;
            *state = Traffic::state(flow);
            tables.merged += usize::from(!is_new);
        }
        tables.check(traffic)?;
        Ok(tables)
    }

    /// Bytes of a table.
    pub fn bytes(&self, engine: Engine) -> usize {
        match engine {
            Engine::Compact => self.compact.bytes(),
            _ => self.exact.bytes(),
        }
    }

    /// Compares the state of every flow with its own.
    fn check(&self, traffic: &Traffic) -> Result<()> {
        let keys: Vec<ShortKey> = traffic.flows.iter().map(|flow| flow.exact).collect();
        let (mut states, mut others) = (Vec::new(), 0);
        self.exact.states(&keys, &mut states);
        for (flow, found) in traffic.flows.iter().zip(states) {
            let state = Some(Traffic::state(flow));
            ensure!(found == state, "{flow:?}: state {found:?}, not {state:?}");
            others += usize::from(self.compact.find(flow.compact) != state);
        }
        // A flow that shares an entry has the state of the one that came last.
        let most = 2 * self.merged;
        ensure!(others <= most, "{others} flows with other states, {most} share entries");
        Ok(())
    }

    /// Looks keys up, and adds their answers up: the slots of the exact table, the states of
    /// the other.
    pub fn look_up(&self, keys: &Keys, range: Range<usize>) -> u64 {
        match keys {
            Keys::Exact(keys, batch) => {
                let mut slots = [0; BATCH];
                let found = |keys: &[ShortKey]| {
                    let slots = &mut slots[..keys.len()];
                    self.exact.find(keys, slots);
                    slots.iter().map(|&slot| u64::from(slot)).sum::<u64>()
                };
                keys[range].chunks(*batch).map(found).sum()
            }
            Keys::Compact(keys) => {
                let states = keys[range].iter().filter_map(|&key| self.compact.find(key));
                states.map(u64::from).sum()
            }
        }
    }

    /// As [`Tables::look_up`], with the reads, those of the keys first for each call.
    pub fn record(&self, keys: &Keys, range: Range<usize>) -> (Vec<Access>, u64) {
        let (mut accesses, mut sum) = (Vec::new(), 0);
        let mut address = KEYS + range.start * keys.bytes();
        let mut read_key = |accesses: &mut Vec<Access>| {
            accesses.push(Access { address, len: keys.bytes() });
            address += keys.bytes();
        };
        match keys {
            Keys::Exact(keys, batch) => {
                let mut slots = [0; BATCH];
                for keys in keys[range].chunks(*batch) {
                    keys.iter().for_each(|_| read_key(&mut accesses));
                    let slots = &mut slots[..keys.len()];
                    let record = |address, len| accesses.push(Access { address, len });
                    self.exact.find_recorded(keys, slots, record);
                    sum += slots.iter().map(|&slot| u64::from(slot)).sum::<u64>();
                }
            }
            Keys::Compact(keys) => {
                for &key in &keys[range] {
                    read_key(&mut accesses);
                    let record = |address, len| accesses.push(Access { address, len });
                    sum += u64::from(self.compact.find_recorded(key, record).unwrap_or_default());
                }
            }
        }
        (accesses, sum)
    }
}

#[cfg(test)]
mod tests {
    use super::super::traffic::Set;
    use super::*;

    #[test]
    fn recorded_look_ups_are_those_that_are_timed() {
        let traffic = Traffic::new(Set::Paper);
        let tables = Tables::new(&traffic, Level::Scalar).unwrap();
        assert!(tables.merged < 20, "{}", tables.merged);
        let packets = traffic.packets(1, 1_000);
        for engine in Engine::ALL {
            let keys = Keys::new(engine, &packets);
            let (accesses, sum) = tables.record(&keys, 0..1_000);
            assert_eq!(sum, tables.look_up(&keys, 0..1_000), "{engine}");
            let mut parts = tables.record(&keys, 0..640).0;
            parts.extend(tables.record(&keys, 640..1_000).0);
            assert_eq!(parts, accesses, "{engine}");
            let probes = without_keys(accesses.clone()).len();
            assert_eq!(accesses.len() - probes, 1_000);
            let bounds = if engine == Engine::Compact { 4_000..8_000 } else { 1_000..2_000 };
            assert!(bounds.contains(&probes), "{engine}: {probes}");
        }
    }
}
