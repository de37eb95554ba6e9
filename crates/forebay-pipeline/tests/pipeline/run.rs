//! Workers keep the order, and however a run ends, its ledger closes.

use std::collections::VecDeque;

use crate::support::*;
use forebay_balance::Assignment;
use forebay_flow::{FlowTable, OnFull, RecordOptions};
use forebay_packet::Batch;
use forebay_pipeline::stages::{Balance, Filter, Fragments, Limit, Window};
use forebay_pipeline::{Chain, Run, RunError, Worker, run};

fn chains(n: usize, expression: &str) -> Vec<Chain> {
    let filter = || Filter::new(filter_set(expression));
    (0..n).map(|_| Chain::new().with(filter()).with(classify())).collect()
}

fn serial() -> Chain {
    let assignment = Assignment::of_weights(&[1, 1, 1]).unwrap();
    Chain::new().with(Fragments::new(Window::OFFLINE)).with(Balance::new(assignment))
}

type Lane = Box<dyn FnMut() -> Result<Option<Vec<Batch>>, String> + Send>;

/// Deals the input to the chains in turn; after the last batch comes an error, if the
/// input is to fail.
fn workers_of(chains: Vec<Chain>, input: &[(u64, Vec<u8>)], fails: bool) -> Vec<Worker<Lane>> {
    let n = chains.len();
    let mut parts: Vec<VecDeque<Result<Vec<Batch>, String>>> = vec![VecDeque::new(); n];
    let batches = batches(input, 37);
    let last = batches.chunks(3).len();
    for (i, batches) in batches.chunks(3).enumerate() {
        parts[i % n].push_back(Ok(batches.to_vec()));
    }
    if fails {
        parts[last % n].push_back(Err("cut off".to_owned()));
    }
    let worker = |(chain, mut part): (Chain, VecDeque<Result<Vec<Batch>, String>>)| Worker {
        lane: Box::new(move || part.pop_front().transpose()) as Lane,
        chain,
    };
    chains.into_iter().zip(parts).map(worker).collect()
}

fn no_failure(_: &Batch) -> Result<(), String> {
    Ok(())
}

#[test]
fn order_is_kept_with_any_number_of_workers() {
    let input = traffic(5_000);
    for n in [1, 2, 3, 7] {
        let mut out = Vec::new();
        let Run { ledger, error, .. } =
            run(workers_of(chains(n, ""), &input, false), serial(), |batch| {
                out.push(batch.clone());
                no_failure(batch)
            });
        assert!(error.is_none() && ledger.closes(), "{ledger:?}");
        assert_eq!(packets(&out), input, "{n} workers");
        assert_eq!((ledger.input(), ledger.output()), (5_000, 5_000));
    }
}

#[test]
fn what_precedes_a_damaged_end_is_delivered() {
    let input = traffic(1_000);
    let mut delivered = 0;
    let outcome = run(workers_of(chains(2, "udp"), &input, true), serial(), |batch| {
        delivered += batch.live().count();
        no_failure(batch)
    });
    assert!(matches!(&outcome.error, Some(RunError::Receive(error)) if error == "cut off"));
    assert!(outcome.ledger.closes());
    assert_eq!(delivered, 1_000);
}

#[test]
fn a_failing_output_ends_the_run_and_the_ledger_closes() {
    let input = traffic(50_000);
    let mut calls = 0;
    let outcome = run(workers_of(chains(3, "udp src port 1"), &input, false), serial(), |_| {
        calls += 1;
        if calls == 5 { Err("disk full".to_owned()) } else { Ok(()) }
    });
    assert!(matches!(&outcome.error, Some(RunError::Deliver(error)) if error == "disk full"));
    assert_eq!(calls, 5);
    assert!(outcome.ledger.closes(), "{:?}", outcome.ledger);
    assert!(outcome.ledger.input() < 50_000, "it went on reading");
}

#[test]
fn a_failing_stage_ends_the_run_and_the_ledger_closes() {
    let input = traffic(5_000);
    let outcome = run(workers_of(chains(2, "no such thing"), &input, false), serial(), no_failure);
    assert!(matches!(outcome.error, Some(RunError::Stage(_))));
    assert!(outcome.ledger.closes(), "{:?}", outcome.ledger);
    assert_eq!(outcome.ledger.output(), 0);
}

#[test]
fn a_limit_stops_reading_and_accounts_for_what_was_under_way() {
    let input = traffic(100_000);
    let mut out = Vec::new();
    let limit = Chain::new().with(Limit::new(100));
    let outcome = run(workers_of(chains(2, ""), &input, false), limit, |batch| {
        out.push(batch.clone());
        no_failure(batch)
    });
    assert_eq!(packets(&out), input[..100]);
    assert!(outcome.error.is_none() && outcome.ledger.closes());
    assert!(outcome.ledger.input() < 100_000);
    assert_eq!(outcome.ledger.dropped(), outcome.ledger.input() - 100);
}

#[test]
fn what_fails_behind_the_limit_is_no_failure_and_the_ledger_closes() {
    let input = traffic(1_000);
    for _ in 0..20 {
        let chain = |expression| Chain::new().with(Filter::new(filter_set(expression)));
        let chains = vec![chain("udp"), chain("no such thing")];
        let limit = Chain::new().with(Limit::new(5));
        let outcome = run(workers_of(chains, &input, false), limit, no_failure);
        assert!(outcome.error.is_none());
        assert_eq!(outcome.ledger.output(), 5);
        assert!(outcome.ledger.closes(), "{:?}", outcome.ledger);
    }
}

#[test]
fn flows_are_counted_both_ways_and_fragments_in_their_flow() {
    let input = vec![
        (1_000, whole(1, 2, (10, 20))),
        (3_000, whole(2, 1, (20, 10))),
        (2_000, later(1, 2, 5)),
        (4_000, first(1, 2, 5, (10, 20))),
    ];
    let mut flows = FlowTable::new(RecordOptions::new(10, OnFull::Evict));
    run(workers_of(chains(1, ""), &input, false), serial(), |batch| {
        flows.count(batch, |_| {});
        no_failure(batch)
    });
    let records: Vec<_> = flows.records().collect();
    let [flow] = records[..] else { panic!("one flow, not {records:?}") };
    assert_eq!(flow.packets(), [3, 1]);
    assert_eq!((flow.first(), flow.last()), (1_000, 4_000));
    assert_eq!(flow.total_bytes(), input.iter().map(|(_, p)| p.len() as u64).sum::<u64>());
}
