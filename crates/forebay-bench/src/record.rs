//! What a run measured, as JSON and as a table.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay::show::time::iso8601;
use forebay::show::{Colour, Column, Table, terminal_columns};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::machine::Machine;
use crate::{BenchError, io_error};

/// One measurement.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What was done.
    pub case: String,
    /// On what.
    pub set: String,
    /// By whom.
    pub engine: String,
    /// Median nanoseconds a packet; nothing where the engine is not installed.
    pub ns: Option<f64>,
    /// The same in cycles of the clock measured in this run.
    pub cycles: Option<f64>,
    /// Runs.
    pub n: usize,
    /// 10th and 90th percentile of the nanoseconds.
    pub spread: Option<[f64; 2]>,
    /// What else this suite tells.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// All measurements of a run.
#[derive(Debug, Serialize)]
pub struct Record {
    /// The suite.
    pub suite: &'static str,
    /// When it ended.
    pub date: String,
    /// Where it ran.
    pub machine: Machine,
    /// What one must know to read the rows.
    pub notes: Vec<String>,
    /// What they come down to, where a suite says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Value>,
    /// The measurements.
    pub rows: Vec<Row>,
    /// What is printed where the rows are too many to be.
    #[serde(skip)]
    pub shown: Option<String>,
}

impl Record {
    /// A record of now and here.
    pub fn new(suite: &'static str, notes: Vec<String>, rows: Vec<Row>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let date = iso8601(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX));
        Self { suite, date, machine: Machine::here(), notes, summary: None, rows, shown: None }
    }

    /// Prints the rows, and writes them to a file where one is named.
    pub fn publish(&self, json: Option<&Path>) -> Result<(), BenchError> {
        match &self.shown {
            Some(shown) => print!("{shown}"),
            None => print!("{}", self.table()),
        }
        for note in &self.notes {
            println!("{note}");
        }
        println!("{} cores of {}", self.machine.cores, self.machine.cpu);
        let Some(path) = json else { return Ok(()) };
        let failed = || io_error(format!("writing {}", path.display()));
        let mut text =
            serde_json::to_string_pretty(self).map_err(io::Error::from).map_err(failed())?;
        text.push('\n');
        fs::write(path, text).map_err(failed())
    }

    /// The rows for a terminal.
    fn table(&self) -> String {
        let mut table = Table::new(vec![
            Column::left("case"),
            Column::left("set"),
            Column::left("engine"),
            Column::right("ns/packet"),
            Column::right("10%–90%"),
            Column::right("cycles"),
            Column::right("GB/s"),
            Column::right("peer/forebay"),
            Column::right("10%–90%"),
            Column::right("MiB"),
        ]);
        for row in &self.rows {
            table.row(row.cells());
        }
        table.render(terminal_columns(io::stdout()), Colour::stdout())
    }
}

impl Row {
    fn cells(&self) -> [String; 10] {
        let number = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
        };
        let more = |name: &str| self.more.get(name).and_then(Value::as_f64);
        let range = |range: Option<[f64; 2]>, digits: usize| {
            range.map_or_else(String::new, |[a, b]| format!("{a:.digits$}–{b:.digits$}"))
        };
        let ratios = self.more.get("ratio_spread").and_then(|value| {
            let pair = value.as_array()?;
            Some([pair.first()?.as_f64()?, pair.get(1)?.as_f64()?])
        });
        [
            self.case.clone(),
            self.set.clone(),
            self.engine.clone(),
            number(self.ns, 1),
            range(self.spread, 1),
            number(self.cycles, 0),
            number(more("gbytes_per_s"), 2),
            more("ratio").map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            range(ratios, 2),
            more("max_rss_mib").map_or_else(String::new, |mib| format!("{mib:.0}")),
        ]
    }
}
