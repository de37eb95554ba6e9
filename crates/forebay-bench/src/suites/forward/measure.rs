//! Trials: frames sent through a forwarder, counted where they arrive.
//!
//! **Capacity** is the frames that arrive in a second while the forwarder always has work.
//! Where the kernel forwards, sender, forwarder and receiver take turns on one processor, so
//! that the generator may send as fast as it can. Where packets cross to another processor,
//! [`WINDOW`] frames are under way: the generator may send another for each that arrived.
//! Nothing is lost then, and the forwarder never waits for work.
//!
//! **Loss** is the frames that were sent and had not arrived when arrivals ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use forebay_bpf::programs::generator::Sent;

use super::arrival::Sink;
use super::forwarders::Forwarder;
use super::sender::Sender;
use super::traffic::Traffic;
use crate::cores::{Busy, Cores};
use crate::failure::{Result, ensure};

/// Frames under way: more than two blocks of a receive ring hold, less than any ring.
const WINDOW: u64 = 4096;

/// Time between two readings of the arrivals.
const POLL: Duration = Duration::from_micros(200);

/// Frames under way are lost when nothing has arrived for so long.
const SILENCE: Duration = Duration::from_millis(40);

/// Time before the first frame counts.
const WARM_UP: Duration = Duration::from_millis(150);

/// The longest wait for arrivals at the end of a trial.
const PATIENCE: Duration = Duration::from_secs(5);

/// Corrections of the generator's rate: how many, after how long, the error that is good
/// enough, and the most that is set in terms of the wanted rate.
const APPROACHES: usize = 8;
const APPROACH: Duration = Duration::from_millis(50);
const NEAR: f64 = 0.005;
const MOST_SET: f64 = 8.0;

/// The cost of sending, which is subtracted from that of forwarding.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SendingCost {
    /// Nanoseconds a frame, up to the forwarder's input.
    pub a_frame: f64,
    /// Nanoseconds a run of the generator in which no frame was due.
    pub a_pause: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// Frames a second that arrived.
    pub rate: f64,
    /// The part of all frames sent that did not arrive.
    pub loss: f64,
    /// Nanoseconds of processors, all together, a frame.
    pub cpu_ns: f64,
    /// The processors that received from the network.
    pub receivers: Vec<usize>,
}

/// A trial at a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offered {
    /// Frames a second that were sent.
    pub rate: f64,
    /// Frames sent, and those of them that did not arrive.
    pub sent: u64,
    pub lost: u64,
}

/// A forwarder with its traffic and a sink.
pub struct Path<'a> {
    pub forwarder: &'a mut Forwarder,
    pub sender: Sender,
    pub sink: &'a Sink,
    pub stop: &'a AtomicBool,
    /// Frames known to be lost so far.
    lost: u64,
    /// Frames sent and arrived before the first trial.
    begun: (u64, u64),
}

/// All counters at one time.
struct Snapshot {
    at: Instant,
    sent: Sent,
    arrived: u64,
    busy: Busy,
}

impl<'a> Path<'a> {
    /// Starts the generator.
    pub fn open(
        forwarder: &'a mut Forwarder,
        traffic: &Arc<Traffic>,
        sink: &'a Sink,
        cores: &Cores,
        stop: &'a AtomicBool,
    ) -> Result<Self> {
        let sender = Sender::start(traffic, forwarder.sender, cores.generator)?;
        let begun = (sender.sent().frames, sink.frames()?);
        Ok(Self { forwarder, sender, sink, stop, lost: 0, begun })
    }

    /// Ends the generator. Returns the frames sent in all trials, and those that arrived.
    pub fn close(self) -> Result<(u64, u64)> {
        let totals = (self.sent(), self.arrived()?);
        self.sender.stop()?;
        Ok(totals)
    }

    fn sent(&self) -> u64 {
        self.sender.sent().frames - self.begun.0
    }

    fn arrived(&self) -> Result<u64> {
        Ok(self.sink.frames()?.wrapping_sub(self.begun.1))
    }

    fn snapshot(&self) -> Result<Snapshot> {
        let (sent, arrived) = (self.sender.sent(), self.sink.frames()?);
        Ok(Snapshot { at: Instant::now(), sent, arrived, busy: Busy::now() })
    }

    /// Fails after a signal, and if the forwarder has ended.
    fn check(&mut self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err("interrupted".into());
        }
        self.forwarder.check()
    }

    /// Keeps [`WINDOW`] frames under way for a while.
    fn pump(&mut self, duration: Duration) -> Result<()> {
        let started = Instant::now();
        if !self.forwarder.kind.is_user_space() {
            self.sender.allow(u64::MAX);
            return self.wait(duration);
        }
        let (mut arrived, mut at) = (0, started);
        while started.elapsed() < duration {
            let now = self.arrived()?;
            if now != arrived {
                (arrived, at) = (now, Instant::now());
            } else if at.elapsed() > SILENCE {
                self.check()?;
                self.lost = self.sent().saturating_sub(arrived);
                at = Instant::now();
            }
            self.sender.allow(self.begun.0 + arrived + self.lost + WINDOW);
            sleep(POLL);
        }
        self.check()
    }

    fn wait(&mut self, duration: Duration) -> Result<()> {
        let until = Instant::now() + duration;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            sleep(left.min(Duration::from_millis(100)));
            self.check()?;
        }
        Ok(())
    }

    /// Stops sending and waits for the end of arrivals. Returns the frames of all trials that
    /// did not arrive.
    fn settle(&mut self) -> Result<u64> {
        self.sender.close();
        let started = Instant::now();
        let (mut arrived, mut at) = (self.arrived()?, Instant::now());
        while at.elapsed() < SILENCE && started.elapsed() < PATIENCE {
            sleep(Duration::from_millis(2));
            let now = self.arrived()?;
            if now != arrived {
                (arrived, at) = (now, Instant::now());
            }
            if self.sent() == arrived {
                break;
            }
        }
        self.check()?;
        let name = self.forwarder.kind.name();
        ensure!(arrived <= self.sent(), "{name}: more frames arrived than were sent");
        self.lost = self.sent() - arrived;
        Ok(self.lost)
    }

    /// Measures capacity.
    pub fn capacity(&mut self, duration: Duration, cost: SendingCost) -> Result<Capacity> {
        let (sent, lost) = (self.sent(), self.lost);
        self.sender.pace(None);
        self.pump(WARM_UP)?;
        let before = self.snapshot()?;
        self.pump(duration)?;
        let after = self.snapshot()?;
        let lost = self.settle()? - lost;
        let seconds = after.at.duration_since(before.at).as_secs_f64();
        let frames = after.arrived.wrapping_sub(before.arrived) as f64;
        let pauses = (after.sent.idle - before.sent.idle) as f64;
        let sending =
            pauses * cost.a_pause + (after.sent.frames - before.sent.frames) as f64 * cost.a_frame;
        let busy = (after.busy.seconds - before.busy.seconds) * 1e9;
        Ok(Capacity {
            rate: frames / seconds,
            loss: lost as f64 / (self.sent() - sent).max(1) as f64,
            cpu_ns: (busy - sending) / frames.max(1.0),
            receivers: after.busy.receivers_since(&before.busy),
        })
    }

    /// Sends for `duration` at a rate, or, without one, as fast as the generator can.
    pub fn offer(&mut self, rate: Option<f64>, duration: Duration) -> Result<Offered> {
        let (sent, lost) = (self.sent(), self.lost);
        self.sender.pace(rate);
        self.sender.allow(u64::MAX);
        if let Some(rate) = rate {
            self.approach(rate)?;
        }
        let (begun, started) = (self.sent(), Instant::now());
        self.wait(duration)?;
        let frames = self.sent() - begun;
        let seconds = started.elapsed().as_secs_f64();
        let lost = self.settle()? - lost;
        Ok(Offered { rate: frames as f64 / seconds, sent: self.sent() - sent, lost })
    }

    /// Sets the generator to a rate. It never catches up on frames that receiving delayed, so
    /// that more than the rate is set.
    fn approach(&mut self, rate: f64) -> Result<()> {
        let mut set = rate;
        for _ in 0..APPROACHES {
            let (begun, started) = (self.sent(), Instant::now());
            self.wait(APPROACH)?;
            let got = (self.sent() - begun) as f64 / started.elapsed().as_secs_f64();
            if (got / rate - 1.0).abs() < NEAR {
                break;
            }
            set = (set * rate / got.max(1.0)).min(rate * MOST_SET);
            self.sender.pace(Some(set));
        }
        Ok(())
    }

    /// Measures the cost of a frame and of a pause by this path, which has no forwarder.
    pub fn sending_cost(&mut self, duration: Duration) -> Result<SendingCost> {
        self.sender.pace(None);
        self.sender.allow(u64::MAX);
        self.wait(WARM_UP)?;
        let (before, started) = (self.sent(), Instant::now());
        self.wait(duration)?;
        let rate = (self.sent() - before) as f64 / started.elapsed().as_secs_f64();
        self.sender.close();
        let (before, started) = (self.sender.sent().idle, Instant::now());
        self.wait(duration)?;
        let pauses = self.sender.sent().idle - before;
        let a_pause = started.elapsed().as_nanos() as f64 / pauses.max(1) as f64;
        Ok(SendingCost { a_frame: 1e9 / rate, a_pause })
    }
}
