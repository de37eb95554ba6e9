//! The caller's side of an accelerator: closes batches by size or age, and returns verdicts in the
//! order of each flow's texts.
//!
//! Batches are completed in any order. Each text has a lane, its flow modulo their number; a verdict
//! waits until those of all earlier texts of its lane have been returned. Lanes need no table of
//! flows and no memory by flow; flows of the same lane wait for each other.
//!
//! Invariants: every text that was passed in gets one verdict, and those of a lane are returned in
//! order; `texts = clean + matched + may_match + pending` at all times.

use std::collections::VecDeque;

use super::{Accelerator, Cause, Completion, Refused, Ticket};
use crate::matches::Match;

/// Lanes; a power of two.
const LANES: usize = 1024;

/// No text.
const NONE: u32 = u32::MAX;

/// When batches are closed, and how many texts may be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffloadOptions {
    /// Nanoseconds from the first text of a batch until it is submitted although it has room.
    pub max_age: u64,
    /// Texts without a returned verdict. With one more all that are pending may match, whatever the
    /// device does, and the next [`Offload::poll`] returns them. A caller that does not poll is given
    /// no verdicts, so that its texts are kept.
    pub max_pending: u32,
}

impl Default for OffloadOptions {
    fn default() -> Self {
        Self { max_age: 200_000, max_pending: 1 << 16 }
    }
}

/// The result for a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// No literal occurs in it.
    Clean,
    /// These occur in it, each once, sorted by literal, and no others.
    Matches(&'a [Match]),
    /// Any may occur in it.
    MayMatch(Cause),
}

/// A text with its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scanned<'a> {
    /// The flow that was passed in.
    pub flow: u64,
    /// The tag that was passed in.
    pub tag: u64,
    /// The verdict.
    pub verdict: Verdict<'a>,
}

/// Texts by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Texts that were passed in.
    pub texts: u64,
    /// Texts that were returned as clean.
    pub clean: u64,
    /// Texts that were returned with matches.
    pub matched: u64,
    /// Texts that were returned as uncertain, by the number of the cause in [`Cause::ALL`].
    pub may_match: [u64; Cause::ALL.len()],
    /// Batches that were submitted.
    pub batches: u64,
}

impl Counts {
    /// Texts whose verdict was not returned yet.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.texts - self.clean - self.matched - self.may_match.iter().sum::<u64>()
    }
}

/// A text under way.
#[derive(Clone, Copy, Debug)]
struct Text {
    flow: u64,
    tag: u64,
    /// The next text of its lane.
    next: u32,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Waits,
    Clean,
    /// Matches of a batch's answer.
    Matches {
        answer: u32,
        first: u32,
        count: u32,
    },
    MayMatch(Cause),
}

/// The first and the last text of a lane.
#[derive(Clone, Copy, Debug)]
struct Lane {
    first: u32,
    last: u32,
}

/// Matches that texts refer to.
#[derive(Clone, Debug, Default)]
struct Answer {
    matches: Vec<Match>,
    /// Texts with matches in it.
    texts: u32,
}

/// An accelerator, with batches and order kept.
#[derive(Debug)]
pub struct Offload<A> {
    accelerator: A,
    options: OffloadOptions,
    texts: Vec<Text>,
    free_texts: Vec<u32>,
    lanes: Vec<Lane>,
    answers: Vec<Answer>,
    free_answers: Vec<u32>,
    /// The texts of the open batch, and when the first was added.
    open: Vec<u32>,
    opened: u64,
    /// The ticket of the first entry of `batches`.
    first_ticket: Ticket,
    /// The texts of each submitted batch; none after it was completed.
    batches: VecDeque<Option<Vec<u32>>>,
    free_batches: Vec<Vec<u32>>,
    /// Texts with a verdict at the head of their lanes, to be returned.
    ready: VecDeque<u32>,
    completions: Vec<Completion>,
    counts: Counts,
}

impl<A: Accelerator> Offload<A> {
    /// Uses an accelerator to which nothing was submitted yet.
    pub fn new(accelerator: A, options: OffloadOptions) -> Self {
        Self {
            accelerator,
            options,
            texts: Vec::new(),
            free_texts: Vec::new(),
            lanes: vec![Lane { first: NONE, last: NONE }; LANES],
            answers: Vec::new(),
            free_answers: Vec::new(),
            open: Vec::new(),
            opened: 0,
            first_ticket: 0,
            batches: VecDeque::new(),
            free_batches: Vec::new(),
            ready: VecDeque::new(),
            completions: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Texts by verdict so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The accelerator.
    pub fn accelerator(&mut self) -> &mut A {
        &mut self.accelerator
    }

    /// Takes a text of a flow: the parts, one after the other. Its verdict, with `tag`, is returned
    /// by a later [`Offload::poll`].
    pub fn scan(&mut self, flow: u64, tag: u64, parts: &[&[u8]], now: u64) {
        if self.counts.pending() >= u64::from(self.options.max_pending) {
            self.give_up(now);
        }
        self.counts.texts += 1;
        let text = self.add(flow, tag);
        let mut pushed = self.accelerator.push(parts);
        if pushed == Err(Refused::Full) {
            self.submit(now);
            pushed = self.accelerator.push(parts);
        }
        match pushed {
            Ok(()) => {
                if self.open.is_empty() {
                    self.opened = now;
                }
                self.open.push(text);
            }
            Err(Refused::Full) => self.decide(text, State::MayMatch(Cause::Busy)),
            Err(Refused::MayMatch(cause)) => self.decide(text, State::MayMatch(cause)),
        }
    }

    /// Submits the open batch, if there is one.
    pub fn submit(&mut self, now: u64) {
        let Some(ticket) = self.accelerator.submit(now) else { return };
        debug_assert_eq!(ticket, self.first_ticket + self.batches.len() as Ticket);
        let next = self.free_batches.pop().unwrap_or_default();
        self.batches.push_back(Some(std::mem::replace(&mut self.open, next)));
        self.counts.batches += 1;
    }

    /// Submits the open batch if it is old enough, takes completed batches, and calls `each` with
    /// the texts whose verdicts can be returned.
    pub fn poll(&mut self, now: u64, mut each: impl FnMut(Scanned<'_>)) {
        if !self.open.is_empty() && now.saturating_sub(self.opened) >= self.options.max_age {
            self.submit(now);
        }
        let mut completions = std::mem::take(&mut self.completions);
        self.accelerator.poll(now, &mut completions);
        for Completion { ticket, result } in completions.drain(..) {
            self.complete(ticket, result);
        }
        self.completions = completions;
        while let Some(text) = self.ready.pop_front() {
            self.give(text, &mut each);
        }
    }

    /// Adds a text to its lane.
    fn add(&mut self, flow: u64, tag: u64) -> u32 {
        let text = Text { flow, tag, next: NONE, state: State::Waits };
        let index = match self.free_texts.pop() {
            Some(index) => {
                self.texts[index as usize] = text;
                index
            }
            None => {
                self.texts.push(text);
                self.texts.len() as u32 - 1
            }
        };
        let lane = &mut self.lanes[lane_of(flow)];
        match lane.last {
            NONE => lane.first = index,
            last => self.texts[last as usize].next = index,
        }
        lane.last = index;
        index
    }

    /// Sets the verdict of a text. It is ready if it is the first of its lane.
    fn decide(&mut self, text: u32, state: State) {
        let Text { flow, state: old, .. } = &mut self.texts[text as usize];
        *old = state;
        if self.lanes[lane_of(*flow)].first == text {
            self.ready.push_back(text);
        }
    }

    /// Takes the answer for a batch.
    fn complete(&mut self, ticket: Ticket, result: Result<Vec<Match>, Cause>) {
        let index = ticket.checked_sub(self.first_ticket).and_then(|i| usize::try_from(i).ok());
        let batch = index.and_then(|index| self.batches.get_mut(index)?.take());
        while let Some(None) = self.batches.front() {
            self.batches.pop_front();
            self.first_ticket += 1;
        }
        // Given up before.
        let Some(mut batch) = batch else { return };
        match result {
            Err(cause) => {
                batch.iter().for_each(|&text| self.decide(text, State::MayMatch(cause)));
            }
            Ok(matches) if matches.is_empty() => {
                batch.iter().for_each(|&text| self.decide(text, State::Clean));
            }
            Ok(matches) => self.answer(&batch, matches),
        }
        batch.clear();
        self.free_batches.push(batch);
    }

    /// Keeps the matches of a batch, and sets the verdicts of its texts.
    fn answer(&mut self, batch: &[u32], matches: Vec<Match>) {
        debug_assert!(matches.is_sorted());
        let answer = self.free_answers.pop().unwrap_or_else(|| {
            self.answers.push(Answer::default());
            self.answers.len() as u32 - 1
        });
        let (mut first, mut texts) = (0, 0);
        for (number, &text) in (0..).zip(batch) {
            let rest = &matches[first as usize..];
            let count = rest.iter().take_while(|found| found.text == number).count() as u32;
            let state = match count {
                0 => State::Clean,
                _ => State::Matches { answer, first, count },
            };
            texts += u32::from(count > 0);
            first += count;
            self.decide(text, state);
        }
        if texts == 0 {
            self.free_answers.push(answer);
        } else {
            self.answers[answer as usize] = Answer { matches, texts };
        }
    }

    /// Returns the verdict of the first text of a lane, and makes the next ready.
    fn give(&mut self, index: u32, each: &mut impl FnMut(Scanned<'_>)) {
        let Text { flow, tag, next, state } = self.texts[index as usize];
        let verdict = match state {
            // Only texts with a verdict are ready.
            State::Waits => return,
            State::Clean => {
                self.counts.clean += 1;
                Verdict::Clean
            }
            State::Matches { answer, first, count } => {
                self.counts.matched += 1;
                let matches = &self.answers[answer as usize].matches;
                Verdict::Matches(&matches[first as usize..][..count as usize])
            }
            State::MayMatch(cause) => {
                self.counts.may_match[cause as usize] += 1;
                Verdict::MayMatch(cause)
            }
        };
        each(Scanned { flow, tag, verdict });
        if let State::Matches { answer, .. } = state {
            let kept = &mut self.answers[answer as usize];
            kept.texts -= 1;
            if kept.texts == 0 {
                kept.matches = Vec::new();
                self.free_answers.push(answer);
            }
        }
        let lane = &mut self.lanes[lane_of(flow)];
        lane.first = next;
        if next == NONE {
            lane.last = NONE;
        } else if !matches!(self.texts[next as usize].state, State::Waits) {
            self.ready.push_back(next);
        }
        self.free_texts.push(index);
    }

    /// Stops waiting for all batches: every text that waits may match.
    fn give_up(&mut self, now: u64) {
        self.submit(now);
        for index in 0..self.batches.len() {
            for text in self.batches[index].take().unwrap_or_default() {
                self.decide(text, State::MayMatch(Cause::Busy));
            }
        }
    }
}

fn lane_of(flow: u64) -> usize {
    flow as usize & (LANES - 1)
}
