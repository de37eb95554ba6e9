//! Fair queueing by labels: a core that takes labels gives flows what one gives that estimates.

use std::sync::Arc;

use crate::support::*;
use forebay_balance::Assignment;
use forebay_flow::shed::{Limit, OnOverload, Rates};
use forebay_packet::{Batch, DecodeOptions, Decoder, HashKey, LabelField, RateLabel};
use forebay_pipeline::stages::{Balance, Classify, LiveFragments, OPTIONAL, Shedding};
use forebay_pipeline::{Chain, GroupStages, LedgerRow, Place, Settings, StageError};

const OFFLINE: HashKey = HashKey::OFFLINE;

/// The rate of each flow in Mbit/s, and the sensor's limit.
const RATES: [u64; 8] = [1, 1, 2, 2, 4, 4, 8, 8];
const LIMIT: u64 = 12;

/// Seconds of traffic, and from when on what arrives is counted.
const SECONDS: u64 = 14;
const COUNTED: u64 = 2 * SECOND;

fn chain(keys: &str, limit: Option<u64>) -> Chain {
    let mut stages = GroupStages::default();
    for (key, value) in toml::from_str::<toml::Table>(keys).unwrap() {
        let kind = OPTIONAL.iter().find(|stage| stage.key == key).unwrap();
        stages.add(kind, value).unwrap();
    }
    let limit = limit.map(|mbit| {
        let limit = Limit::new(Rates { pps: None, bps: Some(mbit * 1_000_000) });
        (OnOverload::Fair, Arc::new(limit))
    });
    Chain::new()
        .with(Classify::hashing(Decoder::new(DecodeOptions::default()), OFFLINE))
        .with(LiveFragments::new(OFFLINE))
        .with_optional(Place::BehindFragments, OFFLINE)
        .with(Balance::new(Assignment::of_weights(&[1]).unwrap()))
        .with_optional(Place::BehindBalance, OFFLINE)
        .configured(&Settings::new().with(stages).with(Shedding(vec![limit])))
}

/// Flows of constant rates, of IPv4 or, by address, of IPv6; packets of 1,000 bytes.
fn traffic() -> Vec<(u64, Vec<u8>)> {
    let mut packets = Vec::new();
    for (flow, rate) in RATES.into_iter().enumerate() {
        let gap = 8_000 * 1_000 / rate;
        for n in 0..SECONDS * SECOND / gap {
            let payload = [udp(flow as u16, 9), vec![0; 958]].concat();
            let frame = ipv4(1, 2, 17, n as u16, 0, &payload);
            packets.push((n * gap + 1_000 * flow as u64, frame));
        }
    }
    packets.sort_by_key(|packet| packet.0);
    packets
}

/// The packets that pass, with their labels.
fn pass(chain: &mut Chain, packets: &[(u64, Vec<u8>)]) -> Vec<(u64, Vec<u8>, RateLabel)> {
    let mut passed = Vec::new();
    for batch in batches(packets, 16) {
        chain.begin(batch.ticks(batch.len() - 1));
        let mut keep = |batch: Batch| {
            passed.extend(batch.live().iter().map(|i| {
                let label = batch.label.get(i).copied().unwrap_or_default();
                (batch.ticks(i), batch.packet(i).to_vec(), label)
            }));
            Ok::<(), StageError>(())
        };
        chain.push(batch, &mut keep).unwrap();
    }
    assert!(chain.rows().iter().all(LedgerRow::closes), "{:?}", chain.rows());
    passed
}

/// The packets as they leave a broker.
fn sent(field: LabelField, passed: Vec<(u64, Vec<u8>, RateLabel)>) -> Vec<(u64, Vec<u8>)> {
    let sent = |(at, mut frame, label): (u64, Vec<u8>, RateLabel)| {
        field.write(label, &mut frame);
        (at, frame)
    };
    passed.into_iter().map(sent).collect()
}

fn flow_of(frame: &[u8]) -> usize {
    usize::from(frame[35])
}

/// What each flow gets in Mbit/s.
fn shares(passed: &[(u64, Vec<u8>, RateLabel)]) -> [f64; RATES.len()] {
    let mut shares = [0.0; RATES.len()];
    for (_, frame, _) in passed.iter().filter(|(at, ..)| *at >= COUNTED) {
        shares[flow_of(frame)] += 8.0 * frame.len() as f64 / 1e6;
    }
    shares.map(|mbit| mbit * SECOND as f64 / (SECONDS * SECOND - COUNTED) as f64)
}

#[test]
fn a_core_by_labels_shares_as_one_that_estimates() {
    let packets = traffic();
    let estimated = shares(&pass(&mut chain("on_overload = \"fair\"", Some(LIMIT)), &packets));
    // Of 12 Mbit/s 95% are shared: two flows of 1 Mbit/s lose nothing, six have the same.
    let fair = (0.95 * LIMIT as f64 - 2.0) / 6.0;
    let labels = pass(&mut chain("label = { from = \"flows\" }", None), &packets);
    assert_eq!(labels.len(), packets.len());
    for (flow, rate) in RATES.into_iter().enumerate() {
        let of_flow =
            labels.iter().filter(|(at, frame, _)| *at >= COUNTED && flow_of(frame) == flow);
        let (mut sum, mut n) = (0.0, 0.0);
        of_flow.for_each(|(.., label)| (sum, n) = (sum + label.rate().unwrap(), n + 1.0));
        assert!((sum / n / (rate as f64 * 1e6) - 1.0).abs() < 0.05, "{rate}: {}", sum / n);
    }
    let at_core = sent(LabelField::Dscp, labels);
    let keys = "on_overload = \"fair\"\nlabel = { from = \"dscp\" }";
    let labelled = shares(&pass(&mut chain(keys, Some(LIMIT)), &at_core));
    for (flow, rate) in RATES.into_iter().enumerate() {
        let right = fair.min(rate as f64);
        let [by_rate, by_label] = [estimated[flow], labelled[flow]];
        assert!((by_rate / right - 1.0).abs() < 0.1, "{estimated:?}, {fair}");
        assert!((by_label / right - 1.0).abs() < 0.1, "{labelled:?}, {fair}");
        assert!((by_label / by_rate - 1.0).abs() < 0.1, "{labelled:?}, {estimated:?}");
    }
}

#[test]
fn packets_without_a_label_are_estimated() {
    let packets = traffic();
    let estimated = pass(&mut chain("on_overload = \"fair\"", Some(LIMIT)), &packets);
    for from in ["dscp", "flow-label"] {
        let keys = format!("on_overload = \"fair\"\nlabel = {{ from = \"{from}\" }}");
        assert_eq!(pass(&mut chain(&keys, Some(LIMIT)), &packets), estimated, "{from}");
    }
}

#[test]
fn labels_of_an_overloaded_edge_are_its_fair_share_at_most() {
    let keys = "on_overload = \"fair\"\nlabel = { from = \"flows\" }";
    let passed = pass(&mut chain(keys, Some(LIMIT)), &traffic());
    let fair = (0.95 * LIMIT as f64 - 2.0) / 6.0;
    for (flow, rate) in RATES.into_iter().enumerate() {
        let of_flow =
            passed.iter().filter(|(at, frame, _)| *at >= COUNTED && flow_of(frame) == flow);
        let (mut sum, mut n) = (0.0, 0.0);
        of_flow.for_each(|(.., label)| (sum, n) = (sum + label.rate().unwrap() / 1e6, n + 1.0));
        let right = fair.min(rate as f64);
        assert!((sum / n / right - 1.0).abs() < 0.15, "{rate}: {} {fair}", sum / n);
    }
}

#[test]
fn the_key_is_read_or_refused() {
    let stage = OPTIONAL.iter().find(|stage| stage.key == "label").unwrap();
    let read = |text: &str| {
        let table: toml::Table = toml::from_str(&format!("it = {text}")).unwrap();
        (stage.read)(&table["it"]).map(|_| ())
    };
    assert_eq!(read(stage.example), Ok(()));
    assert_eq!(read("{ from = \"flow-label\", to = \"dscp\" }"), Ok(()));
    for (wrong, part) in [
        ("true", "expected a table"),
        ("{ to = \"dscp\" }", "missing field `from`"),
        ("{ from = \"tos\" }", "`from` `tos`: expected one of `flows`, `dscp`, `flow-label`"),
        ("{ from = \"flows\", to = \"ecn\" }", "`to` `ecn`: expected one of `dscp`, `flow-label`"),
        ("{ from = \"flows\", at = 1 }", "unknown field `at`"),
        ("{ from = \"dscp\", window = \"1s\" }", "`window` with labels from a header"),
        ("{ from = \"flows\", window = \"1h\" }", "expected 1 ms to 10 s"),
    ] {
        let error = read(wrong).unwrap_err();
        assert!(error.contains(part), "{wrong}: {error}");
    }
}
