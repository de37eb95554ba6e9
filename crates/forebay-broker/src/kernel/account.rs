//! One account of the packets that the kernel steered and of those that workers did.
//!
//! ```text
//!  rx NAME ─► filter ─┬─► group NAME ─┬─► tx NAME
//!                     └─► user_space ─┘
//! ```
//!
//! The kernel's counters are read after the workers', from the end to the beginning, so
//! that no packet has come out before it went in: what is missing is on its way, and held.

use forebay_bpf::programs::splitter::{Outcomes, Traffic};
use forebay_io::{Losses, RxCounters};
use forebay_pipeline::{DropCount, LedgerRow, Remarks};

use crate::report::{Report, add_all};

/// What the kernel counted.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// By input.
    pub received: Vec<Traffic>,
    /// By output: given to its device.
    pub redirected: Vec<Traffic>,
    /// By output: bytes that its device took.
    pub sent_bytes: Vec<u64>,
    /// By output: not taken by its device, by reason.
    pub lost: Vec<Losses>,
    /// All together; its `received` may be less than the sum by inputs, which counts.
    pub outcomes: Outcomes,
}

/// The account of both, given that of the workers.
#[must_use]
pub fn merge(
    workers: Report,
    inputs: &[String],
    outputs: &[String],
    group: &str,
    kernel: &Snapshot,
) -> Report {
    let user_space = user_space(&workers, group, kernel.outcomes.to_user_space.packets);
    let mut report =
        Report { remarks: workers.remarks, failed: workers.failed, ..Report::default() };
    let outcomes = &kernel.outcomes;
    let mut came = 0;
    for (i, (name, traffic)) in inputs.iter().zip(&kernel.received).enumerate() {
        came += traffic.packets;
        let row = LedgerRow::passed(format!("rx {name}"), traffic.packets);
        report.ledger.rows.push(LedgerRow { beside: i > 0, ..row });
        report.inputs.push((name.clone(), input(traffic, name, &workers.inputs)));
    }
    let kept = came.saturating_sub(outcomes.filtered.packets);
    report.ledger.rows.push(LedgerRow {
        stage: "filter".into(),
        input: came,
        output: kept,
        drops: vec![DropCount { name: "no_match", packets: outcomes.filtered.packets }],
        ..LedgerRow::default()
    });
    let redirected: u64 = kernel.redirected.iter().map(|traffic| traffic.packets).sum();
    report.ledger.rows.push(of_group(
        group,
        kept - user_space.input.min(kept),
        redirected,
        outcomes,
    ));
    report.ledger.rows.push(user_space);
    let tx = workers.ledger.rows.into_iter().filter(|row| row.stage.starts_with("tx "));
    report.ledger.rows.extend(tx);
    report.outputs = workers.outputs;
    let sent = kernel.redirected.iter().zip(&kernel.sent_bytes).zip(&kernel.lost);
    for (name, ((traffic, bytes), lost)) in outputs.iter().zip(sent) {
        let drops: Vec<DropCount> =
            lost.iter().map(|&(name, packets)| DropCount { name, packets }).collect();
        let packets: u64 = drops.iter().map(|drop| drop.packets).sum();
        let sent = LedgerRow {
            input: traffic.packets,
            output: traffic.packets.saturating_sub(packets),
            drops,
            ..LedgerRow::default()
        };
        let stage = format!("tx {name}");
        for row in report.ledger.rows.iter_mut().filter(|row| row.stage == stage) {
            row.add(&sent);
        }
        for (_, counters) in report.outputs.iter_mut().filter(|(known, _)| known == name) {
            counters.packets += sent.output;
            counters.bytes += bytes;
            add_all(&mut counters.losses, lost.clone());
        }
    }
    report.remarks.add(&Remarks::from([
        ("user_space", outcomes.to_user_space.packets),
        ("not_marked", outcomes.not_marked),
        ("not_recorded", outcomes.not_recorded),
        ("restarts", outcomes.restarts),
    ]));
    report
}

/// What the group's packets came to in the kernel.
fn of_group(group: &str, input: u64, output: u64, outcomes: &Outcomes) -> LedgerRow {
    let drops: Vec<DropCount> = [
        ("no_match", outcomes.group_filtered),
        ("no_sensor", outcomes.no_sensor),
        ("no_interface", outcomes.no_interface),
        ("no_socket", outcomes.no_socket),
        ("no_room", outcomes.no_room),
        ("shunted_by_hand", outcomes.shunted),
    ]
    .map(|(name, traffic)| DropCount { name, packets: traffic.packets })
    .into();
    let dropped: u64 = drops.iter().map(|drop| drop.packets).sum();
    let held = input.saturating_sub(output + dropped);
    LedgerRow {
        stage: format!("group {group}").into(),
        input,
        output,
        drops,
        held,
        ..LedgerRow::default()
    }
}

/// What came of packets that the kernel gave to user space: lost on the way to a worker,
/// dropped or held by it, waiting for it, or given to outputs.
fn user_space(workers: &Report, group: &str, given: u64) -> LedgerRow {
    let mut row = LedgerRow {
        stage: "user_space".into(),
        beside: true,
        input: given,
        ..LedgerRow::default()
    };
    let of_group = format!("group {group}");
    for theirs in &workers.ledger.rows {
        if theirs.stage.starts_with("rx ") || theirs.stage == of_group {
            row.add(&LedgerRow { drops: theirs.drops.clone(), ..LedgerRow::default() });
        }
        if theirs.stage == of_group {
            row.held += theirs.held;
            row.output += theirs.output;
        }
    }
    row.held += given.saturating_sub(row.output + row.dropped() + row.held);
    row
}

/// An input's traffic, and what its device lost before.
fn input(traffic: &Traffic, name: &str, workers: &[(String, RxCounters)]) -> RxCounters {
    let mut before: Vec<(&'static str, u64)> = Vec::new();
    for (_, counters) in workers.iter().filter(|(known, _)| known == name) {
        for &(name, packets) in &counters.before {
            match before.iter_mut().find(|(known, _)| *known == name) {
                // A device counts for all queues together.
                Some((_, most)) => *most = packets.max(*most),
                None => before.push((name, packets)),
            }
        }
    }
    RxCounters { packets: traffic.packets, bytes: traffic.bytes, losses: Vec::new(), before }
}

#[cfg(test)]
mod tests {
    use forebay_io::TxCounters;
    use forebay_pipeline::Ledger;

    use super::*;

    fn traffic(packets: u64) -> Traffic {
        Traffic { packets, bytes: 100 * packets }
    }

    fn row(stage: &'static str, input: u64, output: u64, drop: (&'static str, u64)) -> LedgerRow {
        let drops = vec![DropCount { name: drop.0, packets: drop.1 }];
        LedgerRow { stage: stage.into(), input, output, drops, ..LedgerRow::default() }
    }

    /// Workers got 10 packets: one was lost before them, one was dropped, eight were sent.
    fn workers() -> Report {
        let rows = vec![
            row("rx a", 10, 9, ("ring_full", 1)),
            LedgerRow { beside: true, ..LedgerRow::passed("rx a", 0) },
            LedgerRow::passed("filter", 9),
            LedgerRow::passed("groups", 9),
            row("group ids", 9, 8, ("no_sensor", 1)),
            row("tx x", 5, 4, ("ring_full", 1)),
            LedgerRow { beside: true, ..LedgerRow::passed("tx y", 3) },
        ];
        let before = |packets| RxCounters {
            before: vec![("device_missed", packets)],
            ..RxCounters::default()
        };
        Report {
            ledger: Ledger { rows },
            inputs: vec![("a".to_owned(), before(4)), ("a".to_owned(), before(0))],
            outputs: vec![("x".to_owned(), TxCounters::default())],
            ..Report::default()
        }
    }

    #[test]
    fn both_ways_are_one_account_that_closes() {
        let outcomes = Outcomes {
            filtered: traffic(20),
            group_filtered: traffic(5),
            to_user_space: traffic(12),
            no_sensor: traffic(3),
            ..Outcomes::default()
        };
        let kernel = Snapshot {
            received: vec![traffic(80), traffic(22)],
            redirected: vec![traffic(40), traffic(20)],
            sent_bytes: vec![3_300, 2_000],
            lost: vec![vec![("ring_full", 7), ("refused", 0)], Vec::new()],
            outcomes,
        };
        let names = |names: [&str; 2]| names.map(str::to_owned);
        let report = merge(workers(), &names(["a", "b"]), &names(["x", "y"]), "ids", &kernel);
        let ledger = &report.ledger;
        assert!(ledger.closes(), "{ledger:#?}");
        assert_eq!((ledger.input(), ledger.output()), (102, 40 - 7 + 4 + 23));
        let row = |stage: &str| ledger.rows.iter().find(|row| row.stage == stage).unwrap();
        let user_space = row("user_space");
        assert_eq!((user_space.output, user_space.dropped(), user_space.held), (8, 2, 2));
        // Two are on their way through the program.
        assert_eq!((row("group ids").output, row("group ids").held), (60, 2));
        let drops = [DropCount { name: "ring_full", packets: 8 }];
        assert_eq!((row("tx x").input, &row("tx x").drops[..1]), (45, &drops[..]));
        let (name, input) = &report.inputs[0];
        assert_eq!(
            (name.as_str(), input.packets, &input.before),
            ("a", 80, &vec![("device_missed", 4)])
        );
        let output = &report.outputs[0].1;
        assert_eq!((output.packets, output.bytes), (33, 3_300));
    }
}
