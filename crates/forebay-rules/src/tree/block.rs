//! Blocks of eight atoms, which a packet is held against at once.

use super::labels::NO_LABEL;
use crate::atom::{Atom, Prefix, Ternary};
use crate::packed::words;
use crate::rule::Family;

/// An atom of the list, with what building reads.
pub(crate) struct Entry {
    /// The place of its rule; the least matching label decides.
    pub label: u32,
    /// The atom.
    pub atom: Atom,
    /// The number of its test.
    pub test: u8,
    /// Its words.
    pub words: Vec<Ternary>,
}

/// Atoms of a block.
pub(crate) const LANES: usize = 8;

/// Eight atoms; `Q` is the 64-bit words that both addresses take, 1 or 4.
///
/// An atom matches if every pair of address words, put next to those of the
/// packet, differs only in bits that `shifts` shift out, if the packet's ports
/// are in its ranges, and if the packet does not fail its test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C, align(64))]
pub(crate) struct Block<const Q: usize> {
    /// By 64-bit word of the key, then by lane: its two 32-bit words.
    pub addresses: [[[u32; 2]; LANES]; Q],
    /// By lane: first port's least number and the complement of its greatest,
    /// then those of the second.
    pub ports: [[u16; 4]; LANES],
    /// As `addresses`: the low bits of each that do not count, 0 to 32.
    pub shifts: [[[u8; 2]; LANES]; Q],
    /// By lane: the number of the test.
    pub tests: [u8; LANES],
    /// The block in which the list goes on, or 0.
    pub next: u32,
    /// By lane: the label, ascending; behind them [`NO_LABEL`], for a packet that matches no lane.
    pub labels: [u32; LANES + 1],
}

impl<const Q: usize> Block<Q> {
    /// A block that nothing matches. No port is both at least and at most
    /// 65535 less than itself.
    pub const EMPTY: Self = Self {
        addresses: [[[0; 2]; LANES]; Q],
        ports: [[u16::MAX; 4]; LANES],
        shifts: [[[32; 2]; LANES]; Q],
        tests: [0; LANES],
        next: 0,
        labels: [NO_LABEL; LANES + 1],
    };

    /// A block of up to eight entries, in the order of their labels.
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut block = Self::EMPTY;
        for (lane, entry) in entries.into_iter().take(LANES).enumerate() {
            let atom = &entry.atom;
            let family = if Q == 1 { Family::Ipv4 } else { Family::Ipv6 };
            let source = halves(family, atom.source);
            let destination = halves(family, atom.destination);
            // The words of the key in their order, two to a 64-bit word.
            let all: Vec<_> = source.into_iter().chain(destination).collect();
            for (word, pair) in all.chunks_exact(2).take(Q).enumerate() {
                for (side, &(address, shift)) in pair.iter().enumerate() {
                    block.addresses[word][lane][side] = address;
                    block.shifts[word][lane][side] = shift;
                }
            }
            let (first, second) = (atom.first, atom.second);
            block.ports[lane] = [first.0, !first.1, second.0, !second.1];
            block.tests[lane] = entry.test;
            block.labels[lane] = entry.label;
        }
        block
    }
}

/// The 32-bit words of a prefix, each with how many of its low bits do not count.
fn halves(family: Family, prefix: Prefix) -> Vec<(u32, u8)> {
    match family {
        Family::Ipv4 => vec![(prefix.address as u32, 32 - prefix.length)],
        Family::Ipv6 => {
            let free = |at: usize| (32 * (at as i32 + 1) - i32::from(prefix.length)).clamp(0, 32);
            let parts = words(prefix.address).into_iter().enumerate();
            parts.map(|(at, word)| (word, free(at) as u8)).collect()
        }
    }
}
