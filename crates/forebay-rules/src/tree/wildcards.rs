//! Rules that say little of addresses, by bit vectors.
//!
//! Rules whose address prefixes are all shorter than a byte cannot be parted
//! by addresses, and parted by ports they would be copied without end: each
//! covers most values of most fields. For these few the method is Lucent's bit
//! vectors (Lakshman and Stiliadis, SIGCOMM 1998): each field's values fall
//! into classes by which rules admit them, each class has a vector with a bit
//! a rule, and the first bit that is set in the vectors of all fields is the
//! first rule that matches. The work is fixed: six vectors, of 512 rules a chunk,
//! whatever the packet.

use super::block::Entry;
use super::labels::NO_LABEL;
use crate::atom::{FLAG_PLACES, Prefix, places};
use crate::packed::KINDS;
use forebay_packet::cancel;
use std::collections::{HashMap, HashSet};

/// The most leading bits of an address that count here.
pub(crate) const ADDRESS_BITS: u8 = 8;

/// Bits of a vector are rounded up to this.
pub(crate) const VECTOR_BITS: usize = 512;

/// Fields that have classes.
pub(crate) const FIELDS: usize = 6;

/// A vector, one bit an atom; as wide as one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C, align(64))]
pub(crate) struct Chunk(pub [u64; VECTOR_BITS / 64]);

/// A table by a byte.
pub(crate) type ByByte = Box<[u32; 256]>;

/// Classes of a 16-bit field: of each high byte a page, of each page and low
/// byte a class.
#[derive(Debug)]
pub(crate) struct PortClasses {
    /// By high byte: where in `classes` its page begins.
    pub pages: ByByte,
    /// Pages of 256 classes.
    pub classes: Vec<u32>,
}

/// The most members. Each adds to the length of all vectors, and two classes to
/// each port at the worst.
pub(crate) const MAX_MEMBERS: usize = 2048;

/// Labels of a chunk: one a bit, and [`NO_LABEL`] up to where a search for the
/// first bit set ends that has found none.
pub(crate) const CHUNK_LABELS: usize = VECTOR_BITS + 128;

/// The atoms that are matched by bit vectors. A class is where its vector
/// begins, in chunks.
#[derive(Debug)]
pub(crate) struct WildcardIndex {
    /// By leading byte of the source address.
    pub sources: ByByte,
    /// By leading byte of the destination address.
    pub destinations: ByByte,
    /// Of the first port.
    pub first: PortClasses,
    /// Of the second port.
    pub second: PortClasses,
    /// By kind.
    pub kinds: Box<[u32; KINDS]>,
    /// By flags.
    pub flags: Box<[u32; FLAG_PLACES]>,
    /// All vectors, each of `width` chunks.
    pub vectors: Vec<Chunk>,
    /// Chunks of a vector.
    pub width: usize,
    /// By chunk, [`CHUNK_LABELS`] each, and bit: the label.
    pub labels: Vec<u32>,
}

/// Collects distinct vectors.
struct Vectors {
    width: usize,
    known: HashMap<Vec<u64>, u32>,
    all: Vec<Chunk>,
}

impl Vectors {
    /// Where the vector of the members that `admit` begins.
    fn of(&mut self, members: &[&Entry], admit: impl Fn(&Entry) -> bool) -> u32 {
        cancel::check();
        let mut bits = vec![0_u64; self.width * VECTOR_BITS / 64];
        for (at, member) in members.iter().enumerate() {
            bits[at / 64] |= u64::from(admit(member)) << (at % 64);
        }
        if let Some(&place) = self.known.get(&bits) {
            return place;
        }
        let place = self.all.len() as u32;
        let chunks = bits.chunks_exact(VECTOR_BITS / 64);
        self.all.extend(chunks.map(|words| Chunk(std::array::from_fn(|at| words[at]))));
        self.known.insert(bits, place);
        place
    }

    /// Classes of a field of 16 bits: one look at each value where a range
    /// begins or has just ended, and none in between.
    fn ports(&mut self, members: &[&Entry], range: impl Fn(&Entry) -> (u16, u16)) -> PortClasses {
        let mut starts = vec![false; 1 << 16];
        starts[0] = true;
        for member in members {
            let (first, last) = range(member);
            starts[usize::from(first)] = true;
            if let Some(next) = last.checked_add(1) {
                starts[usize::from(next)] = true;
            }
        }
        let mut by_page: HashMap<[u32; 256], u32> = HashMap::new();
        let mut ports = PortClasses { pages: Box::new([0; 256]), classes: Vec::new() };
        let mut class = 0;
        for high in 0..=u8::MAX {
            let mut page = [0; 256];
            for low in 0..=u8::MAX {
                let port = u16::from_be_bytes([high, low]);
                if starts[usize::from(port)] {
                    class = self.of(members, |member| {
                        let (first, last) = range(member);
                        first <= port && port <= last
                    });
                }
                page[usize::from(low)] = class;
            }
            let next = ports.classes.len() as u32;
            ports.pages[usize::from(high)] = *by_page.entry(page).or_insert_with(|| {
                ports.classes.extend(page);
                next
            });
        }
        ports
    }
}

impl WildcardIndex {
    /// Vectors for `members`, in the order of their labels; address prefixes
    /// of no more than [`ADDRESS_BITS`] bits.
    pub fn new(members: &[&Entry], address_bits: u8) -> Self {
        assert!(members.is_sorted_by_key(|member| member.label), "the first label is the least");
        let width = members.len().div_ceil(VECTOR_BITS);
        let mut vectors = Vectors { width, known: HashMap::new(), all: Vec::new() };
        let leading = |address: u128, length: u8, byte: u8| {
            let top = (address >> (address_bits - ADDRESS_BITS)) as u8;
            length == 0 || (top ^ byte) >> (ADDRESS_BITS - length) == 0
        };
        let mut by_address = |of: fn(&Entry) -> Prefix| -> ByByte {
            let class = |byte: usize| {
                vectors.of(members, |m| leading(of(m).address, of(m).length, byte as u8))
            };
            Box::new(std::array::from_fn(class))
        };
        let sources = by_address(|member| member.atom.source);
        let destinations = by_address(|member| member.atom.destination);
        let first = vectors.ports(members, |member| member.atom.first);
        let second = vectors.ports(members, |member| member.atom.second);
        let kinds = Box::new(std::array::from_fn(|kind| {
            vectors.of(members, |member| member.atom.test.admits_kind(kind as u16))
        }));
        let flags = Box::new(std::array::from_fn(|flags| {
            vectors.of(members, |member| member.atom.test.admits_flags(flags as u16))
        }));
        let mut labels = vec![NO_LABEL; width * CHUNK_LABELS];
        for (at, member) in members.iter().enumerate() {
            labels[at / VECTOR_BITS * CHUNK_LABELS + at % VECTOR_BITS] = member.label;
        }
        let vectors = vectors.all;
        let wild =
            Self { sources, destinations, first, second, kinds, flags, vectors, width, labels };
        assert!(wild.is_closed(), "each class has a vector and each bit a label");
        wild
    }

    /// Whether all classes have vectors, and all their bits labels: kernels look them up
    /// without a check of their own.
    fn is_closed(&self) -> bool {
        let has = |class: &u32| *class as usize + self.width <= self.vectors.len();
        let ports = |ports: &PortClasses| {
            let page = |page: &u32| *page as usize + 256 <= ports.classes.len();
            ports.pages.iter().all(page) && ports.classes.iter().all(has)
        };
        let tables = [&self.sources[..], &self.destinations[..], &self.kinds[..], &self.flags[..]];
        tables.into_iter().flatten().all(has)
            && ports(&self.first)
            && ports(&self.second)
            && self.labels.len() == self.width * CHUNK_LABELS
    }

    /// The vector in which the bits of all members are set.
    pub fn all(&self) -> Vec<Chunk> {
        let mut all = vec![Chunk([0; VECTOR_BITS / 64]); self.width];
        for (chunk, bit) in self.bits(|label| label != NO_LABEL) {
            all[chunk].0[bit / 64] |= 1 << (bit % 64);
        }
        all
    }

    /// Clears the bits of the members that have `label`.
    pub fn clear(&self, label: u32, live: &mut [Chunk]) {
        for (chunk, bit) in self.bits(|other| other == label) {
            live[chunk].0[bit / 64] &= !(1 << (bit % 64));
        }
    }

    /// The labels of the members.
    pub fn members(&self) -> HashSet<u32> {
        self.labels.iter().copied().filter(|&label| label != NO_LABEL).collect()
    }

    /// The chunk and the bit of each member whose label is one asked for.
    fn bits(&self, asked: impl Fn(u32) -> bool) -> impl Iterator<Item = (usize, usize)> {
        let places = self.labels.iter().enumerate().filter(move |(_, label)| asked(**label));
        places.map(|(place, _)| (place / CHUNK_LABELS, place % CHUNK_LABELS))
    }

    /// What a packet is expected to cost, in cycles, with so many members.
    pub fn cost(members: usize) -> f64 {
        match members.div_ceil(VECTOR_BITS) {
            0 => 0.0,
            _ if members > MAX_MEMBERS => f64::INFINITY,
            width => 14.0 + 6.0 * width as f64,
        }
    }

    /// The vectors of a packet, by its leading address bytes, ports, kind and
    /// flags.
    #[inline]
    pub fn classes(
        &self,
        bytes: (u8, u8),
        ports: (u16, u16),
        kind: u16,
        flags: u16,
    ) -> [u32; FIELDS] {
        let (kind, flags) = places(kind, flags);
        [
            self.sources[usize::from(bytes.0)],
            self.destinations[usize::from(bytes.1)],
            self.first.class(ports.0),
            self.second.class(ports.1),
            self.kinds[kind],
            self.flags[flags],
        ]
    }

    /// Bytes of all tables.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.sources)
            + size_of_val(&*self.destinations)
            + self.first.bytes()
            + self.second.bytes()
            + size_of_val(&*self.kinds)
            + size_of_val(&*self.flags)
            + size_of_val(&self.vectors[..])
            + size_of_val(&self.labels[..])
    }
}

impl PortClasses {
    #[inline]
    fn class(&self, port: u16) -> u32 {
        let page = self.pages[usize::from(port >> 8)];
        self.classes[page as usize + usize::from(port & 0xff)]
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.pages) + size_of_val(&self.classes[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_refers_to_what_it_lacks_is_refused() {
        let wild = || WildcardIndex::new(&[], 32);
        assert!(wild().is_closed());
        let broken: [fn(&mut WildcardIndex); 8] = [
            |wild| wild.sources[255] = 1,
            |wild| wild.destinations[0] = u32::MAX,
            |wild| wild.kinds[KINDS - 1] = 1,
            |wild| wild.flags[FLAG_PLACES - 1] = 1,
            |wild| wild.first.pages[7] = 1,
            |wild| wild.second.classes[9] = 1,
            |wild| wild.width = 1,
            |wild| wild.labels.push(0),
        ];
        for (number, break_it) in broken.into_iter().enumerate() {
            let mut wild = wild();
            break_it(&mut wild);
            assert!(!wild.is_closed(), "{number}");
        }
    }
}
