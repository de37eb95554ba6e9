//! Sixteen packets at once, with AVX-512 F and BW: two vectors of eight, so that each
//! fills the time in which the other waits for its results.
#![allow(unsafe_code, reason = "intrinsics, and the choice of them at run time")]

use std::arch::x86_64::*;

use super::fields::{ADDRESS_ORDER, First, HashedFields, Head, LENGTH_ORDER, PORT_ORDER};
use crate::decode::protocol::{TCP, UDP};
use crate::decode::tunnel::TUNNEL_PORTS;
use crate::hash::{HashKey, SipHashState};

/// Packets of a vector.
const EIGHT: usize = 8;

/// Vectors at once.
const TWO: usize = 2;

type Vectors = [__m512i; TWO];

/// As [`super::Decoder::hash_plain`], of whole groups of up to 32 packets, on a machine that has AVX-512 F and
/// BW: so [`super::SimdLevel`] promises.
pub(super) fn hash(fields: HashedFields, key: &HashKey, heads: &[&Head], hash: &mut [u64]) -> u32 {
    // SAFETY: a `SimdLevel` of this level is made only where the instructions are.
    // Measured by `forebay-bench pipeline`, stage `classify`.
    unsafe { hash_groups(fields, key, heads, hash) }
}

#[target_feature(enable = "avx512f,avx512bw")]
fn hash_groups(fields: HashedFields, key: &HashKey, heads: &[&Head], hash: &mut [u64]) -> u32 {
    let mut plain = 0;
    let (heads, _) = heads.as_chunks::<{ EIGHT * TWO }>();
    let (hash, _) = hash.as_chunks_mut::<{ EIGHT * TWO }>();
    for (group, (heads, hash)) in heads.iter().zip(hash).enumerate() {
        let (eights, _) = heads.as_chunks::<EIGHT>();
        // Not by closures: those are not made part of functions with fewer features.
        let low = look(&fields, transposed(&eights[0]));
        let high = look(&fields, transposed(&eights[1]));
        let addresses = [low.addresses, high.addresses];
        let hashes = siphash13(key, addresses, [low.ends, high.ends]);
        let (places, _) = hash.as_chunks_mut::<EIGHT>();
        for (place, hashes) in places.iter_mut().zip(hashes) {
            // SAFETY: eight words. Measured by `forebay-bench pipeline`, stage `classify`.
            unsafe { _mm512_storeu_si512(place.as_mut_ptr().cast(), hashes) };
        }
        let found = u32::from(low.plain) | u32::from(high.plain) << EIGHT;
        plain |= found << (EIGHT * TWO * group);
    }
    plain
}

/// Four vectors, of which each has one of the four words of eight packets.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn transposed(heads: &[&Head; EIGHT]) -> [__m512i; 4] {
    let a = pair(heads[0], heads[2]);
    let b = pair(heads[1], heads[3]);
    let c = pair(heads[4], heads[6]);
    let d = pair(heads[5], heads[7]);
    let (low, low_rest) = (_mm512_unpacklo_epi64(a, b), _mm512_unpacklo_epi64(c, d));
    let (high, high_rest) = (_mm512_unpackhi_epi64(a, b), _mm512_unpackhi_epi64(c, d));
    // Of the four quarters of each: the first and third, the second and fourth.
    [
        _mm512_shuffle_i64x2::<0x88>(low, low_rest),
        _mm512_shuffle_i64x2::<0x88>(high, high_rest),
        _mm512_shuffle_i64x2::<0xdd>(low, low_rest),
        _mm512_shuffle_i64x2::<0xdd>(high, high_rest),
    ]
}

/// The words of a packet.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load(head: &Head) -> __m256i {
    // SAFETY: 32 bytes, at any address.
    // Measured by `forebay-bench pipeline`, stage `classify`.
    unsafe { _mm256_loadu_si256(head.as_ptr().cast()) }
}

/// The words of two packets.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn pair(first: &Head, second: &Head) -> __m512i {
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(load(first)), load(second))
}

/// What there is to hash of eight packets.
#[derive(Clone, Copy)]
struct Found {
    addresses: __m512i,
    ends: __m512i,
    /// A bit a packet.
    plain: u8,
}

/// A value in each word.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn word(value: u64) -> __m512i {
    _mm512_set1_epi64(value.cast_signed())
}

/// A shuffle that is the same in each 128 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn order([first, second]: [u64; 2]) -> __m512i {
    _mm512_broadcast_i32x4(_mm_set_epi64x(second.cast_signed(), first.cast_signed()))
}

/// Looks at the words of eight packets: bytes 12 to 19, 20 to 27, 28 to 35 and 36 to 43.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn look(fields: &HashedFields, [first, second, third, fourth]: [__m512i; 4]) -> Found {
    // Two words of big-endian fields that the words' borders cut.
    let addresses =
        _mm512_or_si512(_mm512_srli_epi64::<48>(second), _mm512_slli_epi64::<16>(third));
    let ports = _mm512_or_si512(_mm512_srli_epi64::<48>(third), _mm512_slli_epi64::<16>(fourth));
    let addresses = _mm512_shuffle_epi8(addresses, order(ADDRESS_ORDER));
    let ports = _mm512_shuffle_epi8(ports, order(PORT_ORDER));
    let total_len = _mm512_shuffle_epi8(first, order(LENGTH_ORDER));
    let protocol = _mm512_and_si512(_mm512_srli_epi64::<24>(second), word(0xff));
    let to = _mm512_srli_epi64::<16>(ports);

    // EtherType, version and header length; not a fragment; 0 or long enough for ports.
    let head = _mm512_and_si512(first, word(0x00ff_ffff));
    let whole = _mm512_cmpeq_epi64_mask(head, word(0x0045_0008))
        & _mm512_testn_epi64_mask(second, word(0xff3f))
        & _mm512_cmpge_epu64_mask(_mm512_sub_epi64(total_len, word(1)), word(23));
    let tcp = _mm512_cmpeq_epi64_mask(protocol, word(TCP.into()));
    let udp = _mm512_cmpeq_epi64_mask(protocol, word(UDP.into()));
    let mut tunnel = 0;
    for port in TUNNEL_PORTS {
        tunnel |= _mm512_cmpeq_epi64_mask(to, word(port.into()));
    }
    let plain = whole & (tcp | udp & !tunnel);

    // Each end as address and port, of which the source's may be the larger.
    let low_half = word(u32::MAX.into());
    let source = _mm512_or_si512(
        _mm512_slli_epi64::<16>(_mm512_and_si512(addresses, low_half)),
        _mm512_and_si512(ports, word(0xffff)),
    );
    let destination =
        _mm512_or_si512(_mm512_slli_epi64::<16>(_mm512_srli_epi64::<32>(addresses)), to);
    let turned = match fields.first {
        First::Smaller => _mm512_cmpgt_epu64_mask(source, destination),
        First::Source => 0,
        First::Destination => u8::MAX,
    };
    let addresses = _mm512_mask_rol_epi64::<32>(addresses, turned, addresses);
    let ports = _mm512_mask_mov_epi64(ports, turned, _mm512_rol_epi32::<16>(ports));
    let ends = _mm512_or_si512(ports, _mm512_slli_epi64::<32>(protocol));
    Found {
        addresses: _mm512_and_si512(addresses, word(fields.addresses)),
        ends: _mm512_or_si512(_mm512_and_si512(ends, word(fields.ends)), word(fields.constant)),
        plain,
    }
}

/// SipHash-1-3 of two words each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
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
            v[3][i] = _mm512_xor_si512(v[3][i], message[i]);
        }
        round(&mut v);
        for i in 0..TWO {
            v[0][i] = _mm512_xor_si512(v[0][i], message[i]);
        }
    }
    for one in &mut v[2] {
        *one = _mm512_xor_si512(*one, word(0xff));
    }
    round(&mut v);
    round(&mut v);
    round(&mut v);
    let mut hashes = v[0];
    for i in 0..TWO {
        let rest = _mm512_xor_si512(v[2][i], v[3][i]);
        hashes[i] = _mm512_xor_si512(_mm512_xor_si512(hashes[i], v[1][i]), rest);
    }
    hashes
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn round([v0, v1, v2, v3]: &mut [Vectors; 4]) {
    for i in 0..TWO {
        v0[i] = _mm512_add_epi64(v0[i], v1[i]);
        v2[i] = _mm512_add_epi64(v2[i], v3[i]);
        v1[i] = _mm512_xor_si512(_mm512_rol_epi64::<13>(v1[i]), v0[i]);
        v3[i] = _mm512_xor_si512(_mm512_rol_epi64::<16>(v3[i]), v2[i]);
        v0[i] = _mm512_rol_epi64::<32>(v0[i]);
        v2[i] = _mm512_add_epi64(v2[i], v1[i]);
        v0[i] = _mm512_add_epi64(v0[i], v3[i]);
        v1[i] = _mm512_xor_si512(_mm512_rol_epi64::<17>(v1[i]), v2[i]);
        v3[i] = _mm512_xor_si512(_mm512_rol_epi64::<21>(v3[i]), v0[i]);
        v2[i] = _mm512_rol_epi64::<32>(v2[i]);
    }
}
