//! Hashes of whole flow keys.

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
pub(crate) fn hash_flows(secret: &Secret, keys: &[FlowKey], hashes: &mut Vec<u64>) {
    hashes.clear();
    match secret.level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => {
            // SAFETY: a secret has no level that this machine has not.
            unsafe { aes::hash_all(secret, keys, hashes) }
        }
        _ => hashes.extend(keys.iter().map(|key| key.hash(&secret.key))),
    }
}

#[cfg(target_arch = "x86_64")]
mod aes {
    use std::arch::x86_64::*;

    use super::{FlowKey, Secret, ShortKey};

    #[target_feature(enable = "aes")]
    pub(super) fn hash_all(secret: &Secret, keys: &[FlowKey], hashes: &mut Vec<u64>) {
        hashes.extend(keys.iter().map(|key| hash(secret, key)));
    }

    /// A chain of blocks, each under four rounds: one of a short key, three of any other. The
    /// three begin with another first round key.
    #[inline]
    #[target_feature(enable = "aes")]
    pub(super) fn hash(secret: &Secret, key: &FlowKey) -> u64 {
        let [first, rest @ ..] = &secret.round_keys;
        let (first, rest) = (block(*first), rest.map(|key| block(key)));
        let rounds =
            |state| rest.into_iter().fold(state, |state, key| _mm_aesenc_si128(state, key));
        let state = match ShortKey::new(key) {
            Some(ShortKey(bits)) => _mm_xor_si128(first, block(bits)),
            None => {
                let state = rounds(_mm_xor_si128(block(secret.first_of_many), block(key.low)));
                let state = rounds(_mm_xor_si128(state, block(key.high)));
                let ports = u128::from(key.port_low) | u128::from(key.port_high) << 16;
                let kind = u128::from(key.kind as u8) << 40 | u128::from(key.has_ports) << 48;
                let others = ports | u128::from(key.protocol) << 32 | kind;
                _mm_xor_si128(state, block(others << 64 | u128::from(key.scope)))
            }
        };
        _mm_cvtsi128_si64(rounds(state)) as u64
    }

    #[inline]
    #[target_feature(enable = "aes")]
    fn block(bits: u128) -> __m128i {
        _mm_set_epi64x((bits >> 64) as i64, bits as i64)
    }
}
