//! What it takes to get from a packet to its key, which engines are timed without.

use std::hint::black_box;

use forebay_rules::packed::Key4;
use serde_json::Map;

use super::frames::{FRAME, frame, parsed};
use super::measure::Bench;
use super::sets::Set;
use crate::BenchError;
use crate::record::Row;
use crate::stats::{Sample, rounded};
use forebay_packet::random::Random;

/// Parses the frames of these headers, one after another in memory, in a new order each
/// round. Returns nanoseconds a packet in each.
pub fn measure(bench: &mut Bench, keys: &[Key4], rounds: usize) -> Result<Vec<f64>, BenchError> {
    let mut times = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let order = Random::new(round as u64).draw(keys.len(), keys.len());
        let keys: Vec<Key4> = order.iter().map(|&i| keys[i as usize]).collect();
        let frames: Vec<u8> = keys.iter().flat_map(frame).collect();
        let mut found = vec![None; keys.len()];
        let ticks = bench.stopwatch().ticks(|| {
            for (frame, found) in frames.chunks_exact(FRAME).zip(&mut found) {
                *found = parsed(black_box(frame));
            }
        });
        times.push(bench.stopwatch().nanos(ticks) / keys.len() as f64);
        if !found.iter().flatten().eq(&keys) {
            return Err(BenchError::WrongAnswer("packets parsed to other keys".to_owned()));
        }
        bench.clock.sample(1);
    }
    Ok(times)
}

/// The measurement as a row.
pub fn row(times: Vec<f64>, gigahertz: f64) -> Row {
    let n = times.len();
    let sample = Sample::new(times);
    Row {
        case: "parse".to_owned(),
        set: Set::Cache.to_string(),
        engine: "key".to_owned(),
        ns: Some(rounded(sample.median())),
        cycles: Some(rounded(sample.median() * gigahertz)),
        n,
        spread: Some(sample.spread().map(rounded)),
        more: Map::new(),
    }
}
