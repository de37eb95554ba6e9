//! Flows that are handled by hand.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use crate::support::*;
use forebay_packet::{Affinity, Batch, DecodeOptions, Decoder, FlowKey, HashKey, community_digest};
use forebay_pipeline::stages::{
    FlowOverride, FlowSearch, OPTIONAL, OverriddenFlow, OverrideEntry, OverrideTable, Overrides,
};
use forebay_pipeline::{Chain, GroupStages, Place, Settings};

fn chain(affinity: Affinity) -> Chain {
    let decoder = Decoder::new(DecodeOptions { affinity, ..DecodeOptions::default() });
    let stage = Overrides::new(decoder, affinity, HashKey::OFFLINE);
    let classify = forebay_pipeline::stages::Classify::hashing(decoder, HashKey::OFFLINE);
    Chain::new().with(classify).with(stage)
}

/// Ten packets of each of three flows in turn, both ways.
fn traffic() -> Vec<(u64, Vec<u8>)> {
    let packet = |i: u64| match i % 6 {
        flow @ 0..3 => whole(1, 2, (7, flow as u16)),
        flow => whole(2, 1, (flow as u16 - 3, 7)),
    };
    (0..30).map(|i| (i, packet(i))).collect()
}

fn key_of(number: usize) -> FlowKey {
    let batch = batches(&traffic(), 30).remove(0);
    let decoder = Decoder::new(DecodeOptions::default());
    decoder.decode(batch.interface(0).link, batch.packet(number)).key
}

fn table(affinity: Affinity, flows: &[(FlowKey, FlowOverride, u64)]) -> Arc<OverrideTable> {
    let mut entries = Vec::new();
    for &(key, action, until) in flows {
        let flow = Arc::new(OverriddenFlow::new(key, action, until));
        let [hash, other] = affinity.hashes(&key, &HashKey::OFFLINE);
        entries.push(OverrideEntry { hash, flow: Arc::clone(&flow) });
        if other != hash {
            entries.push(OverrideEntry { hash: other, flow });
        }
    }
    Arc::new(OverrideTable::new(entries))
}

/// Packets that go out at a time, and how many of them are exempt.
fn run(chain: &mut Chain, now: u64) -> (usize, usize) {
    chain.begin(now);
    let out: Vec<Batch> = through(chain, batches(&traffic(), 30));
    let live = out.iter().map(|batch| batch.live().count()).sum();
    (live, out.iter().map(|batch| batch.live().and(&batch.exempt).count()).sum())
}

#[test]
fn packets_of_shunted_flows_are_dropped_until_their_time_is_over() {
    for affinity in [Affinity::FiveTuple, Affinity::IpPair, Affinity::Source, Affinity::Destination]
    {
        let mut chain = chain(affinity);
        assert_eq!(run(&mut chain, 1), (30, 0));
        let flows =
            [(key_of(0), FlowOverride::Shunt, SECOND), (key_of(1), FlowOverride::Pass, SECOND)];
        let table = table(affinity, &flows);
        reload(&mut chain, &Settings::new().with(Arc::clone(&table)));
        assert_eq!(run(&mut chain, 2), (20, 10), "{affinity:?}");
        let length = whole(1, 2, (7, 0)).len() as u64;
        for entry in table.entries() {
            assert_eq!(entry.flow.counted(), (10, 10 * length));
        }
        assert_eq!(run(&mut chain, SECOND), (30, 0), "its time is over");
        table.entries().iter().for_each(|entry| entry.flow.set_until(3 * SECOND));
        assert_eq!(run(&mut chain, 2 * SECOND), (20, 10));
        reload(&mut chain, &Settings::new().with(Arc::new(OverrideTable::default())));
        assert_eq!(run(&mut chain, 2 * SECOND), (30, 0));
        let row = &chain.rows()[1];
        assert!(row.closes() && row.drops[0].name == "shunted_by_hand", "{row:?}");
        assert_eq!(row.drops[0].packets, 20);
    }
}

#[test]
fn flows_are_found_by_their_community_id() {
    let mut chain = chain(Affinity::FiveTuple);
    let (send, found) = sync_channel(1);
    let digests = [1, 2].map(|i| community_digest(&key_of(i), 0).unwrap());
    let search = Some(Arc::new(FlowSearch::new(digests.to_vec(), send)));
    reload(&mut chain, &Settings::new().with(search));
    assert_eq!(run(&mut chain, 1), (30, 0), "nothing is dropped for a search");
    let first = found.try_recv().unwrap();
    assert_eq!((first.key, first.digest), (key_of(1), digests[0]));
    assert!(found.try_recv().is_err(), "there was room for one");
    run(&mut chain, 2);
    assert_eq!(found.try_recv().unwrap().key, key_of(2));
    run(&mut chain, 3);
    assert!(found.try_recv().is_err(), "each flow is tried once");
    reload(&mut chain, &Settings::new().with(None::<Arc<FlowSearch>>));
    run(&mut chain, 4);
}

#[test]
fn flows_that_are_to_pass_are_not_cut_off() {
    let mut stages = GroupStages::default();
    let kind = OPTIONAL.iter().find(|stage| stage.key == "cutoff").unwrap();
    stages.add(kind, toml::toml! { bytes = "1B" }.into()).unwrap();
    let mut chain = chain(Affinity::FiveTuple)
        .with_optional(Place::BehindFragments, HashKey::OFFLINE)
        .configured(&Settings::new().with(stages));
    let table = table(Affinity::FiveTuple, &[(key_of(1), FlowOverride::Pass, SECOND)]);
    reload(&mut chain, &Settings::new().with(table));
    assert_eq!(run(&mut chain, 1), (12, 10), "the first of each other flow passes");
}
