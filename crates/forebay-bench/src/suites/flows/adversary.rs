//! Flows that all have the same CRC-32C, beside ordinary ones: they begin in an empty table, and
//! then are found.

use std::iter;

use forebay_flow::{Level, ShortKey};
use forebay_packet::FlowKey;
use forebay_packet::flow::AddressKind;
use forebay_packet::random::Random;

use super::engines::{BATCH, EXACT_BATCH, new_table};
use super::traffic::short_key;
use crate::failure::{Result, ensure};
use crate::record::{Results, Row};
use crate::rounds::Timing;
use crate::stats::Sample;

/// The case, and its number of flows.
pub const CASE: &str = "adversary-200000";
const FLOWS: u32 = 200_000;

/// How the flows are chosen.
const SETS: [&str; 2] = ["ordinary", "equal-crc32"];

/// CRC-32C of a word, from the state before.
fn crc(state: u32, word: u32) -> u32 {
    (0..32).fold(state ^ word, |crc, _| (crc >> 1) ^ ((crc & 1) * 0x82f6_3b78))
}

/// Flows of the same CRC-32C of high address, ports and low address: the low one is what the
/// state before it has to be.
fn equal_by_crc(random: &mut Random) -> ShortKey {
    loop {
        let [high, ports] = [random.next() as u32, random.next() as u32];
        let low = crc(crc(0, high), ports);
        if low < high {
            let ends = [(low, ports as u16), (high, (ports >> 16) as u16)];
            let [low, high] = ends.map(|(address, port)| (u128::from(address), port));
            let (key, _) = FlowKey::two_way(AddressKind::Ipv4, 17, low, high);
            if let Some(key) = ShortKey::new(&FlowKey { has_ports: true, ..key }) {
                return key;
            }
        }
    }
}

/// A row for each set, of as many rounds.
pub fn measure(timing: &mut Timing, rounds: usize) -> Result<Vec<Row>> {
    let mut random = Random::new(FLOWS.into());
    let chosen = iter::repeat_with(|| equal_by_crc(&mut random)).take(FLOWS as usize).collect();
    let sets: [Vec<ShortKey>; 2] = [(0..FLOWS).map(short_key).collect(), chosen];
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        // They take turns in being first.
        for set in [round % 2, 1 - round % 2] {
            times[set].push(nanos(timing, &sets[set])?);
        }
        timing.clock.sample(1);
    }
    let rows = SETS.into_iter().zip(times);
    Ok(rows.map(|(set, times)| Row::new(CASE, set, EXACT_BATCH, times)).collect())
}

fn nanos(timing: &Timing, keys: &[ShortKey]) -> Result<f64> {
    let mut table = new_table(FLOWS as usize, 1, Level::fastest())?;
    let (mut slots, mut new) = (vec![0; keys.len()], 0);
    let ticks = timing.stopwatch.ticks(|| {
        for keys in keys.chunks(BATCH) {
            table.packets(keys, |_, _, is_new| new += usize::from(is_new), |_| ());
        }
        for (keys, slots) in keys.chunks(BATCH).zip(slots.chunks_mut(BATCH)) {
            table.find(keys, slots);
        }
    });
    let found = slots.iter().filter(|&&slot| table.state(slot).is_some()).count();
    ensure!([new, found] == [keys.len(); 2], "{CASE}: {new} begin and {found} are found");
    Ok(timing.stopwatch.nanos(ticks) / keys.len() as f64)
}

/// The median over the rounds of what chosen flows take to what ordinary ones take.
pub fn ratio(results: &Results) -> Option<f64> {
    let [ordinary, chosen] = SETS.map(|set| results.row(CASE, set, EXACT_BATCH));
    let pairs = chosen?.times.iter().zip(&ordinary?.times);
    Some(Sample::new(pairs.map(|(chosen, ordinary)| chosen / ordinary).collect()).median())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_flows_differ_and_have_equal_checksums() {
        let mut random = Random::new(1);
        let keys: Vec<ShortKey> = (0..100).map(|_| equal_by_crc(&mut random)).collect();
        for (n, key) in keys.iter().enumerate() {
            let FlowKey { low, high, port_low, port_high, .. } = key.whole();
            let ports = u32::from(port_low) | u32::from(port_high) << 16;
            assert_eq!(crc(crc(crc(0, high as u32), ports), low as u32), 0);
            assert!(!keys[..n].contains(key));
        }
    }
}
