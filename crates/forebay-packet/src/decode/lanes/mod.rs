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
#[cfg(target_arch = "x86_64")]
mod fields;

#[cfg(target_arch = "x86_64")]
use self::fields::{HashedFields, NOTHING, head_of};
use super::decoder::Decoder;
use crate::batch::Batch;
use crate::hash::HashKey;
use crate::link::LinkType;
use crate::live_mask::LiveMask;
use crate::vectors::Vectors;

/// Packets that any kernel takes at once: a multiple of all their groups.
const GROUP: usize = 16;

/// Packets that are looked at at a time.
#[cfg(target_arch = "x86_64")]
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
            Vectors::Avx2 | Vectors::Avx512 | Vectors::Avx512Vbmi => {
                let fields = HashedFields::of(self.options.affinity);
                let (all, mut plain) = (batch.frames(), LiveMask::default());
                for (stretch, hash) in hash.chunks_mut(STRETCH).enumerate() {
                    let mut heads = [NOTHING; STRETCH];
                    let first = stretch * STRETCH;
                    for (packet, head) in all.from(first).zip(&mut heads) {
                        *head = head_of(packet);
                    }
                    let heads = &heads[..hash.len()];
                    let found = match lanes.0 {
                        Vectors::Avx2 => avx2::hash(fields, key, heads, hash),
                        _ => avx512::hash(fields, key, heads, hash),
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
