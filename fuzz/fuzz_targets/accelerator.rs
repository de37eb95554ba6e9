//! The client of a device: arbitrary words in all memory that a device writes, between operations
//! of client and device. Each batch and each text has one result, and none of a session without
//! such words is wrong.
#![no_main]

use std::cell::LazyCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use forebay_scan::accelerator::{
    BatchLimits, Offload, OffloadOptions, RemoteOptions, Simulated, Verdict,
};
use forebay_scan::{Engine, LiteralSet, Matches, Scanner};
use libfuzzer_sys::fuzz_target;

const LIMITS: BatchLimits =
    BatchLimits { bytes: 64, texts: 3, matches: 8, in_flight: 4, time_limit: 100 };

thread_local! {
    static SET: LazyCell<(LiteralSet, Arc<Scanner>)> = LazyCell::new(|| {
        let mut set = LiteralSet::new();
        for literal in [&b"a"[..], b"ab", b"bab", b"aaaa"] {
            set.push(literal, false).expect("a short literal");
        }
        let scanner = Scanner::compile(&set, Engine::default()).expect("four literals");
        (set, Arc::new(scanner))
    });
}

/// The literals of a text, by the scanner alone.
fn literals(scanner: &Scanner, text: &[u8]) -> Vec<u32> {
    let mut matches = Matches::new();
    scanner.scan(&[text], &mut scanner.scratch(), &mut matches);
    let mut literals: Vec<u32> = matches.as_slice().iter().map(|one| one.literal).collect();
    literals.sort_unstable();
    literals
}

fuzz_target!(|data: &[u8]| {
    let (set, scanner) = SET.with(|set| (set.0.clone(), Arc::clone(&set.1)));
    let options = RemoteOptions {
        limits: LIMITS,
        patience: 300,
        ..RemoteOptions::new(PathBuf::new())
    };
    let device = Simulated::new(&options, &set, Arc::clone(&scanner), 1).expect("valid limits");
    let limits = OffloadOptions { max_age: 50, max_pending: 40 };
    let mut offload = Offload::new(device, limits);
    let mut texts: Vec<Vec<u8>> = Vec::new();
    let mut results = Vec::new();
    let (mut now, mut is_intact) = (0, true);
    let mut rest = data;
    while let [operation, a, b, others @ ..] = rest {
        rest = others;
        let (a, b) = (*a, *b);
        match operation % 8 {
            0 | 1 => {
                let text: Vec<u8> =
                    (0..a % 80).map(|i| if b >> (i % 8) & 1 == 1 { b'b' } else { b'a' }).collect();
                offload.scan(u64::from(b % 4), texts.len() as u64, &[&text], now);
                texts.push(text);
            }
            2 => offload.submit(now),
            3 => drop(offload.accelerator().step()),
            // A word of the header's part of the device, of a completion, or of a result.
            4 | 5 => {
                let [word, others @ ..] = rest else { break };
                rest = others;
                is_intact = false;
                let device = offload.accelerator();
                let [control, _, results] = device.regions();
                let rings = device.layout().completion_at(0);
                let place = match operation & 8 {
                    0 if a == 0 => &control[16],
                    0 => &control[rings + usize::from(a) % (control.len() - rings)],
                    _ => &results[usize::from(a) % results.len()],
                };
                match b % 4 {
                    0 => place.store(u64::from(*word), Relaxed),
                    1 => drop(place.fetch_add(u64::from(*word), Relaxed)),
                    2 => drop(place.fetch_xor(1 << (word % 64), Relaxed)),
                    _ => place.store(u64::from(*word) << 32 | u64::from(b), Relaxed),
                }
            }
            6 if a == 0 => offload.accelerator().reset(),
            _ => {
                now += u64::from(a);
                offload.poll(now, |scanned| {
                    let found = match scanned.verdict {
                        Verdict::Clean => Some(Vec::new()),
                        Verdict::Matches(all) => Some(all.iter().map(|one| one.literal).collect()),
                        Verdict::MayMatch(_) => None,
                    };
                    results.push((scanned.tag, found));
                });
            }
        }
    }
    offload.submit(now);
    for _ in 0..3 {
        now += 1000;
        offload.poll(now, |scanned| results.push((scanned.tag, None)));
    }
    assert_eq!(offload.counts().pending(), 0);
    let mut tags: Vec<u64> = results.iter().map(|result| result.0).collect();
    tags.sort_unstable();
    assert!(tags.into_iter().eq(0..texts.len() as u64), "one result for each text");
    for (tag, found) in results.iter().filter(|_| is_intact) {
        if let Some(found) = found {
            assert_eq!(*found, literals(&scanner, &texts[*tag as usize]));
        }
    }
});
