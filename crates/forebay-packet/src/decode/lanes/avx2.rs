//! Eight packets at once, with AVX2: two vectors of four, as in the file beside this.
#![allow(unsafe_code, reason = "intrinsics, and the choice of them at run time")]

use std::arch::x86_64::*;

use super::{Form, Head};
use crate::decode::transport::{TCP, UDP};
use crate::decode::tunnel::TUNNEL_PORTS;
use crate::hash::{HashKey, State};

/// Packets of a vector.
const FOUR: usize = 4;

/// Vectors at once.
const TWO: usize = 2;

type Vectors = [__m256i; TWO];

/// As [`super::Decoder::hash_plain`], of whole groups of up to 64 packets, on a machine that has AVX2: so
/// [`super::Lanes`] promises.
pub(super) fn hash(form: Form, key: &HashKey, heads: &[&Head], hash: &mut [u64]) -> u64 {
    // SAFETY: `Lanes` of this level are made only where the instructions are.
    // Measured by `forebay-bench pipeline`, stage `classify`.
    unsafe { hash_groups(form, key, heads, hash) }
}

#[target_feature(enable = "avx2")]
fn hash_groups(form: Form, key: &HashKey, heads: &[&Head], hash: &mut [u64]) -> u64 {
    let mut plain = 0;
    let (heads, _) = heads.as_chunks::<{ FOUR * TWO }>();
    let (hash, _) = hash.as_chunks_mut::<{ FOUR * TWO }>();
    for (group, (heads, hash)) in heads.iter().zip(hash).enumerate() {
        let (fours, _) = heads.as_chunks::<FOUR>();
        let found: [Found; TWO] = std::array::from_fn(|i| look(&form, transposed(&fours[i])));
        let hashes = siphash13(key, found.map(|one| one.addresses), found.map(|one| one.ends));
        let (places, _) = hash.as_chunks_mut::<FOUR>();
        for (place, hashes) in places.iter_mut().zip(hashes) {
            // SAFETY: four words. Measured by `forebay-bench pipeline`, stage `classify`.
            unsafe { _mm256_storeu_si256(place.as_mut_ptr().cast(), hashes) };
        }
        plain |= u64::from(found[0].plain | found[1].plain << FOUR) << (FOUR * TWO * group);
    }
    plain
}

/// Four vectors, of which each has one of the four words of four packets.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed(heads: &[&Head; FOUR]) -> [__m256i; 4] {
    let [a, b, c, d] = heads.map(|head| {
        // SAFETY: 32 bytes, at any address.
        // Measured by `forebay-bench pipeline`, stage `classify`.
        unsafe { _mm256_loadu_si256(head.as_ptr().cast()) }
    });
    let (low, low_rest) = (_mm256_unpacklo_epi64(a, b), _mm256_unpacklo_epi64(c, d));
    let (high, high_rest) = (_mm256_unpackhi_epi64(a, b), _mm256_unpackhi_epi64(c, d));
    [
        _mm256_permute2x128_si256::<0x20>(low, low_rest),
        _mm256_permute2x128_si256::<0x20>(high, high_rest),
        _mm256_permute2x128_si256::<0x31>(low, low_rest),
        _mm256_permute2x128_si256::<0x31>(high, high_rest),
    ]
}

/// What there is to hash of four packets.
#[derive(Clone, Copy)]
struct Found {
    addresses: __m256i,
    ends: __m256i,
    /// A bit a packet.
    plain: u8,
}

/// A shuffle that is the same in each word.
#[inline]
#[target_feature(enable = "avx2")]
fn in_words(bytes: [i8; 8]) -> __m256i {
    let second = bytes.map(|byte| if byte < 0 { byte } else { byte + 8 });
    let (low, high) = (bytes.map(i8::cast_unsigned), second.map(i8::cast_unsigned));
    let (low, high) = (u64::from_le_bytes(low), u64::from_le_bytes(high));
    _mm256_broadcastsi128_si256(_mm_set_epi64x(high.cast_signed(), low.cast_signed()))
}

/// Looks at the words of four packets: bytes 12 to 19, 20 to 27, 28 to 35 and 36 to 43.
#[inline]
#[target_feature(enable = "avx2")]
fn look(form: &Form, [first, second, third, fourth]: [__m256i; 4]) -> Found {
    let word = |value: u64| _mm256_set1_epi64x(value.cast_signed());
    let (or, and) = (|a, b| _mm256_or_si256(a, b), |a, b| _mm256_and_si256(a, b));
    let equal = |a, b| _mm256_cmpeq_epi64(a, word(b));
    // Two words of big-endian fields that the words' borders cut.
    let addresses = or(_mm256_srli_epi64::<48>(second), _mm256_slli_epi64::<16>(third));
    let ports = or(_mm256_srli_epi64::<48>(third), _mm256_slli_epi64::<16>(fourth));
    let addresses = _mm256_shuffle_epi8(addresses, in_words([3, 2, 1, 0, 7, 6, 5, 4]));
    let ports = _mm256_shuffle_epi8(ports, in_words([1, 0, 3, 2, -1, -1, -1, -1]));
    let total_len = _mm256_shuffle_epi8(first, in_words([5, 4, -1, -1, -1, -1, -1, -1]));
    let protocol = and(_mm256_srli_epi64::<24>(second), word(0xff));
    let to = _mm256_srli_epi64::<16>(ports);

    // EtherType, version and header length; not a fragment; 0 or long enough for ports.
    let head = equal(and(first, word(0x00ff_ffff)), 0x0045_0008);
    let unbroken = equal(and(second, word(0xff3f)), 0);
    let long = or(equal(total_len, 0), _mm256_cmpgt_epi64(total_len, word(23)));
    let tunnels = TUNNEL_PORTS.map(|port| equal(to, port.into()));
    let tunnel = tunnels.into_iter().fold(word(0), or);
    let udp = _mm256_andnot_si256(tunnel, equal(protocol, UDP.into()));
    let plain = and(and(head, and(unbroken, long)), or(udp, equal(protocol, TCP.into())));

    // Each end as address and port, in 48 bits, so that signs are of no concern.
    let source = or(
        _mm256_slli_epi64::<16>(and(addresses, word(u32::MAX.into()))),
        and(ports, word(0xffff)),
    );
    let destination = or(_mm256_slli_epi64::<16>(_mm256_srli_epi64::<32>(addresses)), to);
    let turned = _mm256_cmpgt_epi64(source, destination);
    let turned = if form.ordered { turned } else { word(0) };
    let addresses =
        _mm256_blendv_epi8(addresses, _mm256_shuffle_epi32::<0b10_11_00_01>(addresses), turned);
    let swapped = or(_mm256_slli_epi32::<16>(ports), _mm256_srli_epi32::<16>(ports));
    let ports = _mm256_blendv_epi8(ports, swapped, turned);
    let ends = or(ports, _mm256_slli_epi64::<32>(protocol));
    Found {
        addresses: and(addresses, word(form.addresses)),
        ends: or(and(ends, word(form.ends)), word(form.constant)),
        plain: _mm256_movemask_pd(_mm256_castsi256_pd(plain)) as u8,
    }
}

/// SipHash-1-3 of two words each.
#[inline]
#[target_feature(enable = "avx2")]
fn siphash13(key: &HashKey, first: Vectors, second: Vectors) -> Vectors {
    let State(start) = State::new(key);
    let mut v = start.map(|word| [_mm256_set1_epi64x(word.cast_signed()); TWO]);
    let length = [_mm256_set1_epi64x(16 << 56); TWO];
    for word in [first, second, length] {
        for i in 0..TWO {
            v[3][i] = _mm256_xor_si256(v[3][i], word[i]);
        }
        round(&mut v);
        for i in 0..TWO {
            v[0][i] = _mm256_xor_si256(v[0][i], word[i]);
        }
    }
    for one in &mut v[2] {
        *one = _mm256_xor_si256(*one, _mm256_set1_epi64x(0xff));
    }
    round(&mut v);
    round(&mut v);
    round(&mut v);
    let xor = |a, b| _mm256_xor_si256(a, b);
    std::array::from_fn(|i| xor(xor(v[0][i], v[1][i]), xor(v[2][i], v[3][i])))
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
