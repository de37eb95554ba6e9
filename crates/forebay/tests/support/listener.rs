//! Hears what sensors get: which flow when and where, by the kernel's clock, so that a test
//! can judge by what reached them and not by what a broker says.

#![allow(dead_code, reason = "each test that includes this module uses its own part of it")]

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use forebay_gen::probe::{Probe, Tally, Tracker};
use forebay_io::af_packet::{PacketRx, RxOptions};
use forebay_io::{Received, Rx as _};

use super::namespace::holds_soon;

/// A packet that a sensor has had.
struct Heard {
    /// When, in nanoseconds since the epoch.
    at: u64,
    /// When its flow was heard first.
    begun: u64,
    flow: u32,
    place: u8,
}

/// All that the sensors have had.
pub struct Account {
    heard: Vec<Heard>,
    pub tally: Tally,
    /// By place: IPv4 packets that are no probes.
    pub foreign: Vec<u64>,
    /// Packets that the listener itself has lost.
    pub lost_here: u64,
}

/// Hears the sensors, in a thread of its own.
pub struct Listener {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    thread: JoinHandle<Account>,
}

impl Listener {
    /// Listens at devices, each a sensor. A flow that pauses longer than `idle_timeout` may
    /// go on at another.
    pub fn start(devices: &[String], idle_timeout: Duration) -> Self {
        // Blocks of more than a test can fill, each with what comes in 20 ms: this thread may
        // be kept from running for seconds.
        let options = RxOptions { retire_ms: 20, ..RxOptions::default() };
        let ports: Vec<PacketRx> =
            devices.iter().map(|device| PacketRx::open(device, &options).unwrap()).collect();
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counter) = (Arc::clone(&stop), Arc::clone(&count));
        let thread = std::thread::spawn(move || listen(ports, idle_timeout, &stopped, &counter));
        Self { stop, count, thread }
    }

    /// Waits until so many frames have arrived, or 20 s, and returns the account.
    pub fn ended(self, frames: u64) -> Account {
        // Where frames are missing, the caller's assertions show where they were lost.
        let _ = holds_soon(|| self.count.load(Ordering::Relaxed) >= frames);
        // What is there beside them shows now.
        std::thread::sleep(Duration::from_millis(200));
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn listen(
    mut ports: Vec<PacketRx>,
    idle_timeout: Duration,
    stop: &AtomicBool,
    count: &AtomicU64,
) -> Account {
    let mut tracker = Tracker::new(nanos(idle_timeout));
    let mut begun = HashMap::new();
    let mut heard = Vec::new();
    let mut foreign = vec![0; ports.len()];
    while !stop.load(Ordering::Relaxed) {
        let before = count.load(Ordering::Relaxed);
        for (place, port) in (0_u8..).zip(&mut ports) {
            while let Received::Batch(batch) = port.receive().unwrap() {
                for i in batch.live().iter() {
                    let at = batch.meta(i).ticks;
                    tracker.frame(batch.packet(i), place, at);
                    if let Some(Probe { flow, .. }) = Probe::of_frame(batch.packet(i)) {
                        let begun = *begun.entry(flow).or_insert(at);
                        heard.push(Heard { at, begun, flow, place });
                    } else if batch.packet(i).get(12..14) == Some(&[0x08, 0x00]) {
                        // What is no IPv4 the host itself has said.
                        foreign[usize::from(place)] += 1;
                    }
                }
            }
        }
        let frames = heard.len() as u64 + foreign.iter().sum::<u64>();
        count.store(frames, Ordering::Relaxed);
        if frames == before {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let losses = |port: &mut PacketRx| -> u64 {
        port.counters().unwrap().losses.iter().map(|(_, lost)| lost).sum()
    };
    let lost_here = ports.iter_mut().map(losses).sum();
    Account { heard, tally: tracker.tally(), foreign, lost_here }
}

impl Account {
    /// Packets a second that a place had in a span of time, of flows that began after
    /// `since` and had at most so many packets in all.
    pub fn rate(&self, place: u8, span: &Range<u64>, since: u64, most: usize) -> f64 {
        let mut sizes: HashMap<u32, usize> = HashMap::new();
        for one in &self.heard {
            *sizes.entry(one.flow).or_default() += 1;
        }
        let counts = |one: &&Heard| {
            one.place == place
                && span.contains(&one.at)
                && one.begun >= since
                && sizes[&one.flow] <= most
        };
        let packets = self.heard.iter().filter(counts).count();
        packets as f64 * 1e9 / (span.end - span.start) as f64
    }

    /// Nothing was lost, doubled, late or torn, and so many frames came that are no probes.
    #[track_caller]
    pub fn is_whole_beside(&self, packets: u64, foreign: u64) {
        let Tally { flows, foreign: others, .. } = self.tally;
        let expected = Tally { flows, received: packets, foreign: others, ..Tally::default() };
        assert_eq!(self.foreign.iter().sum::<u64>(), foreign);
        assert_eq!((self.tally, self.lost_here), (expected, 0));
    }
}

/// Now, in nanoseconds since the epoch.
pub fn now() -> u64 {
    nanos(SystemTime::UNIX_EPOCH.elapsed().unwrap())
}

/// Nanoseconds of a time.
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap()
}
