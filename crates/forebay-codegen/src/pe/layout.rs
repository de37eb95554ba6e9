//! Assigns predicates to bits of a packet's signature.
//!
//! The extraction loop fills vectors with bytes of one, two or four packets.
//! The bytes of a predicate become an *element*: one lane of the vector after
//! the shuffle. With more packets in a vector there is less room for each:
//!
//! | packets | AVX-512: bytes of each, lanes | AVX2: bytes of each, lanes |
//! |---|---|---|
//! | 4 | 16, bytes | |
//! | 2 | 32, 16 bits | 16, bytes |
//! | 1 | 64, 32 bits | 32, bytes |
//!
//! so there are always 16 lanes a packet, except for one packet under AVX2,
//! which has 32. A predicate wider than a lane takes several. One shuffle and
//! comparison of a vector makes a *plane*: the signature bits of its lanes, 1
//! where a lane differs from its constant (AVX-512), or 1 where it does not
//! (AVX2, which compares for equality only).
//!
//! The shape with the least work a packet is used.

use forebay_filter::cancel;
use forebay_filter::ir::Function;
use rustc_hash::FxHashMap;

use super::atom::{Atom, Field};
use super::decision::Decision;
use super::elements::{Element, equal_elements, order_element};
use super::loops::{MAX_PLANES, Unsuited};
use crate::code::{Isa, Options};

/// The most lookups of an iteration of more than one packet.
const MAX_LOOKUPS: u32 = 4;

/// The most bytes of a plane: 256 signatures of 32 bits.
const PLANE_BYTES: usize = 1024;

/// Bytes of a 128-bit lane; byte shuffles without VBMI stay within it.
const CHUNK: u32 = 16;

/// Bytes of a line of the cache.
pub(super) const LINE: u32 = 64;

/// The comparison of lanes with their constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// Equal to the constant.
    Equal,
    /// At least the constant.
    AtLeast,
}

/// A vector of packet bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Packet offsets of each 16 bytes of a packet's part.
    pub chunks: Vec<u32>,
}

/// One comparison of all lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plane {
    /// The [`Source`] that it shuffles.
    pub source: usize,
    /// Bytes of a lane.
    pub lane_bytes: u32,
    /// The comparison.
    pub comparison: Comparison,
    /// Its lanes.
    pub elements: Vec<Element>,
}

/// A lookup in a set, which makes a plane of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The field.
    pub field: Field,
    /// The set.
    pub set: forebay_filter::ir::SetId,
}

/// The place of a predicate's outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The plane; lookups follow [`Layout::planes`].
    pub plane: usize,
    /// Bits of the signature.
    pub care: u32,
}

/// The signature of a filter.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Packets a vector.
    pub packets: u32,
    /// Bytes of a vector: 64 or 32.
    pub vector: u32,
    /// Bytes that a source has of a packet: the packet's share of the vector,
    /// or a whole vector, from which a shuffle fills that share.
    pub window: u32,
    /// Whether shuffles reach any byte of the vector.
    pub any_byte: bool,
    /// Bits of a packet's signature in a plane: 16 or 32.
    pub bits: u32,
    /// Vectors of packet bytes.
    pub sources: Vec<Source>,
    /// Comparisons.
    pub planes: Vec<Plane>,
    /// Set lookups.
    pub lookups: Vec<Lookup>,
    places: FxHashMap<Atom, Place>,
}

/// Why atoms do not fit a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Misfit {
    /// An atom fits no lane.
    Atom,
    /// There are more than [`MAX_PLANES`] planes.
    Planes,
}

impl Layout {
    /// The layout with the least work for the atoms of `decision`.
    ///
    /// # Errors
    /// If the atoms fit no layout.
    pub fn choose(
        function: &Function,
        decision: &Decision,
        options: &Options,
    ) -> Result<Self, Unsuited> {
        let wide = options.isa >= Isa::Avx512Bw;
        let shapes: &[(u32, u32)] = match options.isa {
            Isa::Avx512Vbmi => &[(4, 16), (2, 32), (2, 64), (1, 64)],
            _ if wide => &[(4, 16), (2, 32), (1, 64)],
            _ => &[(2, 16), (1, 32)],
        };
        let mut best: Option<(u32, Self)> = None;
        let mut planes = usize::MAX;
        for &(packets, window) in shapes {
            cancel::check();
            let shape = (packets, window);
            let layout = match Self::of_shape(function, decision, options.isa, shape) {
                Ok(layout) => layout,
                Err(Misfit::Atom) => continue,
                Err(Misfit::Planes) => {
                    planes = planes.min(MAX_PLANES + 1);
                    continue;
                }
            };
            // Lookups of several packets would need too many registers.
            let lookups = layout.lookups.len() as u32 * packets;
            if lookups > MAX_LOOKUPS && packets > 1 {
                continue;
            }
            planes = planes.min(layout.planes.len() + layout.lookups.len());
            if layout.planes.len() + layout.lookups.len() > MAX_PLANES {
                continue;
            }
            let work = layout.work(options);
            if best.as_ref().is_none_or(|(least, _)| work < *least) {
                best = Some((work, layout));
            }
        }
        match best {
            Some((_, layout)) => Ok(layout),
            None if planes == usize::MAX => {
                Err(Unsuited::Predicate("one that takes arithmetic, or too wide".to_owned()))
            }
            None => Err(Unsuited::TooLarge(planes)),
        }
    }

    /// The place of `atom`, all in one plane; `None` for atoms that signatures
    /// do not hold.
    #[must_use]
    pub fn place(&self, atom: &Atom) -> Option<Place> {
        self.places.get(atom).copied()
    }

    /// Bytes of a packet that must be readable.
    #[must_use]
    pub fn reach(&self) -> usize {
        let chunks = self.sources.iter().flat_map(|source| &source.chunks);
        let lookups = self.lookups.iter().map(|lookup| lookup.field.offset + 4);
        chunks.map(|start| start + CHUNK).chain(lookups).max().unwrap_or(0) as usize
    }

    /// Bytes of scratch memory.
    #[must_use]
    pub fn scratch(&self) -> usize {
        (self.planes.len() + self.lookups.len()) * self.plane_bytes()
    }

    /// Bytes from one plane to the next in scratch memory.
    #[must_use]
    pub fn plane_bytes(&self) -> usize {
        PLANE_BYTES * self.bits as usize / 32
    }

    /// The first byte of a packet that is read, if any is; prefetches address it.
    #[must_use]
    pub fn first_byte(&self) -> Option<u32> {
        let chunks = self.sources.iter().flat_map(|source| source.chunks.iter().copied());
        chunks.chain(self.lookups.iter().map(|lookup| lookup.field.offset)).min()
    }

    fn of_shape(
        function: &Function,
        decision: &Decision,
        isa: Isa,
        (packets, window): (u32, u32),
    ) -> Result<Self, Misfit> {
        let wide = isa >= Isa::Avx512Bw;
        let vector = if wide { 64 } else { 32 };
        let mut layout = Self {
            packets,
            vector,
            window,
            any_byte: isa >= Isa::Avx512Vbmi,
            bits: if wide { 16 } else { 32 / packets },
            sources: Vec::new(),
            planes: Vec::new(),
            lookups: Vec::new(),
            places: FxHashMap::default(),
        };
        let mut parts: Vec<(Atom, Comparison, Vec<Element>)> = Vec::new();
        let mut members = Vec::new();
        for atom in decision.atoms() {
            match atom {
                Atom::Equal(field, constant) => {
                    let lane = layout.lane_bytes(Comparison::Equal, 4);
                    let elements = equal_elements(field, constant, lane);
                    parts.push((atom, Comparison::Equal, elements));
                }
                Atom::AtLeast(field, constant) => {
                    let lane = layout.lane_bytes(Comparison::AtLeast, field.bytes);
                    let element = order_element(field, constant, lane).ok_or(Misfit::Atom)?;
                    parts.push((atom, Comparison::AtLeast, vec![element]));
                }
                Atom::Member(field, set) => members.push((atom, Lookup { field, set })),
                Atom::Captured(_) | Atom::WireAtLeast(_) | Atom::WireEqual(_) => {}
                Atom::Computed(..) | Atom::CapturedFrom(..) | Atom::ComputedMember(..) => {
                    return Err(Misfit::Atom);
                }
            }
        }
        layout.cover(parts.iter().map(|(_, _, elements)| elements.as_slice()));
        let whole = |source: &Source| source.chunks.len() as u32 * CHUNK == layout.window;
        if layout.merges() && !layout.sources.iter().all(whole) {
            return Err(Misfit::Atom);
        }
        // Each source serves an atom that has a plane of its own.
        if layout.sources.len() > MAX_PLANES {
            return Err(Misfit::Planes);
        }
        for (atom, comparison, elements) in parts {
            if !layout.places.contains_key(&atom) {
                let place = layout.put(comparison, elements)?;
                layout.places.insert(atom, place);
            }
        }
        for (atom, lookup) in members {
            if !layout.places.contains_key(&atom) {
                debug_assert!(function.sets.len() > lookup.set.0 as usize);
                let plane = layout.planes.len() + layout.lookups.len();
                layout.lookups.push(lookup);
                layout.places.insert(atom, Place { plane, care: u32::MAX });
            }
        }
        Ok(layout)
    }

    /// Bytes of a lane that compares `bytes` of a field.
    fn lane_bytes(&self, comparison: Comparison, bytes: u32) -> u32 {
        match (self.vector, comparison) {
            (64, _) => 4 / self.packets,
            (_, Comparison::Equal) => 1,
            // The next size that AVX2 compares; a byte is enough for a byte.
            (_, Comparison::AtLeast) => bytes,
        }
    }

    /// Whether each packet has its own source, to be merged by shuffles.
    #[must_use]
    pub fn merges(&self) -> bool {
        self.window > self.share()
    }

    /// Bytes of the vector that belong to a packet.
    fn share(&self) -> u32 {
        self.vector / self.packets
    }

    /// Chooses sources such that the bytes of each atom's elements lie in one
    /// chunk.
    fn cover<'e>(&mut self, atoms: impl Iterator<Item = &'e [Element]>) {
        let mut spans: Vec<(u32, u32)> = atoms
            .filter_map(|elements| {
                let bytes = elements.iter().flat_map(|element| &element.bytes).flatten();
                Some((*bytes.clone().min()?, *bytes.max()?))
            })
            .collect();
        spans.sort_unstable();
        let Some(&(first, _)) = spans.first() else { return };
        let end = spans.iter().map(|span| span.1).max().unwrap_or(first) + 1;
        let window = self.window;
        // A packet of a ring mostly starts a line, and so does its EtherType in our own memory. A load
        // beyond the first line would take another one from memory, for bytes that nothing looks at.
        if self.any_byte && window > CHUNK && end - first <= window {
            let half = window / 2;
            let most = if end > LINE { u32::MAX } else { LINE - half };
            let halves = [first, first + half].map(|start| start.min(most));
            let chunks = halves
                .into_iter()
                .flat_map(|start| (start..start + half).step_by(CHUNK as usize))
                .collect();
            self.sources.push(Source { chunks });
            return;
        }
        let mut chunks: Vec<u32> = Vec::new();
        let mut last = Vec::new();
        for (low, high) in spans {
            if chunks.last().is_none_or(|start| high >= start + CHUNK) {
                chunks.push(low);
                last.push(high);
            }
            last.last_mut().into_iter().for_each(|last| *last = high.max(*last));
        }
        for (start, _) in chunks.iter_mut().zip(last).filter(|(_, last)| *last < LINE) {
            *start = (*start).min(LINE - CHUNK);
        }
        for group in chunks.chunks((window / CHUNK) as usize) {
            self.sources.push(Source { chunks: group.to_vec() });
        }
    }

    /// Assigns `elements` to lanes of one plane: a plane with the same elements
    /// or with enough free lanes, or a new one.
    fn put(&mut self, comparison: Comparison, elements: Vec<Element>) -> Result<Place, Misfit> {
        let lane_bytes = elements.first().ok_or(Misfit::Atom)?.bytes.len() as u32;
        let found = elements.into_iter().map(|element| {
            let (source, chunk) = self.find_source(&element)?;
            Some((source, chunk, element))
        });
        let elements: Vec<(usize, usize, Element)> =
            found.collect::<Option<_>>().ok_or(Misfit::Atom)?;
        let source = elements[0].0;
        if elements.iter().any(|(other, _, _)| *other != source) {
            return Err(Misfit::Atom);
        }
        let alike = |plane: &Plane| {
            plane.source == source
                && plane.comparison == comparison
                && plane.lane_bytes == lane_bytes
        };
        for index in 0..self.planes.len() {
            let plane = &self.planes[index];
            if let Some((added, care)) = alike(plane).then(|| self.with(plane, &elements)).flatten()
            {
                self.planes[index].elements.extend(added);
                return Ok(Place { plane: index, care });
            }
        }
        if self.planes.len() == MAX_PLANES {
            return Err(Misfit::Planes);
        }
        let mut plane = Plane { source, lane_bytes, comparison, elements: Vec::new() };
        let (added, care) = self.with(&plane, &elements).ok_or(Misfit::Atom)?;
        plane.elements = added;
        self.planes.push(plane);
        Ok(Place { plane: self.planes.len() - 1, care })
    }

    /// The lanes that `elements` add to `plane`, each with the number of its
    /// chunk, and their signature bits; `None` if there are too few lanes.
    fn with(
        &self,
        plane: &Plane,
        elements: &[(usize, usize, Element)],
    ) -> Option<(Vec<Element>, u32)> {
        let mut care = 0;
        let mut added: Vec<Element> = Vec::new();
        for (_, chunk, element) in elements {
            let same = |other: &&Element| {
                other.bytes == element.bytes
                    && other.mask == element.mask
                    && other.constant == element.constant
            };
            let lane = match plane.elements.iter().chain(&added).find(same) {
                Some(other) => other.lane,
                None => {
                    let lane = self.free_lane(plane, &added, *chunk)?;
                    added.push(Element { lane, ..element.clone() });
                    lane
                }
            };
            care |= self.care(plane, lane);
        }
        Some((added, care))
    }

    /// A lane that is free in `plane` and not in `added`.
    fn free_lane(&self, plane: &Plane, added: &[Element], chunk: usize) -> Option<usize> {
        let mut lanes = if self.any_byte {
            0..(self.share() / plane.lane_bytes) as usize
        } else {
            let per_chunk = (CHUNK / plane.lane_bytes) as usize;
            chunk * per_chunk..(chunk + 1) * per_chunk
        };
        let taken = |lane| plane.elements.iter().chain(added).any(|other| other.lane == lane);
        lanes.find(|&lane| !taken(lane))
    }

    /// The source that has all bytes of `element`, and the number of the chunk
    /// that has them, if shuffles stay within chunks.
    fn find_source(&self, element: &Element) -> Option<(usize, usize)> {
        let bytes = || element.bytes.iter().flatten();
        self.sources.iter().enumerate().find_map(|(index, source)| {
            let within = |byte: u32, start: u32| byte >= start && byte < start + CHUNK;
            let whole =
                source.chunks.iter().position(|&start| bytes().all(|&byte| within(byte, start)));
            let somewhere = self.any_byte
                && bytes().all(|&byte| source.chunks.iter().any(|&start| within(byte, start)));
            whole.or(somewhere.then_some(0)).map(|chunk| (index, chunk))
        })
    }

    /// The signature bits of a lane.
    fn care(&self, plane: &Plane, lane: usize) -> u32 {
        if self.vector == 64 {
            return 1 << lane;
        }
        // `vpmovmskb` gives a bit for each byte of the lane.
        let bits = (1u32 << plane.lane_bytes) - 1;
        bits << (lane as u32 * plane.lane_bytes)
    }

    /// Estimated work a packet, in 1/64 of a cycle: six instructions a cycle,
    /// one shuffle or comparison, two loads of vectors.
    pub(super) fn work(&self, options: &Options) -> u32 {
        let packets = self.packets;
        let planes = self.planes.len() as u32;
        let lookups = self.lookups.len() as u32;
        let (loads, inserts, shuffles) = if self.merges() {
            // A whole vector is an operand of the shuffle.
            let of_plane = |plane: &Plane| match runs(&self.sources[plane.source].chunks) {
                1 => (packets, 0),
                runs => (packets * runs, packets * (runs - 1)),
            };
            let of_planes = self.planes.iter().map(of_plane);
            let (loads, inserts) =
                of_planes.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
            (loads, inserts, packets * planes)
        } else {
            let loads: u32 = self.sources.iter().map(|source| packets * runs(&source.chunks)).sum();
            (loads, loads - self.sources.len() as u32, planes)
        };
        let offsets = if packets > 1 { packets * 3 / 2 } else { 1 };
        let ahead = if options.prefetch > 0 { 2 * packets } else { 0 };
        let instructions = offsets + ahead + loads + shuffles + planes * 3 + lookups * packets * 7;
        // Shuffles and comparisons have one port, insertions a second one.
        let busy = (shuffles + planes + lookups * packets)
            .max((shuffles + 2 * planes + inserts + lookups * packets).div_ceil(2));
        let cycles = (64 * instructions / 6).max(64 * busy) / packets;
        // The decision loop reads each plane back and tests it.
        cycles + planes * 4 + lookups * 4
    }
}

/// The number of loads that fill a packet's share of a vector: runs of chunks
/// that are consecutive in the packet too, as long as they are aligned to their
/// length.
fn runs(chunks: &[u32]) -> u32 {
    pieces(chunks).count() as u32
}

/// Loads of consecutive chunks: the first chunk, and the number of chunks.
pub(super) fn pieces(chunks: &[u32]) -> impl Iterator<Item = (usize, usize)> + '_ {
    let mut next = 0;
    std::iter::from_fn(move || {
        let at = next;
        let follows = |i: usize| {
            chunks.get(i).is_some_and(|&start| start == chunks[at] + 16 * (i - at) as u32)
        };
        chunks.get(at)?;
        let count = [4, 2, 1]
            .into_iter()
            .find(|&count| at.is_multiple_of(count) && (at..at + count).all(follows))?;
        next = at + count;
        Some((at, count))
    })
}
