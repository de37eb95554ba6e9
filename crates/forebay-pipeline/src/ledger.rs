//! The ledger: where every packet went.
//!
//! For each stage, `in + copies + injected = out + drops + held`, and what leaves a
//! stage enters the next. A ledger for which both hold everywhere is closed. Where the
//! way forks, rows stand beside each other: together they let out what the next take in.

use std::borrow::Cow;

use serde::Serialize;

/// The loss of what a stage was given when the run was ended.
pub(crate) const ABORTED: &str = "aborted";

/// Packets that a stage dropped for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropCount {
    /// The reason.
    pub name: &'static str,
    /// Packets.
    pub packets: u64,
}

/// The account of one stage, in packets.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LedgerRow {
    /// The stage.
    pub stage: Cow<'static, str>,
    /// Whether it is beside the stage of the row before, not behind it.
    pub beside: bool,
    /// Packets that came in.
    pub input: u64,
    /// Packets handed to further outputs besides their first.
    pub copies: u64,
    /// Packets that the stage made.
    pub injected: u64,
    /// Packets that went out.
    pub output: u64,
    /// Packets that did not, by reason.
    pub drops: Vec<DropCount>,
    /// Packets that are still in the stage.
    pub held: u64,
}

impl LedgerRow {
    /// A row whose packets all went through.
    #[must_use]
    pub fn passed(stage: impl Into<Cow<'static, str>>, packets: u64) -> Self {
        Self { stage: stage.into(), input: packets, output: packets, ..Self::default() }
    }

    /// Packets dropped, for any reason.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|drop| drop.packets).sum()
    }

    /// Whether the row's equation holds.
    #[must_use]
    pub fn closes(&self) -> bool {
        self.input + self.copies + self.injected == self.output + self.dropped() + self.held
    }

    /// Adds another worker's account of the same stage.
    pub fn add(&mut self, other: &Self) {
        self.input += other.input;
        self.copies += other.copies;
        self.injected += other.injected;
        self.output += other.output;
        self.held += other.held;
        for theirs in &other.drops {
            match self.drops.iter_mut().find(|ours| ours.name == theirs.name) {
                Some(ours) => ours.packets += theirs.packets,
                None => self.drops.push(theirs.clone()),
            }
        }
    }
}

impl Serialize for LedgerRow {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(Some(7))?;
        map.serialize_entry("stage", &self.stage)?;
        map.serialize_entry("in", &self.input)?;
        map.serialize_entry("copies", &self.copies)?;
        map.serialize_entry("injected", &self.injected)?;
        map.serialize_entry("out", &self.output)?;
        let drops: std::collections::BTreeMap<_, _> =
            self.drops.iter().map(|drop| (drop.name, drop.packets)).collect();
        map.serialize_entry("drops", &drops)?;
        map.serialize_entry("held", &self.held)?;
        map.end()
    }
}

/// The account of a pipeline, one row a stage, in the order packets pass.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Ledger {
    /// The rows.
    pub rows: Vec<LedgerRow>,
}

impl Ledger {
    /// Whether every row's equation holds and the rows beside each other take in what
    /// those before them let out.
    #[must_use]
    pub fn closes(&self) -> bool {
        let steps: Vec<(u64, u64)> = self.steps().map(Self::passage).collect();
        self.rows.iter().all(LedgerRow::closes)
            && steps.windows(2).all(|pair| pair[0].1 == pair[1].0)
    }

    /// The rows, those beside each other together.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = &[LedgerRow]> {
        self.rows.chunk_by(|_, next| next.beside)
    }

    /// Packets that came into rows beside each other, and those that left them.
    fn passage(step: &[LedgerRow]) -> (u64, u64) {
        (step.iter().map(|row| row.input).sum(), step.iter().map(|row| row.output).sum())
    }

    /// Packets that came into the pipeline, or that its first stage made.
    #[must_use]
    pub fn input(&self) -> u64 {
        let first = self.steps().next().unwrap_or_default();
        first.iter().map(|row| row.input + row.injected).sum()
    }

    /// Packets that came out of it.
    #[must_use]
    pub fn output(&self) -> u64 {
        self.steps().next_back().map_or(0, |step| Self::passage(step).1)
    }

    /// The output was thrown away: what the last stage let out is dropped instead, as
    /// "discarded".
    pub fn discard_output(&mut self) {
        self.keep_output(0, "discarded");
    }

    /// Of what the last stage let out, or was about to when it was ended, `kept` packets have
    /// reached their destination: the others are dropped, under a name.
    pub fn keep_output(&mut self, kept: u64, name: &'static str) {
        let Some(row) = self.rows.last_mut() else { return };
        let aborted = row.drops.iter_mut().find(|drop| drop.name == ABORTED);
        let mut packets = row.output + aborted.as_ref().map_or(0, |drop| drop.packets);
        row.output = kept.min(packets);
        packets -= row.output;
        row.drops.retain(|drop| drop.name != ABORTED);
        if packets > 0 {
            row.drops.push(DropCount { name, packets });
        }
    }

    /// Packets dropped by any stage.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.rows.iter().map(LedgerRow::dropped).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_closes_only_if_no_packet_is_unaccounted_for() {
        let filter = LedgerRow {
            stage: "filter".into(),
            input: 10,
            output: 7,
            drops: vec![DropCount { name: "no_match", packets: 3 }],
            ..LedgerRow::default()
        };
        let rows = vec![LedgerRow::passed("read", 10), filter, LedgerRow::passed("write", 7)];
        let ledger = Ledger { rows };
        assert!(ledger.closes());
        assert_eq!((ledger.input(), ledger.dropped(), ledger.output()), (10, 3, 7));

        let mut lost_inside = ledger.clone();
        lost_inside.rows[1].drops[0].packets = 2;
        assert!(!lost_inside.closes());
        let mut lost_between = ledger.clone();
        lost_between.rows[2] = LedgerRow::passed("write", 6);
        assert!(!lost_between.closes());
    }

    #[test]
    fn rows_beside_each_other_are_summed() {
        let beside = |stage: &'static str, packets| LedgerRow {
            beside: true,
            ..LedgerRow::passed(stage, packets)
        };
        let copied = LedgerRow { input: 10, copies: 5, output: 15, ..LedgerRow::default() };
        let rows = vec![
            LedgerRow::passed("rx a", 4),
            beside("rx b", 6),
            copied,
            LedgerRow::passed("ids", 9),
            beside("recorder", 6),
            LedgerRow::passed("tx", 15),
        ];
        let mut ledger = Ledger { rows };
        assert!(ledger.closes());
        assert_eq!((ledger.input(), ledger.output(), ledger.steps().count()), (10, 15, 4));
        ledger.rows[4] = beside("recorder", 5);
        assert!(!ledger.closes());
    }

    #[test]
    fn discarded_output_is_dropped_and_the_ledger_still_closes() {
        let rows = vec![LedgerRow::passed("read", 10), LedgerRow::passed("write", 10)];
        let mut ledger = Ledger { rows };
        ledger.keep_output(4, "discarded");
        assert!(ledger.closes());
        assert_eq!((ledger.input(), ledger.output(), ledger.dropped()), (10, 4, 6));
        assert_eq!(ledger.rows[1].drops, [DropCount { name: "discarded", packets: 6 }]);
        let mut nothing = Ledger { rows: vec![LedgerRow::passed("write", 0)] };
        nothing.discard_output();
        assert!(nothing.closes() && nothing.rows[0].drops.is_empty());
        ledger.discard_output();
        assert!(ledger.closes());
        assert_eq!(ledger.output(), 0);
    }

    #[test]
    fn json_names_are_the_documented_ones() {
        let json = serde_json::to_string(&LedgerRow::passed("read", 1)).unwrap();
        let expected =
            r#"{"stage":"read","in":1,"copies":0,"injected":0,"out":1,"drops":{},"held":0}"#;
        assert_eq!(json, expected);
    }
}
