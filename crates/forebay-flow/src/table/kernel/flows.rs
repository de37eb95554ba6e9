//! Hashes and digests of whole flow keys.

use forebay_packet::FlowKey;

use crate::hash::Secret;
use crate::key::ShortKey;
use crate::level::Level;

/// The hash of a key.
pub(crate) fn hash_flow(secret: &Secret, key: &FlowKey) -> u64 {
    match secret.level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => {
            // SAFETY: a secret has no level that this machine has not.
            unsafe { aes::hash(secret, key) }
        }
        _ => key.hash(&secret.key),
    }
}

/// Replaces `hashes` by the hash of each key.
pub(crate) fn hash_flows<'a>(
    secret: &Secret,
    keys: impl Iterator<Item = &'a FlowKey>,
    hashes: &mut Vec<u64>,
) {
    hashes.clear();
    match secret.level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => {
            // SAFETY: a secret has no level that this machine has not.
            unsafe { aes::hash_all(secret, keys, hashes) }
        }
        _ => hashes.extend(keys.map(|key| key.hash(&secret.key))),
    }
}

/// Writes for each key the short one, or a digest. Returns a bit for each digest. There are as
/// many entries as keys, at most 64.
pub(crate) fn digest_flows(secret: &Secret, keys: &[FlowKey], entries: &mut [ShortKey]) -> u64 {
    match secret.level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => {
            // SAFETY: a secret has no level that this machine has not.
            unsafe { aes::digest_all(secret, keys, entries) }
        }
        _ => digest_with(keys, entries, |key| key.hash(&secret.key).into()),
    }
}

#[inline(always)]
fn digest_with(keys: &[FlowKey], entries: &mut [ShortKey], hash: impl Fn(&FlowKey) -> u128) -> u64 {
    let mut digests = 0;
    for (i, (key, entry)) in keys.iter().zip(entries).enumerate() {
        let short = ShortKey::new(key);
        digests |= u64::from(short.is_none()) << i;
        *entry = short.unwrap_or_else(|| ShortKey::digest(hash(key)));
    }
    digests
}

#[cfg(target_arch = "x86_64")]
mod aes {
    use std::arch::x86_64::*;

    use super::{FlowKey, Secret, ShortKey};

    #[target_feature(enable = "aes")]
    pub(super) fn hash_all<'a>(
        secret: &Secret,
        keys: impl Iterator<Item = &'a FlowKey>,
        hashes: &mut Vec<u64>,
    ) {
        hashes.extend(keys.map(|key| hash(secret, key)));
    }

    #[target_feature(enable = "aes")]
    pub(super) fn digest_all(secret: &Secret, keys: &[FlowKey], entries: &mut [ShortKey]) -> u64 {
        super::digest_with(keys, entries, |key| {
            let state = long(secret, key);
            let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(state, state)) as u64;
            u128::from(_mm_cvtsi128_si64(state) as u64) | u128::from(high) << 64
        })
    }

    /// A chain of blocks, each under four rounds: one of a short key, three of any other. The
    /// three begin with another first round key.
    #[inline]
    #[target_feature(enable = "aes")]
    pub(super) fn hash(secret: &Secret, key: &FlowKey) -> u64 {
        let state = match ShortKey::new(key) {
            Some(ShortKey(bits)) => {
                rounds(secret, _mm_xor_si128(block(secret.round_keys[0]), block(bits)))
            }
            None => long(secret, key),
        };
        _mm_cvtsi128_si64(state) as u64
    }

    #[inline]
    #[target_feature(enable = "aes")]
    fn long(secret: &Secret, key: &FlowKey) -> __m128i {
        let first = _mm_xor_si128(block(secret.first_of_many), block(key.low));
        let state = _mm_xor_si128(rounds(secret, first), block(key.high));
        let ports = u128::from(key.port_low) | u128::from(key.port_high) << 16;
        let kind = u128::from(key.kind as u8) << 40 | u128::from(key.has_ports) << 48;
        let others = ports | u128::from(key.protocol) << 32 | kind;
        let last = block(others << 64 | u128::from(key.scope));
        rounds(secret, _mm_xor_si128(rounds(secret, state), last))
    }

    #[inline]
    #[target_feature(enable = "aes")]
    fn rounds(secret: &Secret, state: __m128i) -> __m128i {
        let [_, rest @ ..] = &secret.round_keys;
        rest.iter().fold(state, |state, key| _mm_aesenc_si128(state, block(*key)))
    }

    #[inline]
    #[target_feature(enable = "aes")]
    fn block(bits: u128) -> __m128i {
        _mm_set_epi64x((bits >> 64) as i64, bits as i64)
    }
}
