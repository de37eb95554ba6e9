//! Boxes that lie near each other, together: a hierarchy of sixteen by sixteen.
//!
//! A group is halved again and again, in the order of where boxes lie in one of
//! the fields or of how far they reach there, by what makes the expected work
//! least: the boxes of a half, times the share of packets that come to it. That
//! share is taken for the part of the ends of all ranges that the half covers,
//! field by field, as packets that are hard on a list lie near its borders.

use super::block::{Block, LANES, LEAF};
use super::boxes::{Cuboid, FIELDS};
use forebay_packet::cancel;

/// Rules of the first tier; each further one has so many times as many. A tier
/// is searched only where those before it have found nothing better.
const TIER: usize = 512;
const TIERS: usize = 8;

/// A box to be put into the hierarchy, its ends as numbers among those of all.
#[derive(Clone, Copy)]
struct Item {
    ends: [(u32, u32); FIELDS],
    at: u32,
}

/// What a node covers.
#[derive(Clone, Copy)]
struct Hull {
    ends: [(u32, u32); FIELDS],
}

impl Hull {
    const EMPTY: Self = Self { ends: [(u32::MAX, 0); FIELDS] };

    fn of(items: &[Item]) -> Self {
        items.iter().fold(Self::EMPTY, |all, item| all.with(&item.ends))
    }

    fn with(mut self, ends: &[(u32, u32); FIELDS]) -> Self {
        for (mine, theirs) in self.ends.iter_mut().zip(ends) {
            *mine = (mine.0.min(theirs.0), mine.1.max(theirs.1));
        }
        self
    }

    /// In proportion to the packets that come to it.
    fn share(&self) -> f64 {
        self.ends.iter().map(|&(low, high)| f64::from(high.saturating_sub(low)) + 1.0).product()
    }
}

/// The hierarchy of `boxes`, which are in the order of their labels: its blocks,
/// and the least label and the reference of each tier.
pub(super) fn hierarchy(boxes: &[Cuboid]) -> (Vec<Block>, Vec<(u32, u32)>) {
    let mut items = ranked(boxes);
    let mut builder = Builder { boxes, blocks: Vec::with_capacity(boxes.len() / LANES * 5 / 4) };
    let (mut roots, mut rest, mut size) = (Vec::new(), &mut items[..], TIER);
    while !rest.is_empty() {
        let (tier, behind) = rest.split_at_mut(size.min(rest.len()));
        let least = boxes[tier[0].at as usize].label;
        roots.push((least, builder.place(tier)));
        (rest, size) = (behind, size * TIERS);
    }
    (builder.blocks, roots)
}

/// The boxes with their ends numbered: by their place among those of all.
fn ranked(boxes: &[Cuboid]) -> Vec<Item> {
    let mut items: Vec<_> =
        (0..boxes.len() as u32).map(|at| Item { ends: [(0, 0); FIELDS], at }).collect();
    for field in 0..FIELDS {
        cancel::check();
        // Each end before which box it is of, and which of the two.
        let ends = boxes.iter().flat_map(|of| [of.low[field], of.high[field]]);
        let mut ends: Vec<u64> = ends.zip(0..).map(|(end, of)| u64::from(end) << 32 | of).collect();
        ends.sort_unstable();
        let mut place = 0;
        let mut before = ends.first().map_or(0, |end| end >> 32);
        for end in ends {
            place += u32::from(end >> 32 != before);
            before = end >> 32;
            let of = end as u32;
            let (low, high) = &mut items[of as usize / 2].ends[field];
            *(if of & 1 == 0 { low } else { high }) = place;
        }
    }
    items
}

struct Builder<'a> {
    boxes: &'a [Cuboid],
    blocks: Vec<Block>,
}

impl Builder<'_> {
    /// Lays `items` out, and gives the reference to what leads to all of them.
    fn place(&mut self, items: &mut [Item]) -> u32 {
        cancel::check();
        if items.len() <= LANES {
            items.sort_unstable_by_key(|item| item.at);
            let mut block = Block::EMPTY;
            for (lane, item) in items.iter().enumerate() {
                let of = &self.boxes[item.at as usize];
                block.put(lane, of, of.check);
            }
            self.blocks.push(block);
            return LEAF | (self.blocks.len() as u32 - 1);
        }
        let mut children: Vec<(Cuboid, u32)> = Vec::with_capacity(LANES);
        for group in groups(items) {
            let all = group.iter().map(|item| self.boxes[item.at as usize]).reduce(joined);
            let at = self.place(group);
            children.extend(all.map(|all| (all, at)));
        }
        children.sort_unstable_by_key(|(all, _)| all.label);
        let mut block = Block::EMPTY;
        children.iter().enumerate().for_each(|(lane, (all, at))| block.put(lane, all, *at));
        self.blocks.push(block);
        self.blocks.len() as u32 - 1
    }
}

/// What covers both boxes.
fn joined(a: Cuboid, b: Cuboid) -> Cuboid {
    Cuboid {
        low: std::array::from_fn(|field| a.low[field].min(b.low[field])),
        high: std::array::from_fn(|field| a.high[field].max(b.high[field])),
        tests: a.tests | b.tests,
        label: a.label.min(b.label),
        check: 0,
    }
}

/// `items` in up to sixteen groups, the largest halved each time.
fn groups(items: &mut [Item]) -> Vec<&mut [Item]> {
    let mut groups = vec![items];
    while groups.len() < LANES {
        let sizes = groups.iter().map(|group| group.len()).enumerate();
        let Some((at, 2..)) = sizes.max_by_key(|&(at, size)| (size, at)) else { break };
        if groups[at].len() <= LANES {
            break;
        }
        let group = groups.swap_remove(at);
        let middle = halve(group);
        let (low, high) = group.split_at_mut(middle);
        groups.extend([low, high]);
    }
    groups
}

/// Parts that a group is put into by an order, to try the borders between them.
const PARTS: usize = 8;

/// Of a group of many more, so many say how it is best halved.
const SAMPLE: usize = 1 << 13;

/// An order: by where boxes lie in a field, or by how far they reach there.
type By = (usize, bool);

/// Where a part of `len` items begins: at a whole leaf, as far as may be.
fn border(len: usize, part: usize) -> usize {
    ((len * part / PARTS + LANES / 2) / LANES * LANES).clamp(1, len - 1)
}

/// Brings `items`, more than a block's, into the best order, and returns where its
/// halves part: at most three quarters are in one, so that no hierarchy is deep.
fn halve(items: &mut [Item]) -> usize {
    let len = items.len();
    let best = if len > 2 * SAMPLE {
        best_halves(&mut items.iter().step_by(len / SAMPLE).copied().collect::<Vec<_>>())
    } else {
        best_halves(items)
    };
    let Some((by, part)) = best else { return border(len, PARTS / 2) };
    let at = border(len, part);
    order(items, &[0, at, len], by);
    at
}

/// The order in which `items` are best halved, and how many eighths are in the first
/// half; none if they are all alike.
fn best_halves(items: &mut [Item]) -> Option<(By, usize)> {
    let len = items.len();
    let borders: [usize; PARTS + 1] = std::array::from_fn(|part| match part {
        0 => 0,
        PARTS => len,
        _ => border(len, part),
    });
    let mut best: Option<(f64, By, usize)> = None;
    let whole = Hull::of(items);
    for field in (0..FIELDS).filter(|&field| whole.ends[field].0 < whole.ends[field].1) {
        for by_reach in [false, true] {
            cancel::check();
            order(items, &borders, (field, by_reach));
            let hulls: [Hull; PARTS] = std::array::from_fn(|part| {
                Hull::of(&items[borders[part].min(borders[part + 1])..borders[part + 1]])
            });
            let tried = PARTS / 4..=PARTS - PARTS / 4;
            for (part, &at) in borders.iter().enumerate().filter(|(part, _)| tried.contains(part)) {
                let side = |hulls: &[Hull]| {
                    hulls.iter().fold(Hull::EMPTY, |all, hull| all.with(&hull.ends)).share()
                };
                let (low, high) = hulls.split_at(part);
                let cost = side(low) * at as f64 + side(high) * (len - at) as f64;
                if at < len && best.is_none_or(|(least, ..)| cost < least) {
                    best = Some((cost, (field, by_reach), part));
                }
            }
        }
    }
    best.map(|(_, by, part)| (by, part))
}

/// Brings `items` in order as far as the parts between `borders` go: by where
/// they lie in a field, or by how far they reach there.
fn order(items: &mut [Item], borders: &[usize], (field, by_reach): By) {
    let (Some(&first), Some(&last)) = (borders.first(), borders.last()) else { return };
    if borders.len() <= 2 || first >= last {
        return;
    }
    let key = |item: &Item| {
        let (low, high) = item.ends[field];
        let by = if by_reach { high - low } else { (low >> 1) + (high >> 1) };
        (by, low, item.at)
    };
    let middle = borders.len() / 2;
    let at = borders[middle] - first;
    if at < items.len() {
        items.select_nth_unstable_by_key(at, key);
    }
    let (low, high) = items.split_at_mut(at.min(items.len()));
    order(low, &borders[..=middle], (field, by_reach));
    order(high, &borders[middle..], (field, by_reach));
}
