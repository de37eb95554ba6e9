//! What was measured, and the questions asked of it.

use serde_json::{Map, json};

use super::expressions::Case;
use super::fit::Shape;
use super::measure::OnSet;
use super::sets::Set;
use crate::clock::Clock;
use crate::record::Row;
use crate::stats::{Sample, rounded};

/// The C forms, of which the best is compared with ours.
pub const C_FORMS: [&str; 4] = ["gcc-c", "gcc-structured", "clang-c", "clang-structured"];

/// Our back ends, of which `auto` should be as fast as the best.
pub const BACK_ENDS: [&str; 6] =
    ["list", "pe-avx512", "pe-avx512bw", "pe-avx2", "pe-scalar", "ems"];

/// All that is known of one filter.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The filter.
    pub case: Case,
    /// Instructions of libpcap's program.
    pub instructions: usize,
    /// The contenders, in the order of the times.
    pub names: Vec<String>,
    /// The back end that each one's code came from, where that was a choice.
    pub backends: Vec<Option<&'static str>>,
    /// Microseconds from classic BPF to something that can be called.
    pub compile_us: Vec<Option<f64>>,
    /// Cycles by which the loops of `pe` miss the bound of their schedules.
    pub excess_ii: Option<u32>,
    /// What the cost model goes by.
    pub shape: Shape,
    /// What was measured on each set.
    pub sets: Vec<OnSet>,
}

impl Outcome {
    /// Nanoseconds a packet in each round.
    pub fn times(&self, set: Set, engine: &str) -> Option<&[f64]> {
        let index = self.names.iter().position(|name| name == engine)?;
        self.sets.iter().find(|on| on.set == set)?.times.get(index)?.as_deref()
    }

    /// Median nanoseconds a packet.
    pub fn nanos(&self, set: Set, engine: &str) -> Option<f64> {
        Some(Sample::new(self.times(set, engine)?.to_vec()).median())
    }

    /// Times of `slow` in those of `fast`, round by round.
    pub fn ratios(&self, set: Set, slow: &str, fast: &str) -> Option<Sample> {
        let pairs = self.times(set, slow)?.iter().zip(self.times(set, fast)?);
        Some(Sample::new(pairs.map(|(slow, fast)| slow / fast).collect()))
    }

    /// Median of [`Outcome::ratios`].
    pub fn ratio(&self, set: Set, slow: &str, fast: &str) -> Option<f64> {
        Some(self.ratios(set, slow, fast)?.median())
    }

    /// Nanoseconds that `one` takes longer than `other`: the median over the rounds.
    pub fn difference(&self, set: Set, one: &str, other: &str) -> Option<f64> {
        let pairs = self.times(set, one)?.iter().zip(self.times(set, other)?);
        Some(Sample::new(pairs.map(|(one, other)| one - other).collect()).median())
    }

    /// The outcome on `set` alone, had every packet taken so many nanoseconds longer.
    pub fn slowed(&self, set: Set, nanos: f64) -> Self {
        let mut slowed = self.clone();
        slowed.sets.retain(|on| on.set == set);
        let times = slowed.sets.iter_mut().flat_map(|on| &mut on.times);
        times.flatten().flatten().for_each(|time| *time += nanos);
        slowed
    }

    /// The sets on which the clock was slower than `fastest` by more than a fraction.
    pub fn slow_sets(&self, fastest: &Clock, fraction: f64) -> Vec<Set> {
        let slow = self.sets.iter().filter(|on| on.clock.is_slower(fastest, fraction));
        slow.map(|on| on.set).collect()
    }

    /// Takes over the sets of `anew`, the same measured again, whose clock was faster.
    pub fn take_faster(&mut self, anew: Self) {
        for on in anew.sets {
            let old = self.sets.iter_mut().find(|old| old.set == on.set);
            if let Some(old) = old.filter(|old| old.clock.is_slower(&on.clock, 0.0)) {
                *old = on;
            }
        }
    }

    /// The engine of `among` with the least median time.
    pub fn best<'a>(&self, set: Set, among: &[&'a str]) -> Option<&'a str> {
        let timed = among.iter().filter_map(|&name| Some((self.nanos(set, name)?, name)));
        timed.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
    }

    /// The ratio of the best of `among` to `engine`: the least of the medians.
    pub fn best_ratio(&self, set: Set, among: &[&str], engine: &str) -> Option<f64> {
        let ratios = among.iter().filter_map(|name| self.ratio(set, name, engine));
        ratios.min_by(f64::total_cmp)
    }

    /// Time of a kernel of `pe`, scheduled as `engine` says, to that of the same
    /// modulo-scheduled, where the filter has such a kernel.
    pub fn scheduling_ratio(&self, set: Set, engine: &str) -> Option<f64> {
        let index = self.names.iter().position(|name| name == engine)?;
        let has_kernel = self.backends[index] == Some("pe");
        has_kernel.then(|| self.ratio(set, engine, "pe-avx512")).flatten()
    }

    /// Microseconds that `engine` takes to compile.
    pub fn compile_us(&self, engine: &str) -> Option<f64> {
        let index = self.names.iter().position(|name| name == engine)?;
        self.compile_us[index]
    }

    /// The rows of the record.
    pub fn rows(&self, gigahertz: f64) -> Vec<Row> {
        let mut rows = Vec::new();
        for OnSet { set, times, clock } in &self.sets {
            for (index, times) in times.iter().enumerate() {
                let engine = self.names[index].as_str();
                let sample = times.as_ref().map(|times| Sample::new(times.clone()));
                let mut more = Map::new();
                more.insert("paper".into(), json!(self.case.paper));
                if clock.windows() > 0 {
                    more.insert("gigahertz".into(), json!(rounded(clock.gigahertz())));
                }
                if let Some(compile_us) = self.compile_us[index] {
                    more.insert("compile_us".into(), json!(rounded(compile_us)));
                }
                if let Some(backend) = self.backends[index] {
                    more.insert("backend".into(), json!(backend));
                }
                if let Some(ratios) = self.ratios(*set, "libpcap", engine) {
                    more.insert("ratio".into(), json!(rounded(ratios.median())));
                    more.insert("ratio_spread".into(), json!(ratios.spread().map(rounded)));
                }
                let nanos = sample.as_ref().map(Sample::median);
                rows.push(Row {
                    case: self.case.expression.clone(),
                    set: set.to_string(),
                    engine: engine.to_owned(),
                    ns: nanos.map(rounded),
                    cycles: nanos.map(|nanos| rounded(nanos * gigahertz)),
                    n: times.as_ref().map_or(0, Vec::len),
                    spread: sample.as_ref().map(|sample| sample.spread().map(rounded)),
                    more,
                });
            }
        }
        rows
    }
}

/// An outcome with these times of `hot`, for tests.
#[cfg(test)]
pub fn outcome(paper: bool, timed: &[(&'static str, &[f64])]) -> Outcome {
    Outcome {
        case: Case { expression: "tcp".to_owned(), short: "tcp".to_owned(), paper },
        instructions: 6,
        names: timed.iter().map(|(name, _)| (*name).to_owned()).collect(),
        backends: vec![None; timed.len()],
        compile_us: timed.iter().map(|_| Some(100.0)).collect(),
        excess_ii: Some(1),
        shape: Shape { intervals: Some(0.5), tests: 2 },
        sets: vec![OnSet {
            set: Set::Hot,
            times: timed.iter().map(|(_, times)| Some(times.to_vec())).collect(),
            clock: Clock::of(3.0),
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_medians_over_pairs() {
        let one = outcome(
            true,
            &[("libpcap", &[10.0, 20.0, 90.0]), ("auto", &[1.0, 4.0, 3.0]), ("list", &[2.0; 3])],
        );
        // Of 10, 5 and 30: the median of the ratios, not the ratio of the medians.
        assert_eq!(one.ratio(Set::Hot, "libpcap", "auto"), Some(10.0));
        assert_eq!(one.best(Set::Hot, &["auto", "list", "ems"]), Some("list"));
        assert_eq!(one.best_ratio(Set::Hot, &["libpcap", "list"], "auto"), Some(2.0 / 3.0));
        assert_eq!(one.ratio(Set::Cache, "libpcap", "auto"), None);
        assert_eq!(one.ratio(Set::Hot, "gcc-c", "auto"), None);
    }

    #[test]
    fn what_is_added_to_all_times_brings_ratios_nearer_to_one() {
        let one = outcome(true, &[("libpcap", &[10.0; 3]), ("auto", &[1.0; 3])]);
        let slowed = one.slowed(Set::Hot, 0.5);
        assert_eq!(slowed.ratio(Set::Hot, "libpcap", "auto"), Some(7.0));
        assert_eq!(slowed.difference(Set::Hot, "libpcap", "auto"), Some(9.0));
        assert!(one.slowed(Set::Cache, 0.5).sets.is_empty());
    }

    #[test]
    fn a_set_is_taken_anew_where_its_clock_was_faster_then() {
        let mut one = outcome(true, &[("auto", &[9.0; 3])]);
        assert_eq!(one.slow_sets(&Clock::of(3.1), 0.05), []);
        assert_eq!(one.slow_sets(&Clock::of(3.2), 0.05), [Set::Hot]);
        let mut anew = outcome(true, &[("auto", &[7.0; 3])]);
        anew.sets[0].clock = Clock::of(2.9);
        one.take_faster(anew.clone());
        assert_eq!(one.nanos(Set::Hot, "auto"), Some(9.0));
        anew.sets[0].clock = Clock::of(3.1);
        one.take_faster(anew);
        assert_eq!(one.nanos(Set::Hot, "auto"), Some(7.0));
    }

    #[test]
    fn rows_say_what_is_missing() {
        let mut one = outcome(true, &[("libpcap", &[10.0; 3]), ("auto", &[2.0; 3])]);
        one.sets[0].times[1] = None;
        let rows = one.rows(2.0);
        assert_eq!((rows[0].ns, rows[0].cycles, rows[0].n), (Some(10.0), Some(20.0), 3));
        assert_eq!((rows[1].ns, rows[1].n), (None, 0));
        assert_eq!(rows[1].more["paper"], json!(true));
    }
}
