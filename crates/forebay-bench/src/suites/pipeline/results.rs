//! What was measured, as rows, bars and a table.

use std::io;

use forebay::show::{Colour, Column, Table, terminal_columns};
use serde_json::{Map, json};

use super::measure::Times;
use super::stages::Stage;
use crate::bar::Bar;
use crate::bar::Limit::AtLeast;
use crate::record::Row;
use crate::stats::{Sample, rounded};

/// A case, measured.
pub struct Outcome {
    /// Its name.
    pub case: &'static str,
    /// Where the packets lie.
    pub set: &'static str,
    /// Million packets a second that are to enter at least, and that are aimed at.
    pub bar: Option<[f64; 2]>,
    /// Packets that go in.
    pub packets: u64,
    /// Those that the filter lets pass.
    pub hits: u64,
    /// Those that come out.
    pub output: u64,
    /// Its stages.
    pub stages: Vec<Stage>,
    /// What each prefix of them takes.
    pub times: Times,
}

impl Outcome {
    /// Nanoseconds a packet that enters, of all stages.
    fn whole(&self) -> Sample {
        Sample::new(self.times.prefixes.last().cloned().unwrap_or_default())
    }

    /// Nanoseconds a packet that enters, of each stage: the medians of what its prefix
    /// took more than the one before.
    fn steps(&self) -> Vec<(Stage, f64)> {
        let prefixes = &self.times.prefixes;
        let step = |(i, &stage): (usize, &Stage)| {
            let nanos = match i.checked_sub(1) {
                None => prefixes[0].clone(),
                Some(before) => {
                    prefixes[i].iter().zip(&prefixes[before]).map(|(a, b)| a - b).collect()
                }
            };
            (stage, Sample::new(nanos).median())
        };
        self.stages.iter().enumerate().map(step).collect()
    }

    /// Nanoseconds a packet of looking at a byte of each, in the median round.
    fn touch(&self) -> f64 {
        Sample::new(self.times.touch.clone()).median()
    }

    /// Million packets a second that enter, in the median round.
    fn mpps(&self) -> f64 {
        1e3 / self.whole().median()
    }

    /// The row of a record.
    pub fn row(&self, gigahertz: f64) -> Row {
        let whole = self.whole();
        let cycles: Map<String, serde_json::Value> = self
            .steps()
            .into_iter()
            .map(|(stage, nanos)| (stage.name().to_owned(), json!(rounded(nanos * gigahertz))))
            .collect();
        let mut more = Map::new();
        more.insert("pps".into(), json!(rounded(self.mpps() * 1e6)));
        more.insert("pps_best".into(), json!(rounded(1e9 / whole.quantile(0.0))));
        more.insert("packets".into(), json!(self.packets));
        more.insert("hits".into(), json!(self.hits));
        more.insert("sent".into(), json!(self.output));
        more.insert("touch_ns".into(), json!(rounded(self.touch())));
        more.insert("stage_cycles".into(), json!(cycles));
        Row {
            case: self.case.to_owned(),
            set: self.set.to_owned(),
            engine: "forebay".to_owned(),
            ns: Some(rounded(whole.median())),
            cycles: Some(rounded(whole.median() * gigahertz)),
            n: self.times.prefixes.last().map_or(0, Vec::len),
            spread: Some(whole.spread().map(rounded)),
            more,
        }
    }

    /// What has to be reached.
    pub fn bar(&self) -> Option<Bar> {
        let [least, aim] = self.bar?;
        let what = format!("{}: million packets a second that enter, aim {aim}", self.case);
        Some(Bar::of(what, AtLeast(least), self.mpps()))
    }

    /// What one must know to read the row.
    pub fn note(&self) -> String {
        let whole = self.whole();
        let percent = |part: u64| 100.0 * part as f64 / self.packets as f64;
        let stolen = Sample::new(self.times.stolen.clone());
        format!(
            "{}, {}: {} packets, {:.1}% pass the filter, {:.1}% are sent; best round {:.1} Mpps; \
             a plain loop that looks at one byte of each takes {:.1} ns, {:.1} Mpps; an idle loop \
             lost {:.1}% of its time in the middle round, {:.1}% in the tenth worst of a hundred",
            self.case,
            self.set,
            self.packets,
            percent(self.hits),
            percent(self.output),
            1e3 / whole.quantile(0.0),
            self.touch(),
            1e3 / self.touch(),
            100.0 * stolen.median(),
            100.0 * stolen.quantile(0.9),
        )
    }
}

/// A line a case, a column a stage: cycles a packet that enters.
pub fn table(outcomes: &[Outcome], gigahertz: f64) -> String {
    let mut columns = vec![
        Column::left("case"),
        Column::left("set"),
        Column::right("Mpps"),
        Column::right("10%–90%"),
        Column::right("cycles"),
    ];
    columns.extend(Stage::ALL.map(|stage| Column::right(stage.name())));
    let mut table = Table::new(columns);
    for one in outcomes {
        let whole = one.whole();
        let [fast, slow] = whole.spread();
        let mut cells = vec![
            one.case.to_owned(),
            one.set.to_owned(),
            format!("{:.1}", one.mpps()),
            format!("{:.1}–{:.1}", 1e3 / slow, 1e3 / fast),
            format!("{:.1}", whole.median() * gigahertz),
        ];
        let steps = one.steps();
        cells.extend(Stage::ALL.map(|stage| {
            let step = steps.iter().find(|(one, _)| *one == stage);
            step.map_or_else(|| "–".to_owned(), |(_, nanos)| format!("{:.1}", nanos * gigahertz))
        }));
        table.row(cells);
    }
    table.render(terminal_columns(io::stdout()), Colour::stdout())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_takes_what_its_prefix_takes_more() {
        let one = Outcome {
            case: "full",
            set: "mem",
            bar: Some([14.88, 40.0]),
            packets: 100,
            hits: 30,
            output: 28,
            stages: vec![Stage::Rx, Stage::Filter, Stage::Tx],
            times: Times {
                prefixes: vec![vec![1.0, 2.0, 1.0], vec![4.0, 6.0, 5.0], vec![9.0, 10.0, 10.0]],
                touch: vec![3.0, 5.0, 4.0],
                stolen: vec![0.0],
                counted: 0,
            },
        };
        let steps: Vec<f64> = one.steps().into_iter().map(|(_, nanos)| nanos).collect();
        assert_eq!(steps, [1.0, 4.0, 5.0]);
        let row = one.row(2.0);
        assert_eq!((row.ns, row.cycles, row.n), (Some(10.0), Some(20.0), 3));
        assert_eq!(row.more["stage_cycles"], json!({"rx": 2.0, "filter": 8.0, "tx": 10.0}));
        assert_eq!(row.more["pps"], json!(1e8));
        assert_eq!(row.more["touch_ns"], json!(4.0));
        assert!(one.bar().is_some_and(|bar| bar.met) && one.mpps() == 100.0);
        let shown = table(&[one], 2.0);
        assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    }
}
