//! Advances moves: the work due at each tick.
//!
//! Moves whose last change every worker has seen advance, by the earliest time of any
//! worker. Then either the records are swept, or buckets turn that have learned long
//! enough; never both at once. While two workers may record one key in two phases, no slot
//! of the records may become free, or they could take different slots. So there is no sweep
//! while a bucket is between phases, and no bucket turns before every worker has started a
//! new batch since the last sweep.

use super::forwarding::{ForwardingTable, Pinned};
use super::mover::{Mover, Quiet, Stage};
use crate::table::{Entry, Phase};

/// Sweeps in a hold time.
const SWEEPS: u64 = 64;

/// Nanoseconds between two sweeps, at most.
const LONGEST_BETWEEN_SWEEPS: u64 = 500_000_000;

/// The result of a tick.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Progress {
    /// Buckets whose move completed.
    pub completed: Vec<u16>,
    /// Buckets whose move was cancelled because a key could not be recorded.
    pub cancelled: Vec<u16>,
}

impl<P: ForwardingTable> Mover<P> {
    /// Does the work due at the time `now`, in nanoseconds. To be called about every 64th
    /// of the idle timeout; less often, moves take longer.
    pub fn tick(&mut self, now: u64) -> Progress {
        let mut progress = Progress::default();
        let time = self.forwarding.earliest(now);
        let active = std::mem::take(&mut self.active);
        for &bucket in &active {
            self.stages[usize::from(bucket)] = self.known(bucket, time, &mut progress);
        }
        self.active = active;
        let between_phases = |&bucket: &u16| {
            matches!(self.stage(bucket), Stage::Turning { .. } | Stage::Unwinding { .. })
        };
        if self.swept.is_none() && self.is_sweep_due(time) {
            if !self.active.iter().any(between_phases) {
                self.sweep(time, &mut progress);
                self.swept = Some(self.forwarding.advance());
            }
        } else if self.swept.is_none_or(|epoch| self.forwarding.has_reached(epoch)) {
            self.swept = None;
            self.turn(time);
        }
        self.active.retain(|&bucket| self.stages[usize::from(bucket)] != Stage::Idle);
        progress
    }

    fn stage(&self, bucket: u16) -> Stage {
        self.stages[usize::from(bucket)]
    }

    /// The stage of a bucket, given what every worker has seen.
    fn known(&mut self, bucket: u16, time: u64, progress: &mut Progress) -> Stage {
        let stage = self.stage(bucket);
        let entry = self.forwarding.entry(bucket);
        let records = matches!(
            stage,
            Stage::Announced { .. } | Stage::Learning { .. } | Stage::Turning { .. }
        );
        if records && entry.phase() == Phase::Cancelled {
            progress.cancelled.push(bucket);
            self.counts.cancelled += 1;
            return Stage::Unwinding { epoch: self.forwarding.advance() };
        }
        match stage {
            Stage::Announced { epoch } if self.forwarding.has_reached(epoch) => {
                Stage::Learning { until: self.learned_at(bucket, time) }
            }
            Stage::Turning { epoch }
                if self.forwarding.has_reached(epoch)
                    && self.step(bucket, entry, Phase::Moving) =>
            {
                Stage::Moving { back: false }
            }
            Stage::Unwinding { epoch } if self.forwarding.has_reached(epoch) => {
                if entry.phase() == Phase::Cancelled {
                    let back = Entry::of_move(Phase::Moving, entry.target(), entry.from());
                    self.write(bucket, back);
                }
                Stage::Moving { back: true }
            }
            other => other,
        }
    }

    /// The time at which a bucket has learned all keys that may be alive, if every worker
    /// has seen at `time` that it learns.
    fn learned_at(&mut self, bucket: u16, time: u64) -> u64 {
        let quiet = self.quiet.remove(&bucket);
        // All packets forwarded before learning are counted by now. If the tally is that of
        // the proof, there were none in between.
        let proof = quiet.filter(|quiet: &Quiet| self.forwarding.tally(bucket) == quiet.tally);
        proof.map_or(time, |quiet| quiet.since.min(time)).saturating_add(self.hold)
    }

    /// Advances a move to its next phase, unless a worker has cancelled it.
    fn step(&self, bucket: u16, entry: Entry, phase: Phase) -> bool {
        let next = Entry::of_move(phase, entry.from(), entry.target());
        entry.phase() != Phase::Cancelled
            && self.forwarding.replace(bucket, entry, next.with_watch(entry.is_watched())).is_ok()
    }

    /// Turns buckets that have learned long enough.
    fn turn(&mut self, time: u64) {
        let mut turned = Vec::new();
        for &bucket in &self.active {
            let learned = matches!(self.stage(bucket), Stage::Learning { until } if until <= time);
            if learned && self.step(bucket, self.forwarding.entry(bucket), Phase::Turning) {
                turned.push(bucket);
            }
        }
        if turned.is_empty() {
            return;
        }
        let epoch = self.forwarding.advance();
        for bucket in turned {
            self.stages[usize::from(bucket)] = Stage::Turning { epoch };
        }
    }

    fn is_sweep_due(&self, time: u64) -> bool {
        let pause = (self.hold / SWEEPS).min(LONGEST_BETWEEN_SWEEPS);
        let rested = self.swept_at.is_none_or(|at| time.saturating_sub(at) >= pause);
        let waits = |&bucket: &u16| {
            matches!(self.stage(bucket), Stage::Moving { .. } | Stage::Clearing { .. })
        };
        rested && (self.active.iter().any(waits) || self.dead.iter().any(|dead| !dead.swept))
    }

    /// Removes records that are not needed, and ends moves that have none left.
    fn sweep(&mut self, time: u64, progress: &mut Progress) {
        self.swept_at = Some(time);
        let cleared = |forwarding: &P, stage| match stage {
            Stage::Clearing { epoch } => forwarding.has_reached(epoch),
            _ => false,
        };
        let (clear, rest): (Vec<u16>, Vec<u16>) =
            self.active.iter().partition(|&&bucket| cleared(&self.forwarding, self.stage(bucket)));
        let buried: Vec<bool> =
            self.dead.iter().map(|dead| self.forwarding.has_reached(dead.epoch)).collect();
        self.count_pinned(time);
        for (dead, buried) in self.dead.iter_mut().zip(buried) {
            dead.swept |= buried;
        }
        for bucket in clear {
            self.stages[usize::from(bucket)] = Stage::Idle;
        }
        for bucket in rest {
            let Stage::Moving { back } = self.stage(bucket) else { continue };
            if self.pinned[usize::from(bucket)] > 0 {
                continue;
            }
            self.write(bucket, Entry::settled(self.forwarding.entry(bucket).default_sensor()));
            self.stages[usize::from(bucket)] = Stage::Idle;
            if !back {
                self.counts.completed += 1;
                progress.completed.push(bucket);
            }
        }
    }

    fn count_pinned(&mut self, time: u64) {
        self.pinned.fill(0);
        self.pinned_at.fill(0);
        let Self { forwarding, stages, dead, pinned, pinned_at, .. } = self;
        forwarding.sweep(time, &mut |key: Pinned| {
            let bucket = usize::from(key.bucket);
            let is_default = key.sensor == forwarding.entry(key.bucket).default_sensor();
            let is_wanted = match stages[bucket] {
                Stage::Idle | Stage::Clearing { .. } => false,
                Stage::Moving { .. } => !is_default,
                _ => true,
            };
            let keep = is_wanted && !key.idle && !dead.iter().any(|dead| dead.sensor == key.sensor);
            if keep && !is_default {
                pinned[bucket] += 1;
                if let Some(count) = pinned_at.get_mut(usize::from(key.sensor)) {
                    *count += 1;
                }
            }
            keep
        });
    }
}
