//! `--explain`: which rules can be filtered, why not the others, and what these cost on a capture.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::Path;

use forebay_packet::{Batch, DecodeOptions, Decoder, FlowKey};
use forebay_pipeline::{Chain, Ledger};
use forebay_scan::rules::{
    Application, Cause, Class, Hazard, PacketFacts, Rule, may_begin_http, triggers,
};
use serde_json::{Value, json};

use super::facts;
use super::rules::{Rules, ends};
use crate::cli::{Cli, ScanArgs};
use crate::failure::Failure;
use crate::input::{Input, print, print_json, processors, read_options};
use crate::show::{Colour, Column, Table, human, terminal_columns};

/// The most flows that are kept to count what whole flows cost.
const MOST_FLOWS: usize = 1 << 20;

/// The most pairs of a flow and an always-forward rule that are kept.
const MOST_PAIRS: usize = 1 << 22;

/// What always-forward rules pass: packets and their bytes on the wire.
#[derive(Clone, Copy, Default)]
struct Sum {
    packets: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }
}

/// What a flow has, and the rules that pass it whole.
#[derive(Default)]
struct Flow {
    sum: Sum,
    rules: BTreeSet<u32>,
    /// Whether a payload may begin a stream of HTTP.
    http: bool,
}

/// What each always-forward rule costs on a capture.
struct Cost<'a> {
    /// Index and rule.
    rules: Vec<(u32, &'a Rule)>,
    /// By position in `rules`.
    sums: Vec<Sum>,
    all: Sum,
    flows: HashMap<FlowKey, Flow>,
    pairs: usize,
    /// Packets whose flow is not kept, because there are too many: their own sums are exact, that
    /// of other packets of their flows is missing.
    beyond: u64,
    ledger: Ledger,
    facts: Vec<PacketFacts>,
}

pub(super) fn run(cli: &Cli, args: &ScanArgs) -> Result<(), Failure> {
    let rules = Rules::read(args)?;
    if let Some(sid) = args.rule {
        return explain_rule(cli, &rules, sid);
    }
    let cost = match &args.read {
        Some(path) => Some(cost(cli, args, &rules, path)?),
        None => None,
    };
    if cli.json {
        return print_json(&summary(&rules, cost.as_ref()));
    }
    let filterable = rules.set.filterable().count();
    let all = rules.set.rules().len();
    let text = tables(&rules, cost.as_ref());
    print(|out| {
        writeln!(out, "{filterable} of {all} rules filterable")?;
        if rules.set.refused() > 0 {
            writeln!(out, "{} rules with errors are left out", rules.set.refused())?;
        }
        out.write_all(text.as_bytes())
    })
}

/// The number of rules by cause.
fn causes(rules: &Rules) -> BTreeMap<Cause, u64> {
    let mut causes = BTreeMap::new();
    for (_, cause) in rules.set.always_forward() {
        *causes.entry(cause).or_default() += 1;
    }
    causes
}

/// The number of triggers by what they show.
fn hazards(rules: &Rules) -> BTreeMap<Hazard, u64> {
    let mut hazards = BTreeMap::new();
    for trigger in rules.literals.triggers() {
        *hazards.entry(trigger.hazard).or_default() += 1;
    }
    hazards
}

fn summary(rules: &Rules, cost: Option<&Cost<'_>>) -> Value {
    let causes: Vec<Value> = causes(rules)
        .into_iter()
        .map(|(cause, rules)| json!({"cause": cause.name(), "rules": rules, "reason": cause.reason()}))
        .collect();
    let triggers: Vec<Value> = hazards(rules)
        .into_iter()
        .map(|(hazard, literals)| json!({"hazard": hazard.name(), "literals": literals}))
        .collect();
    let sums: HashMap<u32, Sum> = cost
        .map(|cost| {
            cost.rules.iter().map(|&(index, _)| index).zip(cost.sums.iter().copied()).collect()
        })
        .unwrap_or_default();
    let forward: Vec<Value> = (0..)
        .zip(rules.set.rules())
        .filter_map(|(index, rule)| {
            let Class::AlwaysForward(cause) = rule.class else { return None };
            let sum = sums.get(&index);
            Some(json!({
                "sid": rule.sid, "gid": rule.gid, "message": rule.message,
                "file": rules.set.file_of(rule), "line": rule.line,
                "protocol": rule.header.protocol.name, "cause": cause.name(),
                "whole_flow": rule.condition.whole_flow,
                "packets": sum.map(|sum| sum.packets), "bytes": sum.map(|sum| sum.bytes),
            }))
        })
        .collect();
    let errors: Vec<Value> = rules
        .errors
        .iter()
        .map(|e| json!({"file": e.file, "line": e.line, "column": e.column, "error": e.message}))
        .collect();
    json!({
        "rules": rules.set.rules().len(),
        "filterable": rules.set.filterable().count(),
        "refused": rules.set.refused(),
        "errors": errors,
        "literals": rules.literals.set().len(),
        "triggers": triggers,
        "causes": causes,
        "always_forward": forward,
        "all": cost.map(|cost| json!({"packets": cost.all.packets, "bytes": cost.all.bytes})),
        "packets_of_flows_not_kept": cost.map(|cost| cost.beyond),
        "ledger": cost.map(|cost| &cost.ledger),
    })
}

fn tables(rules: &Rules, cost: Option<&Cost<'_>>) -> String {
    let mut causes_table =
        Table::new(vec![Column::right("rules"), Column::left("always forward because")]);
    for (cause, rules) in causes(rules) {
        causes_table.row([human::count(rules), cause.reason().to_owned()]);
    }
    let mut hazards_table = Table::new(vec![Column::right("triggers"), Column::left("for")]);
    for (hazard, literals) in hazards(rules) {
        hazards_table.row([human::count(literals), hazard.name().to_owned()]);
    }
    let width = terminal_columns(io::stdout());
    let colour = Colour::stdout();
    let mut text = String::new();
    for table in [&causes_table, &hazards_table] {
        if !table.is_empty() {
            text.push('\n');
            text.push_str(&table.render(width, colour));
        }
    }
    if let Some(cost) = cost {
        let headings = [Column::right("sid"), Column::right("packets"), Column::right("bytes")];
        let mut table =
            Table::new(headings.into_iter().chain([Column::left("always-forward rule")]).collect());
        let mut rows: Vec<_> = cost.rules.iter().zip(&cost.sums).collect();
        rows.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.bytes));
        let mut row = |name: String, sum: &Sum, text: String| {
            table.row([name, human::count(sum.packets), human::count(sum.bytes), text]);
        };
        for ((_, rule), sum) in rows {
            row(rule.sid.to_string(), sum, rule.message.clone());
        }
        row("all".to_owned(), &cost.all, "packets of the capture".to_owned());
        text.push('\n');
        text.push_str(&table.render(width, colour));
        if cost.beyond > 0 {
            let beyond = human::count(cost.beyond);
            text.push_str(&format!(
                "{beyond} packets of flows that are not kept: there are too many\n"
            ));
        }
    }
    text
}

/// Shows the rules with a number.
fn explain_rule(cli: &Cli, rules: &Rules, sid: u32) -> Result<(), Failure> {
    let found: Vec<&Rule> = rules.set.rules().iter().filter(|rule| rule.sid == sid).collect();
    if found.is_empty() {
        return Err(Failure::Usage(format!("--rule {sid}: no rule of the files has this sid")));
    }
    let described: Vec<Value> = found.iter().map(|rule| describe(rules, rule)).collect();
    if cli.json {
        return print_json(&json!({ "rules": described }));
    }
    print(|out| {
        for rule in &described {
            writeln!(out, "{}", description(rule))?;
        }
        Ok(())
    })
}

fn describe(rules: &Rules, rule: &Rule) -> Value {
    let values = |literals: &[(Vec<u8>, bool)]| -> Vec<Value> {
        let value = |(bytes, nocase): &(Vec<u8>, bool)| {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            json!({"text": bytes.escape_ascii().to_string(), "hex": hex, "nocase": nocase})
        };
        literals.iter().map(value).collect()
    };
    let literals = values(&rule.literals);
    let index = rules.set.rules().iter().position(|one| std::ptr::eq(one, rule)).unwrap_or(0);
    let parts: Vec<_> = rules.literals.parts(&rules.set, index as u32).map(values).collect();
    let hazards: BTreeSet<Hazard> =
        triggers(&rule.hazards).iter().map(|trigger| trigger.hazard).collect();
    let triggers: Vec<&str> = hazards.into_iter().map(Hazard::name).collect();
    let (filterable, reason) = match rule.class {
        Class::Filterable => {
            (true, "one of its literals, or a trigger, is in the traffic if it fires")
        }
        Class::AlwaysForward(cause) => (false, cause.reason()),
    };
    json!({
        "sid": rule.sid, "gid": rule.gid, "message": rule.message,
        "file": rules.set.file_of(rule), "line": rule.line,
        "protocol": rule.header.protocol.name,
        "filterable": filterable, "reason": reason,
        "literals": literals, "also": parts, "triggers": triggers,
    })
}

fn in_case(literal: &Value) -> String {
    let case = if literal["nocase"] == true { ", in any case" } else { "" };
    format!("{}{case}", literal["text"].as_str().unwrap_or_default())
}

fn description(rule: &Value) -> String {
    let text = |key: &str| rule[key].as_str().unwrap_or_default().to_owned();
    let list = |key: &str| rule[key].as_array().cloned().unwrap_or_default();
    let class = if rule["filterable"] == true { "filterable" } else { "always forward" };
    let mut lines = vec![
        format!(
            "{}:{}: {}:{} {}",
            text("file"),
            rule["line"],
            rule["gid"],
            rule["sid"],
            text("message")
        ),
        format!("  {class}: {}", text("reason")),
    ];
    for literal in list("literals") {
        lines.push(format!("  literal {}", in_case(&literal)));
    }
    for part in list("also") {
        let one_of: Vec<String> = part.as_array().into_iter().flatten().map(in_case).collect();
        lines.push(format!("  and also {}", one_of.join(" or ")));
    }
    for hazard in list("triggers") {
        lines.push(format!("  triggers for {}", hazard.as_str().unwrap_or_default()));
    }
    lines.join("\n")
}

/// Counts what the always-forward rules pass of a capture.
fn cost<'a>(
    cli: &Cli,
    args: &ScanArgs,
    rules: &'a Rules,
    path: &Path,
) -> Result<Cost<'a>, Failure> {
    let mut input = Input::open(path, &read_options(&args.limits, processors()), cli.quiet)?;
    input.watch_signals()?;
    let decoder =
        Decoder::new(DecodeOptions { tunnel_depth: args.tunnel_depth, ..Default::default() });
    let forward = (0..).zip(rules.set.rules());
    let forward: Vec<_> = forward.filter(|(_, rule)| rule.class != Class::Filterable).collect();
    let mut cost = Cost {
        facts: Vec::new(),
        sums: vec![Sum::default(); forward.len()],
        rules: forward,
        all: Sum::default(),
        flows: HashMap::new(),
        pairs: 0,
        beyond: 0,
        ledger: Ledger::default(),
    };
    let workers = input.workers(vec![Chain::new()]);
    let run = forebay_pipeline::run(workers, Chain::new(), |batch| {
        for i in batch.live().iter() {
            cost.count(&decoder, batch, i);
        }
        Ok(())
    });
    drop(input);
    match run.error {
        Some(error) => Err(error.into()),
        None => {
            cost.add_flows();
            cost.ledger = run.ledger;
            Ok(cost)
        }
    }
}

impl Cost<'_> {
    fn count(&mut self, decoder: &Decoder, batch: &Batch, i: usize) {
        let bytes = u64::from(batch.wire_len(i));
        self.all.add(1, bytes);
        let (link, packet) = (batch.interface(i).link, batch.packet(i));
        let decoded = decoder.decode(link, packet);
        if ends(&decoded).is_none() {
            return;
        }
        facts::find(decoder, batch, i, &mut self.facts);
        let payload = decoder.payload(link, packet).filter(|_| decoded.key.protocol == 6);
        let may_be_http = payload.is_some_and(may_begin_http);
        let known = self.flows.len() < MOST_FLOWS || self.flows.contains_key(&decoded.key);
        let mut flow = known.then(|| self.flows.entry(decoded.key).or_default());
        if let Some(flow) = &mut flow {
            flow.sum.add(1, bytes);
            flow.http |= may_be_http;
        }
        let mut kept = flow.is_some();
        for (position, &(_, rule)) in self.rules.iter().enumerate() {
            let admits = |facts| rule.condition.may_match(&rule.header, facts);
            if !self.facts.iter().any(admits) {
                continue;
            }
            match &mut flow {
                Some(flow) if rule.condition.whole_flow => {
                    let position = position as u32;
                    if !flow.rules.contains(&position) && self.pairs == MOST_PAIRS {
                        self.sums[position as usize].add(1, bytes);
                        kept = false;
                    } else if flow.rules.insert(position) {
                        self.pairs += 1;
                    }
                }
                _ => self.sums[position].add(1, bytes),
            }
        }
        self.beyond += u64::from(!kept);
    }

    /// Adds the flows that rules pass whole.
    fn add_flows(&mut self) {
        for flow in self.flows.values() {
            for &position in &flow.rules {
                let application = self.rules[position as usize].1.condition.application;
                if application == Some(Application::Http) && !flow.http {
                    continue;
                }
                self.sums[position as usize].add(flow.sum.packets, flow.sum.bytes);
            }
        }
    }
}
