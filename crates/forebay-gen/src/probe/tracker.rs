//! Evaluates received probes: losses, duplicates, reordering, torn flows.
//!
//! For each flow a bitmap of the most recent numbers is kept, to distinguish duplicates
//! from late frames. Numbers up to the highest one that are never seen are lost; the loss
//! of a flow's last frames therefore only shows in comparison with the frames sent. A
//! restarted generator numbers its flows' frames from 0 under another run number; torn
//! flows are still detected across runs.

use std::collections::HashMap;

use super::frame::Probe;

/// Numbers below the highest that are tracked individually.
const WINDOW: u64 = 1_024;
const WORDS: usize = (WINDOW / 64) as usize;

/// The counts of one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowAccount {
    /// Frames, without duplicates.
    pub received: u64,
    /// Duplicate frames.
    pub duplicates: u64,
    /// Frames received after one with a higher number.
    pub reordered: u64,
    /// One more than the highest number seen in this run.
    pub end: u64,
    /// Numbers below the highest of earlier runs that were never received.
    pub lost_before: u64,
    /// The places where it was seen, a bit each.
    pub places: u64,
    /// Frames received at another place than the previous one, within the idle timeout.
    pub torn: u64,
    /// Bits of the numbers from `end - WINDOW` to `end`, by their remainder.
    seen: [u64; WORDS],
    run: u16,
    run_before: Option<u16>,
    /// Frames received before this run.
    received_before: u64,
    last_place: u8,
    last: u64,
    /// Place and time of the frame with the highest number.
    end_place: u8,
    end_at: u64,
}

/// Sums over all flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Flows seen.
    pub flows: u64,
    /// Probes received, without duplicates.
    pub received: u64,
    /// Numbers below the highest of a flow that were never received.
    pub lost: u64,
    /// Duplicate frames.
    pub duplicates: u64,
    /// Frames received after one with a higher number. Frames at two places are compared by
    /// their times, as places may be read with different delays.
    pub reordered: u64,
    /// Flows that were in two places within the idle timeout.
    pub torn_flows: u64,
    /// Frames that are not probes.
    pub foreign: u64,
}

/// Evaluates received probes.
pub struct Tracker {
    flows: HashMap<u32, FlowAccount>,
    idle_timeout: u64,
    foreign: u64,
}

impl Tracker {
    /// A flow that pauses longer than `idle_timeout`, in nanoseconds, may continue at
    /// another place without being torn.
    #[must_use]
    pub fn new(idle_timeout: u64) -> Self {
        Self { flows: HashMap::new(), idle_timeout, foreign: 0 }
    }

    /// Evaluates a frame received at `place`, below 64, at time `now` in nanoseconds;
    /// returns whether it is a probe.
    pub fn frame(&mut self, frame: &[u8], place: u8, now: u64) -> bool {
        let probe = Probe::of_frame(frame);
        match probe {
            Some(probe) => self.probe(probe, place, now),
            None => self.foreign += 1,
        }
        probe.is_some()
    }

    fn probe(&mut self, probe: Probe, place: u8, now: u64) {
        let idle_timeout = self.idle_timeout;
        let flow = self.flows.entry(probe.flow).or_insert_with(|| FlowAccount {
            received: 0,
            duplicates: 0,
            reordered: 0,
            end: 0,
            lost_before: 0,
            places: 0,
            torn: 0,
            seen: [0; WORDS],
            run: probe.run,
            run_before: None,
            received_before: 0,
            last_place: place,
            last: now,
            end_place: place,
            end_at: now,
        });
        flow.places |= 1 << (place & 63);
        if flow.last_place != place && now.abs_diff(flow.last) <= idle_timeout {
            flow.torn += 1;
        }
        (flow.last_place, flow.last) = (place, now);
        if flow.run_before == Some(probe.run) {
            flow.take_late();
            return;
        }
        if flow.run != probe.run {
            flow.begin_again(probe.run);
        }
        flow.take(probe.sequence, place, now);
    }

    /// The flows, by their numbers.
    #[must_use]
    pub fn flows(&self) -> &HashMap<u32, FlowAccount> {
        &self.flows
    }

    /// The sums.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut tally = Tally { foreign: self.foreign, ..Tally::default() };
        for flow in self.flows.values() {
            tally.flows += 1;
            tally.received += flow.received;
            tally.lost = tally.lost.saturating_add(flow.lost());
            tally.duplicates += flow.duplicates;
            tally.reordered += flow.reordered;
            tally.torn_flows += u64::from(flow.torn > 0);
        }
        tally
    }
}

impl FlowAccount {
    /// Numbers below the highest of each run that were never received.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let lost = self.end - (self.received - self.received_before);
        self.lost_before.saturating_add(lost)
    }

    fn begin_again(&mut self, run: u16) {
        self.lost_before = self.lost();
        self.received_before = self.received;
        self.end = 0;
        self.seen = [0; WORDS];
        self.run_before = Some(std::mem::replace(&mut self.run, run));
    }

    /// A frame of the previous run, whose numbers are no longer tracked: counts as one of
    /// the missing, if any is.
    fn take_late(&mut self) {
        if self.lost_before > 0 {
            self.lost_before -= 1;
            self.received += 1;
            self.received_before += 1;
            self.reordered += 1;
        } else {
            self.duplicates += 1;
        }
    }

    fn take(&mut self, sequence: u64, place: u8, now: u64) {
        if sequence >= self.end {
            // Numbers that leave the window free bits for those that enter it.
            let entering = (sequence - self.end).min(WINDOW);
            for number in sequence - entering..sequence {
                self.set(number, false);
            }
            self.set(sequence, true);
            // No frame has the maximum number, so this does not overflow.
            self.end = sequence + 1;
            (self.end_place, self.end_at) = (place, now);
            self.received += 1;
            return;
        }
        let known = self.end - sequence > WINDOW || self.is_set(sequence);
        if known {
            // Older than the window: cannot be distinguished, and counts as a duplicate.
            self.duplicates += 1;
        } else {
            self.set(sequence, true);
            self.received += 1;
            let came_before = place != self.end_place && now < self.end_at;
            self.reordered += u64::from(!came_before);
        }
    }

    fn is_set(&self, number: u64) -> bool {
        let bit = number % WINDOW;
        self.seen[(bit / 64) as usize] >> (bit % 64) & 1 == 1
    }

    fn set(&mut self, number: u64, seen: bool) {
        let bit = number % WINDOW;
        let word = &mut self.seen[(bit / 64) as usize];
        *word = *word & !(1 << (bit % 64)) | u64::from(seen) << (bit % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(frames: &[(u32, u64, u8, u64)]) -> Tally {
        let mut tracker = Tracker::new(100);
        for &(flow, sequence, place, now) in frames {
            tracker.probe(Probe { flow, sequence, run: 0 }, place, now);
        }
        tracker.tally()
    }

    #[test]
    fn losses_copies_and_late_ones_are_told_apart() {
        let frames =
            [(1, 0, 0, 0), (1, 2, 0, 0), (1, 1, 0, 0), (1, 1, 0, 0), (1, 5, 0, 0), (2, 0, 0, 0)];
        let expected = Tally {
            flows: 2,
            received: 5,
            lost: 2,
            duplicates: 1,
            reordered: 1,
            ..Tally::default()
        };
        assert_eq!(tally(&frames), expected);
    }

    /// After a change of place, a frame is late only according to its time stamp.
    #[test]
    fn places_that_are_read_late_reorder_nothing() {
        assert_eq!(tally(&[(1, 0, 0, 10), (1, 2, 1, 30), (1, 1, 0, 20)]).reordered, 0);
        assert_eq!(tally(&[(1, 0, 0, 10), (1, 2, 1, 30), (1, 1, 0, 40)]).reordered, 1);
        assert_eq!(tally(&[(1, 0, 0, 10), (1, 2, 0, 30), (1, 1, 0, 20)]).reordered, 1);
    }

    #[test]
    fn numbers_are_told_apart_over_many_windows() {
        let mut tracker = Tracker::new(100);
        let mut send = |sequence| tracker.probe(Probe { flow: 1, sequence, run: 0 }, 0, 0);
        for sequence in (0..10_000).filter(|n| n % 7 != 3) {
            send(sequence);
        }
        send(20_000);
        // The first was missing and is within the window of the highest number.
        send(20_000 - WINDOW + 1);
        send(20_000 - WINDOW);
        let tally = tracker.tally();
        let missing = (0..10_000).filter(|n| n % 7 == 3).count() as u64;
        assert_eq!(tally.lost, missing + 10_000 - 1);
        assert_eq!((tally.reordered, tally.duplicates), (1, 1));
    }

    #[test]
    fn a_generator_that_is_started_again_numbers_anew() {
        let mut tracker = Tracker::new(100);
        let frames = [
            (7, 0, 0),
            (7, 1, 0),
            (7, 3, 0),
            (8, 0, 0),
            (8, 2, 0),
            (8, 1, 0),
            (9, 0, 1),
            // Late: the missing frame of the previous run, and a copy.
            (8, 3, 1),
            (8, 2, 1),
            (9, 4, 1),
        ];
        for (run, sequence, place) in frames {
            tracker.probe(Probe { flow: 1, sequence, run }, place, 0);
        }
        let expected = Tally {
            flows: 1,
            received: 9,
            lost: 3,
            duplicates: 1,
            reordered: 2,
            torn_flows: 1,
            ..Tally::default()
        };
        assert_eq!(tracker.tally(), expected);
    }

    #[test]
    fn a_flow_is_torn_by_another_place_within_the_idle_timeout() {
        assert_eq!(tally(&[(1, 0, 0, 0), (1, 1, 1, 100)]).torn_flows, 1);
        assert_eq!(tally(&[(1, 0, 0, 0), (1, 1, 1, 101)]).torn_flows, 0);
        assert_eq!(tally(&[(1, 0, 0, 0), (2, 0, 1, 0)]).torn_flows, 0);
        let mut tracker = Tracker::new(100);
        tracker.frame(b"no probe", 0, 0);
        assert_eq!(tracker.tally(), Tally { foreign: 1, ..Tally::default() });
    }
}
