//! Keys as the trees see them.

use crate::packed::{Key4, Key6};

/// Packets that go through the steps together.
pub(super) const BATCH: usize = 64;

/// A key as the trees see it.
pub(crate) trait TreeKey: Copy {
    /// The 64-bit words of both addresses.
    const ADDRESS_WORDS: usize;

    /// A 64-bit word of the key in memory order: addresses, then the rest.
    fn word(&self, at: usize) -> u64;

    /// The leading byte of each address.
    fn leading(&self) -> (u8, u8);

    /// Both addresses.
    fn addresses(&self) -> [u128; 2];

    /// Both ports, kind and flags.
    fn rest(&self) -> (u16, u16, u16, u16);
}

/// Two 32-bit words as they lie in memory on a little-endian machine.
fn pair(words: [u32; 2]) -> u64 {
    u64::from(words[0]) | u64::from(words[1]) << 32
}

fn join(first: u16, second: u16, kind: u16, flags: u16) -> u64 {
    u64::from(first) | u64::from(second) << 16 | u64::from(kind) << 32 | u64::from(flags) << 48
}

impl TreeKey for Key4 {
    const ADDRESS_WORDS: usize = 1;

    #[inline]
    fn word(&self, at: usize) -> u64 {
        match at {
            0 => pair([self.source, self.destination]),
            _ => join(self.first, self.second, self.kind, self.flags),
        }
    }

    #[inline]
    fn leading(&self) -> (u8, u8) {
        ((self.source >> 24) as u8, (self.destination >> 24) as u8)
    }

    #[inline]
    fn addresses(&self) -> [u128; 2] {
        [self.source.into(), self.destination.into()]
    }

    #[inline]
    fn rest(&self) -> (u16, u16, u16, u16) {
        (self.first, self.second, self.kind, self.flags)
    }
}

impl TreeKey for Key6 {
    const ADDRESS_WORDS: usize = 4;

    #[inline]
    fn word(&self, at: usize) -> u64 {
        let (source, destination) = (self.source, self.destination);
        match at {
            0 => pair([source[0], source[1]]),
            1 => pair([source[2], source[3]]),
            2 => pair([destination[0], destination[1]]),
            3 => pair([destination[2], destination[3]]),
            _ => join(self.first, self.second, self.kind, self.flags),
        }
    }

    #[inline]
    fn leading(&self) -> (u8, u8) {
        ((self.source[0] >> 24) as u8, (self.destination[0] >> 24) as u8)
    }

    #[inline]
    fn addresses(&self) -> [u128; 2] {
        [self.source, self.destination]
            .map(|words| words.into_iter().fold(0, |all, word| all << 32 | u128::from(word)))
    }

    #[inline]
    fn rest(&self) -> (u16, u16, u16, u16) {
        (self.first, self.second, self.kind, self.flags)
    }
}

/// Both ports as blocks compare them: each beside its complement.
#[inline]
pub(super) fn port_words(first: u16, second: u16) -> u64 {
    let spread = u64::from(first) | u64::from(second) << 32;
    (spread | spread << 16) ^ 0xffff_0000_ffff_0000
}
