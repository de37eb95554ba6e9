//! The flows of a group that are handled by hand (`forebay ctl flow`).
//!
//! The broker's thread keeps them, as the table that workers look packets up in
//! ([`OverrideTable`]): a request makes a new table, and workers take that over between two
//! batches. A table that was replaced is kept until no worker has it any more, so that no worker
//! frees it. Flows whose time is over have no effect; from time to time they are removed.

mod selector;
mod shown;

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use forebay_packet::{
    Affinity, CommunityDigest, DecodeOptions, FlowKey, HashKey, community_digest,
};
use forebay_pipeline::Settings;
use forebay_pipeline::stages::{
    FlowOverride, FlowSearch, FoundFlow, OverriddenFlow, OverrideEntry, OverrideTable,
};

use crate::group::nanos;

pub use selector::Selector;
pub use shown::{FlowPage, show};

/// The most flows of a group that are handled by hand.
pub const MOST_FLOWS: usize = 1 << 20;

/// The same where packets stay in the kernel.
pub const MOST_FLOWS_IN_KERNEL: usize = forebay_bpf::programs::splitter::MAX_SHUNTED as usize;

/// Flows that workers have found and the broker's thread has not yet taken.
const MOST_FOUND: usize = 4096;

/// The shortest time between two removals of flows whose time is over, and how much longer it
/// is than a removal takes.
const SWEEP: u64 = 1_000_000_000;
const SWEEP_SHARE: u64 = 20;

/// What a request does to flows.
#[derive(Clone, Copy, Debug)]
pub struct OverrideEdit<'a> {
    /// The flows.
    pub flows: &'a [Selector],
    /// What becomes of their packets.
    pub action: FlowOverride,
    /// Until when, by the broker's clock.
    pub until: u64,
}

/// A flow that is known by its Community ID only.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    action: FlowOverride,
    until: u64,
}

/// The flows of a group that are handled by hand.
pub struct FlowOverrides {
    options: DecodeOptions,
    hash_key: HashKey,
    in_kernel: bool,
    /// The most flows that there can be.
    most: usize,
    table: Arc<OverrideTable>,
    wanted: HashMap<CommunityDigest, Wanted>,
    search: Option<Arc<FlowSearch>>,
    /// What workers may still have.
    replaced: Vec<Arc<dyn Any + Send + Sync>>,
    found: (SyncSender<FoundFlow>, Receiver<FoundFlow>),
    sweep_at: u64,
    /// Flows that were found when there was no room for more.
    beyond: u64,
}

impl FlowOverrides {
    /// None, of a group whose packets are decoded and hashed so; `in_kernel` is whether they
    /// stay in the kernel.
    #[must_use]
    pub fn new(options: DecodeOptions, hash_key: HashKey, in_kernel: bool) -> Self {
        Self {
            options,
            hash_key,
            in_kernel,
            most: if in_kernel { MOST_FLOWS_IN_KERNEL } else { MOST_FLOWS },
            table: Arc::default(),
            wanted: HashMap::new(),
            search: None,
            replaced: Vec::new(),
            found: sync_channel(MOST_FOUND),
            sweep_at: 0,
            beyond: 0,
        }
    }

    /// The flows.
    #[must_use]
    pub fn table(&self) -> &Arc<OverrideTable> {
        &self.table
    }

    /// The flows as settings of stages.
    #[must_use]
    pub fn settings(&self, settings: Settings) -> Settings {
        settings.with(Arc::clone(&self.table)).with(self.search.clone())
    }

    /// Whether addresses and ports do not name a flow, since its key has VLAN tags.
    fn has_scope(&self) -> bool {
        self.options.vlan_in_key
    }

    /// A flow by what keys are searched for; none where a Community ID is.
    fn known(&self, flow: &Selector) -> Result<FlowKey, Option<CommunityDigest>> {
        match *flow {
            Selector::Key(key) if self.has_scope() => Err(community_digest(&key, 0)),
            Selector::Key(key) => Ok(key),
            Selector::Community(digest) => Err(Some(digest)),
        }
    }

    /// Whether an edit can be done.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, edit: &OverrideEdit<'_>, now: u64) -> Result<(), String> {
        let is_searched = |flow: &Selector| self.known(flow).is_err();
        if self.in_kernel && self.options.affinity != Affinity::FiveTuple {
            return Err("expected `key = \"5tuple\"`, as the kernel finds flows by that".to_owned());
        }
        if edit.flows.iter().any(is_searched) {
            if self.in_kernel {
                return Err("expected addresses and ports in place of a Community ID, as packets \
                            stay in the kernel, which computes none"
                    .to_owned());
            }
            if self.options.affinity != Affinity::FiveTuple {
                return Err(
                    "expected `key = \"5tuple\"`, or addresses and ports of flows without \
                            VLAN tags in their keys: other flows cannot be searched for"
                        .to_owned(),
                );
            }
        }
        let mut fresh = HashSet::new();
        let is_new = |flow: &&Selector| match self.known(flow) {
            Ok(key) => {
                // A flow whose time is over is counted like one that is not there.
                self.find(&key).is_none_or(|flow| flow.until() <= now)
                    && fresh.insert(Selector::Key(key))
            }
            Err(Some(digest)) => {
                !self.wanted.contains_key(&digest) && fresh.insert(Selector::Community(digest))
            }
            Err(None) => false,
        };
        let fresh = edit.flows.iter().filter(is_new).count();
        let present = self.flows().filter(|flow| flow.until() > now).count() + self.wanted.len();
        if present + fresh > self.most {
            return Err(format!(
                "{fresh} flows more than the {present} that are handled by hand: expected at most \
                 {} in all",
                self.most
            ));
        }
        Ok(())
    }

    /// Does an edit that was checked.
    pub fn edit(&mut self, edit: &OverrideEdit<'_>, now: u64) {
        let &OverrideEdit { flows, action, until } = edit;
        let mut fresh = HashMap::new();
        let mut digests = HashSet::new();
        for flow in flows {
            match self.known(flow) {
                Ok(key) => self.set(key, action, until, &mut fresh),
                Err(digest) => digests.extend(digest),
            }
        }
        if !digests.is_empty() {
            let keys: Vec<_> = self.flows().map(|flow| flow.key).collect();
            for key in keys {
                let digest = community_digest(&key, 0).filter(|digest| digests.contains(digest));
                if let Some(digest) = digest {
                    self.set(key, action, until, &mut fresh);
                    if !self.has_scope() {
                        digests.remove(&digest);
                    }
                }
            }
            let wanted = digests.into_iter().map(|digest| (digest, Wanted { action, until }));
            self.wanted.extend(wanted);
            self.renew_search();
        }
        self.put(fresh, now);
    }

    /// Sets what becomes of a flow, in place if it is only how long.
    fn set(
        &self,
        key: FlowKey,
        action: FlowOverride,
        until: u64,
        fresh: &mut HashMap<FlowKey, Arc<OverriddenFlow>>,
    ) {
        match self.find(&key) {
            Some(known) if known.action == action => known.set_until(until),
            _ => {
                fresh.insert(key, Arc::new(OverriddenFlow::new(key, action, until)));
            }
        }
    }

    fn find(&self, key: &FlowKey) -> Option<&Arc<OverriddenFlow>> {
        self.table.find(self.hashes(key)[0], key)
    }

    fn hashes(&self, key: &FlowKey) -> [u64; 2] {
        self.options.affinity.hashes(key, &self.hash_key)
    }

    /// Each flow once.
    fn flows(&self) -> impl Iterator<Item = &Arc<OverriddenFlow>> {
        let is_first = |entry: &&OverrideEntry| self.hashes(&entry.flow.key)[0] == entry.hash;
        let needs_one = self.options.affinity.has_directions();
        let entries = self.table.entries().iter();
        entries.filter(move |entry| !needs_one || is_first(entry)).map(|entry| &entry.flow)
    }

    /// How often a flow was found when there was no room for more.
    #[must_use]
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Flows that are shunted, that are passed, and that are searched for.
    #[must_use]
    pub fn counts(&self, now: u64) -> [usize; 3] {
        let mut counts = [0, 0, self.wanted.len()];
        for flow in self.flows().filter(|flow| flow.until() > now) {
            counts[usize::from(flow.action == FlowOverride::Pass)] += 1;
        }
        counts
    }

    /// Makes the table of all flows whose time is not over, and of new ones.
    fn put(&mut self, fresh: HashMap<FlowKey, Arc<OverriddenFlow>>, now: u64) {
        let stays = |entry: &&OverrideEntry| {
            entry.flow.until() > now && !fresh.contains_key(&entry.flow.key)
        };
        let mut entries: Vec<_> = self.table.entries().iter().filter(stays).cloned().collect();
        if fresh.is_empty() && entries.len() == self.table.entries().len() {
            return;
        }
        for (key, flow) in fresh {
            let [hash, other] = self.hashes(&key);
            entries.push(OverrideEntry { hash, flow: Arc::clone(&flow) });
            if other != hash {
                entries.push(OverrideEntry { hash: other, flow });
            }
        }
        let old = std::mem::replace(&mut self.table, Arc::new(OverrideTable::new(entries)));
        self.replaced.push(old);
    }

    /// Has workers search for the flows that are wanted now.
    fn renew_search(&mut self) {
        let digests: Vec<_> = self.wanted.keys().copied().collect();
        let search =
            (!digests.is_empty()).then(|| Arc::new(FlowSearch::new(digests, self.found.0.clone())));
        if let Some(old) = std::mem::replace(&mut self.search, search) {
            self.replaced.push(old);
        }
    }

    /// Takes in the flows that workers have found, and removes those whose time is over; returns
    /// whether workers must be informed.
    pub fn maintain(&mut self, now: u64) -> bool {
        self.replaced.retain(|old| Arc::strong_count(old) > 1);
        let begun = Instant::now();
        let mut fresh = HashMap::new();
        let mut changed = false;
        let found: Vec<FoundFlow> = self.found.1.try_iter().take(MOST_FOUND).collect();
        // A flow that is searched for has any number of VLAN tags; a key may be counted twice.
        let mut room = self.most.saturating_sub(self.table.entries().len());
        for FoundFlow { key, digest } in found {
            let Some(wanted) = self.wanted.get(&digest).copied() else { continue };
            if self.find(&key).is_none() {
                if room == 0 {
                    self.beyond += 1;
                    continue;
                }
                room -= 1;
            }
            self.set(key, wanted.action, wanted.until, &mut fresh);
            if !self.has_scope() {
                self.wanted.remove(&digest);
                changed = true;
            }
        }
        let mut is_over = !fresh.is_empty();
        if now >= self.sweep_at {
            let before = self.wanted.len();
            self.wanted.retain(|_, wanted| wanted.until > now);
            changed |= self.wanted.len() != before;
            is_over |= self.table.entries().iter().any(|entry| entry.flow.until() <= now);
        }
        if changed {
            self.renew_search();
        }
        if is_over {
            self.put(fresh, now);
        }
        if now >= self.sweep_at {
            self.sweep_at = now + SWEEP.max(nanos(begun.elapsed()) * SWEEP_SHARE);
        }
        changed || is_over
    }
}

#[cfg(test)]
mod tests;
