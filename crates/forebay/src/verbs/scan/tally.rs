//! The result of a scan: a line for each match, or sums for each literal.

use std::fs::File;
use std::io::{self, Write as _};

use forebay_pipeline::Ledger;
use forebay_scan::{CacheUse, Match};
use serde_json::{Map, Value, json};

use crate::cli::Cli;
use crate::ending::{self, loss_of};
use crate::failure::Failure;
use crate::input::{print, print_json};
use crate::show::{Colour, Column, JsonList, Results, Table, human, terminal_columns};

/// Packets and their bytes on the wire.
#[derive(Clone, Copy, Default)]
struct Sum {
    packets: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }
}

/// What is searched for: literals, or rules by their literals.
pub(super) trait Subjects: Sync {
    /// How they are called.
    fn kind(&self) -> Kind;
    /// How many there are.
    fn len(&self) -> usize;
    /// The number of one in its file.
    fn number(&self, index: usize) -> usize;
    /// One as text.
    fn text(&self, index: usize) -> String;
}

/// The names of what is searched for.
pub(super) struct Kind {
    /// The number of one, in JSON.
    pub(super) one: &'static str,
    /// The numbers of those in a packet, in JSON.
    pub(super) many: &'static str,
    /// The number of one, in tables.
    pub(super) heading: &'static str,
    /// The text of one, in tables.
    pub(super) text: &'static str,
    /// All of them.
    pub(super) all: &'static str,
}

/// Counts matches in the order of the packets.
pub(super) struct Tally<'a> {
    subjects: &'a dyn Subjects,
    /// By literal or rule.
    sums: Vec<Sum>,
    all: Sum,
    /// Packets with a match.
    hit: Sum,
    not_ip: Sum,
    scanned_bytes: u64,
    matches: u64,
    /// Of a scan by stream: why literals may have been missed, and in how many flows.
    doubts: Option<Map<String, Value>>,
    cache: Option<CacheUse>,
    lines: Lines,
}

/// The treatment of single matches.
enum Lines {
    Summed,
    Printed(Results<File>),
    /// The same as a member of the JSON object.
    Listed(JsonList<File>),
}

impl<'a> Tally<'a> {
    pub(super) fn new(cli: &Cli, subjects: &'a dyn Subjects, hits: bool) -> Result<Self, Failure> {
        let results = || Results::to_stdout().map_err(Failure::Stdout);
        let lines = match (hits, cli.json) {
            (false, _) => Lines::Summed,
            (true, true) => Lines::Listed(JsonList::new(results()?, "hits")),
            (true, false) => Lines::Printed(results()?),
        };
        let [all, hit, not_ip] = [Sum::default(); 3];
        let sums = vec![all; subjects.len()];
        Ok(Self {
            subjects,
            sums,
            all,
            hit,
            not_ip,
            scanned_bytes: 0,
            matches: 0,
            doubts: None,
            cache: None,
            lines,
        })
    }

    /// Counts the next packet: its bytes on the wire, the bytes that were scanned (none if it is
    /// not IP), and the matches.
    pub(super) fn count(
        &mut self,
        bytes: u32,
        scanned: Option<usize>,
        matches: &[Match],
    ) -> Result<(), Failure> {
        self.all.add(bytes);
        match scanned {
            Some(scanned) => self.scanned_bytes += scanned as u64,
            None => self.not_ip.add(bytes),
        }
        if matches.is_empty() {
            return Ok(());
        }
        self.hit.add(bytes);
        self.matches += matches.len() as u64;
        let packet = self.all.packets;
        let Self { subjects, sums, lines, .. } = self;
        let found = matches.iter().map(|hit| hit.literal as usize);
        found.clone().for_each(|literal| sums[literal].add(bytes));
        let mut found = found.map(|index| subjects.number(index));
        match lines {
            Lines::Summed => Ok(()),
            Lines::Printed(results) => {
                results.push(|out| found.try_for_each(|number| writeln!(out, "{packet} {number}")))
            }
            Lines::Listed(list) => list.push(
                &json!({"packet": packet, (subjects.kind().many): found.collect::<Vec<_>>()}),
            ),
        }
        .map_err(Failure::Stdout)
    }

    /// Notes why literals may have been missed, and in how many flows.
    pub(super) fn note_doubts(&mut self, doubts: Option<Map<String, Value>>) {
        self.doubts = doubts;
    }

    /// Notes what the cache of compiled sets was good for.
    pub(super) fn note_cache(&mut self, cache: Option<CacheUse>) {
        self.cache = cache;
    }

    /// Ends a run: writes the matches, moves packets whose matches standard output did not
    /// accept to losses, and prints the result.
    ///
    /// # Errors
    /// `failure`, which ended the run; else a failure here.
    pub(super) fn conclude(
        mut self,
        cli: &Cli,
        mut ledger: Ledger,
        failure: Option<Failure>,
    ) -> Result<(), Failure> {
        let (written, taken) = match &mut self.lines {
            Lines::Summed => (Ok(()), None),
            Lines::Printed(results) => (results.flush(), Some(results.taken())),
            Lines::Listed(list) => (list.flush(), Some(list.taken())),
        };
        let written = written.map_err(Failure::Stdout);
        if let Some(taken) = taken {
            let without_lines = self.all.packets - self.hit.packets;
            let cause = written.as_ref().err().or(failure.as_ref());
            ledger.keep_output(without_lines + taken, cause.map_or("aborted", loss_of));
        }
        let shown = written.and_then(|()| self.show(cli, &ledger, failure.as_ref()));
        ending::conclude(&ledger, cli, failure, shown)
    }

    fn show(self, cli: &Cli, ledger: &Ledger, failure: Option<&Failure>) -> Result<(), Failure> {
        if cli.json {
            let result = self.json(ledger, failure);
            return match self.lines {
                Lines::Listed(list) => list.finish(&result).map_err(Failure::Stdout),
                _ => print_json(&result),
            };
        }
        if matches!(self.lines, Lines::Printed(_)) {
            return Ok(());
        }
        let mut text = self.table().render(terminal_columns(io::stdout()), Colour::stdout());
        let doubt = |(cause, flows): (&String, &Value)| {
            format!("{} {}", cause.replace('_', " "), human::count(flows.as_u64().unwrap_or(0)))
        };
        let doubts: Vec<String> = self.doubts.iter().flatten().map(doubt).collect();
        if !doubts.is_empty() {
            text += &format!("flows that may have more: {}\n", doubts.join(", "));
        }
        print(|out| out.write_all(text.as_bytes()))
    }

    /// What was found: number, text and sum.
    fn found(&self) -> impl Iterator<Item = (usize, String, &Sum)> {
        let found = self.sums.iter().enumerate().filter(|(_, sum)| sum.packets > 0);
        found.map(|(index, sum)| (self.subjects.number(index), self.subjects.text(index), sum))
    }

    fn json(&self, ledger: &Ledger, failure: Option<&Failure>) -> Value {
        let sum = |sum: &Sum| json!({"packets": sum.packets, "bytes": sum.bytes});
        let kind = self.subjects.kind();
        let found = self.found().map(|(number, text, sum)| {
            let Sum { packets, bytes } = *sum;
            json!({(kind.one): number, "text": text, "packets": packets, "bytes": bytes})
        });
        json!({
            (kind.all): self.sums.len(),
            "found": found.collect::<Vec<_>>(),
            "matches": self.matches,
            "all": sum(&self.all),
            "hit": sum(&self.hit),
            "not_ip": sum(&self.not_ip),
            "scanned_bytes": self.scanned_bytes,
            "ledger": ledger,
            "closes": ledger.closes(),
            "error": failure.map(ToString::to_string),
            "doubts": self.doubts,
            "cache": self.cache.map(CacheUse::name),
        })
    }

    /// What was found, and sums of packets.
    fn table(&self) -> Table {
        let kind = self.subjects.kind();
        let headings =
            [Column::right(kind.heading), Column::right("packets"), Column::right("bytes")];
        let mut table = Table::new(headings.into_iter().chain([Column::left(kind.text)]).collect());
        let mut row = |number: String, sum: &Sum, text: String| {
            table.row([number, human::count(sum.packets), human::count(sum.bytes), text]);
        };
        let mut found = 0_u64;
        for (number, text, sum) in self.found() {
            found += 1;
            row(number.to_string(), sum, text);
        }
        if self.not_ip.packets > 0 {
            row("-".to_owned(), &self.not_ip, "not IP: nothing is scanned".to_owned());
        }
        let of = human::count(self.sums.len() as u64);
        row(
            "hit".to_owned(),
            &self.hit,
            format!("{} of {of} {} found", human::count(found), kind.all),
        );
        let scanned = human::count(self.scanned_bytes);
        row("all".to_owned(), &self.all, format!("{scanned} bytes of payload scanned"));
        table
    }
}
