//! What was measured, and the questions asked of it.

use serde_json::{Map, Value, json};

use super::engines::Contender;
use super::measure::OnSet;
use super::sets::Set;
use crate::record::Row;
use crate::stats::{Sample, rounded};

/// One that took part.
#[derive(Clone, Debug)]
pub struct Participant {
    /// Its name.
    pub name: &'static str,
    /// Milliseconds from a list to something that can match.
    pub build_ms: Option<f64>,
    /// Bytes of what it matches by.
    pub bytes: Option<usize>,
    /// What else there is to tell.
    pub more: Map<String, Value>,
}

impl From<&Contender> for Participant {
    fn from(contender: &Contender) -> Self {
        Self {
            name: contender.name,
            build_ms: contender.build_ms,
            bytes: contender.bytes,
            more: contender.more.clone(),
        }
    }
}

/// All that is known of one list.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its name.
    pub case: String,
    /// How many rules it has.
    pub rules: usize,
    /// Who took part, in the order of the times.
    pub participants: Vec<Participant>,
    /// What was measured on each set.
    pub sets: Vec<OnSet>,
}

impl Outcome {
    /// One that took part.
    pub fn participant(&self, engine: &str) -> Option<&Participant> {
        self.participants.iter().find(|one| one.name == engine)
    }

    /// Nanoseconds a packet in each round.
    pub fn times(&self, set: Set, engine: &str) -> Option<&[f64]> {
        let index = self.participants.iter().position(|one| one.name == engine)?;
        self.sets.iter().find(|on| on.set == set)?.times.get(index)?.as_deref()
    }

    /// Median nanoseconds a packet.
    pub fn nanos(&self, set: Set, engine: &str) -> Option<f64> {
        Some(Sample::new(self.times(set, engine)?.to_vec()).median())
    }

    /// Times of `slow` in those of `fast`, round by round.
    pub fn ratios(&self, set: Set, slow: &str, fast: &str) -> Option<Sample> {
        let pairs = self.times(set, slow)?.iter().zip(self.times(set, fast)?);
        Some(Sample::new(pairs.map(|(slow, fast)| slow / fast).collect()))
    }

    /// The engine with the least median time among those whose name starts with `start`.
    pub fn best(&self, set: Set, start: &str) -> Option<(&'static str, f64)> {
        let named = self.participants.iter().filter(|one| one.name.starts_with(start));
        let timed = named.filter_map(|one| Some((one.name, self.nanos(set, one.name)?)));
        timed.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Bytes of memory a rule.
    pub fn bytes_per_rule(&self, engine: &str) -> Option<f64> {
        Some(self.participant(engine)?.bytes? as f64 / self.rules.max(1) as f64)
    }

    /// The rows of the record. `peers` is how the names of those start that the ratios
    /// of the others are to.
    pub fn rows(&self, gigahertz: f64, peers: &str) -> Vec<Row> {
        let mut rows = Vec::new();
        for on in &self.sets {
            let peer = self.best(on.set, peers).map(|(name, _)| name);
            for (one, times) in self.participants.iter().zip(&on.times) {
                let sample = times.as_ref().map(|times| Sample::new(times.clone()));
                let mut more = one.more.clone();
                let mut add = |key: &str, value: Value| more.insert(key.to_owned(), value);
                add("rules", json!(self.rules));
                add("headers", json!(on.headers));
                add("matched", json!(rounded(on.matched)));
                if on.clock.windows() > 0 {
                    add("gigahertz", json!(rounded(on.clock.gigahertz())));
                }
                if let Some(build_ms) = one.build_ms {
                    add("build_ms", json!(build_ms));
                }
                if let Some(bytes) = self.bytes_per_rule(one.name) {
                    add("bytes_per_rule", json!(rounded(bytes)));
                }
                let ratios = peer.and_then(|peer| self.ratios(on.set, peer, one.name));
                if let Some(ratios) = ratios {
                    add("ratio", json!(rounded(ratios.median())));
                    add("ratio_spread", json!(ratios.spread().map(rounded)));
                }
                let nanos = sample.as_ref().map(Sample::median);
                rows.push(Row {
                    case: self.case.clone(),
                    set: on.set.to_string(),
                    engine: one.name.to_owned(),
                    ns: nanos.map(rounded),
                    cycles: nanos.map(|nanos| rounded(nanos * gigahertz)),
                    n: times.as_ref().map_or(0, Vec::len),
                    spread: sample.as_ref().map(|sample| sample.spread().map(rounded)),
                    more,
                });
            }
        }
        rows
    }
}

/// An outcome of `memory` with these times, for tests.
#[cfg(test)]
pub fn outcome(case: &str, rules: usize, timed: &[(&'static str, &[f64])]) -> Outcome {
    let participant = |name| Participant {
        name,
        build_ms: Some(12.0),
        bytes: Some(50 * rules),
        more: Map::new(),
    };
    Outcome {
        case: case.to_owned(),
        rules,
        participants: timed.iter().map(|(name, _)| participant(*name)).collect(),
        sets: vec![OnSet {
            set: Set::Memory,
            headers: 1_000,
            matched: 0.75,
            times: timed
                .iter()
                .map(|(_, times)| (!times.is_empty()).then(|| times.to_vec()))
                .collect(),
            clock: crate::clock::Clock::of(3.0),
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_the_best_peer_and_absent_ones_have_empty_rows() {
        let one = outcome(
            "acl1_1k",
            1_000,
            &[
                ("tree", &[4.0, 5.0, 4.0]),
                ("rte_acl-sse", &[40.0; 3]),
                ("rte_acl-avx2", &[20.0, 30.0, 20.0]),
                ("rte_acl-avx512x32", &[]),
            ],
        );
        assert_eq!(one.best(Set::Memory, "rte_acl"), Some(("rte_acl-avx2", 20.0)));
        let rows = one.rows(2.0, "rte_acl");
        assert_eq!((rows[0].ns, rows[0].cycles, rows[0].n), (Some(4.0), Some(8.0), 3));
        assert_eq!(rows[0].more["ratio"], json!(5.0));
        assert_eq!(rows[0].more["bytes_per_rule"], json!(50.0));
        assert_eq!((rows[3].ns, rows[3].n), (None, 0));
    }
}
