//! The way of each output's packets: redirected in the kernel, or sent by the workers.
//!
//! A device can stop taking redirected frames while the broker runs. A veth device does when
//! the other end loses its NAPI, as it does when a program there switches GRO off. From the
//! first frame that is refused the workers get the packets and send them by their transmit
//! rings. From then on the device is tried at intervals (`forebay_bpf::programs::trial`), and
//! where it takes redirected frames again, packets of flows that begin are redirected again.
//!
//! A trial may succeed although the next frame is refused. So the interval doubles with each
//! return that did not last.

use forebay_bpf::programs::splitter::Traffic;

/// Nanoseconds from the first refused frame to the first trial, at the most between two, and
/// for which a device has to take frames until its next refusal counts as the first.
const FIRST_TRIAL: u64 = 1_000_000_000;
const LONGEST: u64 = 300_000_000_000;
const LASTING: u64 = 60_000_000_000;

/// A change of an output's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The workers send its packets: so many frames were refused since the last look.
    ToWorkers(u64),
    /// They are redirected again.
    ToKernel,
}

/// The way of an output's packets.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// Frames refused, as far as that was known at the last look.
    refused: u64,
    /// When the next trial is; nothing while packets are redirected.
    trial: Option<u64>,
    /// Nanoseconds between two trials, and when packets were last turned to the kernel.
    interval: u64,
    since: u64,
}

impl Way {
    /// Whether the workers send its packets.
    #[must_use]
    pub fn is_by_workers(&self) -> bool {
        self.trial.is_some()
    }

    /// Takes note at `now`, in nanoseconds, that so many frames were refused in all. `takes`
    /// tries the device; nothing where that cannot be tried.
    pub fn follow(
        &mut self,
        now: u64,
        refused: u64,
        takes: impl FnOnce() -> Option<bool>,
    ) -> Option<Turn> {
        let more = refused.saturating_sub(self.refused);
        self.refused = refused;
        match self.trial {
            None if more > 0 => {
                let lasted = now.saturating_sub(self.since) >= LASTING || self.interval == 0;
                self.interval =
                    if lasted { FIRST_TRIAL } else { self.interval.saturating_mul(2).min(LONGEST) };
                self.trial = Some(now + self.interval);
                Some(Turn::ToWorkers(more))
            }
            // A device that cannot be tried is tried with packets.
            Some(at) if now >= at && takes() != Some(false) => {
                (self.trial, self.since) = (None, now);
                Some(Turn::ToKernel)
            }
            Some(at) if now >= at => {
                self.trial = Some(now + self.interval);
                None
            }
            _ => None,
        }
    }
}

/// Bytes that a device took of redirected frames. The kernel counts the frames it did not
/// take, and not which: of frames between two looks, those that were lost count as long as the
/// mean. Where all or none were taken that is exact.
#[derive(Clone, Copy, Debug, Default)]
pub struct SentBytes {
    redirected: Traffic,
    lost: u64,
    /// Frames that were lost and not yet among the redirected ones.
    owed: u64,
    bytes: u64,
}

impl SentBytes {
    /// Bytes taken, where so much was redirected in all, and so many frames of it were lost.
    pub fn note(&mut self, redirected: Traffic, lost: u64) -> u64 {
        let packets = redirected.packets.saturating_sub(self.redirected.packets);
        let bytes = redirected.bytes.saturating_sub(self.redirected.bytes);
        let gone = self.owed + lost.saturating_sub(self.lost);
        let of_these = gone.min(packets);
        self.owed = gone - of_these;
        (self.redirected, self.lost) = (redirected, lost);
        if packets > 0 {
            let sent = u128::from(bytes) * u128::from(packets - of_these) / u128::from(packets);
            self.bytes += u64::try_from(sent).unwrap_or(u64::MAX);
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn packets_turn_with_the_first_refusal_and_back_when_a_trial_succeeds() {
        let mut way = Way::default();
        let never = || -> Option<bool> { panic!("not the time for a trial") };
        assert_eq!(way.follow(0, 0, never), None);
        assert_eq!(way.follow(SECOND, 3, never), Some(Turn::ToWorkers(3)));
        // Frames that were under way.
        assert_eq!(way.follow(SECOND + 1, 9, never), None);
        assert!(way.is_by_workers());
        assert_eq!(way.follow(2 * SECOND, 9, || Some(false)), None);
        assert_eq!(way.follow(2 * SECOND + 1, 9, never), None);
        assert_eq!(way.follow(3 * SECOND, 9, || Some(true)), Some(Turn::ToKernel));
        assert!(!way.is_by_workers());
    }

    #[test]
    fn trials_that_mislead_become_rare_and_are_forgotten() {
        let (mut way, mut now, mut refused) = (Way::default(), 0, 0);
        let mut waited = Vec::new();
        for _ in 0..12 {
            (now, refused) = (now + 1, refused + 5);
            assert_eq!(way.follow(now, refused, || None), Some(Turn::ToWorkers(5)));
            let turned = now;
            // Without a trial packets are what it is tried with.
            while way.follow(now, refused, || None) != Some(Turn::ToKernel) {
                now += SECOND;
            }
            waited.push((now - turned) / SECOND);
        }
        assert_eq!(waited, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        now += LASTING;
        assert_eq!(way.follow(now, refused + 1, || None), Some(Turn::ToWorkers(1)));
        assert_eq!(way.follow(now + SECOND, refused + 1, || None), Some(Turn::ToKernel));
    }

    #[test]
    fn bytes_of_frames_that_were_lost_are_left_out() {
        let mut sent = SentBytes::default();
        let traffic = |packets, bytes| Traffic { packets, bytes };
        assert_eq!(sent.note(traffic(10, 1_000), 0), 1_000);
        // Long ones, all refused; then short ones, all taken.
        assert_eq!(sent.note(traffic(20, 16_000), 10), 1_000);
        assert_eq!(sent.note(traffic(30, 16_600), 10), 1_600);
        assert_eq!(sent.note(traffic(40, 17_600), 15), 2_100, "half of them");
        // The loss is reported before what was redirected.
        assert_eq!(sent.note(traffic(40, 17_600), 18), 2_100);
        assert_eq!(sent.note(traffic(43, 17_900), 18), 2_100);
    }
}
