//! Resources of ops: the lower bound they put on the II, and reservation
//! tables.
//!
//! An op takes an issue slot and one unit out of each of its choices. The
//! requests of a cycle can all be met if and only if, for every set of units,
//! no more requests fall wholly into the set than it has units (Hall, 1935).
//! Only sets that are unions of choices matter, and of those only the ones that
//! cannot be split in two without cutting a choice. A loop has a dozen or two
//! of such sets, so a row of the reservation table is a few counters: the units
//! of each set left for requests that fall into it. The issue slots are one
//! more set. Counters are bytes, eight to a word, and are subtracted and
//! compared a word at a time.
//!
//! The same sets give ResMII: II cycles have II times as many units.

use crate::machine::{ISSUE_WIDTH, Units};
use crate::mir::LoopBody;

/// A set of units that may run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bottleneck {
    /// The units, as in [`crate::machine::unit`]; 0 stands for issue slots.
    pub units: u16,
    /// Units a cycle.
    pub capacity: u8,
}

/// The top bit of each byte of a word; counts stay below it.
const BEYOND: u64 = 0x8080_8080_8080_8080;

/// The units that a loop's ops request.
#[derive(Clone, Debug)]
pub struct Resources {
    bottlenecks: Vec<Bottleneck>,
    /// Words of eight counts, a byte for each bottleneck.
    words: usize,
    /// The units of each bottleneck.
    capacities: Vec<u64>,
    /// By node: its kind, below 64. Nodes of a kind have the same requests.
    kinds: Vec<u8>,
    /// Requests of each kind that fall into each bottleneck, kind by kind.
    asks: Vec<u64>,
}

impl Resources {
    /// The units of each op of `body`, and none for further nodes up to
    /// `nodes`.
    #[must_use]
    pub fn of_loop(body: &LoopBody, nodes: usize) -> Self {
        let mut distinct: Vec<Option<Units>> = Vec::new();
        let mut kinds = Vec::with_capacity(nodes);
        let units = body.ops.iter().map(|op| Some(op.units));
        for units in units.chain(std::iter::repeat(None)).take(nodes) {
            let kind = distinct.iter().position(|&known| known == units).unwrap_or_else(|| {
                distinct.push(units);
                distinct.len() - 1
            });
            kinds.push(kind as u8);
        }
        assert!(distinct.len() <= 64, "each kind has a bit of a word");
        let mut bottlenecks = vec![Bottleneck { units: 0, capacity: ISSUE_WIDTH as u8 }];
        bottlenecks.extend(
            connected_unions(&distinct)
                .into_iter()
                .map(|units| Bottleneck { units, capacity: units.count_ones() as u8 }),
        );
        let words = bottlenecks.len().div_ceil(8);
        let mut capacities = vec![0; words];
        let mut asks = vec![0; distinct.len() * words];
        for (place, bottleneck) in bottlenecks.iter().enumerate() {
            let at = 8 * (place % 8);
            capacities[place / 8] |= u64::from(bottleneck.capacity) << at;
            for (kind, &units) in distinct.iter().enumerate() {
                // Limit requests to the capacity, so that every op fits an
                // empty row.
                let count = asks_within(units, bottleneck.units).min(bottleneck.capacity);
                asks[kind * words + place / 8] |= u64::from(count) << at;
            }
        }
        Self { bottlenecks, words, capacities, kinds, asks }
    }

    /// ResMII, and the bottleneck that determines it.
    #[must_use]
    pub fn res_mii(&self) -> (u32, Bottleneck) {
        let mut binding = (0, self.bottlenecks[0]);
        for (place, &bottleneck) in self.bottlenecks.iter().enumerate() {
            let asks = (0..self.kinds.len())
                .map(|node| u32::from(self.asks(node)[place / 8].to_le_bytes()[place % 8]));
            let cycles = asks.sum::<u32>().div_ceil(u32::from(bottleneck.capacity));
            if cycles > binding.0 {
                binding = (cycles, bottleneck);
            }
        }
        binding
    }

    /// Requests of `node` that fall into each bottleneck.
    fn asks(&self, node: usize) -> &[u64] {
        let kind = usize::from(self.kinds[node]);
        &self.asks[kind * self.words..(kind + 1) * self.words]
    }
}

/// The units taken in each cycle, modulo the number of rows.
#[derive(Clone, Debug)]
pub struct ReservationTable<'a> {
    resources: &'a Resources,
    rows: usize,
    /// The units left of each bottleneck, row by row.
    left: Vec<u64>,
    /// By row: a bit for each kind of nodes that fit. Rows are searched far more often than
    /// they change.
    fitting: Vec<u64>,
}

impl<'a> ReservationTable<'a> {
    /// An empty table of `rows` cycles.
    #[must_use]
    pub fn new(resources: &'a Resources, rows: u32) -> Self {
        let rows = rows as usize;
        let (left, fitting) = (resources.capacities.repeat(rows), vec![u64::MAX; rows]);
        Self { resources, rows, left, fitting }
    }

    /// Of `count` cycles from `first` on, or with `is_down` from `first` downwards, the first one
    /// in whose row `node` fits. At most as many cycles as there are rows.
    #[must_use]
    pub fn first_fit(&self, node: usize, first: i64, count: i64, is_down: bool) -> Option<i64> {
        let row = first.rem_euclid(self.rows as i64) as usize;
        let kind = 1 << self.resources.kinds[node];
        let fits = |row: &u64| row & kind != 0;
        let (low, high) = self.fitting.split_at(row);
        // The rows from `row` on, then those that follow beyond the table's end.
        let step = if is_down {
            let (row, high) = high.split_at(1);
            let near = row.iter().chain(low.iter().rev()).position(fits);
            near.or_else(|| Some(1 + low.len() + high.iter().rev().position(fits)?))
        } else {
            let near = high.iter().position(fits);
            near.or_else(|| Some(high.len() + low.iter().position(fits)?))
        };
        let step = step.map(|step| step as i64).filter(|&step| step < count)?;
        Some(if is_down { first - step } else { first + step })
    }

    /// Whether `node` fits if it is issued in `row`.
    #[inline]
    #[must_use]
    pub fn fits(&self, node: usize, row: usize) -> bool {
        self.fitting[row] & 1 << self.resources.kinds[node] != 0
    }

    /// Brings `fitting` up to date after a change of `row`.
    fn changed(&mut self, row: usize) {
        let left = &self.left[self.words(row)];
        let kinds = self.resources.asks.chunks_exact(self.resources.words).enumerate();
        self.fitting[row] = kinds.fold(0, |all, (kind, asks)| {
            // A byte keeps its top bit if it holds at least the request.
            let fits = |(&asks, &left): (&u64, &u64)| ((left | BEYOND) - asks) & BEYOND == BEYOND;
            all | u64::from(asks.iter().zip(left).all(fits)) << kind
        });
    }

    /// Whether removing `other`, also issued in `row`, could make room for
    /// `node` there.
    #[must_use]
    pub fn competes(&self, node: usize, other: usize, row: usize) -> bool {
        let asks = self.resources.asks(node).iter().zip(self.resources.asks(other));
        asks.zip(&self.left[self.words(row)]).any(|((&mine, &its), &left)| {
            let short = !((left | BEYOND) - mine) & BEYOND;
            // A non-zero byte carries into its top bit.
            short & (its + (BEYOND - BEYOND / 0x80)) != 0
        })
    }

    /// Takes the units of `node` in `row`, where it must fit.
    pub fn take(&mut self, node: usize, row: usize) {
        let words = self.words(row);
        let asks = self.resources.asks(node);
        self.left[words].iter_mut().zip(asks).for_each(|(left, &asks)| *left -= asks);
        self.changed(row);
    }

    /// Releases the units of `node` in `row`.
    pub fn release(&mut self, node: usize, row: usize) {
        let words = self.words(row);
        let asks = self.resources.asks(node);
        self.left[words].iter_mut().zip(asks).for_each(|(left, &asks)| *left += asks);
        self.changed(row);
    }

    /// Adds empty rows up to and including `row`.
    pub fn grow_to(&mut self, row: usize) {
        while self.rows <= row {
            self.left.extend_from_slice(&self.resources.capacities);
            self.fitting.push(u64::MAX);
            self.rows += 1;
        }
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The counts of `row`.
    fn words(&self, row: usize) -> std::ops::Range<usize> {
        row * self.resources.words..(row + 1) * self.resources.words
    }
}

/// Requests of an op that fall wholly into `units`; issue slots for 0.
fn asks_within(asked: Option<Units>, units: u16) -> u8 {
    match asked {
        None => 0,
        Some(_) if units == 0 => 1,
        Some(Units(choices)) => {
            choices.iter().filter(|&&choice| choice != 0 && choice & !units == 0).count() as u8
        }
    }
}

/// All unions of choices that overlap in a chain, ascending.
fn connected_unions(asked: &[Option<Units>]) -> Vec<u16> {
    let mut unions: Vec<u16> = Vec::new();
    for choice in asked.iter().flatten().flat_map(|units| units.0) {
        if choice == 0 || unions.contains(&choice) {
            continue;
        }
        // The unions so far are closed: only the new choice, and unions with
        // it, remain to be combined.
        let mut next = unions.len();
        unions.push(choice);
        while next < unions.len() {
            for other in 0..next {
                let union = unions[next] | unions[other];
                if unions[next] & unions[other] != 0 && !unions.contains(&union) {
                    unions.push(union);
                }
            }
            next += 1;
        }
    }
    unions.sort_unstable();
    unions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::unit::{PORT_0, PORT_1, PORT_5};
    use crate::mir::Op;

    fn loop_of(units: &[Units]) -> LoopBody {
        let mut body = LoopBody::new("test", 1);
        for &units in units {
            body.push(Op {
                code: iced_x86::Code::Nopd,
                dest: None,
                tied: false,
                operands: Vec::new(),
                mask: None,
                latency: 1,
                units,
                note: 0,
                ahead: false,
            });
        }
        body
    }

    #[test]
    fn res_mii_counts_ops_that_share_some_of_their_units() {
        let body = loop_of(&[Units::PORT_5, Units::LOGIC_512, Units::LOGIC_512, Units::PORT_0]);
        let (cycles, binding) = Resources::of_loop(&body, 4).res_mii();
        assert_eq!((cycles, binding.units), (2, PORT_0 | PORT_5));
        let body = loop_of(&[Units::PORT_5; 3]);
        assert_eq!(Resources::of_loop(&body, 3).res_mii().0, 3);
        let body = loop_of(&[Units::NONE; 13]);
        let (cycles, binding) = Resources::of_loop(&body, 13).res_mii();
        assert_eq!((cycles, binding.units), (3, 0), "issue slots");
    }

    #[test]
    fn a_row_takes_what_can_be_assigned_and_no_more() {
        let body = loop_of(&[Units::LOGIC_512, Units::SHUFFLE, Units::PORT_0, Units::LOGIC]);
        let resources = Resources::of_loop(&body, 4);
        let mut table = ReservationTable::new(&resources, 1);
        for node in 0..3 {
            assert!(table.fits(node, 0), "p5, p1, p0: node {node}");
            table.take(node, 0);
        }
        assert!(!table.fits(3, 0), "p0, p1 and p5 are taken");
        assert!(table.competes(3, 1, 0));
        table.release(1, 0);
        assert!(table.fits(3, 0));
    }

    #[test]
    fn unions_leave_out_sets_that_split() {
        let asked = [Units([PORT_0, 0]), Units([PORT_5, 0]), Units([PORT_0 | PORT_1, 0])];
        let unions = connected_unions(&asked.map(Some));
        assert_eq!(unions, [PORT_0, PORT_0 | PORT_1, PORT_5]);
    }
}
