//! All accelerators give the matches of the scanner, whatever the order of completions.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay_packet::random::Random;
use forebay_scan::accelerator::{
    Accelerator, BatchLimits, Device, DeviceLimits, Inline, Remote, RemoteOptions, SetIdentity,
    Simulated, Threads,
};
use forebay_scan::{LiteralSet, Scanner};

use super::support::{Record, compile, letters, literals, small_limits};

/// Stops a device when dropped, after a check that failed too.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The time within which everything must be over.
const LIMIT: Duration = Duration::from_secs(60);

const BATCHES: usize = 400;

/// Batches that wait for their deadlines do so by the machine's clock.
fn patient() -> BatchLimits {
    BatchLimits { matches: 4096, time_limit: LIMIT.as_nanos() as u64, ..small_limits() }
}

/// Submits random batches, and checks all results.
fn contest(accelerator: &mut impl Accelerator, scanner: &Scanner, random: &mut Random) {
    let started = Instant::now();
    let mut record = Record::default();
    while record.submitted.len() < BATCHES {
        let now = started.elapsed().as_nanos() as u64;
        if accelerator.in_flight() == 4 {
            accelerator.wait(LIMIT).unwrap();
            record.poll(accelerator, now);
            continue;
        }
        let len = random.below(90) as usize;
        record.push(accelerator, &letters(random, len), now);
        if random.one_in(8) {
            record.submit(accelerator, now);
        }
        if random.one_in(4) {
            record.poll(accelerator, now);
        }
        assert!(started.elapsed() < LIMIT);
    }
    while accelerator.in_flight() > 0 {
        accelerator.wait(LIMIT).unwrap();
        record.poll(accelerator, started.elapsed().as_nanos() as u64);
        assert!(started.elapsed() < LIMIT);
    }
    assert_eq!(record.check(scanner), record.submitted.len(), "no batch was given up");
}

fn sets(random: &mut Random) -> [LiteralSet; 3] {
    [literals(random, 0), literals(random, 1), literals(random, 40)]
}

#[test]
fn inline_and_threads() {
    let random = &mut Random::new(1);
    for set in sets(random) {
        let scanner = compile(&set);
        let mut inline = Inline::new(Arc::clone(&scanner), patient()).unwrap();
        contest(&mut inline, &scanner, random);
        for threads in [1, 3] {
            let mut threads = Threads::new(&scanner, threads, patient()).unwrap();
            contest(&mut threads, &scanner, random);
        }
    }
}

/// The options of a client of a device at a path.
fn options(socket: PathBuf) -> RemoteOptions {
    let patience = LIMIT.as_nanos() as u64;
    RemoteOptions { limits: patient(), patience, ..RemoteOptions::new(socket) }
}

#[test]
fn a_device_over_shared_memory() {
    let random = &mut Random::new(2);
    let folder = tempfile::tempdir().unwrap();
    for set in sets(random) {
        let scanner = compile(&set);
        for spin in [Duration::ZERO, Duration::from_micros(50)] {
            let path = folder.path().join("device");
            let limits = DeviceLimits { spin, ..DeviceLimits::default() };
            let identity = SetIdentity::of(&set);
            let device = Device::listen(&path, Arc::clone(&scanner), identity, limits).unwrap();
            let stop = AtomicBool::new(false);
            thread::scope(|scope| {
                let running = scope.spawn(|| device.run(&stop));
                let stopping = StopAtEnd(&stop);
                let clients = (0..2).map(|client| {
                    let (path, set, scanner) = (path.clone(), &set, &scanner);
                    scope.spawn(move || {
                        let mut remote = Remote::new(options(path), set).unwrap();
                        connect(&mut remote);
                        contest(&mut remote, scanner, &mut Random::new(client));
                    })
                });
                let clients: Vec<_> = clients.collect();
                clients.into_iter().for_each(|client| client.join().unwrap());
                drop(stopping);
                running.join().unwrap().unwrap();
            });
            assert_eq!(device.work()[0], 2);
        }
    }
}

/// Polls until the device has accepted the client.
pub fn connect(remote: &mut Remote) {
    let started = Instant::now();
    while !remote.is_connected() {
        remote.wait(Duration::from_millis(1)).unwrap();
        remote.poll(started.elapsed().as_nanos() as u64, &mut Vec::new());
        assert!(started.elapsed() < LIMIT, "{:?}", remote.take_trouble());
    }
}

#[test]
fn a_device_that_completes_in_any_order() {
    let random = &mut Random::new(3);
    for set in sets(random) {
        let scanner = compile(&set);
        let options = options(PathBuf::new());
        let mut simulated = Simulated::new(&options, &set, Arc::clone(&scanner), 7).unwrap();
        let mut record = Record::default();
        let mut taken = 0_u64;
        while record.submitted.len() < BATCHES {
            for _ in 0..random.below(20) {
                let len = random.below(90) as usize;
                record.push(&mut simulated, &letters(random, len), 0);
            }
            record.submit(&mut simulated, 0);
            if random.one_in(3) {
                continue;
            }
            let first = taken;
            while simulated.step().unwrap() {
                taken += 1;
            }
            shuffle_completions(&simulated, first, taken, random);
            record.poll(&mut simulated, 0);
        }
        while simulated.step().unwrap() {}
        record.poll(&mut simulated, 0);
        assert_eq!(record.check(&scanner), record.submitted.len());
        assert_eq!(simulated.generation(), 1);
    }
}

/// Brings the completions from one position of the ring to another into a random order.
fn shuffle_completions(simulated: &Simulated, first: u64, end: u64, random: &mut Random) {
    let at = |position| simulated.layout().completion_at(position);
    let control = simulated.regions()[0];
    let mut order: Vec<[u64; 4]> = (first..end)
        .map(|position| std::array::from_fn(|i| control[at(position) + i].load(Ordering::Relaxed)))
        .collect();
    random.shuffle(&mut order);
    for (position, words) in (first..).zip(order) {
        for (i, word) in words.into_iter().enumerate() {
            control[at(position) + i].store(word, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_client_with_other_literals_is_refused() {
    let random = &mut Random::new(4);
    let (set, other) = (literals(random, 5), literals(random, 6));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    let identity = SetIdentity::of(&set);
    let device = Device::listen(&path, compile(&set), identity, DeviceLimits::default()).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| device.run(&stop));
        let _stopping = StopAtEnd(&stop);
        let mut remote = Remote::new(options(path.clone()), &other).unwrap();
        let started = Instant::now();
        let trouble = loop {
            remote.poll(started.elapsed().as_nanos() as u64, &mut Vec::new());
            remote.wait(Duration::from_millis(1)).unwrap();
            if let Some(trouble) = remote.take_trouble() {
                break trouble.to_string();
            }
            assert!(started.elapsed() < LIMIT);
        };
        assert!(trouble.ends_with("the device has 5 literals, and not the 6 of this client"));
    });
    let again = Device::listen(&path, compile(&set), identity, DeviceLimits::default());
    assert!(again.is_err(), "a device that runs keeps its socket");
}
