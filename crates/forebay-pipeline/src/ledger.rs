//! The ledger: where every packet went.
//!
//! For each stage, `in + copies + injected = out + drops + held`, and what leaves a
//! stage enters the next. A ledger for which both hold everywhere is closed.

use serde::Serialize;

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
    pub stage: &'static str,
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
    pub fn passed(stage: &'static str, packets: u64) -> Self {
        Self { stage, input: packets, output: packets, ..Self::default() }
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
        map.serialize_entry("stage", self.stage)?;
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
    /// Whether every row's equation holds and every row takes in what the row
    /// before it let out.
    #[must_use]
    pub fn closes(&self) -> bool {
        self.rows.iter().all(LedgerRow::closes)
            && self.rows.windows(2).all(|pair| pair[0].output == pair[1].input)
    }

    /// Packets that came into the pipeline, or that its first stage made.
    #[must_use]
    pub fn input(&self) -> u64 {
        self.rows.first().map_or(0, |row| row.input + row.injected)
    }

    /// Packets that came out of it.
    #[must_use]
    pub fn output(&self) -> u64 {
        self.rows.last().map_or(0, |row| row.output)
    }

    /// The output was thrown away: what the last stage let out is dropped instead, as
    /// "discarded".
    pub fn discard_output(&mut self) {
        self.discard_output_after(0);
    }

    /// As [`Self::discard_output`], except for the first `kept` packets.
    pub fn discard_output_after(&mut self, kept: u64) {
        let Some(row) = self.rows.last_mut() else { return };
        let packets = row.output.saturating_sub(kept);
        if packets > 0 {
            row.output -= packets;
            row.drops.push(DropCount { name: "discarded", packets });
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
            stage: "filter",
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
    fn discarded_output_is_dropped_and_the_ledger_still_closes() {
        let rows = vec![LedgerRow::passed("read", 10), LedgerRow::passed("write", 10)];
        let mut ledger = Ledger { rows };
        ledger.discard_output_after(4);
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
