//! The processors of the generator and of the workers, and the time that all are in use.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::failure::{During, Result};

#[derive(Clone, Debug)]
pub struct Cores {
    /// The generator, and the kernel's share of forwarding: frames are received by the
    /// processor that sent them.
    pub generator: usize,
    /// The broker's workers, and the kernel's share of sending for them.
    pub workers: Vec<usize>,
    /// All that this process may use, which [`Cores::release`] restores.
    all: CpuSet,
}

impl Cores {
    /// The first processor generates, the others work; a single one does both.
    pub fn new() -> Result<Self> {
        let all = sched_getaffinity(None).during("reading the affinity")?;
        let mut numbers = (0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core));
        let generator = numbers.next().unwrap_or_default();
        let mut workers: Vec<usize> = numbers.collect();
        if workers.is_empty() {
            workers.push(generator);
        }
        Ok(Self { generator, workers, all })
    }

    /// Restricts this thread, and what it starts, to these processors.
    pub fn pin(cores: &[usize]) -> Result<()> {
        let mut set = CpuSet::new();
        cores.iter().for_each(|&core| set.set(core));
        set_affinity(&set)
    }

    /// Lets this thread run on all processors.
    pub fn release(&self) -> Result<()> {
        set_affinity(&self.all)
    }
}

fn set_affinity(set: &CpuSet) -> Result<()> {
    sched_setaffinity(None, set).during("choosing processors")
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Busy {
    /// Seconds that all together were in use, with interrupts.
    pub seconds: f64,
    /// Receptions from the network of each.
    pub receptions: Vec<u64>,
}

impl Busy {
    pub fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let interrupts = fs::read_to_string("/proc/softirqs").unwrap_or_default();
        Self { seconds: busy_seconds(&stat), receptions: receptions(&interrupts) }
    }

    /// The processors, by place, that received more than one in fifty times of all since
    /// `before`.
    pub fn receivers_since(&self, before: &Self) -> Vec<usize> {
        let pairs = self.receptions.iter().zip(&before.receptions);
        let since: Vec<u64> = pairs.map(|(now, then)| now.saturating_sub(*then)).collect();
        let all: u64 = since.iter().sum();
        (0..since.len()).filter(|&core| since[core] * 50 > all).collect()
    }
}

/// Of /proc/stat: user, nice, system, irq and softirq of all, in ticks of 10 ms
/// (proc_stat(5); the unit is fixed on x86-64).
fn busy_seconds(stat: &str) -> f64 {
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    let busy = [0, 1, 2, 5, 6].iter().filter_map(|&place| ticks.get(place)).sum::<u64>();
    busy as f64 / 100.0
}

/// Of /proc/softirqs: the line of network reception.
fn receptions(interrupts: &str) -> Vec<u64> {
    let line = interrupts.lines().find_map(|line| line.trim().strip_prefix("NET_RX:"));
    line.unwrap_or_default().split_whitespace().filter_map(|n| n.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_use_leaves_idling_waiting_and_stolen_time_out() {
        let stat = "cpu  100 20 3 5000 600 7 80 9000 1 1\ncpu0 1 1 1 1\n";
        assert!((busy_seconds(stat) - 2.1).abs() < 1e-9);
        assert_eq!(busy_seconds(""), 0.0);
    }

    #[test]
    fn receivers_are_named() {
        let text = "      CPU0  CPU1\n HI: 1 2\n NET_RX:  5  100\n";
        assert_eq!(receptions(text), [5, 100]);
        let before = Busy { seconds: 0.0, receptions: vec![5, 100] };
        let after = Busy { seconds: 1.0, receptions: vec![1005, 101] };
        assert_eq!(after.receivers_since(&before), [0]);
    }
}
