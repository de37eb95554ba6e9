//! The result of a list: a verdict for each packet, or sums for each rule.

use std::fs::File;
use std::io::{self, Write as _};

use forebay_pipeline::Ledger;
use forebay_rules::engine::NO_RULE;
use serde_json::{Value, json};

use super::naming::{action_name, rule_name, rule_text_json};
use crate::cli::Cli;
use crate::ending::{self, loss_of};
use crate::failure::Failure;
use crate::input::{print, print_json};
use crate::show::{Colour, Column, JsonList, Results, Table, human, terminal_columns};
use forebay_pipeline::stages::{CompiledRules, NOT_IP};

/// Packets and their bytes on the wire.
#[derive(Clone, Copy, Default)]
struct Sum {
    packets: u64,
    bytes: u64,
}

/// Collects verdicts in the order of the packets.
pub struct Tally {
    /// The list's name.
    name: Option<String>,
    compiled_rules: CompiledRules,
    /// By rule.
    sums: Vec<Sum>,
    default: Sum,
    not_ip: Sum,
    /// Whether packets have lengths.
    has_bytes: bool,
    verdicts: Verdicts,
}

/// The treatment of single verdicts.
enum Verdicts {
    Summed,
    Printed(Results<File>),
    /// The same as a member of the JSON object.
    Listed(JsonList<File>),
}

impl Tally {
    pub fn new(
        cli: &Cli,
        (name, compiled_rules): (Option<String>, CompiledRules),
        has_bytes: bool,
        verdicts: bool,
    ) -> Result<Self, Failure> {
        let results = || Results::to_stdout().map_err(Failure::Stdout);
        let verdicts = match (verdicts, cli.json) {
            (false, _) => Verdicts::Summed,
            (true, true) => Verdicts::Listed(JsonList::new(results()?, "verdicts")),
            (true, false) => Verdicts::Printed(results()?),
        };
        let sums = vec![Sum::default(); compiled_rules.list().rules.len()];
        let (default, not_ip) = (Sum::default(), Sum::default());
        Ok(Self { name, compiled_rules, sums, default, not_ip, has_bytes, verdicts })
    }

    /// Counts a packet with this verdict.
    pub fn count(&mut self, verdict: u32, bytes: u32) -> Result<(), Failure> {
        let index = verdict as usize;
        let sum = match verdict {
            NO_RULE => &mut self.default,
            NOT_IP => &mut self.not_ip,
            _ => &mut self.sums[index],
        };
        sum.packets += 1;
        sum.bytes += u64::from(bytes);
        let number = self.compiled_rules.list().rules.get(index).map(|rule| rule.number);
        match (&mut self.verdicts, number) {
            (Verdicts::Summed, _) => Ok(()),
            (Verdicts::Listed(list), number) => list.push(&number),
            (Verdicts::Printed(results), Some(number)) => {
                results.push(|out| writeln!(out, "{number}"))
            }
            (Verdicts::Printed(results), None) => results.push(|out| writeln!(out, "-")),
        }
        .map_err(Failure::Stdout)
    }

    /// Ends a run: writes the verdicts, moves packets whose verdicts standard output did
    /// not accept to losses, and prints the result.
    ///
    /// # Errors
    /// `failure`, which ended the run; else a failure here.
    pub fn conclude(
        mut self,
        cli: &Cli,
        mut ledger: Ledger,
        failure: Option<Failure>,
    ) -> Result<(), Failure> {
        let (written, taken) = match &mut self.verdicts {
            Verdicts::Summed => (Ok(()), None),
            Verdicts::Printed(results) => (results.flush(), Some(results.taken())),
            Verdicts::Listed(list) => (list.flush(), Some(list.taken())),
        };
        let written = written.map_err(Failure::Stdout);
        if let Some(taken) = taken {
            let cause = written.as_ref().err().or(failure.as_ref());
            ledger.keep_output(taken, cause.map_or("aborted", loss_of));
        }
        let shown = written.and_then(|()| self.show(cli, &ledger, failure.as_ref()));
        ending::conclude(&ledger, cli, failure, shown)
    }

    fn show(self, cli: &Cli, ledger: &Ledger, failure: Option<&Failure>) -> Result<(), Failure> {
        if cli.json {
            let result = self.json(ledger, failure);
            return match self.verdicts {
                Verdicts::Listed(list) => list.finish(&result).map_err(Failure::Stdout),
                _ => print_json(&result),
            };
        }
        if matches!(self.verdicts, Verdicts::Printed(_)) {
            return Ok(());
        }
        let text = self.table().render(terminal_columns(io::stdout()), Colour::stdout());
        print(|out| out.write_all(text.as_bytes()))
    }

    fn hit(&self) -> impl Iterator<Item = (usize, &Sum)> {
        self.sums.iter().enumerate().filter(|(_, sum)| sum.packets > 0)
    }

    fn json(&self, ledger: &Ledger, failure: Option<&Failure>) -> Value {
        let with_sum = |mut object: Value, sum: &Sum| {
            object["packets"] = json!(sum.packets);
            if self.has_bytes {
                object["bytes"] = json!(sum.bytes);
            }
            object
        };
        let action = action_name(self.compiled_rules.list().default);
        let hit = self
            .hit()
            .map(|(i, sum)| with_sum(rule_text_json(&self.compiled_rules.list().rules[i]), sum));
        json!({
            "list": self.name,
            "rules": hit.collect::<Vec<_>>(),
            "default": with_sum(json!({"action": action}), &self.default),
            "not_ip": with_sum(json!({}), &self.not_ip),
            "ledger": ledger,
            "closes": ledger.closes(),
            "error": failure.map(ToString::to_string),
        })
    }

    /// The rules that decided about packets, the default, and the total.
    fn table(&self) -> Table {
        let mut columns = vec![Column::right("rule"), Column::right("packets")];
        if self.has_bytes {
            columns.push(Column::right("bytes"));
        }
        columns.push(Column::left("filter"));
        let mut table = Table::new(columns);
        let mut row = |name: String, sum: &Sum, text: String| {
            let mut cells = vec![name, human::count(sum.packets)];
            if self.has_bytes {
                cells.push(human::count(sum.bytes));
            }
            cells.push(text);
            table.row(cells);
        };
        for (i, sum) in self.hit() {
            let rule = &self.compiled_rules.list().rules[i];
            row(rule_name(rule), sum, rule.to_string());
        }
        if self.default.packets > 0 {
            let text = format!("{} by default", action_name(self.compiled_rules.list().default));
            row("-".to_owned(), &self.default, text);
        }
        if self.not_ip.packets > 0 {
            row("-".to_owned(), &self.not_ip, "not IP: no rule is for it".to_owned());
        }
        let mut total = Sum::default();
        for sum in self.sums.iter().chain([&self.default, &self.not_ip]) {
            total.packets += sum.packets;
            total.bytes += sum.bytes;
        }
        let text = format!("{} of {} rules hit", self.hit().count(), self.sums.len());
        row("all".to_owned(), &total, text);
        table
    }
}
