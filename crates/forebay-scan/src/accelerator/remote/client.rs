//! Batches of a client across sessions: each submitted batch is completed once, whatever becomes of
//! the session.

use std::mem;

use super::super::in_flight::InFlight;
use super::super::probe::Probes;
use super::super::{BatchLimits, Cause, Completion, Refused, Ticket};
use super::session::Session;

/// The client, with or without a session.
#[derive(Debug)]
pub(super) struct Client {
    limits: BatchLimits,
    /// Nanoseconds without a valid completion, after a batch was late, until the session ends.
    patience: u64,
    probes: Probes,
    session: Option<Session>,
    in_flight: InFlight,
    /// Whether a session ended while a batch was open.
    is_open_lost: bool,
    /// When a batch was late, with no completion since.
    stalled_since: Option<u64>,
    completed: Vec<Completion>,
}

impl Client {
    pub(super) fn new(limits: BatchLimits, patience: u64, probes: Probes) -> Self {
        Self {
            limits,
            patience,
            probes,
            session: None,
            in_flight: InFlight::default(),
            is_open_lost: false,
            stalled_since: None,
            completed: Vec::new(),
        }
    }

    /// Uses a session from now on.
    pub(super) fn start(&mut self, session: Session) {
        self.session = Some(session);
        self.stalled_since = None;
    }

    /// Ends the session: what is in flight may match.
    pub(super) fn end(&mut self, cause: Cause) {
        let Some(session) = self.session.take() else { return };
        self.is_open_lost |= session.open_texts() > 0;
        while let Some(ticket) = self.in_flight.any() {
            self.complete(ticket, cause);
        }
    }

    fn complete(&mut self, ticket: Ticket, cause: Cause) {
        if self.in_flight.complete(ticket) {
            self.completed.push(Completion { ticket, result: Err(cause) });
        }
    }

    pub(super) fn push(&mut self, parts: &[&[u8]]) -> Result<(), Refused> {
        if self.is_open_lost {
            // The batch that was open is submitted first, and is completed as lost.
            return Err(Refused::Full);
        }
        let session = self.session.as_mut().ok_or(Refused::MayMatch(Cause::Unavailable))?;
        session.push(parts)
    }

    /// Submits the open batch. Returns its ticket, and whether the device must be woken.
    pub(super) fn submit(&mut self, now: u64) -> Option<(Ticket, bool)> {
        let deadline = now.saturating_add(self.limits.time_limit);
        if mem::take(&mut self.is_open_lost) {
            let ticket = self.in_flight.add(deadline);
            self.complete(ticket, Cause::Reset);
            return Some((ticket, false));
        }
        let session = self.session.as_mut().filter(|session| session.open_texts() > 0)?;
        let ticket = self.in_flight.add(deadline);
        Some((ticket, session.submit(ticket, &mut self.probes)))
    }

    /// Appends what is completed at time `now`. Ends a session that is not usable, and returns why.
    pub(super) fn poll(&mut self, now: u64, completed: &mut Vec<Completion>) -> Option<Cause> {
        let Self { session, in_flight, completed: own, stalled_since, .. } = self;
        let taken = session.as_mut().map(|session| {
            session.take(|ticket, result| {
                *stalled_since = None;
                if in_flight.complete(ticket) {
                    own.push(Completion { ticket, result });
                }
            })
        });
        while let Some(ticket) = self.in_flight.overdue(now) {
            self.complete(ticket, Cause::TimeOut);
            self.stalled_since.get_or_insert(now);
        }
        let is_stalled =
            self.stalled_since.is_some_and(|since| now.saturating_sub(since) >= self.patience);
        let trouble = match taken {
            Some(Err(_)) => Some(Cause::Garbage),
            Some(Ok(())) if is_stalled => Some(Cause::TimeOut),
            _ => None,
        };
        if let Some(cause) = trouble {
            self.end(cause);
        }
        completed.append(&mut self.completed);
        trouble
    }

    /// Whether a completion can be polled without waiting.
    pub(super) fn is_ready(&self) -> bool {
        !self.completed.is_empty() || self.in_flight.count() == 0
    }

    pub(super) fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.count() + self.completed.len()
    }
}
