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
//! that are runs are found in another way (`runs.rs`), and one that has a run in every region, or
//! regions that are more frequent than one of its windows, gets a single window that is not a run. A literal is found by its last [`REACH`] bytes, so that a
//! stream needs as many bytes of the past to be filtered again; only one that ends in a longer run is
//! found by the bytes in front of the run.

use super::literals::Groups;
use super::model::Probabilities;
use super::places::{Place, Places};
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
    /// Groups of literals of 2 or 3 bytes, each with where its window is.
    pub short: Vec<(u32, u16)>,
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

/// Chooses the place of each group.
pub fn choose(groups: &Groups, probabilities: &Probabilities) -> Vec<Place> {
    let mut loads = Loads::new(groups);
    let mut windows = Vec::new();
    let place = |group| {
        let text = groups.folded(group);
        match &*text {
            [_] => Place::Single,
            _ if is_run(groups.text(group)) => Place::Run,
            _ => choose_window(probabilities, &mut loads, &mut windows, &text),
        }
    };
    (0..groups.len() as u32).map(place).collect()
}

/// Chooses the place of a literal of two bytes or more that is not a run. `windows` is memory.
fn choose_window(
    probabilities: &Probabilities,
    loads: &mut Loads,
    windows: &mut Vec<(u32, f32)>,
    text: &[u8],
) -> Place {
    let reach = text.len().saturating_sub(REACH);
    if text.len() < 4 {
        let work = |at: usize| probabilities.of(&text[at..at + 2]);
        return Place::Short(least((0..=text.len() - 2).map(|at| (work(at), at))).1 as u16);
    }
    windows.clear();
    windows.extend((reach..=text.len() - 4).map(|at| {
        let (bytes, window) = (&text[at..at + 4], window(text, at));
        let work = loads.work(window, probabilities.of(bytes));
        (window, if is_run(bytes) { f32::INFINITY } else { work })
    }));
    let singles = windows.iter().zip(reach..);
    let (single, at) = least(
        singles.map(|(&(_, work), at)| (work + loads.crowd(text, long_region(text, at)), at)),
    );
    if single == f32::INFINITY {
        // A run, but for bytes in front of it or for case.
        let at = (0..text.len() - 4).rev().find(|&at| !is_run(&text[at..at + 4]));
        return Place::Long(at.unwrap_or(text.len() - 4) as u16);
    }
    let region = windows.windows(4).zip(reach..).map(|(windows, at)| {
        let crowd = loads.crowd(text, (at, at + REGION));
        (windows.iter().map(|(_, work)| work).sum::<f32>() / 4.0 + crowd, at)
    });
    let (of_region, region) = least(region);
    if of_region <= single + EVERY_POSITION {
        for phase in 0..4 {
            loads.add(window(text, region + phase));
        }
        return Place::Fourths(region as u16);
    }
    loads.add(window(text, at));
    Place::Long(at as u16)
}

/// The windows and regions at the places of the groups. Writes to `groups` where they are. `None`
/// if the places do not suit the groups.
pub fn plan(groups: &mut Groups, places: &Places) -> Option<Plan> {
    let mut plan = Plan::default();
    if places.all().len() != groups.len() {
        return None;
    }
    for (&place, group) in places.all().iter().zip(0..) {
        let text = groups.folded(group);
        if !place.suits(&text, is_run(groups.text(group))) {
            return None;
        }
        let at = plan.add(place, &text, group);
        drop(text);
        groups.set_at(group, at);
    }
    Some(plan)
}

impl Plan {
    /// Adds the literal of a group, by its folded text. Returns the start of what it is found by.
    fn add(&mut self, place: Place, text: &[u8], group: u32) -> usize {
        match place {
            Place::Single => {
                self.single.push(group);
                0
            }
            Place::Run => {
                self.runs.push(group);
                text.len().saturating_sub(runs::SHORTEST)
            }
            Place::Short(at) => {
                self.short.push((group, at));
                0
            }
            Place::Long(at) => {
                let (start, end) = long_region(text, at.into());
                self.long.add([window(text, at.into())], &text[start..end], group);
                start
            }
            Place::Fourths(at) => {
                let at = usize::from(at);
                let windows = [0, 1, 2, 3].map(|phase| window(text, at + phase));
                self.fourths.add(windows, &text[at..at + REGION], group);
                at
            }
        }
    }
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
        for group in 0..groups.len() as u32 {
            let folded = groups.folded(group);
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
