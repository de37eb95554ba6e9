//! Answers, before anything is timed: every frame sent arrives once, unchanged, in the order of
//! its flow, at a sensor's address, and all frames of a flow at the same one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_gen::probe::{Probe, Tally, Tracker};
use forebay_io::af_packet::{PacketRx, RxOptions};
use forebay_io::{Received, Rx};
use forebay_packet::MacAddress;

use super::forwarders::Forwarder;
use super::sender::Sender;
use super::traffic::{Addressed, FLOWS, SENSORS, Traffic, sensor_of};
use crate::cores::Cores;
use crate::failure::{Result, ensure};

/// Frames sent, several of each flow, and frames a second.
const FRAMES: u64 = 8 * FLOWS as u64;
const RATE: f64 = 100_000.0;

/// The longest wait for the last frame.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends frames through a forwarder and checks each. Returns how many there were.
pub fn check(
    forwarder: &mut Forwarder,
    traffic: &Arc<Traffic>,
    cores: &Cores,
    stop: &AtomicBool,
) -> Result<u64> {
    let name = forwarder.kind.name();
    let mut port = PacketRx::open(&forwarder.arrives, &RxOptions::default())?;
    let sender = Sender::start(traffic, forwarder.sender, cores.generator)?;
    let begun = sender.sent().frames;
    sender.pace(Some(RATE));
    sender.allow(begun + FRAMES);
    let mut judge = Judge::new(forwarder.kind.addressed());
    let started = Instant::now();
    while judge.frames < FRAMES && started.elapsed() < PATIENCE {
        match port.receive()? {
            Received::Batch(batch) => {
                batch.live().iter().for_each(|i| judge.frame(batch.packet(i)))
            }
            Received::Idle => std::thread::sleep(Duration::from_millis(1)),
            Received::End => break,
        }
        if stop.load(Ordering::Relaxed) {
            return Err("interrupted".into());
        }
    }
    sender.stop()?;
    let faults = judge.faults();
    if !faults.is_empty() {
        forwarder.check()?;
    }
    ensure!(faults.is_empty(), "{name}: {}", faults.join("; "));
    Ok(FRAMES)
}

struct Judge {
    addressed: Addressed,
    tracker: Tracker,
    /// The first number of each flow.
    first: HashMap<u32, u64>,
    frames: u64,
    /// Frames by sensor.
    to_sensors: [u64; SENSORS.len()],
    wrong_sensor: u64,
    no_sensor: u64,
}

impl Judge {
    fn new(addressed: Addressed) -> Self {
        Self {
            addressed,
            tracker: Tracker::new(u64::MAX),
            first: HashMap::new(),
            frames: 0,
            to_sensors: [0; SENSORS.len()],
            wrong_sensor: 0,
            no_sensor: 0,
        }
    }

    fn frame(&mut self, frame: &[u8]) {
        // The host may send frames of its own.
        let Some(probe) = Probe::of_frame(frame) else { return };
        self.frames += 1;
        self.first.entry(probe.flow).or_insert(probe.sequence);
        let address = frame.first_chunk().map(|address| MacAddress(*address));
        let Some(sensor) = SENSORS.iter().position(|&mac| Some(mac) == address) else {
            self.no_sensor += 1;
            return;
        };
        self.to_sensors[sensor] += 1;
        let right = match self.addressed {
            Addressed::ToSensors => sensor_of(probe.flow) == SENSORS[sensor],
            // Any sensor is right, the same for the whole flow.
            Addressed::ToOne => true,
        };
        self.wrong_sensor += u64::from(!right);
        self.tracker.frame(frame, sensor as u8, 0);
    }

    fn faults(&self) -> Vec<String> {
        let Tally { flows, lost, duplicates, reordered, torn_flows, .. } = self.tracker.tally();
        // A generator that has sent before continues its flows' numbers.
        let before: u64 = self.first.values().sum();
        let unused = self.to_sensors.iter().filter(|&&frames| frames == 0).count() as u64;
        [
            (FRAMES - self.frames.min(FRAMES), "frames did not arrive"),
            (u64::from(FLOWS).saturating_sub(flows), "flows did not arrive"),
            (lost - before.min(lost), "numbers are missing within flows"),
            (duplicates, "frames came twice"),
            (reordered, "frames came out of order"),
            (torn_flows, "flows went to several sensors"),
            (self.wrong_sensor, "frames were for another sensor"),
            (self.no_sensor, "frames were for no sensor"),
            (unused, "sensors got nothing"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect()
    }
}
