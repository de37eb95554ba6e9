//! Faults of a device: each means "may match".

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use forebay_packet::random::Random;
use forebay_scan::accelerator::protocol::{
    COMPLETED, COMPLETION_WORDS, DESCRIPTOR_WORDS, Descriptor, Reply, check_word, match_word,
    status,
};
use forebay_scan::accelerator::{Accelerator, Cause, Refused, RemoteOptions, Simulated};
use forebay_scan::{LiteralSet, Match, Scanner};

use super::support::{MILLISECOND, Record, compile, letters, literals, small_limits};

/// A device of two literals with a batch of two texts submitted, of which one matches.
struct Bench {
    simulated: Simulated,
    record: Record,
    scanner: Arc<Scanner>,
}

impl Bench {
    fn new() -> Self {
        let mut set = LiteralSet::new();
        set.push(b"needle", false).unwrap();
        set.push(b"thread", true).unwrap();
        let scanner = compile(&set);
        let options =
            RemoteOptions { limits: small_limits(), ..RemoteOptions::new(PathBuf::new()) };
        let simulated = Simulated::new(&options, &set, Arc::clone(&scanner), 1).unwrap();
        let mut bench = Self { simulated, record: Record::default(), scanner };
        bench.submit(0);
        bench
    }

    fn submit(&mut self, now: u64) {
        self.record.push(&mut self.simulated, b"hay and hay", now);
        self.record.push(&mut self.simulated, b"a needle", now);
        self.record.submit(&mut self.simulated, now);
    }

    fn poll(&mut self, now: u64) -> Vec<Result<Vec<Match>, Cause>> {
        let before = self.record.completions.len();
        self.record.poll(&mut self.simulated, now);
        self.record.check(&self.scanner);
        self.record.completions[before..].iter().map(|one| one.result.clone()).collect()
    }

    /// The device scans a batch.
    fn step(&mut self) {
        assert!(self.simulated.step().unwrap());
    }

    /// Accesses the completion at a position as the device does.
    fn reply(&self, position: u64) -> Reply {
        let at = self.simulated.layout().completion_at(position);
        let control = self.simulated.regions()[0];
        Reply::decode(std::array::from_fn(|i| control[at + i].load(Relaxed)))
    }

    fn put(&self, position: u64, reply: &Reply) {
        let at = self.simulated.layout().completion_at(position);
        let control = self.simulated.regions()[0];
        let words: [u64; COMPLETION_WORDS] = reply.encode();
        words.into_iter().enumerate().for_each(|(i, word)| control[at + i].store(word, Relaxed));
    }

    fn descriptor(&self, position: u64) -> Descriptor {
        let at = self.simulated.layout().descriptor_at(position);
        let control = self.simulated.regions()[0];
        let words: [u64; DESCRIPTOR_WORDS] = std::array::from_fn(|i| control[at + i].load(Relaxed));
        Descriptor::decode(words)
    }

    /// Answers the first batch with these matches, and a right check word.
    fn answer(&self, status: u16, matches: &[Match], change: impl Fn(&mut Reply)) {
        let descriptor = self.descriptor(0);
        let first = descriptor.results.offset as usize / 8;
        for (word, &found) in self.simulated.regions()[2][first..].iter().zip(matches) {
            word.store(match_word(found), Relaxed);
        }
        let (id, generation) = (descriptor.id, descriptor.generation);
        let count = matches.len() as u32;
        let mut reply = Reply { id, generation, status, check: 0, matches: count, offset: 0 };
        change(&mut reply);
        let words = matches.iter().map(|&found| match_word(found));
        reply.check = check_word(reply.encode(), descriptor.cookie, words);
        self.put(0, &reply);
        self.completed(1);
    }

    fn completed(&self, count: u64) {
        self.simulated.regions()[0][COMPLETED].store(count, Relaxed);
    }
}

const FOUND: Match = Match { text: 1, literal: 0 };

/// The match of the probe of the first batch: its text is the third.
const PROBE: Match = Match { text: 2, literal: 0 };

#[test]
fn a_right_answer_is_accepted() {
    let mut bench = Bench::new();
    bench.answer(status::DONE, &[PROBE, FOUND, FOUND], |_| {});
    assert_eq!(bench.poll(0), [Ok(vec![FOUND])]);
    let mut bench = Bench::new();
    bench.step();
    assert_eq!(bench.poll(0), [Ok(vec![FOUND])]);
}

#[test]
fn statuses_other_than_done_mean_may_match() {
    let statuses = [
        (status::BUSY, Cause::Busy),
        (status::FAULT, Cause::Fault),
        (status::OVERFLOW, Cause::Overflow),
        (status::TIME_OUT, Cause::TimeOut),
        (status::RESET, Cause::Reset),
    ];
    for (status, cause) in statuses {
        let mut bench = Bench::new();
        bench.answer(status, &[], |_| {});
        assert_eq!(bench.poll(0), [Err(cause)]);
        assert_eq!(bench.simulated.generation(), 1, "the session goes on");
    }
}

#[test]
fn a_batch_whose_texts_overlap_is_not_scanned() {
    // The table of three texts, of which the last is a probe: 11, 8 and 6 bytes.
    let entry = |start: u64, len: u64| start | len << 32;
    let right = [entry(24, 11), entry(40, 8), entry(48, 6)];
    for (number, word, expected) in [
        (0, right[0], None),
        // Shorter, or with a hole behind it; empty.
        (1, entry(40, 7), None),
        (1, entry(40, 0), None),
        // In the table, in the text before or the next one; not at a word; behind the end.
        (0, entry(16, 11), Some(Cause::Fault)),
        (1, entry(32, 8), Some(Cause::Fault)),
        (1, entry(24, 11), Some(Cause::Fault)),
        (1, entry(40, 9), Some(Cause::Fault)),
        (1, entry(41, 7), Some(Cause::Fault)),
        (2, entry(48, 9), Some(Cause::Fault)),
        (2, entry(u64::from(u32::MAX) - 7, 6), Some(Cause::Fault)),
    ] {
        let mut bench = Bench::new();
        let first = bench.descriptor(0).batch.offset as usize / 8;
        let table = &bench.simulated.regions()[1][first..];
        assert_eq!([0, 1, 2].map(|at| table[at].load(Relaxed)), right);
        table[number].store(word, Relaxed);
        bench.step();
        assert_eq!(bench.reply(0).status == status::FAULT, expected.is_some(), "{number} {word:x}");
    }
}

#[test]
fn too_many_matches_overflow() {
    let mut set = LiteralSet::new();
    for _ in 0..100 {
        set.push(b"ab", false).unwrap();
    }
    let options = RemoteOptions { limits: small_limits(), ..RemoteOptions::new(PathBuf::new()) };
    let mut simulated = Simulated::new(&options, &set, compile(&set), 1).unwrap();
    let mut completions = Vec::new();
    simulated.push(&[b"ab"]).unwrap();
    simulated.submit(0).unwrap();
    assert!(simulated.step().unwrap());
    simulated.poll(0, &mut completions);
    assert_eq!(completions[0].result, Err(Cause::Overflow));
}

/// Expects that the whole session is given up.
fn is_garbage(mut bench: Bench, what: &str) {
    bench.submit(0);
    assert_eq!(bench.poll(0), [Err(Cause::Garbage), Err(Cause::Garbage)], "{what}");
    assert_eq!(bench.simulated.generation(), 2, "{what}: there is a new session");
    bench.submit(0);
    bench.step();
    assert_eq!(bench.poll(0), [Ok(vec![FOUND])], "{what}: the new session works");
}

#[test]
fn garbage_in_a_completion_ends_the_session() {
    type Change = fn(&mut Reply);
    let changes: [(&str, Change); 9] = [
        ("an unknown batch", |reply| reply.id += 1024),
        ("a free slot", |reply| reply.id += 2),
        ("a slot that does not exist", |reply| reply.id += 1000),
        ("another generation", |reply| reply.generation += 1),
        ("an unknown status", |reply| reply.status = 6),
        ("an offset outside the area", |reply| reply.offset = 1 << 20),
        ("an offset that is not a multiple of 8", |reply| reply.offset = 4),
        ("too many matches", |reply| reply.matches = 1 << 20),
        ("the most matches", |reply| reply.matches = u32::MAX),
    ];
    for (what, change) in changes {
        let bench = Bench::new();
        bench.answer(status::DONE, &[FOUND, PROBE], change);
        is_garbage(bench, what);
    }
    let wrong = |text, literal| Match { text, literal };
    let matches = [
        ("no match of the probe", vec![FOUND]),
        ("another literal in the probe", vec![FOUND, wrong(2, 1)]),
        ("no match at all", vec![]),
        ("a literal out of range", vec![PROBE, wrong(0, 2)]),
        ("a text out of range", vec![PROBE, wrong(3, 0)]),
    ];
    for (what, matches) in matches {
        let bench = Bench::new();
        bench.answer(status::DONE, &matches, |_| {});
        is_garbage(bench, what);
    }
}

#[test]
fn positions_that_are_not_possible_end_the_session() {
    for completed in [2, 5, u64::MAX, 1 << 63] {
        let mut bench = Bench::new();
        bench.completed(completed);
        assert_eq!(bench.poll(0), [Err(Cause::Garbage)], "{completed}");
    }
    // The ring still has the first completion at its place.
    let mut bench = Bench::new();
    bench.step();
    assert_eq!(bench.poll(0), [Ok(vec![FOUND])]);
    bench.submit(0);
    bench.put(1, &bench.reply(0));
    bench.completed(2);
    assert_eq!(bench.poll(0), [Err(Cause::Garbage)], "twice the same");
    // Going back is as going far ahead.
    let mut bench = Bench::new();
    bench.step();
    assert_eq!(bench.poll(0), [Ok(vec![FOUND])]);
    bench.submit(0);
    bench.completed(0);
    assert_eq!(bench.poll(0), [Err(Cause::Garbage)], "a position that went back");
}

#[test]
fn every_changed_bit_of_an_answer_is_noticed() {
    for bit in 0..64 * (COMPLETION_WORDS + 2) {
        let mut bench = Bench::new();
        bench.step();
        let results = bench.descriptor(0).results.offset as usize / 8;
        let at = bench.simulated.layout().completion_at(0);
        let word = match bit / 64 {
            word if word < COMPLETION_WORDS => &bench.simulated.regions()[0][at + word],
            word => &bench.simulated.regions()[2][results + word - COMPLETION_WORDS],
        };
        word.fetch_xor(1 << (bit % 64), Relaxed);
        assert_eq!(bench.poll(0), [Err(Cause::Garbage)], "bit {bit}");
    }
}

#[test]
fn late_batches_may_match_and_their_memory_is_kept() {
    let mut bench = Bench::new();
    (0..3).for_each(|_| bench.submit(10 * MILLISECOND));
    assert_eq!(bench.poll(49 * MILLISECOND), []);
    assert_eq!(bench.poll(50 * MILLISECOND), [Err(Cause::TimeOut)]);
    assert_eq!(bench.simulated.push(&[b"x"]), Err(Refused::MayMatch(Cause::Busy)));
    assert_eq!(bench.poll(60 * MILLISECOND), [const { Err(Cause::TimeOut) }; 3]);
    // Late answers free the memory, and are not used.
    bench.step();
    bench.step();
    assert_eq!(bench.poll(61 * MILLISECOND), []);
    assert_eq!(bench.simulated.push(&[b"x"]), Ok(()));
    assert_eq!(bench.simulated.generation(), 1);
}

#[test]
fn a_device_without_answers_is_given_up() {
    let mut bench = Bench::new();
    assert_eq!(bench.poll(50 * MILLISECOND), [Err(Cause::TimeOut)]);
    bench.submit(120 * MILLISECOND);
    assert_eq!(bench.poll(149 * MILLISECOND), []);
    assert_eq!(bench.poll(150 * MILLISECOND), [Err(Cause::TimeOut)]);
    assert_eq!(bench.simulated.generation(), 2);
}

#[test]
fn a_reset_leaves_nothing_in_flight() {
    let mut bench = Bench::new();
    bench.submit(0);
    bench.record.push(&mut bench.simulated, b"in the open batch", 0);
    bench.simulated.reset();
    assert_eq!(bench.poll(0), [Err(Cause::Reset), Err(Cause::Reset)]);
    bench.record.submit(&mut bench.simulated, 0);
    assert_eq!(bench.poll(0), [Err(Cause::Reset)], "the batch that was open");
    bench.submit(0);
    bench.step();
    assert_eq!(bench.poll(0), [Ok(vec![FOUND])]);
}

#[test]
fn texts_longer_than_a_batch_are_refused() {
    let mut bench = Bench::new();
    let text = vec![b'x'; 513];
    assert_eq!(bench.simulated.push(&[&text]), Err(Refused::MayMatch(Cause::TooLong)));
    assert_eq!(bench.simulated.push(&[&text[..512]]), Ok(()));
    assert_eq!(bench.simulated.push(&[b"x"]), Err(Refused::Full));
}

/// Random words in all memory that a device writes, between random operations.
#[test]
fn random_words_are_never_an_answer() {
    let random = &mut Random::new(5);
    let set = literals(random, 20);
    let scanner = compile(&set);
    let options = RemoteOptions { limits: small_limits(), ..RemoteOptions::new(PathBuf::new()) };
    let mut simulated = Simulated::new(&options, &set, Arc::clone(&scanner), 1).unwrap();
    let mut record = Record::default();
    let mut now = 0;
    for _ in 0..40_000 {
        now += random.below(5 * MILLISECOND);
        match random.below(8) {
            0 | 1 => {
                let len = random.below(60) as usize;
                record.push(&mut simulated, &letters(random, len), now);
            }
            2 => record.submit(&mut simulated, now),
            3 | 4 => drop(simulated.step()),
            5 if random.one_in(4) => {
                let [control, _, results] = simulated.regions();
                let completions = simulated.layout().completion_at(0);
                let (memory, first) =
                    if random.one_in(2) { (control, completions) } else { (results, 0) };
                let at = first + random.index(memory.len() - first);
                memory[at].store(random.next() >> random.below(64), Relaxed);
            }
            6 if random.one_in(20) => {
                simulated.regions()[0][COMPLETED].fetch_add(random.below(4), Relaxed);
            }
            _ => record.poll(&mut simulated, now),
        }
    }
    now += 1000 * MILLISECOND;
    record.poll(&mut simulated, now);
    assert_eq!(record.completions.len(), record.submitted.len());
    let scanned = record.check(&scanner);
    assert!(scanned > 100 && simulated.generation() > 100, "{scanned} {}", simulated.generation());
}
