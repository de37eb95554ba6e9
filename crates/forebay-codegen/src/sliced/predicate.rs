//! Predicates on numbers whose bits are signals.
//!
//! Bits come most significant first. A prefix test is a chain from the first
//! bit on, two bits a node; as equal nodes are shared, the chains of all
//! prefixes in a network are a trie. Comparison with a constant starts at the
//! last bit: where the constant has a 1, a number is at least as great if it
//! has a 1 too and its remaining bits are at least as great; where the constant
//! has a 0, if it has a 1 or its remaining bits are at least as great.

use super::network::{Network, Signal};

impl Network {
    /// Whether the number is within `first..=last`.
    ///
    /// # Panics
    /// If there are more than 128 bits.
    pub fn within(&mut self, bits: &[Signal], (first, last): (u128, u128)) -> Signal {
        assert!(bits.len() <= 128, "a number of at most 128 bits");
        let greatest = u128::MAX.checked_shr(128 - bits.len() as u32).unwrap_or(0);
        let last = last.min(greatest);
        if first > last {
            return Signal::FALSE;
        }
        let differing = 128 - (first ^ last).leading_zeros() as usize;
        let (common, rest) = bits.split_at(bits.len() - differing);
        let begins = self.begins(common, first.checked_shr(differing as u32).unwrap_or(0));
        // The first remaining bit is 0 in `first` and 1 in `last`.
        let between = match rest.split_first() {
            None => return begins,
            Some(_) if all_ones(last, rest.len()) => self.at_least(rest, first),
            Some(_) if first.trailing_zeros() as usize >= rest.len() => {
                !self.at_least(rest, last + 1)
            }
            Some((&bit, rest)) => {
                let above = self.at_least(rest, first);
                let below = if all_ones(last, rest.len()) {
                    Signal::TRUE
                } else {
                    !self.at_least(rest, last + 1)
                };
                self.choose(bit, below, above)
            }
        };
        self.and(begins, between)
    }

    /// Whether the number equals `value`, of as many bits.
    pub fn begins(&mut self, bits: &[Signal], value: u128) -> Signal {
        let mut all = Signal::TRUE;
        for (at, pair) in (0..).step_by(2).zip(bits.chunks(2)) {
            let as_in_value = |at: usize, bit: Signal| {
                let place = bits.len() - 1 - at;
                if value >> place & 1 != 0 { bit } else { !bit }
            };
            let one = as_in_value(at, pair[0]);
            let other = pair.get(1).map_or(Signal::TRUE, |&bit| as_in_value(at + 1, bit));
            all = self.all_of_three(all, one, other);
        }
        all
    }

    /// Whether the number is at least the last bits of `least`.
    pub fn at_least(&mut self, bits: &[Signal], least: u128) -> Signal {
        let mut result = Signal::TRUE;
        for (place, pair) in (0..).step_by(2).zip(bits.rchunks(2)) {
            let (upper, lower) = match *pair {
                [upper, lower] => (Some(upper), lower),
                _ => (None, pair[0]),
            };
            let step = |bit: bool, wanted: bool, rest: bool| {
                if wanted { bit && rest } else { bit || rest }
            };
            let mut table = 0;
            for row in 0..8_u8 {
                let mut value = step(row & 2 != 0, least >> place & 1 != 0, row & 1 != 0);
                if upper.is_some() {
                    value = step(row & 4 != 0, least >> (place + 1) & 1 != 0, value);
                }
                table |= u8::from(value) << row;
            }
            result = self.node([upper.unwrap_or(Signal::FALSE), lower, result], table);
        }
        result
    }
}

/// Whether the last `bits` bits of `number` are all set.
fn all_ones(number: u128, bits: usize) -> bool {
    number.trailing_ones() as usize >= bits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::network::Arity;
    use super::*;

    /// A network over numbers of `bits` bits, its bits, most significant first.
    fn network(bits: u32, arity: Arity) -> (Network, Vec<Signal>) {
        let network = Network::new(bits, arity);
        let signals = (0..bits).rev().map(|bit| network.input(bit)).collect();
        (network, signals)
    }

    /// The inputs of the 64 numbers from `from` on.
    fn inputs(bits: u32, from: u128) -> Vec<u64> {
        let number = |packet: u32| from.wrapping_add(packet.into());
        let word = |bit| (0..64).fold(0, |word, p| word | ((number(p) >> bit & 1) as u64) << p);
        (0..bits).map(word).collect()
    }

    proptest! {
        #[test]
        fn ranges_are_exact_at_their_ends(
            bits in prop::sample::select(vec![1_u32, 2, 7, 8, 16, 32, 127, 128]),
            ends: (u128, u128),
            near: bool,
            two: bool,
        ) {
            let greatest = u128::MAX >> (128 - bits);
            let first = ends.0 & greatest;
            let last = if near { first.saturating_add(ends.1 % 70).min(greatest) } else { ends.1 & greatest };
            let arity = if two { Arity::Two } else { Arity::Three };
            let (mut network, signals) = network(bits, arity);
            let within = network.within(&signals, (first, last));
            for start in [first, last, 0, greatest].map(|end| end.wrapping_sub(30) & greatest) {
                let word = network.evaluate(&inputs(bits, start), &[within])[0];
                for packet in 0..64 {
                    let number = start.wrapping_add(packet) & greatest;
                    prop_assert_eq!(word >> packet & 1 != 0, (first..=last).contains(&number));
                }
            }
        }
    }

    #[test]
    fn prefixes_share_how_they_begin() {
        let (mut network, bits) = network(32, Arity::Three);
        network.within(&bits, (0xc0a8_0105, 0xc0a8_0105));
        assert_eq!(network.nodes().len(), 16);
        network.within(&bits, (0xc0a8_01fe, 0xc0a8_01fe));
        assert_eq!(network.nodes().len(), 20, "a host of the same /24 tests its last byte");
        network.within(&bits, (0xc0a8_0100, 0xc0a8_01ff));
        assert_eq!(network.nodes().len(), 20, "the /24 is there");
    }

    #[test]
    fn ports_above_1023_take_three_nodes() {
        let (mut network, bits) = network(16, Arity::Three);
        network.within(&bits, (1024, 65535));
        assert_eq!(network.nodes().len(), 3);
        assert_eq!(network.within(&bits, (0, 65535)), Signal::TRUE);
        assert_eq!(network.within(&bits, (9, 8)), Signal::FALSE);
        assert_eq!(network.within(&bits, (70_000, 80_000)), Signal::FALSE);
    }
}
