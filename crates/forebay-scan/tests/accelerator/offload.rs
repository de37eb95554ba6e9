//! The caller's side: verdicts by flow, in order, one for each text.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use forebay_packet::random::Random;
use forebay_scan::accelerator::protocol::COMPLETED;
use forebay_scan::accelerator::{
    Cause, Counts, Inline, Offload, OffloadOptions, RemoteOptions, Scanned, Simulated, StreamTail,
    Verdict,
};
use forebay_scan::{LiteralSet, Match};

use super::support::{MILLISECOND, compile, expected, letters, literals, small_limits};

/// The texts that were passed in, by tag, and the verdicts that came back.
#[derive(Default)]
struct Log {
    texts: Vec<(u64, Vec<u8>)>,
    /// By flow, the tags in order.
    returned: HashMap<u64, Vec<u64>>,
    literals: HashMap<u64, Result<Vec<u32>, Cause>>,
}

impl Log {
    fn take(&mut self, scanned: Scanned<'_>) {
        self.returned.entry(scanned.flow).or_default().push(scanned.tag);
        let literals = |found: &[Match]| found.iter().map(|one| one.literal).collect();
        let verdict = match scanned.verdict {
            Verdict::Clean => Ok(Vec::new()),
            Verdict::Matches(found) => Ok(literals(found)),
            Verdict::MayMatch(cause) => Err(cause),
        };
        assert!(self.literals.insert(scanned.tag, verdict).is_none(), "a second verdict");
    }

    fn check(&self, scanner: &forebay_scan::Scanner, counts: &Counts) {
        for tags in self.returned.values() {
            assert!(tags.is_sorted(), "a flow's verdicts are in order");
        }
        assert_eq!(self.literals.len() as u64 + counts.pending(), self.texts.len() as u64);
        for (&tag, verdict) in &self.literals {
            let (_, text) = &self.texts[tag as usize];
            if let Ok(found) = verdict {
                let right = expected(scanner, std::slice::from_ref(text));
                assert_eq!(*found, right.iter().map(|one| one.literal).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn each_text_has_one_verdict_and_flows_stay_in_order() {
    let random = &mut Random::new(6);
    let set = literals(random, 30);
    let scanner = compile(&set);
    let options = RemoteOptions { limits: small_limits(), ..RemoteOptions::new(PathBuf::new()) };
    for hostile in [false, true] {
        let simulated = Simulated::new(&options, &set, Arc::clone(&scanner), 1).unwrap();
        let limits = OffloadOptions { max_age: MILLISECOND, max_pending: 200 };
        let mut offload = Offload::new(simulated, limits);
        let mut log = Log::default();
        let mut now = 0;
        for tag in 0..20_000 {
            let flow = random.below(40) * if random.one_in(2) { 1024 } else { 1 };
            let len = if random.one_in(50) { 600 } else { random.below(80) as usize };
            let text = letters(random, len);
            let half = text.len() / 2;
            offload.scan(flow, tag, &[&text[..half], &text[half..]], now);
            log.texts.push((flow, text));
            now += random.below(MILLISECOND);
            let device = offload.accelerator();
            if random.one_in(3) {
                let _ = device.step();
            }
            if hostile && random.one_in(30) {
                let at = device.layout().completion_at(random.below(4)) + random.index(4);
                device.regions()[0][at].fetch_xor(1 << random.below(64), Relaxed);
            }
            if hostile && random.one_in(300) {
                device.regions()[0][COMPLETED].fetch_add(1, Relaxed);
            }
            if random.one_in(2) {
                offload.poll(now, |scanned| log.take(scanned));
            }
        }
        now += 1000 * MILLISECOND;
        offload.submit(now);
        now += 1000 * MILLISECOND;
        (0..2).for_each(|_| offload.poll(now, |scanned| log.take(scanned)));
        let counts = *offload.counts();
        log.check(&scanner, &counts);
        assert_eq!(counts.pending(), 0, "no text is left");
        assert!(counts.clean > 100 && counts.matched > 100, "{counts:?}");
        for cause in [Cause::Busy, Cause::TooLong] {
            assert!(counts.may_match[cause as usize] > 0, "{cause}: {counts:?}");
        }
        assert_eq!(counts.may_match[Cause::Garbage as usize] > 0, hostile, "{counts:?}");
    }
}

#[test]
fn a_device_that_is_stuck_holds_no_more_than_the_limit() {
    let set = literals(&mut Random::new(7), 3);
    let mut limits = small_limits();
    limits.in_flight = 1024;
    let options = RemoteOptions { limits, ..RemoteOptions::new(PathBuf::new()) };
    let simulated = Simulated::new(&options, &set, compile(&set), 1).unwrap();
    let limits = OffloadOptions { max_age: MILLISECOND, max_pending: 100 };
    let mut offload = Offload::new(simulated, limits);
    let mut returned = 0;
    for tag in 0..1000 {
        offload.scan(tag % 7, tag, &[b"text"], 0);
        assert!(offload.counts().pending() <= 101 + 100);
        offload.poll(0, |scanned| {
            assert_eq!(scanned.verdict, Verdict::MayMatch(Cause::Busy));
            returned += 1;
        });
        assert!(offload.counts().pending() <= 100);
    }
    assert_eq!(returned, 1000 - offload.counts().pending());
    // The answers that were given up come late, and are not used.
    while offload.accelerator().step().unwrap() {}
    let mut clean = 0;
    offload.poll(0, |_| clean += 1);
    assert!(clean < 100);
}

#[test]
fn batches_close_by_age() {
    let set = literals(&mut Random::new(8), 3);
    let inline = Inline::new(compile(&set), small_limits()).unwrap();
    let limits = OffloadOptions { max_age: MILLISECOND, ..OffloadOptions::default() };
    let mut offload = Offload::new(inline, limits);
    let mut returned = 0;
    offload.scan(1, 1, &[b"x"], 5);
    offload.poll(MILLISECOND, |_| returned += 1);
    assert_eq!(returned, 0);
    offload.poll(MILLISECOND + 5, |_| returned += 1);
    assert_eq!((returned, offload.counts().batches), (1, 1));
}

#[test]
fn a_stream_in_any_segments_has_the_literals_of_the_whole() {
    let random = &mut Random::new(9);
    for _ in 0..300 {
        let set: LiteralSet = literals(random, 30);
        let scanner = compile(&set);
        let longest = set.literals().iter().map(|one| one.bytes.len()).max().unwrap_or(0);
        let stream = letters(random, 120);
        let mut limits = small_limits();
        limits.in_flight = 1024;
        limits.matches = 4096;
        let inline = Inline::new(Arc::clone(&scanner), limits).unwrap();
        let mut offload = Offload::new(inline, OffloadOptions::default());
        let (mut tail, mut rest) = (StreamTail::default(), stream.as_slice());
        while !rest.is_empty() {
            let len = random.between(1, rest.len().min(20) as u64) as usize;
            let (segment, others) = rest.split_at(len);
            offload.scan(1, 0, &[tail.as_slice(), segment], 0);
            tail.advance(segment, longest);
            assert!(tail.as_slice().len() < longest);
            rest = others;
        }
        let mut found = Vec::new();
        offload.submit(0);
        offload.poll(0, |scanned| match scanned.verdict {
            Verdict::Clean => {}
            Verdict::Matches(matches) => found.extend(matches.iter().map(|one| one.literal)),
            Verdict::MayMatch(cause) => panic!("{cause}"),
        });
        found.sort_unstable();
        found.dedup();
        let whole = expected(&scanner, &[stream]);
        assert_eq!(found, whole.iter().map(|one| one.literal).collect::<Vec<_>>());
    }
}
