//! Rows of rules against packets: the algorithm, over vectors of any width.
#![allow(unsafe_code, reason = "vector code, for a level that the caller has checked")]

use crate::atom::Tests;
use crate::engine::NO_RULE;
use crate::linear::table::{Block, Column, Fields, Key, ROWS, Rows};

/// What lies in the lanes of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneContent {
    /// Packets, against one rule after another: `pe-generic`.
    Packets,
    /// Rules, against one packet after another: `pe-1`.
    Rules,
}

/// Vectors of 32-bit lanes. To have one is to know that its instructions may
/// run: only the two functions that make vectors are unsafe.
///
/// # Safety
/// Lanes divide a block's rows.
pub(super) unsafe trait LaneVector: Copy {
    /// Lanes of a vector.
    const LANES: usize;

    /// The numbers from `start` on.
    ///
    /// # Safety
    /// The instructions of the type may run, and there are as many numbers as
    /// lanes.
    unsafe fn load(start: *const u32) -> Self;

    /// `number` in all lanes.
    ///
    /// # Safety
    /// The instructions of the type may run.
    unsafe fn splat(number: u32) -> Self;

    /// (`self` ⊕ `value`) ∧ `mask`.
    fn differing(self, value: Self, mask: Self) -> Self;

    /// For each 16-bit half: how far `self` − `low` exceeds `span`.
    fn beyond(self, low: Self, span: Self) -> Self;

    /// `self` ∨ `other`.
    fn or(self, other: Self) -> Self;

    /// `self` ∨ (`one` ∧ `other`).
    fn or_both(self, one: Self, other: Self) -> Self;

    /// A bit for each lane that is 0.
    fn zeros(self) -> u32;
}

/// Fields of packets or of rows, a vector each.
#[derive(Clone, Copy)]
struct Vectors<L, const N: usize> {
    source: [L; N],
    destination: [L; N],
    ports: L,
    failed: L,
}

/// The tests of a row, as vectors.
#[derive(Clone, Copy)]
struct Asked<L, const N: usize> {
    source: [L; N],
    source_mask: [L; N],
    destination: [L; N],
    destination_mask: [L; N],
    low: L,
    span: L,
    test: L,
}

impl<L: LaneVector, const N: usize> Asked<L, N> {
    /// `take` of each field.
    #[inline(always)]
    fn of(block: &Block<N>, take: impl Fn(&Column) -> L) -> Self {
        let all = |columns: &[Column; N]| -> [L; N] { std::array::from_fn(|n| take(&columns[n])) };
        Self {
            source: all(&block.source),
            source_mask: all(&block.source_mask),
            destination: all(&block.destination),
            destination_mask: all(&block.destination_mask),
            low: take(&block.low),
            span: take(&block.span),
            test: take(&block.test),
        }
    }

    /// The lanes in which packet and row match.
    #[inline(always)]
    fn met(&self, packet: &Vectors<L, N>) -> u32 {
        let mut failed = packet.ports.beyond(self.low, self.span);
        for n in 0..N {
            let source = packet.source[n].differing(self.source[n], self.source_mask[n]);
            let destination =
                packet.destination[n].differing(self.destination[n], self.destination_mask[n]);
            failed = failed.or(source).or(destination);
        }
        failed.or_both(packet.failed, self.test).zeros()
    }
}

/// The first matching row for one packet, rows in lanes.
///
/// # Safety
/// The instructions of `L` may run.
#[inline(always)]
unsafe fn one<L: LaneVector, const N: usize>(
    blocks: &[Block<N>],
    fields: &Fields<N>,
) -> Option<usize> {
    // SAFETY: as the caller promises; a step's lanes are within its block.
    unsafe {
        let packet = Vectors {
            source: std::array::from_fn(|n| L::splat(fields.source[n])),
            destination: std::array::from_fn(|n| L::splat(fields.destination[n])),
            ports: L::splat(fields.ports),
            failed: L::splat(fields.failed),
        };
        for (number, block) in blocks.iter().enumerate() {
            for step in 0..ROWS / L::LANES {
                let at = step * L::LANES;
                let asked = Asked::<L, N>::of(block, |column| L::load(column.as_ptr().add(at)));
                let met = asked.met(&packet);
                if met != 0 {
                    return Some(number * ROWS + at + met.trailing_zeros() as usize);
                }
            }
        }
        None
    }
}

/// The rules of all keys, one key after another.
///
/// # Safety
/// The instructions of `L` may run.
#[inline(always)]
unsafe fn one_by_one<L: LaneVector, K: Key<N>, const N: usize>(
    rows: &Rows<N>,
    tests: &Tests,
    keys: &[K],
    rules: &mut [u32],
) {
    for (key, rule) in keys.iter().zip(rules) {
        // SAFETY: as the caller promises.
        let row = unsafe { one::<L, N>(rows.blocks(), &key.fields(tests)) };
        *rule = row.map_or(NO_RULE, |row| rows.rule(row));
    }
}

/// The most packets of a step of [`many`].
const MOST: usize = 64;

/// The rules of all keys, `G` vectors of packets at a time.
///
/// # Safety
/// The instructions of `L` may run.
#[inline(always)]
unsafe fn many<L: LaneVector, K: Key<N>, const N: usize, const G: usize>(
    rows: &Rows<N>,
    tests: &Tests,
    keys: &[K],
    rules: &mut [u32],
) {
    const { assert!(G * L::LANES <= MOST) };
    for (keys, rules) in keys.chunks(G * L::LANES).zip(rules.chunks_mut(G * L::LANES)) {
        rules.fill(NO_RULE);
        // SAFETY: as the caller promises.
        unsafe { step::<L, K, N, G>(rows, tests, keys, rules) };
    }
}

/// [`many`] for at most `G` vectors of packets.
///
/// # Safety
/// The instructions of `L` may run.
#[inline(always)]
unsafe fn step<L: LaneVector, K: Key<N>, const N: usize, const G: usize>(
    rows: &Rows<N>,
    tests: &Tests,
    keys: &[K],
    rules: &mut [u32],
) {
    let mut source = [[0; MOST]; N];
    let mut destination = [[0; MOST]; N];
    let mut ports = [0; MOST];
    let mut failed = [0; MOST];
    for (at, key) in keys.iter().enumerate().take(MOST) {
        let fields = key.fields(tests);
        for n in 0..N {
            source[n][at] = fields.source[n];
            destination[n][at] = fields.destination[n];
        }
        ports[at] = fields.ports;
        failed[at] = fields.failed;
    }
    // SAFETY: as the caller promises; `G` vectors are within the arrays.
    unsafe {
        let packets: [Vectors<L, N>; G] = std::array::from_fn(|group| {
            let load = |numbers: &[u32; MOST]| L::load(numbers.as_ptr().add(group * L::LANES));
            Vectors {
                source: std::array::from_fn(|n| load(&source[n])),
                destination: std::array::from_fn(|n| load(&destination[n])),
                ports: load(&ports),
                failed: load(&failed),
            }
        });
        // A bit for each packet that no row has matched yet.
        let mut left = u64::MAX >> (MOST - keys.len().clamp(1, MOST));
        for (number, block) in rows.blocks().iter().enumerate() {
            for row in 0..ROWS {
                let asked = Asked::<L, N>::of(block, |column| L::splat(column[row]));
                let mut met = 0;
                for (group, packet) in packets.iter().enumerate() {
                    met |= u64::from(asked.met(packet)) << (group * L::LANES);
                }
                met &= left;
                if met != 0 {
                    let rule = rows.rule(number * ROWS + row);
                    left &= !met;
                    while met != 0 {
                        rules[met.trailing_zeros() as usize] = rule;
                        met &= met - 1;
                    }
                    if left == 0 {
                        return;
                    }
                }
            }
        }
    }
}

/// The first rule that matches each key, with `G` vectors of packets at a time where packets
/// lie in lanes.
///
/// # Safety
/// The instructions of `L` may run.
#[inline(always)]
pub(super) unsafe fn classify<L: LaneVector, K: Key<N>, const N: usize, const G: usize>(
    lanes: LaneContent,
    rows: &Rows<N>,
    tests: &Tests,
    keys: &[K],
    rules: &mut [u32],
) {
    // SAFETY: as the caller promises.
    unsafe {
        match lanes {
            LaneContent::Packets => many::<L, K, N, G>(rows, tests, keys, rules),
            LaneContent::Rules => one_by_one::<L, K, N>(rows, tests, keys, rules),
        }
    }
}
