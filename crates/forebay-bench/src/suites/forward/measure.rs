//! Trials: frames sent through a forwarder, counted where they arrive.
//!
//! **Capacity** is what arrives in a second while there is always something to do. Where
//! the kernel forwards, sender, forwarder and receiver take turns on one processor: each
//! frame sent is a frame forwarded, and the generator may send what it can. Where packets
//! cross to another processor, so many frames are on their way and no more ([`WINDOW`]):
//! the generator is allowed another for each that arrived. Nothing is lost then, and the
//! forwarder never waits for work.
//!
//! **Loss** is what was sent and had not arrived when nothing arrived any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use forebay_bpf::programs::generator::Sent;

use super::arrival::Sink;
use super::forwarders::Forwarder;
use super::sender::Sender;
use super::traffic::Traffic;
use crate::BenchError;
use crate::cores::{Busy, Cores};

/// Frames under way at the most: more than two blocks of a receive ring hold, less than
/// any ring.
const WINDOW: u64 = 4096;

/// Between two looks at what arrived.
const LOOK: Duration = Duration::from_micros(200);

/// How long nothing must arrive for what is under way to be lost.
const SILENCE: Duration = Duration::from_millis(40);

/// Before the first frame counts.
const WARM_UP: Duration = Duration::from_millis(150);

/// Arrivals that are missing for that long end a trial.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the generator's rate is corrected, after how long, to within what part, and
/// up to how many times the rate wanted.
const APPROACHES: usize = 8;
const APPROACH: Duration = Duration::from_millis(50);
const NEAR: f64 = 0.005;
const MOST_ASKED: f64 = 8.0;

/// What it costs to send: taken off what forwarding costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SendingCost {
    /// Nanoseconds a frame, to where the forwarder receives it.
    pub a_frame: f64,
    /// Nanoseconds a run of the generator in which no frame was due.
    pub a_pause: f64,
}

/// What a forwarder can do.
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
    /// Frames that were sent, and those of them that did not arrive.
    pub sent: u64,
    pub lost: u64,
}

/// A forwarder with its traffic and where that arrives.
pub struct Path<'a> {
    pub forwarder: &'a mut Forwarder,
    pub sender: Sender,
    pub sink: &'a Sink,
    pub stop: &'a AtomicBool,
    /// Frames lost so far, as far as that was noticed.
    lost: u64,
    /// What was sent and had arrived before the first trial.
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
    ) -> Result<Self, BenchError> {
        let sender = Sender::start(traffic, forwarder.sender, cores.generator)?;
        let begun = (sender.sent().frames, sink.frames()?);
        Ok(Self { forwarder, sender, sink, stop, lost: 0, begun })
    }

    /// Ends the generator. Gives the frames that were sent in all trials, and those that
    /// arrived.
    pub fn close(self) -> Result<(u64, u64), BenchError> {
        let totals = (self.sent(), self.arrived()?);
        self.sender.stop()?;
        Ok(totals)
    }

    fn sent(&self) -> u64 {
        self.sender.sent().frames - self.begun.0
    }

    fn arrived(&self) -> Result<u64, BenchError> {
        Ok(self.sink.frames()?.wrapping_sub(self.begun.1))
    }

    fn snapshot(&self) -> Result<Snapshot, BenchError> {
        let (sent, arrived) = (self.sender.sent(), self.sink.frames()?);
        Ok(Snapshot { at: Instant::now(), sent, arrived, busy: Busy::now() })
    }

    /// Whether somebody wants all to end, or the forwarder has.
    fn look_round(&mut self) -> Result<(), BenchError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted);
        }
        self.forwarder.check()
    }

    /// Has frames sent for so long, as many as there is room for.
    fn pump(&mut self, duration: Duration) -> Result<(), BenchError> {
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
                self.look_round()?;
                self.lost = self.sent().saturating_sub(arrived);
                at = Instant::now();
            }
            self.sender.allow(self.begun.0 + arrived + self.lost + WINDOW);
            sleep(LOOK);
        }
        self.look_round()
    }

    fn wait(&mut self, duration: Duration) -> Result<(), BenchError> {
        let until = Instant::now() + duration;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            sleep(left.min(Duration::from_millis(100)));
            self.look_round()?;
        }
        Ok(())
    }

    /// Has nothing more sent and waits until nothing arrives any more. Gives what of all
    /// that was sent so far did not arrive.
    fn settle(&mut self) -> Result<u64, BenchError> {
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
        self.look_round()?;
        self.lost = self.sent().checked_sub(arrived).ok_or_else(|| {
            let who = self.forwarder.kind.name();
            BenchError::WrongAnswer(format!("{who}: more frames arrived than were sent"))
        })?;
        Ok(self.lost)
    }

    /// What arrives while there is always something to do.
    pub fn capacity(
        &mut self,
        duration: Duration,
        cost: SendingCost,
    ) -> Result<Capacity, BenchError> {
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

    /// Sends for so long at a rate, or, without one, as fast as the generator can.
    pub fn offer(&mut self, rate: Option<f64>, duration: Duration) -> Result<Offered, BenchError> {
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

    /// Has the generator send at a rate. It never catches up, so that it sends less than it
    /// is asked for by what receiving keeps it from: it is asked for more.
    fn approach(&mut self, rate: f64) -> Result<(), BenchError> {
        let mut asked = rate;
        for _ in 0..APPROACHES {
            let (begun, started) = (self.sent(), Instant::now());
            self.wait(APPROACH)?;
            let got = (self.sent() - begun) as f64 / started.elapsed().as_secs_f64();
            if (got / rate - 1.0).abs() < NEAR {
                break;
            }
            asked = (asked * rate / got.max(1.0)).min(rate * MOST_ASKED);
            self.sender.pace(Some(asked));
        }
        Ok(())
    }

    /// What sending costs: a frame by this path, which is nobody's, and a pause.
    pub fn sending_cost(&mut self, duration: Duration) -> Result<SendingCost, BenchError> {
        let rate = self.free_rate(duration)?;
        self.sender.close();
        let (before, started) = (self.sender.sent().idle, Instant::now());
        self.wait(duration)?;
        let pauses = self.sender.sent().idle - before;
        let a_pause = started.elapsed().as_nanos() as f64 / pauses.max(1) as f64;
        Ok(SendingCost { a_frame: 1e9 / rate, a_pause })
    }

    /// Frames a second that the generator sends by itself.
    fn free_rate(&mut self, duration: Duration) -> Result<f64, BenchError> {
        self.sender.pace(None);
        self.sender.allow(u64::MAX);
        self.wait(WARM_UP)?;
        let (before, started) = (self.sent(), Instant::now());
        self.wait(duration)?;
        Ok((self.sent() - before) as f64 / started.elapsed().as_secs_f64())
    }
}
