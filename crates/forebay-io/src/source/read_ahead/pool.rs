//! Reuses regions that no batch holds any more.

use std::io;
use std::sync::Arc;

use forebay_packet::Region;

/// A region that no batch holds any more, or a new one.
pub(super) fn reuse(retired: &mut Vec<Arc<Region>>, len: usize) -> io::Result<Region> {
    /// Further regions are freed.
    const SPARE: usize = 4;
    let free = retired.iter().position(|region| Arc::strong_count(region) == 1);
    let free = free.and_then(|i| Arc::try_unwrap(retired.swap_remove(i)).ok());
    if retired.len() > SPARE {
        retired.retain(|region| Arc::strong_count(region) > 1);
    }
    free.map_or_else(|| Region::new(len), Ok)
}

/// Regions that circulate between a lane and its batches.
#[derive(Default)]
pub(crate) struct RegionPool(Vec<Arc<Region>>);

impl RegionPool {
    /// A region of this length that no batch holds any more, or a new one.
    pub(crate) fn take(&mut self, len: usize) -> io::Result<Region> {
        reuse(&mut self.0, len)
    }

    /// Keeps a region to be used again.
    pub(crate) fn put(&mut self, region: &Arc<Region>, len: usize) {
        if region.len() == len && !self.0.iter().any(|known| Arc::ptr_eq(known, region)) {
            self.0.push(Arc::clone(region));
        }
    }
}
