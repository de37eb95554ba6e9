//! Trials: whole rounds of frames through a lane, each counted where it arrives.
//!
//! **Throughput** is the frames that the broker takes in while it always has some: [`WINDOW`] are under
//! way, and the generator may send another for each that the broker has taken, by its own ledger. So
//! nothing is lost as a rule, and flows are not torn. The bridge takes turns with the generator on one
//! processor, so that the generator sends as fast as it can.
//!
//! Each frame that was sent has arrived, was withheld, waits, or was lost at a place with a name. If none
//! was lost, those have arrived that the offline gateway lets through. If some were, the trial is repeated.
//! No trial begins before the lane has forgotten the flows of the one before: addresses come again, and
//! connections of which frames were lost are in doubt.
//!
//! **Delay** is that of each frame, from the generator's program to the one that counts it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use forebay_bpf::programs::replay::Arrivals;
use forebay_bpf::{XdpLink, XdpMode};

use super::lane::{Device, IDLE, Lane, Mode, Taken};
use super::load::Load;
use crate::cores::Cores;
use crate::failure::{Result, ensure};
use crate::suites::forward::network;
use crate::suites::forward::sender::Sender;

/// Frames under way, and the time between two readings of the ledger: less than the receive rings have
/// room for.
const WINDOW: u64 = 8_192;
const POLL: Duration = Duration::from_millis(3);

/// The same of frames that the host gives a TAP device, whose ring has room for 500 or 1,000.
const TAP_WINDOW: u64 = 448;
const TAP_POLL: Duration = Duration::from_millis(1);

/// Time before the first frame counts.
const WARM_UP: Duration = Duration::from_millis(200);

/// The longest wait for the last frames of a trial, and for a next one while its last round is sent.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where frames are lost between the generator and the input: the ring of a veth device has 256
/// entries, and is emptied later than usual while other programs use the processor.
const DEVICE: &str = "the device before the input";

/// Where they are lost between the output, or the bridge, and the program that counts them.
const BEHIND: &str = "the device behind the output";

/// Trials of a lane, with frames of a size, that are repeated because frames were lost.
pub const REPEATS: usize = 4;

/// Flows are forgotten, and go on, so long after their time, or after their broker was resumed, at
/// most.
const MARGIN: Duration = Duration::from_millis(500);

/// Lost frames are waited for no longer.
const SILENCE: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub struct Throughput {
    /// Frames taken in a second.
    pub rate: f64,
    /// Nanoseconds of processors that the broker used for a frame.
    pub cpu_ns: f64,
    /// Frames sent in the whole trial, and arrived.
    pub sent: u64,
    pub arrived: u64,
    /// Losses by row and name.
    pub losses: Vec<(String, u64)>,
}

/// Delays in nanoseconds, and how many frames they are of.
#[derive(Clone, Debug)]
pub struct Delays {
    pub median: f64,
    pub p999: f64,
    pub frames: u64,
}

/// A lane with frames, and what counts them.
pub struct Trial<'a> {
    lane: &'a mut Lane,
    load: &'a Load,
    stop: &'a AtomicBool,
    sender: Sender,
    arrivals: Arrivals,
    _link: XdpLink,
    before: Taken,
    begun: u64,
    window: (u64, Duration),
    /// Frames that the lane took or lost when there last were more, and when that was; and frames that
    /// did not reach it.
    progress: (u64, Instant),
    lost: u64,
}

impl<'a> Trial<'a> {
    pub fn open(
        lane: &'a mut Lane,
        load: &'a Load,
        cores: &Cores,
        stop: &'a AtomicBool,
        timed: bool,
    ) -> Result<Self> {
        lane.begin()?;
        // What waits of the trial before goes on after the idle timeout, and is not counted.
        sleep(IDLE.saturating_sub(lane.ended.elapsed()) + MARGIN);
        let arrivals = Arrivals::load(&load.replayed, timed)?;
        let interface = network::link(&lane.arrives)?.index;
        let link = XdpLink::attach(arrivals.program(), interface, XdpMode::Any)?;
        let before = lane.taken()?;
        ensure!(before.held == 0, "{}: {} frames still wait", lane.name(), before.held);
        let traffic = if timed { &load.timed } else { &load.traffic };
        let sender = Sender::start(traffic, lane.sender, cores.generator)?;
        let begun = sender.sent().frames;
        let from_host = (lane.mode, lane.device) == (Some(Mode::Back), Device::Tap);
        let window = if from_host { (TAP_WINDOW, TAP_POLL) } else { (WINDOW, POLL) };
        Ok(Self {
            lane,
            load,
            stop,
            sender,
            arrivals,
            _link: link,
            before,
            begun,
            window,
            progress: (0, Instant::now()),
            lost: 0,
        })
    }

    fn sent(&self) -> u64 {
        self.sender.sent().frames - self.begun
    }

    /// Frames that the lane has taken in, and those with what it lost there.
    fn taken(&mut self) -> Result<(u64, u64)> {
        if self.stop.load(Ordering::Relaxed) {
            return Err("interrupted".into());
        }
        if self.lane.is_in_kernel() {
            return Ok((self.sent(), self.sent()));
        }
        let taken = self.lane.taken()?;
        let frames = taken.frames - self.before.frames;
        Ok((frames, frames + at_input(&taken.losses_since(&self.before))))
    }

    /// Keeps frames under way. Returns frames taken a second, between the first reading and the
    /// last, and the broker's time for one.
    fn pump(&mut self, duration: Duration) -> Result<(f64, f64)> {
        let started = Instant::now();
        let (first, _) = self.taken()?;
        let (begun, used) = (Instant::now(), self.lane.cpu_nanos());
        loop {
            let (taken, gone) = self.taken()?;
            let at = begun.elapsed();
            if started.elapsed() >= duration {
                let frames = (taken - first) as f64;
                let used = (self.lane.cpu_nanos() - used) as f64;
                return Ok((frames / at.as_secs_f64(), used / frames.max(1.0)));
            }
            self.refill(gone, u64::MAX - self.begun);
            sleep(self.window.1);
        }
    }

    /// Has as many frames under way as a lane has room for, `end` in all, of which `gone` are so no more,
    /// nor those that a device lost before the input.
    fn refill(&mut self, gone: u64, end: u64) {
        let allowed = match self.lane.is_in_kernel() {
            true => end,
            false => {
                if gone != self.progress.0 {
                    self.progress = (gone, Instant::now());
                } else if self.progress.1.elapsed() > SILENCE {
                    self.lost = self.sent() - gone;
                }
                end.min(gone + self.lost + self.window.0)
            }
        };
        self.sender.allow(self.begun + allowed);
    }

    pub fn throughput(&mut self, duration: Duration) -> Result<Throughput> {
        self.sender.pace(None);
        self.pump(WARM_UP)?;
        let rate = self.pump(duration)?;
        self.finish_round(true)?;
        self.settle(rate)
    }

    /// Offers a rate for a while.
    pub fn offer(&mut self, rate: f64, duration: Duration) -> Result<Throughput> {
        self.sender.pace(Some(rate));
        self.sender.allow(u64::MAX);
        let (started, first) = (Instant::now(), self.sent());
        while started.elapsed() < duration {
            sleep(duration.saturating_sub(started.elapsed()).min(Duration::from_millis(50)));
            self.taken()?;
        }
        let rate = (self.sent() - first) as f64 / started.elapsed().as_secs_f64();
        self.finish_round(false)?;
        self.settle((rate, f64::NAN))
    }

    /// Sends the rest of the round under way: with no more than [`WINDOW`] frames under way, or at the
    /// rate that is set.
    fn finish_round(&mut self, windowed: bool) -> Result<()> {
        let round = self.load.frames.len() as u64;
        let end = (self.sent() / round + 2) * round;
        let (mut last, mut at) = (self.sent(), Instant::now());
        while last < end && at.elapsed() < PATIENCE {
            let (_, gone) = self.taken()?;
            match windowed {
                true => self.refill(gone, end),
                false => self.sender.allow(self.begun + end),
            }
            sleep(self.window.1);
            if self.sent() != last {
                (last, at) = (self.sent(), Instant::now());
            }
        }
        let sent = self.sent();
        ensure!(
            sent.is_multiple_of(round),
            "{}: {sent} frames are no whole rounds",
            self.lane.name()
        );
        Ok(())
    }

    /// Waits until all frames have been taken in, and those that pass have arrived.
    fn wait(&mut self, expected: u64) -> Result<u64> {
        let started = Instant::now();
        let (mut last, mut at) = ((0, 0), started);
        // What waits without an end, as frames were lost, goes on after the idle timeout.
        let silence = if self.lane.mode.is_some_and(Mode::holds) { IDLE + MARGIN } else { SILENCE };
        while started.elapsed() < PATIENCE && at.elapsed() < silence {
            let now = (self.taken()?.1, self.arrivals.frames().0);
            if now == (self.sent(), expected) {
                break;
            }
            if now != last {
                (last, at) = (now, Instant::now());
            }
            sleep(POLL);
        }
        Ok(self.arrivals.frames().0)
    }

    /// Waits for the last frames, and compares all that arrived with what should.
    fn settle(&mut self, (rate, cpu_ns): (f64, f64)) -> Result<Throughput> {
        let passing = self.load.passing(self.lane.mode.unwrap_or(Mode::Forward))?;
        let rounds = self.sent() / self.load.frames.len() as u64;
        let expected = passing.count * rounds;
        let arrived = self.wait(expected)?;
        let taken = self.lane.taken()?;
        let mut losses = taken.losses_since(&self.before);
        let sent = self.sent();
        let since = |now: u64, before| if self.lane.is_in_kernel() { sent } else { now - before };
        let in_all = since(taken.frames, self.before.frames);
        let out = since(taken.sent, self.before.sent);
        let kept = taken.withheld + taken.held - self.before.withheld - self.before.held;
        let at_input = at_input(&losses);
        let inside = losses.iter().map(|(_, frames)| frames).sum::<u64>() - at_input;
        let name = self.lane.name();
        ensure!(in_all + at_input <= sent, "{name}: {in_all} frames were taken of {sent}");
        ensure!(
            in_all == out + kept + inside && arrived <= out,
            "{name}: of {in_all} frames that were taken, {out} went on, {kept} were withheld or wait, \
             and {inside} were lost; {arrived} arrived: {losses:?}"
        );
        for (place, frames) in [(DEVICE, sent - in_all - at_input), (BEHIND, out - arrived)] {
            if frames > 0 {
                losses.push((place.to_owned(), frames));
            }
        }
        let lost: u64 = losses.iter().map(|(_, frames)| frames).sum();
        let by_frame = self.arrivals.by_frame();
        let wrong = by_frame.iter().zip(&passing.frames);
        let wrong = wrong.filter(|(times, passes)| **times != u64::from(**passes) * rounds).count();
        ensure!(
            lost > 0 || (wrong == 0 && arrived == expected && kept == sent - expected),
            "{name}: {arrived} frames arrived in {rounds} rounds instead of {expected}; {wrong} of a \
             round not as the offline gateway lets through: {}",
            self.lane.remarks()?
        );
        Ok(Throughput { rate, cpu_ns, sent, arrived, losses })
    }

    /// Delays so far.
    fn delays(&self) -> Delays {
        let slots = self.arrivals.delays();
        let all: u64 = slots.iter().map(|(_, frames)| frames).sum();
        let quantile = |share: f64| {
            let wanted = (all as f64 * share).ceil() as u64;
            let mut so_far = 0;
            let slot = slots.iter().find(|(_, frames)| {
                so_far += frames;
                so_far >= wanted
            });
            slot.map_or(f64::NAN, |&(least, _)| least as f64)
        };
        Delays { median: quantile(0.5), p999: quantile(0.999), frames: all }
    }

    /// Ends the generator.
    pub fn close(self) -> Result<()> {
        self.sender.stop()
    }
}

/// Frames that were lost at the input.
fn at_input(losses: &[(String, u64)]) -> u64 {
    losses.iter().filter(|(name, _)| name.starts_with("rx ")).map(|(_, frames)| frames).sum()
}

/// A trial of a lane. One that loses frames is repeated, as flows are not whole then, unless the lane
/// does so again and again.
pub fn on_lane(
    lane: &mut Lane,
    load: &Load,
    (cores, stop, timed): (&Cores, &Arc<AtomicBool>, bool),
    act: impl Fn(&mut Trial<'_>) -> Result<Throughput>,
) -> Result<(Throughput, Option<Delays>)> {
    loop {
        let mut trial = Trial::open(lane, load, cores, stop, timed)?;
        let outcome = act(&mut trial)?;
        let delays = timed.then(|| trial.delays());
        trial.close()?;
        lane.end()?;
        lane.ended = Instant::now();
        if outcome.losses.is_empty() || lane.repeats == 0 {
            return Ok((outcome, delays));
        }
        let name = lane.name();
        eprintln!("{name}: repeated, as frames were lost: {:?}", outcome.losses);
        lane.repeats -= 1;
    }
}
