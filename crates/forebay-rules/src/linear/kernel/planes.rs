//! Keys into bit planes, and bit planes of numbers into numbers.
//!
//! Plane `n` of a group of packets has bit `n` of the key of each. Which packet
//! has which bit of a plane is up to the vector code, as long as numbers come
//! back in the order in which keys went in. Keys are read in blocks of 16
//! bytes, of which each 32-bit field that some rule tests becomes 32 planes.
#![allow(unsafe_code, reason = "calls vector code for a level that was checked")]

use forebay_codegen::sliced::Width;
use forebay_jit::planes::Line;
use forebay_jit::{JitError, cpu};

use super::key_blocks::{Bit, Block, Key};
use super::{planes_avx2, planes_avx512};
use crate::engine::NO_RULE;

/// Vector code for a group of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slicer {
    width: Width,
}

impl Slicer {
    /// Code for groups of [`Width::packets`] packets.
    ///
    /// # Errors
    /// A level that this machine lacks.
    pub fn new(width: Width) -> Result<Self, JitError> {
        cpu::require(width.isa())?;
        Ok(Self { width })
    }

    /// Packets of a group.
    pub fn packets(self) -> usize {
        self.width.packets()
    }

    /// Fills the planes of a group from its keys.
    ///
    /// # Panics
    /// If the keys do not fill a group, or a plane is not within `planes`.
    #[inline]
    pub fn slice<K: Key>(self, keys: &[K], blocks: &[Block], planes: &mut [Line]) {
        assert_eq!(keys.len(), self.width.packets(), "a group of keys");
        let fields = blocks.iter().flat_map(|block| block.fields).flatten();
        let end = fields.fold(0, |end, first| end.max(first + 32)) * self.width.bytes();
        assert!(end <= size_of_val(planes), "planes of {end} bytes");
        for block in blocks {
            // SAFETY: `new` found the level here; a group of keys that hold the
            // block, by the contract of `Key`, and memory for its planes.
            unsafe {
                match self.width {
                    Width::Zmm | Width::Ymm => {
                        planes_avx512::slice(keys, block, planes, self.width.bytes() / 8);
                    }
                    Width::YmmAvx2 => planes_avx2::slice(keys, block, planes),
                }
            }
        }
    }

    /// The numbers whose bits, least significant first, are `bits` of the
    /// `results` of a group; [`NO_RULE`] in place of `default`.
    ///
    /// # Panics
    /// If there are more than 16 bits, results lack one of them, or the numbers
    /// do not fill a group.
    #[inline]
    pub fn unslice(self, results: &[Line], bits: &[Bit], default: u32, numbers: &mut [u32]) {
        assert_eq!(numbers.len(), self.width.packets(), "a group of numbers");
        let plane = |bit: &Bit| match *bit {
            Bit::Plane { plane, .. } => plane + 1,
            Bit::Constant(_) => 0,
        };
        let end = bits.iter().map(plane).max().unwrap_or(0) * self.width.bytes();
        assert!(bits.len() <= 16 && end <= size_of_val(results), "results of {end} bytes");
        if bits.is_empty() {
            numbers.fill(if default == 0 { NO_RULE } else { 0 });
            return;
        }
        // SAFETY: `new` found the level here; the planes are within the
        // results.
        unsafe {
            match self.width {
                Width::Zmm | Width::Ymm => {
                    planes_avx512::unslice(results, bits, default, numbers, self.width.bytes() / 8);
                }
                Width::YmmAvx2 => planes_avx2::unslice(results, bits, default, numbers),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::key_blocks::blocks;
    use super::*;
    use crate::packed::{Key4, Key6};

    fn bit(line: &[Line], width: Width, plane: usize, at: usize) -> bool {
        let word = plane * width.bytes() / 8 + at / 64;
        line[word / 8].0[word % 8] >> (at % 64) & 1 != 0
    }

    /// The planes of one key, whichever packets the bits belong to: their
    /// population must be that of the keys' bits.
    fn population(width: Width, planes: &[Line], plane: usize) -> usize {
        (0..width.packets()).filter(|&at| bit(planes, width, plane, at)).count()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn what_is_sliced_comes_back(
            words in prop::collection::vec(any::<[u32; 4]>(), 512),
            select in 0_usize..112,
            count in 1_usize..=16,
        ) {
            for width in Width::ALL {
                let Ok(slicer) = Slicer::new(width) else { continue };
                let keys: Vec<Key4> = words[..width.packets()].iter().map(|w| Key4 {
                    source: w[0], destination: w[1], first: w[2] as u16,
                    second: (w[2] >> 16) as u16, kind: w[3] as u16, flags: (w[3] >> 16) as u16,
                }).collect();
                let mut planes = vec![Line::default(); 128];
                slicer.slice(&keys, Key4::BLOCKS, &mut planes);
                for plane in 0..128 {
                    let expected = words[..width.packets()]
                        .iter().filter(|w| w[plane / 32] >> (plane % 32) & 1 != 0).count();
                    prop_assert_eq!(population(width, &planes, plane), expected);
                }
                let bits: Vec<Bit> = (0..count).map(|n| match n % 5 {
                    4 => Bit::Constant(n % 2 == 0),
                    _ => Bit::Plane { plane: select + n, inverted: n % 3 == 1 },
                }).collect();
                let expected: Vec<u32> = words[..width.packets()].iter().map(|w| {
                    let of = |bit: &Bit| match *bit {
                        Bit::Constant(set) => set,
                        Bit::Plane { plane, inverted } => {
                            (w[plane / 32] >> (plane % 32) & 1 != 0) != inverted
                        }
                    };
                    (0..).zip(&bits).map(|(n, bit)| u32::from(of(bit)) << n).sum()
                }).collect();
                let default = expected[7];
                let mut numbers = vec![0; width.packets()];
                slicer.unslice(&planes, &bits, default, &mut numbers);
                let expected: Vec<u32> = expected.into_iter()
                    .map(|number| if number == default { NO_RULE } else { number }).collect();
                prop_assert_eq!(numbers, expected, "{:?}", width);
            }
        }
    }

    #[test]
    fn the_fields_of_an_ipv6_key_are_found_behind_its_addresses() {
        for width in Width::ALL {
            let Ok(slicer) = Slicer::new(width) else { continue };
            let key = Key6 {
                source: [1, 2, 4, 8],
                destination: [16, 32, 64, 128],
                first: 0x100,
                second: 0x200,
                kind: 0x400,
                flags: 0x80,
            };
            let keys = vec![key; width.packets()];
            let mut planes = vec![Line::default(); 320];
            slicer.slice(&keys, Key6::BLOCKS, &mut planes);
            let set: Vec<usize> =
                (0..320).filter(|&plane| population(width, &planes, plane) > 0).collect();
            assert_eq!(set, [0, 33, 66, 99, 132, 165, 198, 231, 264, 281, 298, 311], "{width:?}");
        }
    }

    #[test]
    fn fields_that_are_not_asked_for_are_left_out() {
        let kept = blocks::<Key6>(|plane| plane == 130 || plane == 300);
        let fields: Vec<_> = kept.iter().map(|block| (block.offset, block.fields)).collect();
        let expected = [(16, [Some(128), None, None, None]), (24, [None, None, None, Some(288)])];
        assert_eq!(fields, expected);
    }
}
