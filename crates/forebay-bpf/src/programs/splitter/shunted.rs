//! Flows that are shunted by hand, in the maps that the program reads.
//!
//! A flow is known by its hash, as in the records of moving buckets. A bitmap of hashes decides
//! for nearly all other packets; a hash map leads to the flow's place in shared memory, with its
//! expiry and counters, which need no system calls. The program compares the expiry itself.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use super::limits::MAX_SHUNTED;
use super::maps::SplitterMaps;
use super::outcomes::Traffic;
use crate::error::BpfError;
use crate::sys::layout::{SHUNT_BIT, SHUNT_WORDS, ShuntedFlow};

/// The flows that are shunted. There is one such value for each [`SplitterMaps`].
#[derive(Debug)]
pub struct ShuntedFlows {
    maps: Arc<SplitterMaps>,
    /// The place of each hash.
    places: HashMap<u64, u32>,
    free: Vec<u32>,
}

impl ShuntedFlows {
    /// None, over `maps`.
    #[must_use]
    pub fn new(maps: Arc<SplitterMaps>) -> Self {
        Self { maps, places: HashMap::new(), free: (0..MAX_SHUNTED).rev().collect() }
    }

    /// Shunts the flows with these hashes, each until a time of the monotonic clock in
    /// nanoseconds, and no others. Flows that are shunted already keep their counters.
    ///
    /// # Errors
    /// More flows than [`MAX_SHUNTED`], none of which is shunted then; the kernel's refusal.
    pub fn set(&mut self, flows: &[(u64, u64)]) -> Result<(), BpfError> {
        if flows.len() > MAX_SHUNTED as usize {
            return Err(BpfError::Setting {
                setting: "the number of shunted flows",
                value: flows.len() as u64,
                expected: "at most 131072",
            });
        }
        let wanted: HashSet<u64> = flows.iter().map(|(hash, _)| *hash).collect();
        let others = self.places.keys().copied().filter(|hash| !wanted.contains(hash));
        self.remove(&others.collect::<Vec<_>>())?;
        let mut bits = vec![0_u64; SHUNT_WORDS];
        let mut fresh = Vec::new();
        for &(hash, until) in flows {
            let bit = hash >> SHUNT_BIT;
            bits[(bit >> 6) as usize] |= 1 << (bit & 63);
            match self.places.get(&hash) {
                Some(&place) => self.flow(place).until.store(until, Relaxed),
                None => fresh.extend(self.occupy(hash, until)),
            }
        }
        let added = self.maps.shunt_places.set_all(&fresh);
        if added.is_err() {
            // Which of them were added is not known.
            for (hash, _) in &fresh {
                let _ = self.maps.shunt_places.remove(hash);
                if let Some(place) = self.places.remove(hash) {
                    self.flow(place).until.store(0, Release);
                    self.free.push(place);
                }
            }
        }
        let shunted = &self.maps.shunted.values()[0];
        // A word has all the bits that it needs at any time.
        shunted.bits.iter().zip(&bits).for_each(|(word, bits)| word.store(*bits, Release));
        self.maps.tables().shunted.store(self.places.len() as u64, Release);
        added
    }

    fn remove(&mut self, hashes: &[u64]) -> Result<(), BpfError> {
        if hashes.is_empty() {
            return Ok(());
        }
        let places = &self.maps.shunt_places;
        if places.remove_all(hashes).is_err() {
            // It ends at the first failure, also at a flow that an attempt before has removed.
            hashes.iter().try_for_each(|hash| places.remove(hash).map(drop))?;
        }
        // A run of the program that has read a place may still count there.
        self.maps.quiesce()?;
        let freed = hashes.iter().filter_map(|hash| self.places.remove(hash));
        self.free.extend(freed);
        Ok(())
    }

    /// Prepares a place for a flow; gives its element of the map of places.
    fn occupy(&mut self, hash: u64, until: u64) -> Option<(u64, u64)> {
        // There are as many places as flows at the most.
        let place = self.free.pop()?;
        let flow = self.flow(place);
        for (word, value) in [(&flow.packets, 0), (&flow.bytes, 0), (&flow.until, until)] {
            word.store(value, Release);
        }
        self.places.insert(hash, place);
        Some((hash, place.into()))
    }

    fn flow(&self, place: u32) -> &ShuntedFlow {
        &self.maps.shunted.values()[0].flows[place as usize]
    }

    /// The packets of the flow with a hash that were dropped since it is shunted.
    #[must_use]
    pub fn dropped(&self, hash: u64) -> Traffic {
        let flow = self.places.get(&hash).map(|&place| self.flow(place));
        flow.map_or_else(Traffic::default, |flow| Traffic {
            packets: flow.packets.load(Relaxed),
            bytes: flow.bytes.load(Relaxed),
        })
    }
}
