//! The constants of the code, placed after its last instruction.
//!
//! An entry is aligned as requested, at most to 64 bytes; equal entries are
//! stored once.

use rustc_hash::FxHashMap;

use crate::mir::PoolId;

/// Constants in the order of their first request.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    bytes: Vec<u8>,
    starts: Vec<usize>,
    known: FxHashMap<Vec<u8>, PoolId>,
}

impl Pool {
    /// The entry that holds `bytes`, aligned to `align`, a power of two of at
    /// most 64.
    pub fn add(&mut self, bytes: &[u8], align: usize) -> PoolId {
        if let Some(&id) = self.known.get(bytes)
            && self.starts[id.0 as usize].is_multiple_of(align)
        {
            return id;
        }
        let start = self.bytes.len().next_multiple_of(align);
        self.bytes.resize(start, 0);
        self.bytes.extend_from_slice(bytes);
        let id = PoolId(self.starts.len() as u32);
        self.starts.push(start);
        self.known.insert(bytes.to_vec(), id);
        id
    }

    /// Where entry `id` starts, from the pool's start.
    #[must_use]
    pub fn start(&self, id: PoolId) -> usize {
        self.starts[id.0 as usize]
    }

    /// The contents of the pool as they lie in memory.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
