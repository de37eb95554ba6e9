//! A bitmap of the packets of a batch.

use std::ops::Range;

use forebay_packet::BATCH;

/// A set of packets of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks([u64; BATCH / 64]);

impl Marks {
    /// The packets that groups of `lanes` packets marked. Groups are
    /// consecutive, except that the last ends with the batch and so may overlap
    /// the one before it. The group that starts at packet `s` has written its
    /// bits to `bytes` from `s` on, after all groups before it. If the last
    /// group overwrote marks of the one before, it contains those packets
    /// itself.
    pub(crate) fn of_groups(bytes: &[u8], count: usize, lanes: usize) -> Self {
        let mut marks = Self::default();
        let last = count - lanes;
        if !any_marked(bytes, last, lanes) {
            return marks;
        }
        let mut start = 0;
        loop {
            // Bits of the packets that are not in the next group.
            let own = if start < last { lanes.min(last - start) } else { lanes };
            for first in (0..own).step_by(8) {
                let byte = bytes[start + first / 8];
                let mask = u8::MAX >> (8 - (own - first).min(8));
                marks.insert_byte(start + first, byte & mask);
            }
            if start >= last {
                return marks;
            }
            start = (start + lanes).min(last);
        }
    }

    /// Marks packet `at + j` for each bit `j` of `bits`.
    fn insert_byte(&mut self, at: usize, bits: u8) {
        let (word, shift) = (at / 64, at % 64);
        self.0[word] |= u64::from(bits) << shift;
        let past = u64::from(bits).checked_shr(64 - shift as u32).unwrap_or(0);
        if past != 0 {
            self.0[word + 1] |= past;
        }
    }

    /// Marks packet `i`.
    pub(crate) fn insert(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }

    /// Adds the marks of `other`.
    pub(crate) fn insert_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
    }

    /// Removes the marks of `other`.
    pub(crate) fn remove_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= !other);
    }

    /// Number of marked packets.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Ranges of marked packets, ascending.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let marks = *self;
        let mut from = 0;
        std::iter::from_fn(move || {
            let start = marks.next(from, true)?;
            let end = marks.next(start, false).unwrap_or(BATCH);
            from = end;
            Some(start..end)
        })
    }

    /// The first packet from `from` on that is marked, or that is not.
    fn next(&self, from: usize, marked: bool) -> Option<usize> {
        let mut at = from;
        while at < BATCH {
            let word = if marked { self.0[at / 64] } else { !self.0[at / 64] };
            let rest = word >> (at % 64);
            if rest != 0 {
                return Some(at + rest.trailing_zeros() as usize);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }
}

/// Whether one of the groups marked a packet. Reads each group's marks with the
/// width of its store: a load that spans several stores waits until they have
/// left the store buffer.
fn any_marked(bytes: &[u8], last: usize, lanes: usize) -> bool {
    let starts = (0..last).step_by(lanes).chain([last]);
    let any = match lanes {
        32 => starts.fold(0, |any, at| any | word::<4>(bytes, at)),
        16 => starts.fold(0, |any, at| any | word::<2>(bytes, at)),
        8 => starts.fold(0, |any, at| any | word::<1>(bytes, at)),
        _ => u64::from(bytes.iter().fold(0, |any, byte| any | byte)),
    };
    any != 0
}

/// `N` bytes from `at` as a number.
fn word<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + N].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(packets: &[usize]) -> Marks {
        let mut marks = Marks::default();
        packets.iter().for_each(|&i| marks.insert(i));
        marks
    }

    /// The bytes that groups of `lanes` write, for the packets of `marks`.
    fn written(marks: &Marks, count: usize, lanes: usize) -> Vec<u8> {
        let mut bytes = vec![0; BATCH];
        let mut start = 0;
        loop {
            let group: Vec<bool> =
                (start..start + lanes).map(|i| marks.0[i / 64] >> (i % 64) & 1 == 1).collect();
            for (n, byte) in group.chunks(8).enumerate() {
                bytes[start + n] =
                    byte.iter().enumerate().map(|(j, &marked)| u8::from(marked) << j).sum();
            }
            if start + lanes >= count {
                return bytes;
            }
            start = (start + lanes).min(count - lanes);
        }
    }

    #[test]
    fn groups_say_what_they_left() {
        for lanes in [1, 2, 4, 8, 16, 32, 64] {
            for count in lanes..=BATCH {
                for step in [1, 3, 7, 31] {
                    let marked: Vec<usize> = (0..count).rev().step_by(step).collect();
                    let marks = of(&marked);
                    let bytes = written(&marks, count, lanes);
                    assert_eq!(
                        Marks::of_groups(&bytes, count, lanes),
                        marks,
                        "{lanes} {count} {step}"
                    );
                }
            }
        }
    }

    #[test]
    fn runs_are_maximal() {
        let runs = |marks: Marks| marks.runs().collect::<Vec<_>>();
        assert_eq!(runs(of(&[])), []);
        assert_eq!(runs(of(&[0, 1, 63, 64, 65, 200])), [0..2, 63..66, 200..201]);
        assert_eq!(runs(of(&(0..BATCH).collect::<Vec<_>>())), vec![0..BATCH; 1]);
        assert_eq!(runs(of(&[255])), vec![255..256; 1]);
        let mut marks = of(&[3, 4, 5]);
        marks.remove_all(&of(&[4]));
        marks.insert_all(&of(&[100]));
        assert_eq!((runs(marks), marks.count()), (vec![3..4, 5..6, 100..101], 3));
    }
}
