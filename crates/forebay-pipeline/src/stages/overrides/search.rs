//! The search for flows of which only the Community ID is known.
//!
//! A Community ID is a hash, so a worker computes that of each flow that it sees, once: a small
//! cache has the flows that were tried last. What it finds goes to the broker's thread, which
//! puts the flow into the table. Without a search nothing is computed.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use forebay_packet::{CommunityDigest, FlowKey, community_digest};

/// Flows in the cache of those that were tried: a power of two.
const TRIED: usize = 1 << 15;

/// Flows that are searched for by their Community IDs, with seed 0.
#[derive(Debug)]
pub struct FlowSearch {
    /// Ascending.
    digests: Vec<CommunityDigest>,
    found: SyncSender<FoundFlow>,
}

/// A flow that was searched for.
#[derive(Clone, Copy, Debug)]
pub struct FoundFlow {
    /// Which it is.
    pub key: FlowKey,
    /// The hash of its Community ID.
    pub digest: CommunityDigest,
}

impl FlowSearch {
    /// Searches for flows, and sends them to `found`.
    #[must_use]
    pub fn new(mut digests: Vec<CommunityDigest>, found: SyncSender<FoundFlow>) -> Self {
        digests.sort_unstable();
        Self { digests, found }
    }
}

/// A worker's part of a search.
pub(super) struct Searching {
    search: Arc<FlowSearch>,
    /// Hashes of flows that were tried; 0 where there is none.
    tried: Box<[u64]>,
}

impl Searching {
    pub(super) fn new(search: Arc<FlowSearch>) -> Self {
        Self { search, tried: vec![0; TRIED].into_boxed_slice() }
    }

    /// Searches for other flows, if `search` is not the present one.
    pub(super) fn follow(&mut self, search: &Arc<FlowSearch>) {
        if !Arc::ptr_eq(&self.search, search) {
            self.search = Arc::clone(search);
            self.tried.fill(0);
        }
    }

    /// Tries a flow by its hash, unless it was tried before.
    #[inline]
    pub(super) fn look(&mut self, hash: u64, key: impl FnOnce() -> FlowKey) {
        let tried = &mut self.tried[hash as usize % TRIED];
        if *tried == hash {
            return;
        }
        *tried = hash;
        let key = key();
        let Some(digest) = community_digest(&key, 0) else { return };
        if self.search.digests.binary_search(&digest).is_err() {
            return;
        }
        // While the broker's thread is behind, the flow's next packet is tried again.
        if self.search.found.try_send(FoundFlow { key, digest }).is_err() {
            *tried = 0;
        }
    }
}
