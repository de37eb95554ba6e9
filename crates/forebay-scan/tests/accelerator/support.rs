//! Sets, texts, and the matches that are expected.

use std::sync::Arc;

use forebay_packet::random::Random;
use forebay_scan::accelerator::{Accelerator, BatchLimits, Completion, Refused};
use forebay_scan::{Engine, LiteralSet, Match, Matches, Scanner};

/// A nanosecond clock of a test.
pub const MILLISECOND: u64 = 1_000_000;

pub fn small_limits() -> BatchLimits {
    BatchLimits { bytes: 512, texts: 8, matches: 64, in_flight: 4, time_limit: 50 * MILLISECOND }
}

/// Literals over a small alphabet, some of them equal or within others.
pub fn literals(random: &mut Random, count: usize) -> LiteralSet {
    let mut set = LiteralSet::new();
    for _ in 0..count {
        let len = random.between(3, 9) as usize;
        let bytes = letters(random, len);
        set.push(&bytes, random.one_in(2)).unwrap();
    }
    set
}

pub fn letters(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.pick(b"abAB")).collect()
}

pub fn compile(set: &LiteralSet) -> Arc<Scanner> {
    Arc::new(Scanner::compile(set, Engine::Oracle).unwrap())
}

/// The matches of the texts of a batch, by the scanner alone.
pub fn expected(scanner: &Scanner, texts: &[Vec<u8>]) -> Vec<Match> {
    let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let mut matches = Matches::new();
    scanner.scan(&texts, &mut scanner.scratch(), &mut matches);
    let mut matches = matches.as_slice().to_vec();
    matches.sort_unstable();
    matches
}

/// Batches that were submitted, by ticket, and what came back.
#[derive(Default)]
pub struct Record {
    open: Vec<Vec<u8>>,
    pub submitted: Vec<Vec<Vec<u8>>>,
    pub completions: Vec<Completion>,
    pub refused: usize,
}

impl Record {
    /// Adds a text in up to three parts. Submits a full batch before it.
    pub fn push(&mut self, accelerator: &mut impl Accelerator, text: &[u8], now: u64) {
        let (a, b) = (text.len() / 3, text.len() / 2);
        let parts = [&text[..a], &text[a..b], &text[b..]];
        match accelerator.push(&parts) {
            Ok(()) => self.open.push(text.to_vec()),
            Err(Refused::Full) => {
                self.submit(accelerator, now);
                match accelerator.push(&parts) {
                    Ok(()) => self.open.push(text.to_vec()),
                    Err(_) => self.refused += 1,
                }
            }
            Err(Refused::MayMatch(_)) => self.refused += 1,
        }
    }

    pub fn submit(&mut self, accelerator: &mut impl Accelerator, now: u64) {
        if let Some(ticket) = accelerator.submit(now) {
            assert_eq!(ticket, self.submitted.len() as u64, "tickets are consecutive");
            self.submitted.push(std::mem::take(&mut self.open));
        }
    }

    pub fn poll(&mut self, accelerator: &mut impl Accelerator, now: u64) {
        accelerator.poll(now, &mut self.completions);
        assert_eq!(
            self.submitted.len(),
            self.completions.len() + accelerator.in_flight(),
            "submitted = completed + in flight"
        );
    }

    /// Checks that each batch was completed once, and that those that were scanned have the
    /// scanner's matches. Returns the number of those.
    pub fn check(&self, scanner: &Scanner) -> usize {
        let mut tickets: Vec<u64> = self.completions.iter().map(|one| one.ticket).collect();
        tickets.sort_unstable();
        assert!(tickets.windows(2).all(|pair| pair[0] != pair[1]), "a batch was completed twice");
        let mut scanned = 0;
        for Completion { ticket, result } in &self.completions {
            if let Ok(matches) = result {
                let texts = &self.submitted[*ticket as usize];
                assert_eq!(*matches, expected(scanner, texts), "batch {ticket}");
                scanned += 1;
            }
        }
        scanned
    }
}
