//! Whether a thread's packets are in its processor's cache, by their addresses.
//!
//! Prefetches double the speed of long loops from memory, and cost them up to a quarter where packets are in
//! the cache. Neither the compiler nor the caller of a library knows which it is; a clock would tell, but
//! takes as long to read as a few packets take to filter. What tells as well are addresses: a thread whose calls
//! come back, over and over, to the same [`NEAR`] bytes mostly has them in its cache, be they a receive buffer that
//! packets are copied into or a batch that several filters read. A thread that goes through a
//! file or a ring comes back too late, or not at all.
//!
//! What this cannot know: that a device or another processor writes to a small ring between the calls (that
//! is what `Options::for_rings` is for), that other work empties the cache, and the size of the cache. More than two
//! buffers in turn are not recognised. A wrong guess costs time, and never changes a verdict.

use std::cell::Cell;

use crate::packets::Packets;

/// Bytes, from the first to the last that calls went over, that are taken to be in the cache: the second level of
/// current processors of servers has one MiB or two, and packets do not fill them.
const NEAR: usize = 1 << 20;

/// Calls within what earlier ones went over, until packets are taken to be in the cache.
const ENOUGH: u32 = 2;

/// Packets of a call whose addresses count: the first one, the last one and some between.
const SAMPLED: usize = 4;

/// Memory that calls went over, from `low` to `high`.
#[derive(Clone, Copy, Debug)]
struct Place {
    low: usize,
    high: usize,
    /// Calls within what others had gone over, up to [`ENOUGH`].
    again: u32,
}

/// What a thread's last calls went over, the last one's place first: two places, as a thread may read from
/// two buffers. Together they are at most [`NEAR`] bytes.
type Recent = [Place; 2];

thread_local! {
    // Of the thread and not of a filter: what one filter reads another finds in the cache, and threads
    // that share a filter do not wait for one another.
    static RECENT: Cell<Recent> = const { Cell::new([Place::NONE; 2]) };
}

/// Whether `packets`, of which there is at least one, are in the cache by what this thread's earlier calls of this
/// function had.
#[inline]
pub(crate) fn is_resident(packets: &Packets<'_>) -> bool {
    let [offset, ..] = packets.tables();
    let [Some(&first), Some(&last)] = [offset.first(), offset.last()] else { return false };
    let at = |offset: u32| (packets.base() as usize).wrapping_add(offset as usize);
    let recent = RECENT.get();
    if recent[0].holds([at(first), at(last)]) {
        return true;
    }
    let end = offset.len() - 1;
    let sampled = std::array::from_fn(|i| at(offset[end * i / (SAMPLED - 1)]));
    let (now, is_resident) = visit(recent, sampled);
    RECENT.set(now);
    is_resident
}

/// What there is to know after a call with packets at these addresses, the first one's first and the last one's last, and
/// whether they are in the cache.
#[inline(never)]
fn visit([front, back]: Recent, addresses: [usize; SAMPLED]) -> (Recent, bool) {
    let [first, .., last] = addresses;
    let either = [(front, back), (back, front)];
    if let Some((place, other)) = either.into_iter().find(|(place, _)| place.has([first, last])) {
        let is_resident = place.holds([first, last]);
        return ([Place { again: ENOUGH.min(place.again + 1), ..place }, other], is_resident);
    }
    for (place, other) in either {
        if let Some(wider) = place.widened(addresses, NEAR - other.extent()) {
            return ([wider, other], false);
        }
    }
    let there = Place { low: first, high: first, again: 0 };
    let there = there.widened(addresses, NEAR).unwrap_or(there);
    // Calls that go elsewhere put other things into the cache.
    let fits = front.extent() + there.extent() <= NEAR;
    ([there, if fits { Place { again: 0, ..front } } else { Place::NONE }], false)
}

impl Place {
    /// Nowhere.
    const NONE: Self = Self { low: usize::MAX, high: 0, again: 0 };

    fn has(self, ends: [usize; 2]) -> bool {
        ends.iter().all(|end| (self.low..=self.high).contains(end))
    }

    /// Whether packets from one of these addresses to the other are in the cache.
    fn holds(self, ends: [usize; 2]) -> bool {
        self.again == ENOUGH && self.has(ends)
    }

    fn extent(self) -> usize {
        self.high.saturating_sub(self.low)
    }

    /// With these addresses too, if it is somewhere and that makes it at most `most` bytes.
    fn widened(self, addresses: [usize; SAMPLED], most: usize) -> Option<Self> {
        let with = |place: Self, at: usize| Self {
            low: at.min(place.low),
            high: at.max(place.high),
            ..place
        };
        let wider = addresses.into_iter().fold(self, with);
        (self.low <= self.high && wider.extent() <= most).then_some(wider)
    }
}

#[cfg(test)]
mod tests {
    use forebay_packet::random::Random;

    use super::*;

    /// How many of the calls with these first and last addresses find their packets in the cache, by
    /// tenths of all calls.
    fn resident(calls: impl Iterator<Item = [usize; 2]>) -> Vec<u32> {
        let mut recent = RECENT.get();
        let found: Vec<bool> = calls
            .map(|[first, last]| {
                let (now, is_resident) = visit(recent, [first, first, last, last]);
                recent = now;
                assert!(recent.map(Place::extent).iter().sum::<usize>() <= NEAR);
                is_resident
            })
            .collect();
        let part = found.len() / 10;
        assert_eq!(part * 10, found.len());
        found.chunks(part).map(|part| part.iter().map(|&is| u32::from(is)).sum()).collect()
    }

    #[test]
    fn a_buffer_that_is_filled_again_is_in_the_cache() {
        let mut found = resident((0..100).map(|_| [1000, 17_000]));
        // The first call, and those that begin where another had been.
        assert_eq!(found.remove(0), 9 - ENOUGH);
        assert_eq!(found, [10; 9]);
        // Packets in any order of slots.
        let mut random = Random::new(1);
        let mut slot = || 5_000_000 + 192 * random.index(4096);
        let mut found = resident((0..1000).map(|_| [slot(), slot()]));
        assert!(found.remove(0) > 80, "{found:?}");
        // But for the first or last slots that only now occur.
        assert!(found.iter().all(|&of_100| of_100 >= 98), "{found:?}");
    }

    #[test]
    fn a_small_ring_and_two_buffers_are_in_the_cache() {
        let ring = (0..480).map(|call| 7 + call % 48 * 16_000);
        let found = resident(ring.map(|at| [at, at + 15_000]));
        // In the second round the first calls.
        assert_eq!(found, [&[0, 48 - ENOUGH][..], &[48; 8]].concat());
        // Two buffers far from each other, with one call or more to each in turn. The first one counts anew
        // once the second one is there.
        for (times, before) in [(1, 0), (3, ENOUGH)] {
            let calls = (0..120).map(|call| [call / times % 2 * 50 * NEAR; 2]);
            let found = resident(calls);
            assert_eq!(found.iter().sum::<u32>(), 118 - 2 * ENOUGH - before);
        }
        // Two that are too large together.
        let calls = (0..4000).map(|call| call / 100 % 2 * 50 * NEAR + call * 7_919 % NEAR * 3 / 4);
        let found: u32 = resident(calls.map(|at| [at; 2])).iter().sum();
        assert!(found < 2_500, "{found}");
    }

    #[test]
    fn what_a_thread_goes_through_is_not() {
        // A capture, of packets of any length.
        for step in [100, 16_000, 400_000, NEAR, 3 * NEAR] {
            let calls = (0..10_000).map(|call| call * step);
            assert_eq!(resident(calls.map(|at| [at, at + step - 60])), [0; 10], "{step}");
        }
        // From its end to its start, and a ring of 16 MiB.
        assert_eq!(resident((0..1000).rev().map(|call| [call * 16_000; 2])), [0; 10]);
        let ring = (0..10_000).map(|call| call * 16_384 % (16 << 20));
        assert_eq!(resident(ring.map(|at| [at, at + 16_000])), [0; 10]);
        // Frames in any order.
        let mut random = Random::new(2);
        let mut frame = || 2048 * random.index(32_768);
        let found = resident((0..10_000).map(|_| [frame(), frame()]));
        assert!(found.iter().sum::<u32>() < 20, "{found:?}");
    }

    #[test]
    fn what_another_filter_has_read_is() {
        // Two filters for each batch of a capture: the second one finds it in the cache.
        let calls = (0..10_000).map(|call| call / 2 * 16_000);
        let found = resident(calls.map(|at| [at, at + 15_000])).iter().sum::<u32>();
        // Anew for each stretch, of which 65 batches are a part.
        assert!((4_600..5_000).contains(&found), "{found}");
    }

    #[test]
    fn what_was_in_the_cache_is_not_where_calls_go_elsewhere() {
        let here = || (0..500).map(|_| [3 * NEAR; 2]);
        let calls =
            here().chain([[9 * NEAR; 2]]).chain(here()).chain((0..999).map(|_| [9, 9 + NEAR]));
        let found = resident(calls);
        // Each time the first calls, after one elsewhere those that come back.
        assert_eq!(found.iter().sum::<u32>(), (499 + 500 + 998) - 3 * ENOUGH);
        // A call that goes over more than fits: only its start counts.
        let wide = (0..10).map(|call| [if call == 9 { 5 * NEAR } else { NEAR }, 3 * NEAR + 1]);
        assert_eq!(resident(wide)[9], 0);
    }

    #[test]
    fn packets_that_are_read_once_in_about_their_order_are_not() {
        // Of 500 bytes, moved by less than so many places; calls of 32.
        for (moved, most) in [(8, 0.0), (64, 0.15)] {
            let mut random = Random::new(3);
            let mut packets: Vec<(usize, usize)> =
                (0..64_000).map(|packet| (packet + random.index(moved), packet)).collect();
            packets.sort_unstable();
            let ends = packets.chunks(32).map(|call| [call[0].1 * 500, call[31].1 * 500]);
            let found = resident(ends).iter().sum::<u32>();
            assert!(f64::from(found) <= most * 2000.0, "{moved}: {found}");
        }
        // Calls that share packets with the one before, or always their first one.
        let sliding = (0..10_000).map(|call| [call * 28_000, call * 28_000 + 32_000]);
        assert_eq!(resident(sliding), [0; 10]);
        assert_eq!(resident((0..10_000).map(|call| [5, 500 + 16_000 * call])), [0; 10]);
    }

    #[test]
    fn two_buffers_that_are_read_at_any_place_are() {
        let mut random = Random::new(4);
        let calls =
            (0..1000).map(|call| [0; 2].map(|_| call % 2 * 9 * NEAR + random.index(NEAR / 4)));
        let found = resident(calls);
        assert!(found[0] > 80 && found[1..].iter().all(|&of_100| of_100 >= 95), "{found:?}");
    }

    #[test]
    fn addresses_are_those_of_a_calls_packets() {
        let memory = vec![0_u8; 3 * NEAR];
        let buffers = [&memory[..3000], &memory[2 * NEAR..][..3000]];
        let found = |buffer: usize, offset: &[u32]| {
            let length = vec![60; offset.len()];
            let packets = Packets::new(buffers[buffer], offset, &length, &length).unwrap();
            is_resident(&packets)
        };
        let begun = [0, 1, 0, 1].map(|buffer| found(buffer, &[100, 200, 2900, 1500]));
        assert_eq!(begun, [false; 4]);
        // Within all that the first calls went over, though not between their first and last packets.
        assert_eq!(
            [0, 1, 0, 1].map(|buffer| found(buffer, &[100, 1500])),
            [false, false, true, true]
        );
        assert!(found(0, &[2900]) && found(1, &[1700, 2000, 2100]));
        // Not the last packet, or not the first.
        assert!(!found(0, &[100, 2940]) && !found(1, &[40, 100]));
    }

    #[test]
    fn a_thread_begins_without_any() {
        assert_eq!(resident([[1; 2]; 10].into_iter())[0], 0);
        assert_eq!(resident((0..10).map(|_| [0; 2]))[5], 1);
    }
}
