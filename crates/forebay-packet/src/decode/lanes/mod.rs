//! Hashes of plain packets' flows, several packets at once.
//!
//! What [`Decoder::decode_plain`] finds of one packet is found here of 16 with AVX-512 and
//! of 8 with AVX2. The 32 bytes from the EtherType on hold all that matters, so a packet
//! is one load; the packets' words are transposed, so that a vector has the same word of
//! each; everything from there to the hash is arithmetic, and a mask marks the packets
//! were plain. A packet that has not so many bytes is not plain.
//!
//! Measured by `forebay-bench pipeline`, stage `classify`.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use super::{Affinity, Decoder};
use crate::batch::Batch;
use crate::flow::AddressKind;
use crate::hash::HashKey;
use crate::link::LinkType;
use crate::live_mask::LiveMask;
use crate::vectors::Vectors;

/// Where in a frame the bytes start that are looked at, and how many they are.
const HEAD_AT: usize = 12;
const HEAD: usize = 32;

/// The bytes of a packet that are looked at.
type Head = [u8; HEAD];

/// In place of a packet: not plain.
const NOTHING: &Head = &[0; HEAD];

/// Packets that any kernel takes at once: a multiple of all their groups.
const GROUP: usize = 16;

/// Packets that are looked at at a time.
const STRETCH: usize = 32;

/// Which vectors are used: such as this machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimdLevel(Vectors);

impl SimdLevel {
    /// A packet after another.
    pub const SCALAR: Self = Self(Vectors::Scalar);

    /// All that this machine has, the fastest last.
    #[must_use]
    pub fn all() -> Vec<Self> {
        Vectors::ALL.into_iter().filter(|vectors| vectors.are_here()).map(Self).collect()
    }

    /// The fastest that this machine has and this process allows: see [`Vectors::limit`].
    #[must_use]
    pub fn fastest() -> Self {
        let wanted = Vectors::ALL.into_iter().rfind(|vectors| vectors.are_wanted());
        wanted.map_or(Self::SCALAR, Self)
    }
}

/// The bytes of a shuffle that puts big-endian fields of two words in order: two addresses
/// each, two ports, the length of a datagram. With the top bit set a byte becomes 0.
#[cfg(target_arch = "x86_64")]
const ADDRESS_ORDER: [u64; 2] = [0x0405_0607_0001_0203, 0x0c0d_0e0f_0809_0a0b];
#[cfg(target_arch = "x86_64")]
const PORT_ORDER: [u64; 2] = [0x8080_8080_0203_0001, 0x8080_8080_0a0b_0809];
#[cfg(target_arch = "x86_64")]
const LENGTH_ORDER: [u64; 2] = [0x8080_8080_8080_0405, 0x8080_8080_8080_0c0d];

/// What of a plain packet's flow is hashed, as masks of the two words that
/// [`crate::FlowKey::hash`] takes.
#[derive(Clone, Copy)]
struct Form {
    /// Of the addresses.
    addresses: u64,
    /// Which end goes first.
    first: First,
    /// Of ports and protocol.
    ends: u64,
    /// What the second word has besides.
    constant: u64,
}

/// Which end of a flow the words begin with.
#[derive(Clone, Copy)]
enum First {
    /// The smaller one.
    Smaller,
    /// The one that the packet comes from.
    Source,
    /// The one that it goes to.
    Destination,
}

impl Form {
    fn of(affinity: Affinity) -> Self {
        const PORTS_AND_PROTOCOL: u64 = 0xff_ffff_ffff;
        const HAS_PORTS: u64 = 1 << 48;
        let kind = (AddressKind::Ipv4 as u64) << 40;
        match affinity {
            Affinity::FiveTuple => Self {
                addresses: u64::MAX,
                first: First::Smaller,
                ends: PORTS_AND_PROTOCOL,
                constant: kind | HAS_PORTS,
            },
            Affinity::IpPair => {
                Self { addresses: u64::MAX, first: First::Smaller, ends: 0, constant: kind }
            }
            Affinity::Source => {
                Self { addresses: u32::MAX.into(), first: First::Source, ends: 0, constant: kind }
            }
            Affinity::Destination => {
                let first = First::Destination;
                Self { addresses: u32::MAX.into(), first, ends: 0, constant: kind }
            }
        }
    }
}

impl Decoder {
    /// Sets the hash of each packet of a batch whose flow is plain to see, as
    /// [`Decoder::decode`] and [`crate::FlowKey::hash`] find it, and returns which those are,
    /// dropped ones among them. The hash of any other packet means nothing.
    pub fn hash_plain(&self, lanes: SimdLevel, key: &HashKey, batch: &mut Batch) -> LiveMask {
        if batch.interfaces().iter().any(|one| one.link != LinkType::ETHERNET) {
            let packets = batch.len();
            batch.hash.resize(packets, 0);
            return LiveMask::default();
        }
        // Room for whole groups; what is written beyond the packets goes again.
        let packets = batch.len();
        let mut hash = std::mem::take(&mut batch.hash);
        hash.resize(packets.next_multiple_of(GROUP), 0);
        let plain = match lanes.0 {
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2 | Vectors::Avx512 => {
                let form = Form::of(self.options.affinity);
                let (all, mut plain) = (batch.frames(), LiveMask::default());
                for (stretch, hash) in hash.chunks_mut(STRETCH).enumerate() {
                    let mut heads = [NOTHING; STRETCH];
                    let first = stretch * STRETCH;
                    for (packet, head) in all.from(first).zip(&mut heads) {
                        *head = head_of(packet);
                    }
                    let heads = &heads[..hash.len()];
                    let found = match lanes.0 {
                        Vectors::Avx512 => avx512::hash(form, key, heads, hash),
                        _ => avx2::hash(form, key, heads, hash),
                    };
                    plain.set_half(stretch, found);
                }
                plain
            }
            _ => self.one_by_one(key, batch, &mut hash),
        };
        hash.truncate(packets);
        batch.hash = hash;
        plain
    }

    fn one_by_one(&self, key: &HashKey, batch: &Batch, hash: &mut [u64]) -> LiveMask {
        let mut plain = LiveMask::default();
        for i in batch.live().iter() {
            if let Some(found) = self.decode_plain(batch.packet(i)) {
                hash[i] = found.affinity.hash(key);
                plain.insert(i);
            }
        }
        plain
    }
}

/// The bytes of a packet that are looked at.
#[inline]
fn head_of(packet: &[u8]) -> &Head {
    packet.get(HEAD_AT..).and_then(<[u8]>::first_chunk).unwrap_or(NOTHING)
}
