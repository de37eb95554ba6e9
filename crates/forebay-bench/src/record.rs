//! The results of a run: rows, what they are compared by, and the record that keeps them.

use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_io::date::iso8601;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::bar::Bar;
use crate::failure::{During, Result};
use crate::stats::{Sample, rounded};

/// One measurement: an engine on one set of one case.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    pub case: String,
    pub set: String,
    pub engine: String,
    /// Median nanoseconds a packet; null where the engine took no part.
    pub ns: Option<f64>,
    /// The same in cycles of the clock measured in this run.
    pub cycles: Option<f64>,
    /// Rounds.
    pub n: usize,
    /// 10th and 90th percentile of the nanoseconds.
    pub spread: Option<[f64; 2]>,
    /// Values that only some suites or engines have.
    #[serde(flatten)]
    pub more: Map<String, Value>,
    /// Nanoseconds a packet, round by round.
    #[serde(skip)]
    pub times: Vec<f64>,
}

impl Row {
    pub fn new(
        case: impl Into<String>,
        set: impl Display,
        engine: impl Into<String>,
        times: Vec<f64>,
    ) -> Self {
        let (case, set, engine) = (case.into(), set.to_string(), engine.into());
        let mut row = Self { case, set, engine, ..Self::default() };
        if !times.is_empty() {
            let sample = Sample::new(times.clone());
            (row.ns, row.spread) = (Some(sample.median()), Some(sample.spread()));
        }
        Self { n: times.len(), times, ..row }
    }

    pub fn with(mut self, key: &str, value: impl Serialize) -> Self {
        self.more.insert(key.to_owned(), json!(value));
        self
    }

    /// The number that a row has under `key` beside the common ones.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.more.get(key)?.as_f64()
    }
}

/// Rows, by case, set and engine.
#[derive(Clone, Debug, Default)]
pub struct Results(pub Vec<Row>);

impl Results {
    pub fn row(&self, case: &str, set: &str, engine: &str) -> Option<&Row> {
        let is_wanted = |row: &&Row| row.engine == engine && row.set == set && row.case == case;
        self.0.iter().find(is_wanted)
    }

    pub fn nanos(&self, case: &str, set: &str, engine: &str) -> Option<f64> {
        self.row(case, set, engine)?.ns
    }

    /// Combines the times of two engines round by round.
    fn pairs(
        &self,
        [case, set]: [&str; 2],
        [a, b]: [&str; 2],
        combine: fn(f64, f64) -> f64,
    ) -> Option<Sample> {
        let (a, b) = (&self.row(case, set, a)?.times, &self.row(case, set, b)?.times);
        let pairs: Vec<f64> = a.iter().zip(b).map(|(&a, &b)| combine(a, b)).collect();
        (!pairs.is_empty()).then(|| Sample::new(pairs))
    }

    /// Times of `slow` divided by those of `fast`, round by round.
    pub fn ratios(&self, case: &str, set: &str, slow: &str, fast: &str) -> Option<Sample> {
        self.pairs([case, set], [slow, fast], |slow, fast| slow / fast)
    }

    /// Median of [`Results::ratios`].
    pub fn ratio(&self, case: &str, set: &str, slow: &str, fast: &str) -> Option<f64> {
        Some(self.ratios(case, set, slow, fast)?.median())
    }

    /// Nanoseconds that `one` takes longer than `other`: the median over the rounds.
    pub fn difference(&self, case: &str, set: &str, one: &str, other: &str) -> Option<f64> {
        Some(self.pairs([case, set], [one, other], |one, other| one - other)?.median())
    }

    /// The row with the least median among the engines whose names `wanted` accepts.
    pub fn best(&self, case: &str, set: &str, wanted: impl Fn(&str) -> bool) -> Option<&Row> {
        let rows = self.0.iter().filter(|row| row.set == set && row.case == case);
        let rows = rows.filter(|row| row.ns.is_some() && wanted(&row.engine));
        rows.min_by(|a, b| a.ns.partial_cmp(&b.ns).unwrap_or(std::cmp::Ordering::Equal))
    }

    /// The least median ratio of the engines that `wanted` accepts to `engine`.
    pub fn best_ratio(
        &self,
        case: &str,
        set: &str,
        wanted: impl Fn(&str) -> bool,
        engine: &str,
    ) -> Option<f64> {
        let rows = self.0.iter().filter(|row| row.set == set && row.case == case);
        let peers = rows.filter(|row| wanted(&row.engine));
        peers.filter_map(|row| self.ratio(case, set, &row.engine, engine)).min_by(f64::total_cmp)
    }

    /// Adds to each row the ratios of the engine that `reference` names for it to its own.
    pub fn add_ratios(&mut self, key: &str, reference: impl Fn(&Self, &Row) -> Option<String>) {
        let ratios_of =
            |row: &Row| self.ratios(&row.case, &row.set, &reference(self, row)?, &row.engine);
        let ratios: Vec<Option<Sample>> = self.0.iter().map(ratios_of).collect();
        for (row, ratios) in self.0.iter_mut().zip(ratios) {
            let Some(ratios) = ratios else { continue };
            row.more.insert(key.to_owned(), json!(ratios.median()));
            row.more.insert("ratio_spread".to_owned(), json!(ratios.spread()));
        }
    }

    /// The different values of a field, in the order of the rows.
    pub fn names<'a>(&'a self, field: impl Fn(&'a Row) -> &'a str) -> Vec<&'a str> {
        let mut names = Vec::new();
        for name in self.0.iter().map(field) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The bar on the number of rounds that each median is taken over.
    pub fn rounds_bar(&self) -> Option<Bar> {
        let rounds = self.0.iter().map(|row| row.n).filter(|&n| n > 0).min()?;
        Some(Bar::at_least("pairs that a median is of", 31.0, rounds as f64))
    }
}

/// The machine that a record was made on.
#[derive(Debug, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Vector extensions.
    pub features: Vec<String>,
    pub kernel: String,
}

impl Machine {
    fn here() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = info.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map_or("", |(_, value)| value.trim())
        };
        let features = field("flags").split(' ');
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cpu: field("model name").to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            features: features.filter(|name| name.starts_with("avx")).map(str::to_owned).collect(),
            kernel: kernel.trim().to_owned(),
        }
    }
}

/// A note on the size of the last level of the first processor's cache.
pub fn cache_note() -> Option<String> {
    let size = |level: usize| {
        fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{level}/size")).ok()
    };
    let size = (0..8).rev().find_map(size)?;
    Some(format!("the last level of the cache has {}", size.trim()))
}

/// All measurements of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    pub suite: String,
    /// When the run ended.
    pub date: String,
    pub machine: Machine,
    /// Conditions of the run, and peers that are missing.
    pub notes: Vec<String>,
    /// Bars and other values over all rows.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub summary: Value,
    pub rows: Vec<Row>,
    /// Tables for the terminal.
    #[serde(skip)]
    pub shown: String,
}

impl Record {
    /// A record of a run that ends now. With a clock, rows get cycles.
    pub fn new(
        suite: &str,
        mut notes: Vec<String>,
        mut rows: Vec<Row>,
        gigahertz: Option<f64>,
    ) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let date = iso8601(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX));
        rows.iter_mut()
            .for_each(|row| row.cycles = row.ns.zip(gigahertz).map(|(ns, ghz)| ns * ghz));
        let mut seen = std::collections::HashSet::new();
        notes.retain(|note| seen.insert(note.clone()));
        let (suite, machine, summary) = (suite.to_owned(), Machine::here(), Value::Null);
        Self { suite, date, machine, notes, summary, rows, shown: String::new() }
    }

    /// Prints the tables and notes, and writes the rows to a file where one is named.
    pub fn publish(&self, json: Option<&Path>) -> Result<()> {
        print!("{}", self.shown);
        self.notes.iter().for_each(|note| println!("{note}"));
        println!("{} cores of {}", self.machine.cores, self.machine.cpu);
        let Some(path) = json else { return Ok(()) };
        let mut value = json!(self);
        round(&mut value);
        let text = serde_json::to_string_pretty(&value)? + "\n";
        fs::write(path, text).during(format_args!("writing {}", path.display()))
    }
}

/// Rounds all numbers to five significant digits, more than any measurement here has.
fn round(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            *value = json!(number.as_f64().map(rounded));
        }
        Value::Array(values) => values.iter_mut().for_each(round),
        Value::Object(values) => values.values_mut().for_each(round),
        _ => {}
    }
}

/// Results of these times, by case, set and engine, for tests.
#[cfg(test)]
pub fn results(rows: &[(&str, &str, &str, &[f64])]) -> Results {
    let row = |&(case, set, engine, times): &(&str, &str, &str, &[f64])| {
        Row::new(case, set, engine, times.to_vec())
    };
    Results(rows.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_medians_over_pairs() {
        let mut all = results(&[
            ("tcp", "hot", "libpcap", &[10.0, 20.0, 90.0]),
            ("tcp", "hot", "auto", &[1.0, 4.0, 3.0]),
            ("tcp", "hot", "list", &[2.0; 3]),
            ("tcp", "hot", "absent", &[]),
        ]);
        // Of 10, 5 and 30: the median of the ratios, not the ratio of the medians.
        assert_eq!(all.ratio("tcp", "hot", "libpcap", "auto"), Some(10.0));
        assert_eq!(all.difference("tcp", "hot", "libpcap", "auto"), Some(16.0));
        let best = all.best("tcp", "hot", |name| name != "auto" && name != "absent");
        assert_eq!(best.map(|row| row.engine.as_str()), Some("list"));
        let not_ours = |name: &str| name != "auto";
        assert_eq!(all.best_ratio("tcp", "hot", not_ours, "auto"), Some(2.0 / 3.0));
        assert_eq!(all.ratio("tcp", "cache", "libpcap", "auto"), None);
        assert_eq!(all.ratio("tcp", "hot", "absent", "auto"), None);
        all.add_ratios("ratio", |_, _| Some("libpcap".to_owned()));
        assert_eq!(all.0[1].number("ratio"), Some(10.0));
        assert_eq!((all.0[3].ns, all.0[3].n, all.0[3].number("ratio")), (None, 0, None));
        assert_eq!(all.rounds_bar().map(|bar| (bar.value, bar.met)), Some((3.0, false)));
    }

    #[test]
    fn records_of_earlier_versions_are_read_and_survive_being_written() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/record");
        let mut records = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|end| end != "json") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let value: Value = serde_json::from_str(&text).unwrap();
            // The soak test keeps a record of another form.
            if value["rows"].is_null() {
                continue;
            }
            let record: Record = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(json!(record)["rows"], value["rows"], "{}", path.display());
            let bars = value["summary"]["bars"].clone();
            if !bars.is_null() {
                let bars: Vec<Bar> = serde_json::from_value(bars).unwrap();
                assert!(bars.iter().all(|bar| !bar.what.is_empty()));
            }
            records += 1;
        }
        assert!(records > 10);
    }
}
