//! What was measured, and the questions asked of it.

use serde_json::{Map, json};

use super::expressions::Case;
use super::measure::Times;
use super::sets::Set;
use crate::record::Row;
use crate::stats::{Sample, rounded};

/// The C forms, of which the best is compared with ours.
pub const C_FORMS: [&str; 4] = ["gcc-c", "gcc-structured", "clang-c", "clang-structured"];

/// Our back ends, of which `auto` should be as fast as the best.
pub const BACK_ENDS: [&str; 5] = ["list", "pe-avx512", "pe-avx2", "pe-scalar", "ems"];

/// All that is known of one filter.
#[derive(Debug)]
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
    /// What was measured on each set.
    pub sets: Vec<(Set, Times)>,
}

impl Outcome {
    /// Nanoseconds a packet in each round.
    pub fn times(&self, set: Set, engine: &str) -> Option<&[f64]> {
        let index = self.names.iter().position(|name| name == engine)?;
        let (_, times) = self.sets.iter().find(|(measured, _)| *measured == set)?;
        times.get(index)?.as_deref()
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
        for (set, times) in &self.sets {
            for (index, times) in times.iter().enumerate() {
                let engine = self.names[index].as_str();
                let sample = times.as_ref().map(|times| Sample::new(times.clone()));
                let mut more = Map::new();
                more.insert("paper".into(), json!(self.case.paper));
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
        sets: vec![(Set::Hot, timed.iter().map(|(_, times)| Some(times.to_vec())).collect())],
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
    fn rows_say_what_is_missing() {
        let mut one = outcome(true, &[("libpcap", &[10.0; 3]), ("auto", &[2.0; 3])]);
        one.sets[0].1[1] = None;
        let rows = one.rows(2.0);
        assert_eq!((rows[0].ns, rows[0].cycles, rows[0].n), (Some(10.0), Some(20.0), 3));
        assert_eq!((rows[1].ns, rows[1].n), (None, 0));
        assert_eq!(rows[1].more["paper"], json!(true));
    }
}
