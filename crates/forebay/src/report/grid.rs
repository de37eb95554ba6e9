//! The load of each sensor over time, at the resolution of the page.
//!
//! A report may have hundreds of buckets for hundreds of sensors. The page needs a step
//! every few pixels, and its size must be bounded, so adjacent buckets are added up. Counts
//! stay exact; a rate is always a count divided by its own duration, also for a last,
//! shorter step.

use serde::Serialize;

use super::model::SplitReport;
use crate::show::text;

/// The most sensors with their own chart; beyond, a row of a heat map.
pub(super) const MOST_CHARTS: usize = 16;

/// The quantity of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// Bits a second on the wire.
    Bits,
    /// Packets a second.
    Packets,
}

impl Measure {
    /// Name in class attributes and in the script's data.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bits => "bits",
            Self::Packets => "packets",
        }
    }

    /// Unit of a rate, without prefix.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Bits => "bit/s",
            Self::Packets => "pps",
        }
    }
}

/// Counts for each sensor and step. Serialises to the data of the page's script.
#[derive(Debug, Serialize)]
pub(super) struct Grid {
    names: Vec<String>,
    /// Buckets in all; the horizontal axis of every chart runs from 0 to here.
    pub(super) length: usize,
    /// Buckets added up in a step; the last step may have fewer.
    pub(super) step: usize,
    /// Length of a bucket in seconds.
    pub(super) seconds: f64,
    /// Bytes per sensor and step.
    bits: Vec<Vec<u64>>,
    /// Packets per sensor and step.
    packets: Vec<Vec<u64>>,
}

impl Grid {
    /// The grid of `report`, or `None` without time or sensors.
    pub(super) fn of(report: &SplitReport) -> Option<Self> {
        let series = &report.series;
        let sensors = report.sensors.len();
        let rows = series.packets.iter().chain(&series.bytes);
        let length = rows.map(Vec::len).max().unwrap_or(0);
        if sensors == 0 || length == 0 || series.width_ns == 0 || report.duration_ns() == 0 {
            return None;
        }
        let most_steps = if sensors <= MOST_CHARTS {
            (1_200 / sensors).clamp(160, 300)
        } else {
            (8_192 / sensors).clamp(48, 160)
        };
        let step = length.div_ceil(most_steps);
        let sum_up = |rows: &[Vec<u64>]| {
            let steps = length.div_ceil(step);
            let mut summed = vec![vec![0_u64; steps]; sensors];
            for (sums, row) in summed.iter_mut().zip(rows) {
                for (sum, buckets) in sums.iter_mut().zip(row.chunks(step)) {
                    *sum = saturating_sum(buckets);
                }
            }
            summed
        };
        Some(Self {
            names: report
                .sensors
                .iter()
                .map(|sensor| text::visible(&sensor.name).into_owned())
                .collect(),
            length,
            step,
            seconds: series.width_ns as f64 / 1e9,
            bits: sum_up(&series.bytes),
            packets: sum_up(&series.packets),
        })
    }

    /// The same load in at most `most` steps.
    pub(super) fn coarser(&self, most: usize) -> Self {
        let merged = self.steps().div_ceil(most.max(1));
        let sum_up = |rows: &[Vec<u64>]| -> Vec<Vec<u64>> {
            rows.iter().map(|row| row.chunks(merged).map(saturating_sum).collect()).collect()
        };
        Self {
            names: self.names.clone(),
            length: self.length,
            step: self.step * merged,
            seconds: self.seconds,
            bits: sum_up(&self.bits),
            packets: sum_up(&self.packets),
        }
    }

    /// Steps of time.
    pub(super) fn steps(&self) -> usize {
        self.length.div_ceil(self.step)
    }

    /// The bucket at which a step ends.
    pub(super) fn edge(&self, step: usize) -> usize {
        ((step + 1) * self.step).min(self.length)
    }

    /// Time from the first bucket to the last in seconds.
    pub(super) fn span(&self) -> f64 {
        self.length as f64 * self.seconds
    }

    /// Rates of one sensor, a value a step.
    pub(super) fn rates(&self, measure: Measure, sensor: usize) -> Vec<f64> {
        let (counts, factor) = match measure {
            Measure::Bits => (&self.bits[sensor], 8.0),
            Measure::Packets => (&self.packets[sensor], 1.0),
        };
        counts
            .iter()
            .enumerate()
            .map(|(at, count)| {
                let buckets = self.edge(at) - at * self.step;
                *count as f64 * factor / (buckets as f64 * self.seconds)
            })
            .collect()
    }
}

fn saturating_sum(counts: &[u64]) -> u64 {
    counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
}

/// Sums of rates step by step.
pub(super) fn total(rates: &[Vec<f64>]) -> Vec<f64> {
    let mut sums = vec![0.0; rates.first().map_or(0, Vec::len)];
    for row in rates {
        for (sum, rate) in sums.iter_mut().zip(row) {
            *sum += rate;
        }
    }
    sums
}

/// The largest of `values`, at least 0.
pub(super) fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{SensorLoad, TimeSeries};

    fn report(buckets: usize, sensors: usize) -> SplitReport {
        SplitReport {
            start_ns: Some(0),
            end_ns: Some(buckets as i64 * 1_000_000_000),
            sensors: vec![SensorLoad::default(); sensors],
            series: TimeSeries {
                width_ns: 1_000_000_000,
                packets: vec![vec![10; buckets]; sensors],
                bytes: vec![vec![1_000; buckets]; sensors],
            },
            ..SplitReport::default()
        }
    }

    #[test]
    fn rates_do_not_depend_on_how_buckets_are_added_up() {
        for (buckets, sensors) in [(1, 1), (600, 4), (599, 16), (601, 64), (600, 256)] {
            let grid = Grid::of(&report(buckets, sensors)).expect("there is load");
            assert!(grid.steps() <= 300 && grid.edge(grid.steps() - 1) == buckets);
            let coarse = grid.coarser(100);
            assert!(coarse.steps() <= 100 && coarse.edge(coarse.steps() - 1) == buckets);
            assert!(coarse.rates(Measure::Bits, 0).iter().all(|rate| *rate == 8_000.0));
            for sensor in 0..sensors {
                assert!(grid.rates(Measure::Bits, sensor).iter().all(|rate| *rate == 8_000.0));
                assert!(grid.rates(Measure::Packets, sensor).iter().all(|rate| *rate == 10.0));
            }
        }
    }

    #[test]
    fn no_time_means_no_grid() {
        assert!(Grid::of(&report(0, 4)).is_none());
        assert!(Grid::of(&report(10, 0)).is_none());
        let mut backwards = report(10, 2);
        backwards.end_ns = Some(-5);
        assert!(Grid::of(&backwards).is_none());
    }

    #[test]
    fn missing_rows_count_as_no_load() {
        let mut ragged = report(10, 3);
        ragged.series.bytes = vec![vec![5; 4]];
        let grid = Grid::of(&ragged).expect("packets are there");
        assert_eq!(grid.rates(Measure::Bits, 0)[3..5], [40.0, 0.0]);
        assert_eq!(largest(&grid.rates(Measure::Bits, 2)), 0.0);
    }
}
