//! Is there a packet of a rule that some rules leave over, or that another takes?
//!
//! Given some regions, and other rules in order as *covers* and *goals*: is there
//! a point of the regions whose first other rule is a goal, or that has none
//! where that counts too? Both that a rule is shadowed and that it is redundant
//! are such questions, answered by "no".
//!
//! The question is hard in general (it contains satisfiability), so the search is
//! a bounded one. A region is taken from a stack. If one cover that no goal
//! precedes contains it, it is settled. Points drawn at random often find an
//! answer. Else the cover that takes the largest share is subtracted, and what is
//! left, at most five disjoint regions, goes on the stack. Where no cover stands
//! before a goal any more, the goal is reached. So the answer is exact unless the
//! bound, a number of comparisons of two regions, is reached first. One with a
//! region of many ranges counts as many.

use forebay_packet::random::Random;

use super::region::{Point, Region};
use std::collections::BTreeSet;
use std::rc::Rc;

/// A region of another rule, as the question sees it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its number in the space.
    pub region: usize,
    /// Whether a point that it takes is an answer.
    pub goal: bool,
}

/// Points drawn in each region before it is cut up.
const DRAWS: usize = 2;

/// What a search comes to.
#[derive(Debug)]
pub enum SearchResult {
    /// There is such a point.
    Found(Point),
    /// There is none.
    None(Settled),
    /// The bound was reached.
    GaveUp,
}

/// How all points were settled.
#[derive(Debug, Default)]
pub struct Settled {
    /// Regions of covers that settled some.
    pub by: BTreeSet<usize>,
    /// Whether some were settled since no goal was left, whatever takes them.
    pub by_end: bool,
}

/// A search and what bounds it.
pub struct Search<'a> {
    /// The regions of the space.
    pub regions: &'a [Region],
    /// Whether a point that no entry takes is an answer.
    pub end_is_goal: bool,
    /// Comparisons that may still be made.
    pub work: u64,
    /// Source of the points that are drawn.
    pub random: Random,
}

/// A region to be settled and the entries that may touch it.
type Task = (Region, Rc<[Entry]>);

/// What a task comes to.
enum Step {
    Found(Point),
    Settled,
    GaveUp,
}

/// The entries that touch a region, and how to go on with it.
struct View {
    touching: Rc<[Entry]>,
    /// The cover to subtract; none if a goal is first.
    best: Option<usize>,
    first_goal: Option<usize>,
}

impl Search<'_> {
    /// Searches `cells`, which are disjoint, among `entries` in list order.
    pub fn run(
        &mut self,
        cells: impl IntoIterator<Item = Region>,
        entries: &[Entry],
    ) -> SearchResult {
        let entries: Rc<[Entry]> = entries.into();
        let mut tasks: Vec<Task> =
            cells.into_iter().map(|cell| (cell, Rc::clone(&entries))).collect();
        let mut settled = Settled::default();
        while let Some(task) = tasks.pop() {
            match self.step(task, &mut tasks, &mut settled) {
                Step::Found(point) => return SearchResult::Found(point),
                Step::GaveUp => return SearchResult::GaveUp,
                Step::Settled => {}
            }
        }
        SearchResult::None(settled)
    }

    /// Settles a task, or puts what is left of it on the stack.
    fn step(&mut self, task: Task, tasks: &mut Vec<Task>, settled: &mut Settled) -> Step {
        let (cell, entries) = task;
        if !self.spend(entries.len() as u64) {
            return Step::GaveUp;
        }
        let view = match self.view(&cell, &entries) {
            Ok(view) => view,
            Err(cover) => {
                settled.by.insert(cover);
                return Step::Settled;
            }
        };
        if view.first_goal.is_none() && !self.end_is_goal {
            settled.by.extend(view.touching.iter().map(|entry| entry.region));
            settled.by_end = true;
            return Step::Settled;
        }
        let Some(best) = view.best else {
            let reached = view.first_goal.and_then(|goal| cell.and(&self.regions[goal]));
            return Step::Found(reached.unwrap_or(cell).least());
        };
        for _ in 0..DRAWS {
            if !self.spend(view.touching.len() as u64) {
                return Step::GaveUp;
            }
            let point = cell.draw(&mut self.random);
            if self.is_answer(&point, &view.touching) {
                return Step::Found(point);
            }
        }
        settled.by.insert(best);
        let pieces = cell.without(&self.regions[best]).into_iter();
        tasks.extend(pieces.map(|piece| (piece, Rc::clone(&view.touching))));
        Step::Settled
    }

    /// Takes `comparisons` from the bound, if it allows them.
    fn spend(&mut self, comparisons: u64) -> bool {
        let left = self.work.checked_sub(comparisons);
        self.work = left.unwrap_or_default();
        left.is_some()
    }

    /// The entries that touch `cell`.
    ///
    /// # Errors
    /// A cover that contains all of it and is preceded by no goal that touches it.
    fn view(&mut self, cell: &Region, entries: &[Entry]) -> Result<View, usize> {
        let mut touching = Vec::new();
        let mut best: Option<(f64, usize)> = None;
        let mut first_goal = None;
        for entry in entries {
            let region = &self.regions[entry.region];
            if !region.is_near(cell) {
                continue;
            }
            let more_ranges = region.more_ranges() + cell.more_ranges();
            self.work = self.work.saturating_sub(more_ranges);
            if more_ranges > 0 && !region.overlaps(cell) {
                continue;
            }
            touching.push(*entry);
            if first_goal.is_some() {
                continue;
            }
            if entry.goal {
                first_goal = Some(entry.region);
                continue;
            }
            if region.covers(cell) {
                return Err(entry.region);
            }
            let share = cell.share(region);
            if best.is_none_or(|(most, _)| share > most) {
                best = Some((share, entry.region));
            }
        }
        Ok(View { touching: touching.into(), best: best.map(|(_, cover)| cover), first_goal })
    }

    fn is_answer(&self, point: &Point, entries: &[Entry]) -> bool {
        let first = entries.iter().find(|entry| self.regions[entry.region].contains(point));
        first.map_or(self.end_is_goal, |entry| entry.goal)
    }
}
