//! What a gateway passed of a capture, and why.

use std::io;

use forebay_broker::scanning::rule_members;
use forebay_io::Summary;
use forebay_pipeline::stages::{CompiledScan, PassReason};
use forebay_pipeline::{Ledger, Remarks};
use serde_json::{Value, json};

use crate::cli::{Cli, GatewayArgs};
use crate::failure::Failure;
use crate::input::{print, print_json};
use crate::show::{Colour, Column, Table, human, terminal_columns};

/// The most rules that are shown to people.
const MOST_RULES: usize = 10;

/// A result.
pub(super) struct GatewayResult<'a> {
    pub args: &'a GatewayArgs,
    pub scan: Option<&'a CompiledScan>,
    pub remarks: &'a Remarks,
    pub ledger: &'a Ledger,
    /// Bytes on the wire of all packets.
    pub bytes: u64,
    pub file: Option<&'a Summary>,
    pub error: Option<String>,
}

/// What passed for a reason.
struct Row {
    reason: PassReason,
    flows: u64,
    packets: u64,
    bytes: u64,
}

impl GatewayResult<'_> {
    /// What passed, the reasons with most bytes first.
    fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = PassReason::all()
            .map(|reason| Row {
                reason,
                flows: self.remarks.get(reason.flows_remark()),
                packets: self.remarks.get(reason.packets_remark()),
                bytes: self.remarks.get(reason.bytes_remark()),
            })
            .filter(|row| row.packets > 0)
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
        rows
    }

    /// Prints the result.
    pub(super) fn show(&self, cli: &Cli) -> Result<(), Failure> {
        let to_stdout = self.args.write.as_deref().is_some_and(|path| path.as_os_str() == "-");
        if to_stdout || cli.quiet && !cli.json {
            return Ok(());
        }
        if cli.json {
            return print_json(&self.as_json());
        }
        let text = self.as_text(Colour::stdout(), terminal_columns(io::stdout()));
        print(|out| out.write_all(text.as_bytes()))
    }

    fn withheld(&self) -> (u64, u64, u64) {
        let row = self.ledger.rows.iter().find(|row| row.stage == "gateway");
        let drops = row.map_or(&[][..], |row| &row.drops);
        let packets = drops.iter().find(|drop| drop.name == "withheld");
        (
            packets.map_or(0, |drop| drop.packets),
            self.remarks.get("gateway_withheld_bytes"),
            self.remarks.get("gateway_withheld_flows"),
        )
    }

    fn as_json(&self) -> Value {
        let (packets, bytes, flows) = self.withheld();
        let reasons: Vec<Value> = self
            .rows()
            .iter()
            .map(|row| {
                json!({
                    "reason": row.reason.name(), "meaning": row.reason.help(),
                    "flows": row.flows, "packets": row.packets, "bytes": row.bytes,
                })
            })
            .collect();
        json!({
            "packets": self.ledger.input(),
            "bytes": self.bytes,
            "withheld": {
                "packets": packets, "bytes": bytes, "flows": flows,
                "share": share(bytes, self.bytes),
            },
            "reasons": reasons,
            "rules": self.scan.and_then(CompiledScan::rules).map(|rules| {
                rule_members(rules, &self.scan.map(|scan| scan.hits().read().literals).unwrap_or_default())
            }),
            "file": self.file.map(|file| file.path.display().to_string()),
            "ledger": self.ledger,
            "closes": self.ledger.closes(),
            "error": self.error,
        })
    }

    fn as_text(&self, colour: Colour, width: Option<usize>) -> String {
        let mut table = Table::new(vec![
            Column::left("passes for"),
            Column::right("flows"),
            Column::right("packets"),
            Column::right("bytes"),
            Column::right("share"),
            Column::wrapped("meaning"),
        ]);
        let percent = |bytes| format!("{:.1} %", 100.0 * share(bytes, self.bytes));
        for row in self.rows() {
            table.row([
                row.reason.name().to_owned(),
                human::count(row.flows),
                human::count(row.packets),
                human::bytes(row.bytes),
                percent(row.bytes),
                row.reason.help().to_owned(),
            ]);
        }
        let (packets, bytes, flows) = self.withheld();
        table.rule();
        let row = |name: &str, flows: String, packets, bytes, meaning: &str| {
            [
                name.to_owned(),
                flows,
                human::count(packets),
                human::bytes(bytes),
                percent(bytes),
                meaning.to_owned(),
            ]
        };
        table.row(row("withheld", human::count(flows), packets, bytes, "nothing was found"));
        table.row(row("all", String::new(), self.ledger.input(), self.bytes, ""));
        let mut text = table.render(width, colour);
        if self.args.explain {
            text.push_str(&self.rules_as_text(colour, width));
        }
        text
    }

    /// The rules that passed most flows.
    fn rules_as_text(&self, colour: Colour, width: Option<usize>) -> String {
        let Some((scan, rules)) = self.scan.and_then(|scan| Some((scan, scan.rules()?))) else {
            return String::new();
        };
        let hits = rules.hits(&scan.hits().read().literals);
        let by_literal = hits.iter().map(|hit| (hit.rule, hit.flows, hit.packets, "literal"));
        let forwarded = rules.forwarded();
        let by_condition = forwarded
            .iter()
            .map(|(rule, passed)| (*rule, passed.flows, passed.packets, "condition"));
        let mut all: Vec<_> =
            by_literal.chain(by_condition).filter(|row| row.1 + row.2 > 0).collect();
        all.sort_by_key(|&(_, flows, packets, _)| std::cmp::Reverse((flows, packets)));
        if all.is_empty() {
            return String::new();
        }
        let mut table = Table::new(vec![
            Column::right("sid"),
            Column::left("by"),
            Column::right("flows"),
            Column::right("packets"),
            Column::wrapped("rule"),
        ]);
        for (rule, flows, packets, by) in all.into_iter().take(MOST_RULES) {
            let rule = &rules.set().rules()[rule as usize];
            table.row([
                rule.sid.to_string(),
                by.to_owned(),
                human::count(flows),
                human::count(packets),
                rule.message.clone(),
            ]);
        }
        format!("\n{}", table.render(width, colour))
    }
}

fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}
