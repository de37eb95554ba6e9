//! What workers say of themselves, one by one and together.

use forebay_io::{Losses, RxCounters, TxCounters};
use forebay_pipeline::{DropCount, Ledger, LedgerRow, Remarks};

use crate::export::Exported;

/// The account of a worker, or of several.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Where every packet went.
    pub ledger: Ledger,
    /// What stages noticed.
    pub remarks: Remarks,
    /// The inputs, by name.
    pub inputs: Vec<(String, RxCounters)>,
    /// The outputs, by name.
    pub outputs: Vec<(String, TxCounters)>,
    /// What became of records of flows, if they are exported.
    pub exported: Option<Exported>,
    /// Ports that are of no further use, and why.
    pub failed: Vec<String>,
}

impl Report {
    /// Adds another worker's account.
    pub fn add(&mut self, other: Self) {
        for row in other.ledger.rows {
            match self.ledger.rows.iter_mut().find(|known| known.stage == row.stage) {
                Some(known) => known.add(&row),
                None => self.ledger.rows.push(row),
            }
        }
        self.remarks.add(&other.remarks);
        for (name, theirs) in other.inputs {
            match self.inputs.iter_mut().find(|(known, _)| *known == name) {
                Some((_, ours)) => {
                    ours.packets += theirs.packets;
                    ours.bytes += theirs.bytes;
                    add_all(&mut ours.losses, theirs.losses);
                    // The counters of a device are the same at each of its ports.
                    greatest(&mut ours.before, theirs.before);
                }
                None => self.inputs.push((name, theirs)),
            }
        }
        for (name, theirs) in other.outputs {
            match self.outputs.iter_mut().find(|(known, _)| *known == name) {
                Some((_, ours)) => {
                    ours.packets += theirs.packets;
                    ours.bytes += theirs.bytes;
                    ours.held += theirs.held;
                    add_all(&mut ours.losses, theirs.losses);
                }
                None => self.outputs.push((name, theirs)),
            }
        }
        self.failed.extend(other.failed);
    }
}

/// The account of a receiver.
#[must_use]
pub fn received(name: &str, counters: &RxCounters) -> LedgerRow {
    let lost: u64 = counters.losses.iter().map(|(_, packets)| packets).sum();
    LedgerRow {
        stage: format!("rx {name}").into(),
        input: counters.packets + lost,
        output: counters.packets,
        drops: drop_counts(&counters.losses),
        ..LedgerRow::default()
    }
}

pub(crate) fn drop_counts(losses: &Losses) -> Vec<DropCount> {
    losses.iter().map(|&(name, packets)| DropCount { name, packets }).collect()
}

pub(crate) fn add_all(ours: &mut Losses, theirs: Losses) {
    for (name, packets) in theirs {
        match ours.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += packets,
            None => ours.push((name, packets)),
        }
    }
}

fn greatest(ours: &mut Losses, theirs: Losses) {
    for (name, packets) in theirs {
        match ours.iter_mut().find(|(known, _)| *known == name) {
            Some((_, most)) => *most = packets.max(*most),
            None => ours.push((name, packets)),
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_pipeline::LedgerRow;

    use super::*;

    #[test]
    fn workers_are_added_up_but_devices_counted_once() {
        let report = |packets: u64, before: u64| Report {
            ledger: Ledger {
                rows: vec![LedgerRow::passed("rx a", packets), LedgerRow::passed("tx b", packets)],
            },
            remarks: Remarks::from([("not_ip", 1)]),
            inputs: vec![(
                "a".to_owned(),
                RxCounters {
                    packets,
                    bytes: 60 * packets,
                    losses: vec![("ring_full", 2)],
                    before: vec![("rx_missed", before)],
                },
            )],
            outputs: vec![("b".to_owned(), TxCounters { packets, ..TxCounters::default() })],
            exported: None,
            failed: vec![],
        };
        let mut sum = report(10, 7);
        sum.add(report(5, 8));
        assert!(sum.ledger.closes() && sum.ledger.input() == 15);
        assert_eq!(sum.remarks.get("not_ip"), 2);
        let (_, input) = &sum.inputs[0];
        assert_eq!((input.packets, input.bytes), (15, 900));
        assert_eq!(
            (&input.losses, &input.before),
            (&vec![("ring_full", 4)], &vec![("rx_missed", 8)])
        );
        assert_eq!(sum.outputs[0].1.packets, 15);
    }
}
