//! Sensors that are offered more than they take: how many flows arrive whole, by each policy
//! of overload, by an ordinary full queue, and at best.

mod engines;
mod traffic;

use std::sync::Arc;

use forebay_flow::shed::{Limit, OnOverload, Rates, WINDOW};
use serde_json::json;

use crate::bar::{self, Bar};
use crate::failure::{Result, ensure};
use crate::options::Options;
use crate::record::{Record, Results, Row};
use crate::rounds::{Contender, Role, Run, Trial};
use crate::table::pivot;
use engines::{Engine, Policy, TailDrop};
use traffic::{Flows, LOST, Traffic, most_in};

/// What is offered, as a multiple of the sensor's limit.
const OVERLOADS: [f64; 4] = [1.2, 2.0, 5.0, 10.0];

/// Parts of the traffic, each of which is a round.
const ROUNDS: usize = 31;

const PACKETS: u64 = 5_000_000;
const QUICK_PACKETS: u64 = 1_000_000;

/// Seconds of traffic.
const SECONDS: u64 = 10;

const SEED: u64 = 20_261_124;

const SET: &str = "mix";
const TAIL_DROP: &str = "tail-drop";
const OPTIMUM: &str = "optimum";

/// Values of rows: the parts of all flows, and of those of ten packets or more, of which the
/// sensor gets every packet.
const COMPLETE: &str = "complete";
const COMPLETE_LONG: &str = "complete_of_ten_packets";
/// Packets that the sensor gets, as a part of what it takes.
const USED: &str = "used";
/// The most packets in 100 ms, as a part of the limit.
const PEAK: &str = "peak";

/// The case of an overload.
fn case(over: f64) -> String {
    format!("shed-{over}")
}

/// The suite by itself; its rows are also those of the suite `flows`.
pub fn run(options: &Options) -> Result<Record> {
    let mut run = Run::new(options);
    add(&mut run)?;
    run.note_conditions(None);
    let Run { timing, results, notes, .. } = run;
    let bars: Vec<Bar> = bars(&results).into_iter().chain(results.rounds_bar()).collect();
    let shown = tables(&results) + &bar::text(&bars);
    let gigahertz = Some(timing.clock.gigahertz());
    let record = Record::new("flows", notes, results.0, gigahertz);
    Ok(Record { shown, summary: json!({ "bars": bars }), ..record })
}

/// Adds the rows and notes of the wanted cases to a run.
pub fn add(run: &mut Run<'_>) -> Result<()> {
    let options = run.options;
    let wanted: Vec<f64> =
        OVERLOADS.into_iter().filter(|&over| options.names(&case(over))).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let packets = if options.quick { QUICK_PACKETS } else { PACKETS };
    let traffic = Traffic::new(packets, packets / SECONDS)?;
    for over in wanted {
        measure(run, &traffic, over)?;
    }
    run.notes.push(format!(
        "shed: {} packets of {} flows in {SECONDS} s, seed {SEED}; a flow is both directions of a \
         connection, and {} have ten packets or more",
        traffic.packets.len(),
        traffic.flows.all(),
        traffic.flows.long()
    ));
    run.notes.push(format!(
        "shed: a round is one of {ROUNDS} parts of the traffic, one after another; engines take \
         turns in a new order; times include reading and counting a packet's flow, which is found \
         before"
    ));
    Ok(())
}

fn engines(options: &Options, traffic: &Traffic, pps: u64) -> Vec<Contender<dyn Engine>> {
    let tail_drop: Box<dyn Engine> = Box::new(TailDrop::new(pps));
    let mut all = vec![Contender::new(TAIL_DROP, Role::Peer, Ok(tail_drop))];
    let policies = OnOverload::ALL.into_iter().filter(|&policy| policy != OnOverload::None);
    all.extend(policies.map(|policy| {
        let limit = Arc::new(Limit::new(Rates { pps: Some(pps), bps: None }));
        let engine = Policy::new(limit, policy, SEED, traffic.flows.all());
        let engine = engine.map(|engine| Box::new(engine) as Box<dyn Engine>);
        Contender::new(policy.name(), Role::Ours, engine)
    }));
    all.retain(|one| options.has_engine(&one.name));
    all
}

fn measure(run: &mut Run<'_>, traffic: &Traffic, over: f64) -> Result<()> {
    eprintln!("{}", case(over));
    let pps = (traffic.pps() / over / 10.0) as u64 * 10;
    let mut all = engines(run.options, traffic, pps);
    let mut trial = Trial::new(&case(over), SET, &all, |_| true);
    let packets = traffic.packets.len();
    for part in 0..ROUNDS {
        let range = part * packets / ROUNDS..(part + 1) * packets / ROUNDS;
        let (number, stopwatch) = (run.timing.next_round(), run.timing.stopwatch);
        trial.round(number, &mut all, (range.len(), false), |engine, _: Role, _| {
            let ticks = stopwatch.ticks(|| engine.pass(&traffic.packets[range.clone()]));
            Ok(stopwatch.nanos(ticks) / range.len() as f64)
        })?;
    }
    for contender in &mut all {
        let Some(engine) = &contender.engine else { continue };
        let passed = engine.passed();
        ensure!(passed.len() == packets, "{}: packets without a fate", contender.name);
        let peak = most_in(WINDOW, passed) as f64 / (pps as f64 / 10.0);
        ensure!(
            contender.role == Role::Peer || peak <= 1.0,
            "{}: {peak} of the limit in 100 ms",
            contender.name
        );
        let sent = passed.iter().filter(|&&passed| passed != LOST).count();
        let values = [
            (COMPLETE, traffic.flows.part(&traffic.complete(passed), 1)),
            (COMPLETE_LONG, traffic.flows.part(&traffic.complete(passed), Flows::LONG)),
            (USED, sent as f64 / traffic.capacity(pps)),
            (PEAK, peak),
        ];
        contender.more.extend(values.map(|(key, value)| (key.to_owned(), json!(value))));
    }
    run.add(trial, &all, |row| row);
    let best = traffic.flows.smallest(traffic.capacity(pps));
    let row = Row::new(case(over), SET, OPTIMUM, Vec::new())
        .with(COMPLETE, traffic.flows.part(&best, 1))
        .with(COMPLETE_LONG, traffic.flows.part(&best, Flows::LONG));
    run.results.0.push(row);
    Ok(())
}

pub fn bars(results: &Results) -> Vec<Bar> {
    let engine = OnOverload::WholeFlows.name();
    let value = |key: &str| results.row(&case(2.0), SET, engine)?.number(key);
    let what = |of: &str| format!("{}: {engine}, {of} complete", case(2.0));
    let bars = [
        value(COMPLETE).map(|part| Bar::at_least(what("flows"), 0.9, part)),
        value(COMPLETE_LONG)
            .map(|part| Bar::at_least(what("flows of ten packets or more"), 0.85, part)),
    ];
    bars.into_iter().flatten().collect()
}

pub fn tables(results: &Results) -> String {
    let engines = results.names(|row| &row.engine);
    let table = |title: &str, key: &str| {
        pivot(title, "", (&engines, &OVERLOADS), |engine, over| {
            let row = results.row(&case(OVERLOADS[over]), SET, engines[engine])?;
            if key.is_empty() { row.ns } else { row.number(key) }
        })
    };
    table("Part of all flows that are complete, by engine and overload", COMPLETE)
        + &table("Part of flows of ten packets or more that are complete", COMPLETE_LONG)
        + &table("Packets, as a part of what the sensor takes", USED)
        + &table("Nanoseconds a packet", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_those_of_whole_flows_at_twice_the_limit() {
        let row = |over, engine: &str, part: f64| {
            let row = Row::new(case(over), SET, engine, vec![50.0; 31]);
            row.with(COMPLETE, part).with(COMPLETE_LONG, part)
        };
        let engine = OnOverload::WholeFlows.name();
        let results =
            Results(vec![row(5.0, engine, 0.1), row(2.0, engine, 0.88), row(2.0, TAIL_DROP, 0.1)]);
        let bars = bars(&results);
        let met: Vec<bool> = bars.iter().map(|bar| bar.met).collect();
        assert_eq!(met, [false, true], "{bars:?}");
        assert!(tables(&results).lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn a_full_queue_drops_what_does_not_fit() {
        let traffic = Traffic::new(20_000, 20_000).unwrap();
        let mut engine = TailDrop::new(10_000);
        engine.pass(&traffic.packets);
        let passed = engine.passed();
        let sent = passed.iter().filter(|&&passed| passed != LOST).count() as f64;
        // What it takes in the time, and what is in the queue at the end.
        let most = traffic.capacity(10_000) + 1_000.0;
        assert!(sent <= most + 1.0 && sent > 0.8 * most, "{sent} of {most}");
        let best = traffic.flows.part(&traffic.flows.smallest(most), 1);
        let complete = traffic.flows.part(&traffic.complete(passed), 1);
        assert!(complete < best, "{complete} {best}");
    }
}
