//! Which bytes of a literal it is found by.
//!
//! A literal of 7 bytes or more has a *region* of 7, whose four windows of 4 bytes are at four
//! successive positions: one of these is a multiple of 4, wherever the literal is, so that its
//! filter reads every fourth position. A shorter literal has one window of 4 or 2 bytes, and a
//! filter that reads every position.
//!
//! Of all regions that with the least expected work is taken: for each window the probability that
//! traffic has it, times the cost of passing the filter, which is shared by literals with the same
//! window, and of the entries that are then compared; and as text that is made of literals must not
//! be much slower, how often literals have the region anywhere.
//!
//! Runs of one byte are so frequent in traffic (zeros, padding) that no window may be one: literals
//! that are runs are found in another way (`runs.rs`), and one that has a run in every region gets
//! a single window that is not a run. A literal is found by its last [`REACH`] bytes, so that a
//! stream needs as many bytes of the past to be filtered again; only one that ends in a longer run is
//! found by the bytes in front of the run.

use super::literals::Groups;
use super::model::Probabilities;
use super::{hash, runs};

/// The last bytes of a literal, in which its window is.
pub const REACH: usize = 32;

/// Bytes of a region at every fourth position.
pub const REGION: usize = 7;
/// Bytes of the region of another literal that does not have as many from the window on.
const LONG_REGION: usize = 5;

/// Windows of one kind, and the regions about them: the hash of each, with the group that has it.
#[derive(Debug, Default)]
pub struct Windows {
    pub windows: Vec<u32>,
    pub regions: Vec<(u64, u32)>,
}

impl Windows {
    fn add(&mut self, windows: impl IntoIterator<Item = u32>, region: &[u8], group: u32) {
        self.windows.extend(windows);
        self.regions.push((region_hash(region), group));
    }
}

/// The hash of a region of at most 7 bytes.
fn region_hash(region: &[u8]) -> u64 {
    hash_at(region, 0, region.len())
}

/// The hash of the `len` bytes, at most 7, of a text from `start` on.
#[inline]
fn hash_at(text: &[u8], start: usize, len: usize) -> u64 {
    let bytes = match text[start..].first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => text[start..].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)),
    };
    hash::region(bytes & (u64::MAX >> (64 - 8 * len)))
}

/// How the literals of a set are found.
#[derive(Debug, Default)]
pub struct Plan {
    /// Of the regions of literals.
    pub fourths: Windows,
    /// Of 4 bytes.
    pub long: Windows,
    /// Of 2 bytes.
    pub short: Windows,
    /// Groups of literals that are runs of one byte, of two bytes or more.
    pub runs: Vec<u32>,
    /// Groups of literals of one byte.
    pub single: Vec<u32>,
}

/// The work for a window in the text, in cycles, roughly: for one that passes the filter, and for
/// each entry that is compared with it.
const PASSING: f32 = 12.0;
const ENTRY: f32 = 4.0;

/// The work for each time that a literal has the same region: in traffic that is made of literals,
/// all of these are compared.
const CROWDED: f32 = 5e-6;

/// The work of reading every position for one more window, above reading every fourth.
const EVERY_POSITION: f32 = 2e-4;

/// Chooses the windows of each group, and writes to `groups` where they are.
pub fn plan(groups: &mut Groups, probabilities: &Probabilities) -> Plan {
    let mut plan = Plan::default();
    let mut loads = Loads::new(groups);
    let mut folded = Vec::new();
    for group in 0..groups.len() as u32 {
        folded.clear();
        folded.extend(groups.text(group).iter().map(u8::to_ascii_lowercase));
        if let [_] = folded[..] {
            plan.single.push(group);
        } else if is_run(groups.text(group)) {
            plan.runs.push(group);
            groups.set_at(group, folded.len().saturating_sub(runs::SHORTEST));
        } else {
            let at = plan_windows(&mut plan, probabilities, &mut loads, group, &folded);
            groups.set_at(group, at);
        }
    }
    plan
}

/// Adds the windows of a literal of two bytes or more to the plan, and returns where they are.
fn plan_windows(
    plan: &mut Plan,
    probabilities: &Probabilities,
    loads: &mut Loads,
    group: u32,
    text: &[u8],
) -> usize {
    let reach = text.len().saturating_sub(REACH);
    if text.len() < 4 {
        let work = |at: &usize| probabilities.of(&text[*at..*at + 2]);
        let at = least((0..=text.len() - 2).map(|at| (work(&at), at)));
        let window = u32::from(u16::from_le_bytes([text[at.1], text[at.1 + 1]]));
        plan.short.add([window], text, group);
        return 0;
    }
    let windows: Vec<(u32, f32)> = (reach..=text.len() - 4)
        .map(|at| {
            let (bytes, window) = (&text[at..at + 4], window(text, at));
            let work = loads.work(window, probabilities.of(bytes));
            (window, if is_run(bytes) { f32::INFINITY } else { work })
        })
        .collect();
    let singles = windows.iter().zip(reach..);
    let (single, at) = least(
        singles.map(|(&(_, work), at)| (work + loads.crowd(text, long_region(text, at)), at)),
    );
    if single == f32::INFINITY {
        // A run, but for bytes in front of it or for case.
        let at = (0..text.len() - 4).rev().find(|&at| !is_run(&text[at..at + 4]));
        let at = at.unwrap_or(text.len() - 4);
        return plan_long(plan, group, text, at);
    }
    let region = windows.windows(4).zip(reach..).map(|(windows, at)| {
        let crowd = loads.crowd(text, (at, at + REGION));
        (windows.iter().map(|(_, work)| work).sum::<f32>() / 4.0 + crowd, at)
    });
    let (of_region, region) = least(region);
    if of_region <= single + EVERY_POSITION {
        let windows = [0, 1, 2, 3].map(|phase| window(text, region + phase));
        windows.iter().for_each(|window| loads.add(*window));
        plan.fourths.add(windows, &text[region..region + REGION], group);
        return region;
    }
    loads.add(window(text, at));
    plan_long(plan, group, text, at)
}

/// Adds a window of 4 bytes of a literal, and returns the start of its region.
fn plan_long(plan: &mut Plan, group: u32, text: &[u8], at: usize) -> usize {
    let (start, end) = long_region(text, at);
    plan.long.add([window(text, at)], &text[start..end], group);
    start
}

/// The bounds of the region of a window of 4 bytes: with the bytes behind it, or if it is the last,
/// the one in front of it.
fn long_region(text: &[u8], at: usize) -> (usize, usize) {
    match text.len() - at {
        REGION.. => (at, at + REGION),
        LONG_REGION.. => (at, at + LONG_REGION),
        _ => (text.len().saturating_sub(LONG_REGION), text.len()),
    }
}

/// The least of pairs by their first parts; the first of equal ones. None are as infinity at 0.
fn least(pairs: impl Iterator<Item = (f32, usize)>) -> (f32, usize) {
    pairs.fold((f32::INFINITY, 0), |least, pair| if pair.0 < least.0 { pair } else { least })
}

/// Whether all bytes are the same.
fn is_run(text: &[u8]) -> bool {
    text.windows(2).all(|pair| pair[0] == pair[1])
}

fn window(text: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| text[at + i]))
}

/// Which windows are found so far, and how often literals have each region at any place; those with
/// the same hash are one.
struct Loads {
    bits: u32,
    windows: Vec<bool>,
    regions: Vec<u8>,
}

impl Loads {
    fn new(groups: &Groups) -> Self {
        let bits = (groups.len().max(1) * 16).ilog2() + 1;
        let mut loads = Self { bits, windows: vec![false; 1 << bits], regions: vec![0; 1 << bits] };
        let mut folded = Vec::new();
        for group in 0..groups.len() as u32 {
            folded.clear();
            folded.extend(groups.text(group).iter().map(u8::to_ascii_lowercase));
            for len in [REGION, LONG_REGION] {
                for start in 0..(folded.len() + 1).saturating_sub(len) {
                    let slot = loads.region(&folded, (start, start + len));
                    loads.regions[slot] = loads.regions[slot].saturating_add(1);
                }
            }
        }
        loads
    }

    fn window(&self, window: u32) -> usize {
        (window.wrapping_mul(hash::WORD) >> (32 - self.bits)) as usize
    }

    fn region(&self, text: &[u8], (start, end): (usize, usize)) -> usize {
        hash_at(text, start, end - start) as usize & (self.regions.len() - 1)
    }

    fn add(&mut self, window: u32) {
        let slot = self.window(window);
        self.windows[slot] = true;
    }

    /// The work for one more literal with this window, by a byte of traffic.
    fn work(&self, window: u32, probability: f32) -> f32 {
        let passing = if self.windows[self.window(window)] { 0.0 } else { PASSING };
        probability * (passing + ENTRY)
    }

    /// The further work for a literal with this region.
    fn crowd(&self, text: &[u8], region: (usize, usize)) -> f32 {
        f32::from(self.regions[self.region(text, region)].saturating_sub(1)) * CROWDED
    }
}
