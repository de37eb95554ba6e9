//! The three levels, and their addresses.

use std::collections::TryReserveError;
use std::net::Ipv4Addr;

use forebay_packet::random::mix;

/// Networks: values of the upper 16 bits.
const NETWORKS: usize = 1 << 16;

/// Numbers in a network's table.
const ADDRESSES: usize = 256;

/// Blocks of a destination's table, entries of a block, and its bytes.
pub(super) const BLOCKS: usize = 128;
pub(super) const ENTRIES: usize = 7;
const BLOCK: usize = size_of::<Block>();
const _: () = assert!(BLOCK == 32, "the paper's blocks");

/// Bytes of a number.
const NUMBER: usize = size_of::<u32>();

/// Why a table cannot be as large.
#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    /// The system has no memory for it.
    #[error("no memory for a table of {destinations} destinations")]
    Memory {
        /// What was asked for.
        destinations: usize,
        /// The system's error.
        source: TryReserveError,
    },
    /// Another destination than those there is room for.
    #[error("no room for the flows to {0}: the table has as many destinations as it may have")]
    Destinations(Ipv4Addr),
    /// More destinations than a network's table has places.
    #[error("no room for the flows to {0}: its network has 256 destinations")]
    Network(Ipv4Addr),
}

/// A flow of a destination; free if the tag is 0.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Entry {
    pub(super) tag: u16,
    pub(super) state: u16,
}

/// Entries behind the address that all have in common.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct Block {
    destination: u32,
    entries: [Entry; ENTRIES],
}

/// Where the number of a new destination's table goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Vacancy {
    /// A network that has no table.
    Network(usize),
    /// A place of a network's table, or none.
    Place(usize, Option<usize>),
}

/// All levels. Numbers count from 1; 0 is none.
#[derive(Debug)]
pub(super) struct Memory {
    head: Vec<u32>,
    networks: Vec<[u32; ADDRESSES]>,
    blocks: Vec<Block>,
    /// The most destinations.
    destinations: usize,
}

impl Memory {
    pub(super) fn new(destinations: usize) -> Result<Self, CompactError> {
        let mut memory = Self {
            head: vec![0; NETWORKS],
            networks: Vec::new(),
            blocks: Vec::new(),
            // Not more than there are numbers.
            destinations: destinations.min(u32::MAX as usize),
        };
        let blocks = destinations.saturating_mul(BLOCKS);
        let networks = memory.networks.try_reserve_exact(memory.most_networks());
        let reserved = networks.and_then(|()| memory.blocks.try_reserve_exact(blocks));
        reserved.map_err(|source| CompactError::Memory { destinations, source })?;
        Ok(memory)
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.head) + size_of_val(&*self.networks) + size_of_val(&*self.blocks)
    }

    fn most_networks(&self) -> usize {
        self.destinations.min(NETWORKS)
    }

    /// The number of a destination's table (`Ptr2`), or where it would be. `place` is that of
    /// the entry that is wanted: its block is compared.
    #[inline]
    pub(super) fn table(
        &self,
        destination: u32,
        place: usize,
        read: &mut impl FnMut(usize, usize),
    ) -> Result<usize, Vacancy> {
        let [upper, lower] = [destination >> 16, destination & 0xffff];
        let upper = upper as usize;
        read(upper * NUMBER, NUMBER);
        let Some(network) = (self.head[upper] as usize).checked_sub(1) else {
            return Err(Vacancy::Network(upper));
        };
        let numbers = &self.networks[network];
        let first = home(lower);
        for i in 0..ADDRESSES {
            let at = (first + i) % ADDRESSES;
            read(self.second_level() + (network * ADDRESSES + at) * NUMBER, NUMBER);
            let Some(table) = (numbers[at] as usize).checked_sub(1) else {
                return Err(Vacancy::Place(network, Some(at)));
            };
            let block = table * BLOCKS + place / ENTRIES;
            read(self.third_level() + block * BLOCK, size_of::<u32>());
            if self.blocks[block].destination == destination {
                return Ok(table);
            }
        }
        Err(Vacancy::Place(network, None))
    }

    /// Makes the table of a destination that has none.
    pub(super) fn add(
        &mut self,
        destination: u32,
        vacancy: Vacancy,
    ) -> Result<usize, CompactError> {
        let table = self.blocks.len() / BLOCKS;
        if table == self.destinations {
            return Err(CompactError::Destinations(destination.into()));
        }
        let (network, at) = match vacancy {
            Vacancy::Place(network, at) => (network, at),
            Vacancy::Network(upper) => {
                self.networks.push([0; ADDRESSES]);
                self.head[upper] = self.networks.len() as u32;
                (self.networks.len() - 1, Some(home(destination & 0xffff)))
            }
        };
        let at = at.ok_or(CompactError::Network(destination.into()))?;
        let block = Block { destination, entries: Default::default() };
        self.blocks.resize(self.blocks.len() + BLOCKS, block);
        self.networks[network][at] = table as u32 + 1;
        Ok(table)
    }

    #[inline]
    pub(super) fn entry(&self, table: usize, place: usize) -> &Entry {
        &self.blocks[table * BLOCKS + place / ENTRIES].entries[place % ENTRIES]
    }

    pub(super) fn entry_mut(&mut self, table: usize, place: usize) -> &mut Entry {
        &mut self.blocks[table * BLOCKS + place / ENTRIES].entries[place % ENTRIES]
    }

    /// The address of an entry: the paper's, behind the levels before.
    #[inline]
    pub(super) fn address(&self, table: usize, place: usize) -> usize {
        let block = table * BLOCK * BLOCKS + BLOCK * (place / ENTRIES);
        self.third_level() + block + place % ENTRIES * size_of::<Entry>() + size_of::<u32>()
    }

    fn second_level(&self) -> usize {
        NETWORKS * NUMBER
    }

    fn third_level(&self) -> usize {
        self.second_level() + self.most_networks() * ADDRESSES * NUMBER
    }
}

/// The place of an address in its network's table.
#[inline]
fn home(lower: u32) -> usize {
    (mix(lower.into()) % ADDRESSES as u64) as usize
}
