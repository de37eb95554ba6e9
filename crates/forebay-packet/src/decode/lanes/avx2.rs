//! Eight packets at once, with AVX2: two vectors of four, as in the file beside this.
#![allow(unsafe_code, reason = "intrinsics, and the choice of them at run time")]

use std::arch::x86_64::*;

use super::fields::{ADDRESS_ORDER, First, HashedFields, Head, LENGTH_ORDER, PORT_ORDER};
use crate::decode::protocol::{TCP, UDP};
use crate::decode::tunnel::TUNNEL_PORTS;
use crate::hash::{HashKey, SipHashState};

/// Packets of a vector.
const FOUR: usize = 4;

/// Vectors at once.
const TWO: usize = 2;

type Vectors = [__m256i; TWO];

/// As [`super::Decoder::hash_plain`], of whole groups of up to 32 packets, on a machine that has AVX2: so
/// [`super::SimdLevel`] promises.
pub(super) fn hash(fields: HashedFields, key: &HashKey, heads: &[&Head], hash: &mut [u64]) -> u32 {
    // SAFETY: a `SimdLevel` of this level is made only where the instructions are.
    // Measured by `forebay-bench pipeline`, stage `classify`.
    unsafe { hash_groups(fields, key, heads, hash) }
}

#[target_feature(enable = "avx2")]
fn hash_groups(fields: HashedFields, key: &HashKey, heads: &[&Head], hash: &mut [u64]) -> u32 {
    let mut plain = 0;
    let (heads, _) = heads.as_chunks::<{ FOUR * TWO }>();
    let (hash, _) = hash.as_chunks_mut::<{ FOUR * TWO }>();
    for (group, (heads, hash)) in heads.iter().zip(hash).enumerate() {
        let (fours, _) = heads.as_chunks::<FOUR>();
        // Not by closures: those are not made part of functions with fewer features.
        let low = look(&fields, transposed(&fours[0]));
        let high = look(&fields, transposed(&fours[1]));
        let addresses = [low.addresses, high.addresses];
        let hashes = siphash13(key, addresses, [low.ends, high.ends]);
        let (places, _) = hash.as_chunks_mut::<FOUR>();
        for (place, hashes) in places.iter_mut().zip(hashes) {
            // SAFETY: four words. Measured by `forebay-bench pipeline`, stage `classify`.
            unsafe { _mm256_storeu_si256(place.as_mut_ptr().cast(), hashes) };
        }
        plain |= u32::from(low.plain | high.plain << FOUR) << (FOUR * TWO * group);
    }
    plain
}

/// Four vectors, of which each has one of the four words of four packets.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed(heads: &[&Head; FOUR]) -> [__m256i; 4] {
    let [a, b, c, d] = [load(heads[0]), load(heads[1]), load(heads[2]), load(heads[3])];
    let (low, low_rest) = (_mm256_unpacklo_epi64(a, b), _mm256_unpacklo_epi64(c, d));
    let (high, high_rest) = (_mm256_unpackhi_epi64(a, b), _mm256_unpackhi_epi64(c, d));
    [
        _mm256_permute2x128_si256::<0x20>(low, low_rest),
        _mm256_permute2x128_si256::<0x20>(high, high_rest),
        _mm256_permute2x128_si256::<0x31>(low, low_rest),
        _mm256_permute2x128_si256::<0x31>(high, high_rest),
    ]
}

/// The words of a packet.
#[inline]
#[target_feature(enable = "avx2")]
fn load(head: &Head) -> __m256i {
    // SAFETY: 32 bytes, at any address.
    // Measured by `forebay-bench pipeline`, stage `classify`.
    unsafe { _mm256_loadu_si256(head.as_ptr().cast()) }
}

/// What there is to hash of four packets.
#[derive(Clone, Copy)]
struct Found {
    addresses: __m256i,
    ends: __m256i,
    /// A bit a packet.
    plain: u8,
}

/// A value in each word.
#[inline]
#[target_feature(enable = "avx2")]
fn word(value: u64) -> __m256i {
    _mm256_set1_epi64x(value.cast_signed())
}

/// A shuffle that is the same in each 128 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn order([first, second]: [u64; 2]) -> __m256i {
    _mm256_broadcastsi128_si256(_mm_set_epi64x(second.cast_signed(), first.cast_signed()))
}

#[inline]
#[target_feature(enable = "avx2")]
fn or(a: __m256i, b: __m256i) -> __m256i {
    _mm256_or_si256(a, b)
}

#[inline]
#[target_feature(enable = "avx2")]
fn and(a: __m256i, b: __m256i) -> __m256i {
    _mm256_and_si256(a, b)
}

#[inline]
#[target_feature(enable = "avx2")]
fn equal(words: __m256i, value: u64) -> __m256i {
    _mm256_cmpeq_epi64(words, word(value))
}

/// Looks at the words of four packets: bytes 12 to 19, 20 to 27, 28 to 35 and 36 to 43.
#[inline]
#[target_feature(enable = "avx2")]
fn look(fields: &HashedFields, [first, second, third, fourth]: [__m256i; 4]) -> Found {
    // Two words of big-endian fields that the words' borders cut.
    let addresses = or(_mm256_srli_epi64::<48>(second), _mm256_slli_epi64::<16>(third));
    let ports = or(_mm256_srli_epi64::<48>(third), _mm256_slli_epi64::<16>(fourth));
    let addresses = _mm256_shuffle_epi8(addresses, order(ADDRESS_ORDER));
    let ports = _mm256_shuffle_epi8(ports, order(PORT_ORDER));
    let total_len = _mm256_shuffle_epi8(first, order(LENGTH_ORDER));
    let protocol = and(_mm256_srli_epi64::<24>(second), word(0xff));
    let to = _mm256_srli_epi64::<16>(ports);

    // EtherType, version and header length; not a fragment; 0 or long enough for ports.
    let head = equal(and(first, word(0x00ff_ffff)), 0x0045_0008);
    let unbroken = equal(and(second, word(0xff3f)), 0);
    let long = or(equal(total_len, 0), _mm256_cmpgt_epi64(total_len, word(23)));
    let mut tunnel = word(0);
    for port in TUNNEL_PORTS {
        tunnel = or(tunnel, equal(to, port.into()));
    }
    let udp = _mm256_andnot_si256(tunnel, equal(protocol, UDP.into()));
    let plain = and(and(head, and(unbroken, long)), or(udp, equal(protocol, TCP.into())));

    // Each end as address and port, in 48 bits, so that signs are of no concern.
    let source = or(
        _mm256_slli_epi64::<16>(and(addresses, word(u32::MAX.into()))),
        and(ports, word(0xffff)),
    );
    let destination = or(_mm256_slli_epi64::<16>(_mm256_srli_epi64::<32>(addresses)), to);
    let turned = match fields.first {
        First::Smaller => _mm256_cmpgt_epi64(source, destination),
        First::Source => word(0),
        First::Destination => word(u64::MAX),
    };
    let addresses =
        _mm256_blendv_epi8(addresses, _mm256_shuffle_epi32::<0b10_11_00_01>(addresses), turned);
    let swapped = or(_mm256_slli_epi32::<16>(ports), _mm256_srli_epi32::<16>(ports));
    let ports = _mm256_blendv_epi8(ports, swapped, turned);
    let ends = or(ports, _mm256_slli_epi64::<32>(protocol));
    Found {
        addresses: and(addresses, word(fields.addresses)),
        ends: or(and(ends, word(fields.ends)), word(fields.constant)),
        plain: _mm256_movemask_pd(_mm256_castsi256_pd(plain)) as u8,
    }
}

/// SipHash-1-3 of two words each.
#[inline]
#[target_feature(enable = "avx2")]
fn siphash13(key: &HashKey, first: Vectors, second: Vectors) -> Vectors {
    let SipHashState(start) = SipHashState::new(key);
    let mut v = [
        [word(start[0]); TWO],
        [word(start[1]); TWO],
        [word(start[2]); TWO],
        [word(start[3]); TWO],
    ];
    for message in [first, second, [word(16 << 56); TWO]] {
        for i in 0..TWO {
            v[3][i] = _mm256_xor_si256(v[3][i], message[i]);
        }
        round(&mut v);
        for i in 0..TWO {
            v[0][i] = _mm256_xor_si256(v[0][i], message[i]);
        }
    }
    for one in &mut v[2] {
        *one = _mm256_xor_si256(*one, word(0xff));
    }
    round(&mut v);
    round(&mut v);
    round(&mut v);
    let mut hashes = v[0];
    for i in 0..TWO {
        let rest = _mm256_xor_si256(v[2][i], v[3][i]);
        hashes[i] = _mm256_xor_si256(_mm256_xor_si256(hashes[i], v[1][i]), rest);
    }
    hashes
}

#[inline]
#[target_feature(enable = "avx2")]
fn rotated<const LEFT: i32, const RIGHT: i32>(word: __m256i) -> __m256i {
    _mm256_or_si256(_mm256_slli_epi64::<LEFT>(word), _mm256_srli_epi64::<RIGHT>(word))
}

#[inline]
#[target_feature(enable = "avx2")]
fn halves_swapped(word: __m256i) -> __m256i {
    _mm256_shuffle_epi32::<0b10_11_00_01>(word)
}

#[inline]
#[target_feature(enable = "avx2")]
fn round([v0, v1, v2, v3]: &mut [Vectors; 4]) {
    for i in 0..TWO {
        v0[i] = _mm256_add_epi64(v0[i], v1[i]);
        v2[i] = _mm256_add_epi64(v2[i], v3[i]);
        v1[i] = _mm256_xor_si256(rotated::<13, 51>(v1[i]), v0[i]);
        v3[i] = _mm256_xor_si256(rotated::<16, 48>(v3[i]), v2[i]);
        v0[i] = halves_swapped(v0[i]);
        v2[i] = _mm256_add_epi64(v2[i], v1[i]);
        v0[i] = _mm256_add_epi64(v0[i], v3[i]);
        v1[i] = _mm256_xor_si256(rotated::<17, 47>(v1[i]), v2[i]);
        v3[i] = _mm256_xor_si256(rotated::<21, 43>(v3[i]), v0[i]);
        v2[i] = halves_swapped(v2[i]);
    }
}
