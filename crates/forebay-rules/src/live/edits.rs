//! Changes that name rules by family and number.

use super::error::LiveError;
use super::list::Live;
use super::listing::{Listing, Step};
use super::names::Named;
use super::writers::InForce;
use crate::rule::{Rule, RuleList};
use std::collections::HashMap;
use std::sync::Arc;

/// A place in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before a rule.
    Before(Named),
    /// After a rule.
    After(Named),
    /// Before all rules.
    Start,
    /// After all rules.
    End,
}

/// A change of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Inserts a rule at a place.
    Insert(Rule, Place),
    /// Removes a rule.
    Delete(Named),
    /// Moves a rule to another place; its counter continues.
    Move(Named, Place),
    /// Replaces a rule by another at the same place.
    Replace(Named, Rule),
}

/// The changes that turn one list into another.
pub struct Difference {
    edition: u64,
    /// The number of equal rules at the start; and for the old and the new list the place where
    /// the equal rules at the end begin, and the number of rules.
    pub span: (usize, [(usize, usize); 2]),
    deleted: Vec<usize>,
    /// The rules to insert, by their places in the new list; ascending.
    placed: Vec<(usize, Placed)>,
}

enum Placed {
    New(Arc<Rule>),
    /// The deleted rule with this index.
    Moved(usize),
}

impl Live {
    /// Makes all changes, one after another, or none of them.
    ///
    /// # Errors
    /// That of the first change that cannot be made.
    pub fn edit(&self, edits: Vec<Edit>) -> Result<InForce, LiveError> {
        self.shared.change(None, |list, steps| {
            edits.into_iter().try_for_each(|edit| list.edit(edit, steps))
        })
    }

    /// The changes that turn this list into `list`, if at most `most` rules are inserted, removed
    /// or moved, and the default is the same.
    #[must_use]
    pub fn difference(&self, list: &RuleList, most: usize) -> Option<Difference> {
        let (old, edition, default) = {
            let state = self.shared.state();
            (state.list.rules(), state.edition, state.default)
        };
        if default != list.default {
            return None;
        }
        let same = |at: usize, new: usize| *old[at].1 == list.rules[new];
        let shorter = old.len().min(list.rules.len());
        let before = (0..shorter).take_while(|&at| same(at, at)).count();
        let behind = (1..=shorter - before)
            .take_while(|back| same(old.len() - back, list.rules.len() - back))
            .count();
        let (last, new_last) = (old.len() - behind, list.rules.len() - behind);
        let places: HashMap<Named, usize> =
            (before..last).map(|at| (Named::of(&old[at].1), at)).collect();
        let found: Vec<(usize, usize)> = (before..new_last)
            .filter_map(|new| Some((*places.get(&Named::of(&list.rules[new]))?, new)))
            .filter(|&(at, new)| same(at, new))
            .collect();
        let kept = longest_ascending(&found);
        let count = last - before + new_last - before - 2 * kept.len();
        if count > most {
            return None;
        }
        let is_kept: std::collections::HashSet<usize> = kept.iter().map(|&(at, _)| at).collect();
        let deleted: Vec<usize> = (before..last).filter(|at| !is_kept.contains(at)).collect();
        let moved: HashMap<usize, usize> = found.into_iter().map(|(at, new)| (new, at)).collect();
        let placed = (before..new_last).filter_map(|new| match moved.get(&new) {
            Some(at) if is_kept.contains(at) => None,
            Some(at) => Some((new, Placed::Moved(deleted.binary_search(at).ok()?))),
            None => Some((new, Placed::New(Arc::new(list.rules[new].clone())))),
        });
        let placed = placed.collect();
        let span = (before, [(last, old.len()), (new_last, list.rules.len())]);
        Some(Difference { edition, span, deleted, placed })
    }

    /// Makes the changes of `difference`, if the list has not changed since.
    ///
    /// # Errors
    /// [`LiveError::Changed`] if it is not, and as [`Live::edit`].
    pub fn follow(&self, difference: Difference) -> Result<InForce, LiveError> {
        let Difference { edition, deleted, placed, .. } = difference;
        self.shared.change(Some(edition), |list, steps| {
            let numbers: Vec<u32> = deleted.iter().map(|&at| list.number_at(at)).collect();
            for (&at, &number) in deleted.iter().zip(&numbers).rev() {
                list.make(Step::Delete(at, number), steps);
            }
            for (at, placed) in placed {
                let number = match placed {
                    Placed::New(rule) => list.add(rule)?,
                    Placed::Moved(index) => numbers[index],
                };
                list.make(Step::Insert(at, number), steps);
            }
            Ok(())
        })
    }
}

impl Difference {
    /// The number of rules that are inserted, removed or moved.
    #[must_use]
    pub fn changes(&self) -> usize {
        let moved = self.placed.iter().filter(|(_, placed)| matches!(placed, Placed::Moved(_)));
        self.deleted.len() + self.placed.len() - moved.count()
    }
}

impl Listing {
    fn edit(&mut self, edit: Edit, steps: &mut Vec<Step>) -> Result<(), LiveError> {
        match edit {
            Edit::Insert(rule, place) => {
                let at = self.place_of(place)?;
                self.require_free(&rule)?;
                let number = self.add(Arc::new(rule))?;
                self.make(Step::Insert(at, number), steps);
            }
            Edit::Delete(name) => {
                let at = self.known(name)?;
                self.make(Step::Delete(at, self.number_at(at)), steps);
            }
            Edit::Move(name, place) => {
                let from = self.known(name)?;
                let to = self.place_of(place)?;
                let number = self.number_at(from);
                self.make(Step::Delete(from, number), steps);
                self.make(Step::Insert(if to > from { to - 1 } else { to }, number), steps);
            }
            Edit::Replace(name, rule) => {
                let at = self.known(name)?;
                if Named::of(&rule) != name {
                    self.require_free(&rule)?;
                }
                self.make(Step::Delete(at, self.number_at(at)), steps);
                let number = self.add(Arc::new(rule))?;
                self.make(Step::Insert(at, number), steps);
            }
        }
        Ok(())
    }

    fn known(&self, name: Named) -> Result<usize, LiveError> {
        self.find(name).ok_or(LiveError::Missing(name))
    }

    fn require_free(&self, rule: &Rule) -> Result<(), LiveError> {
        let name = Named::of(rule);
        if self.find(name).is_some() { Err(LiveError::Taken(name)) } else { Ok(()) }
    }

    fn place_of(&self, place: Place) -> Result<usize, LiveError> {
        match place {
            Place::Before(name) => self.known(name),
            Place::After(name) => Ok(self.known(name)? + 1),
            Place::Start => Ok(0),
            Place::End => Ok(self.len()),
        }
    }
}

/// A longest subsequence of `pairs` with ascending first numbers.
fn longest_ascending(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // For each length, the index of the last pair of the subsequence with the least end; and for
    // each pair its predecessor.
    let (mut ends, mut before) = (Vec::<usize>::new(), Vec::with_capacity(pairs.len()));
    for (index, &(first, _)) in pairs.iter().enumerate() {
        let at = ends.partition_point(|&end| pairs[end].0 < first);
        before.push(at.checked_sub(1).map(|last| ends[last]));
        if at == ends.len() { ends.push(index) } else { ends[at] = index }
    }
    let mut next = ends.last().copied();
    let mut all = Vec::with_capacity(ends.len());
    while let Some(index) = next {
        all.push(pairs[index]);
        next = before[index];
    }
    all.reverse();
    all
}
