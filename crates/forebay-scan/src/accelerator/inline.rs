//! The accelerator that scans in the caller's thread, when a batch is submitted.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::batch::{Batch, BatchScanner};
use super::{Accelerator, BatchLimits, Cause, Completion, LimitError, Refused, Ticket};
use crate::scanner::Scanner;

/// An [`Accelerator`] without concurrency: each batch is completed by the next poll.
#[derive(Debug)]
pub struct Inline {
    scanner: BatchScanner,
    limits: BatchLimits,
    open: Batch,
    next: Ticket,
    completed: Vec<Completion>,
}

impl Inline {
    /// Scans with `scanner`.
    ///
    /// # Errors
    /// A limit is out of range.
    pub fn new(scanner: Arc<Scanner>, limits: BatchLimits) -> Result<Self, LimitError> {
        limits.check()?;
        Ok(Self {
            scanner: BatchScanner::new(scanner, limits.matches),
            limits,
            open: Batch::default(),
            next: 0,
            completed: Vec::new(),
        })
    }
}

impl Accelerator for Inline {
    fn push(&mut self, parts: &[&[u8]]) -> Result<(), Refused> {
        if self.completed.len() >= self.limits.in_flight as usize {
            return Err(Refused::MayMatch(Cause::Busy));
        }
        self.open.push(parts, &self.limits)
    }

    fn submit(&mut self, _now: u64) -> Option<Ticket> {
        if self.open.len() == 0 {
            return None;
        }
        let ticket = self.next;
        self.next += 1;
        let result = self.scanner.scan(&self.open);
        self.completed.push(Completion { ticket, result });
        self.open.clear();
        Some(ticket)
    }

    fn poll(&mut self, _now: u64, completed: &mut Vec<Completion>) {
        completed.append(&mut self.completed);
    }

    fn wait(&mut self, _limit: Duration) -> io::Result<()> {
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.completed.len()
    }
}
