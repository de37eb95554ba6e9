//! The paper's table as the paper describes it: three levels, two bytes of state a flow.
//!
//! Ata, Murata and Miyahara (2000), sections 2.1 and 4. A flow is [`OneWay`]. It is found by
//!
//! 1. `HeadTable`, by the upper 16 bits of the destination: the number of a network's table;
//! 2. the network's table of 256 numbers of destinations' tables, by a hash of the lower 16
//!    bits. If the place is taken, the next ones are tried. It has no keys: the third level
//!    tells whether a number is the right one;
//! 3. the destination's table of 128 blocks of 32 bytes. A block has the destination's address,
//!    which is compared with the packet's, and seven entries of four bytes: 16 bits of the hash
//!    of source and port, and the state.
//!
//! With `Ptr2` from the second level and a hash h below 896 = 128 × 7, the entry is at
//!
//! > `Ptr2` × 32 × 128 + 32 × (h / 7) + (h mod 7) × 4 + 4
//!
//! from the third level's start. (As printed in section 4.3 the factor 4 is missing: entries
//! would overlap.)
//!
//! The paper leaves some cases open. Here a taken entry is handled as on the second level: the
//! next ones are tried, after the last the first, up to a free one. If all 896 are taken, the
//! flow at h is replaced. Flows never end, and a table of a destination is never freed.
//!
//! Sources are not compared, only 16 bits of a hash, so that a flow can be taken for another
//! of the same destination: [`Compact::false_hit_rate`]. The hash has no secret: whoever
//! chooses the addresses can make flows collide. [`Table`](crate::Table) has neither fault.

mod memory;

use forebay_packet::random::mix;

pub use memory::CompactError;
use memory::{Entry, Memory};

/// Entries of a destination's table.
pub const MAX_SOURCES: usize = memory::BLOCKS * memory::ENTRIES;

/// The paper's identifier of a flow. Each direction has its own, and the connections of one
/// host to the same port of another share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OneWay {
    source: u32,
    destination: u32,
    port: u16,
}

impl OneWay {
    /// The flow of a packet between these IPv4 addresses and ports.
    #[must_use]
    pub fn new(source: u32, destination: u32, ports: [u16; 2]) -> Self {
        Self { source, destination, port: ports[0].min(ports[1]) }
    }

    /// Where an entry is in a destination's table if its place is free (h), and the 16 bits by
    /// which it is recognised, which are not 0.
    fn hash(self) -> (usize, u16) {
        let hash = mix(u64::from(self.source) | u64::from(self.port) << 32);
        let place = ((hash >> 32) * MAX_SOURCES as u64) >> 32;
        (place as usize, (hash as u16).max(1))
    }
}

/// The paper's table of flows.
///
/// Functions whose names end in `recorded` call `read` with the address, from the start of the
/// table, and the length of each read of its memory. The three levels lie one after another,
/// the second with room for as many networks as there may be. The other functions are the same
/// code with a `read` that is empty, of which the compiler leaves nothing.
#[derive(Debug)]
pub struct Compact {
    memory: Memory,
    flows: usize,
}

impl Compact {
    /// An empty table with room for so many destinations, each of which takes 4 KiB when its
    /// first flow comes.
    ///
    /// # Errors
    /// The system has no memory for as many.
    pub fn new(destinations: usize) -> Result<Self, CompactError> {
        Ok(Self { memory: Memory::new(destinations)?, flows: 0 })
    }

    /// Flows that were added.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.flows
    }

    /// Bytes of memory in use.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// The state of a flow, if it is in the table.
    #[must_use]
    pub fn find(&self, flow: OneWay) -> Option<u16> {
        self.find_recorded(flow, |_, _| ())
    }

    /// As [`Compact::find`], with its reads.
    #[inline]
    pub fn find_recorded(&self, flow: OneWay, mut read: impl FnMut(usize, usize)) -> Option<u16> {
        let (place, tag) = flow.hash();
        let table = self.memory.table(flow.destination, place, &mut read).ok()?;
        let entry = self.entry(table, place, tag, &mut read);
        entry.ok().map(|at| self.memory.entry(table, at).state)
    }

    /// The state of a flow, to be changed, and whether it is new, its state 0 then.
    ///
    /// # Errors
    /// The flow is the first of its destination, and there is no room for another.
    pub fn state(&mut self, flow: OneWay) -> Result<(&mut u16, bool), CompactError> {
        let (place, tag) = flow.hash();
        let table = match self.memory.table(flow.destination, place, &mut |_, _| ()) {
            Ok(table) => table,
            Err(vacancy) => self.memory.add(flow.destination, vacancy)?,
        };
        let found = self.entry(table, place, tag, &mut |_, _| ());
        let (Ok(at) | Err(at)) = found;
        let entry = self.memory.entry_mut(table, at);
        if found.is_err() {
            self.flows += usize::from(entry.tag == 0);
            *entry = Entry { tag, state: 0 };
        }
        Ok((&mut entry.state, found.is_err()))
    }

    /// The place of the entry with this `tag`, or of the one that becomes it.
    #[inline]
    fn entry(
        &self,
        table: usize,
        place: usize,
        tag: u16,
        read: &mut impl FnMut(usize, usize),
    ) -> Result<usize, usize> {
        let mut at = place;
        loop {
            read(self.memory.address(table, at), size_of::<Entry>());
            match self.memory.entry(table, at).tag {
                found if found == tag => return Ok(at),
                0 => return Err(at),
                _ => at = (at + 1) % MAX_SOURCES,
            }
            if at == place {
                return Err(place);
            }
        }
    }

    /// The probability that a flow which is not in the table is taken for another, if its
    /// destination has `sources` entries.
    ///
    /// Every entry that is tried has the flow's 16 bits once in 2^16 times. Before a free one,
    /// (Q₁ - 1) / 2 are tried on average, with
    /// Q₁ = Σ (k + 1) · n (n - 1) … (n - k + 1) / 896^k over k from 0 to n, the number of
    /// sources (Knuth, "The Art of Computer Programming", volume 3, 6.4, theorem K); all if
    /// none is free. Since such probabilities are small, their sum is taken.
    #[must_use]
    pub fn false_hit_rate(sources: usize) -> f64 {
        let (size, n) = (MAX_SOURCES as f64, sources.min(MAX_SOURCES));
        let term = |product: &mut f64, k: usize| {
            let summand = (k + 1) as f64 * *product;
            *product *= (n - k) as f64 / size;
            Some(summand)
        };
        let sum: f64 = (0..=n).scan(1.0, term).sum();
        let tried = if n == MAX_SOURCES { size } else { (sum - 1.0) / 2.0 };
        tried / f64::from(1 << 16)
    }
}
