//! The batches in flight by ticket: each is completed once, or at its deadline.

use std::collections::VecDeque;

use super::Ticket;

#[derive(Clone, Copy, Debug)]
struct Entry {
    deadline: u64,
    is_completed: bool,
}

/// Submitted batches, in the order of their tickets.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight {
    /// The ticket of the first entry.
    first: Ticket,
    entries: VecDeque<Entry>,
    count: usize,
}

impl InFlight {
    /// Adds a batch, and returns its ticket.
    pub(super) fn add(&mut self, deadline: u64) -> Ticket {
        self.entries.push_back(Entry { deadline, is_completed: false });
        self.count += 1;
        self.first + self.entries.len() as Ticket - 1
    }

    /// Completes a batch. Whether it was in flight.
    pub(super) fn complete(&mut self, ticket: Ticket) -> bool {
        let index = ticket.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        let Some(entry) = index.and_then(|index| self.entries.get_mut(index)) else { return false };
        if entry.is_completed {
            return false;
        }
        entry.is_completed = true;
        self.count -= 1;
        while self.entries.front().is_some_and(|entry| entry.is_completed) {
            self.entries.pop_front();
            self.first += 1;
        }
        true
    }

    /// A batch whose deadline is `now` or earlier.
    pub(super) fn overdue(&self, now: u64) -> Option<Ticket> {
        let late = |entry: &Entry| !entry.is_completed && entry.deadline <= now;
        let index = self.entries.iter().take_while(|entry| entry.deadline <= now).position(late)?;
        Some(self.first + index as Ticket)
    }

    /// A batch in flight.
    pub(super) fn any(&self) -> Option<Ticket> {
        // The first entry is in flight: completed ones are removed from the front.
        (!self.entries.is_empty()).then_some(self.first)
    }

    /// The number of batches in flight.
    pub(super) fn count(&self) -> usize {
        self.count
    }
}
