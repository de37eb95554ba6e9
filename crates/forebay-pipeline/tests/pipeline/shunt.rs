//! Flows that are too big for any sensor go where they are told, and no others.

use std::sync::Arc;

use crate::support::*;
use forebay_balance::moves::{RecordLimits, Worker, WorkerTable};
use forebay_balance::{Assignment, BucketTable, bucket_of};
use forebay_packet::{Batch, DecodeOptions, Decoder};
use forebay_pipeline::stages::{LiveBalance, ShuntRule, ShuntTo, ShuntedFlow};
use forebay_pipeline::{Chain, Outbox, Promises, Settings, Stage, StageError};

const IDLE: u64 = SECOND;

fn chain() -> (Chain, Arc<WorkerTable>) {
    let table = BucketTable::new(&Assignment::of_weights(&[1, 1]).unwrap());
    let forwarding = Arc::new(WorkerTable::new(table, 1, IDLE, RecordLimits::default()));
    let worker = Box::new(Worker::new(Arc::clone(&forwarding), 0));
    let decoder = Decoder::new(DecodeOptions::default());
    (Chain::new().with(classify()).with(LiveBalance::new(worker, decoder, true)), forwarding)
}

/// Ten packets of each of three flows in turn; the first is big.
fn traffic() -> Vec<(u64, Vec<u8>)> {
    (0..30).map(|i| (i, whole(1, 2, (7, (i % 3) as u16)))).collect()
}

fn run(chain: &mut Chain) -> Vec<Batch> {
    chain.begin(1);
    through(chain, batches(&traffic(), 30))
}

/// The settings that shunt the flow of the first packet.
fn shunting(to: ShuntTo, after: u64) -> Settings {
    let batch = through(&mut Chain::new().with(classify()), batches(&traffic(), 1)).remove(0);
    let flow =
        Decoder::new(DecodeOptions::default()).decode(batch.interface(0).link, batch.packet(0));
    let named = ShuntedFlow { number: 1, bucket: bucket_of(batch.hash[0]), key: flow.key };
    Settings::new().with(Some(ShuntRule { to, after, idle: IDLE })).with(vec![named])
}

/// Packets that went out, and those of the big flow by sensor.
fn seen(out: &[Batch]) -> (usize, [usize; 4]) {
    let (mut all, mut big) = (0, [0; 4]);
    for batch in out {
        for i in batch.live().iter() {
            all += 1;
            if batch.packet(i)[36..38] == [0, 0] {
                big[usize::from(batch.output[i])] += 1;
            }
        }
    }
    (all, big)
}

#[test]
fn a_big_flow_is_dropped_sampled_or_sent_to_its_sensor_and_others_are_not() {
    let length = whole(1, 2, (7, 0)).len() as u64;
    let (mut chain, _) = chain();
    let (all, big) = seen(&run(&mut chain));
    assert_eq!((all, big.iter().sum::<usize>()), (30, 10));
    reload(&mut chain, &shunting(ShuntTo::Nowhere, 4 * length));
    assert_eq!(seen(&run(&mut chain)).0, 24, "four of it were still let through");
    reload(&mut chain, &shunting(ShuntTo::Sample(5), 4 * length));
    assert_eq!(seen(&run(&mut chain)).0, 22, "two of ten");
    reload(&mut chain, &shunting(ShuntTo::Sensor(3), 0));
    let (all, big) = seen(&run(&mut chain));
    assert_eq!((all, big), (30, [0, 0, 0, 10]));
    let row = &chain.rows()[1];
    assert!(row.closes() && row.drops[1].name == "shunted" && row.drops[1].packets == 14);
    reload(&mut chain, &Settings::new().with(None::<ShuntRule>));
    assert_eq!(seen(&run(&mut chain)).1[3], 0);
}

/// Exempts all packets, as an operator may.
struct ExemptAll;

impl Stage for ExemptAll {
    fn name(&self) -> &'static str {
        "exempt"
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        batch.exempt = batch.live();
        out.emit(batch);
        Ok(())
    }
}

#[test]
fn a_big_flow_that_is_exempt_goes_on() {
    let table = BucketTable::new(&Assignment::of_weights(&[1, 1]).unwrap());
    let forwarding = Arc::new(WorkerTable::new(table, 1, IDLE, RecordLimits::default()));
    let worker = Box::new(Worker::new(Arc::clone(&forwarding), 0));
    let balance = LiveBalance::new(worker, Decoder::new(DecodeOptions::default()), true);
    let mut chain = Chain::new().with(classify()).with(ExemptAll).with(balance);
    reload(&mut chain, &shunting(ShuntTo::Nowhere, 0));
    assert_eq!(seen(&run(&mut chain)).0, 30);
}

#[test]
fn a_shunted_flow_that_idles_is_forgotten_and_does_not_count_as_load_before() {
    let (mut chain, forwarding) = chain();
    reload(&mut chain, &shunting(ShuntTo::Sensor(1), 0));
    run(&mut chain);
    let counted: u64 =
        (0..=u16::MAX).map(|bucket| forwarding.counters().tally(bucket).packets()).sum();
    assert_eq!(counted, 20, "the others");
    chain.begin(3 * SECOND);
    let out = through(&mut chain, batches(&traffic(), 30));
    assert_eq!(seen(&out).0, 30);
    let counted: u64 =
        (0..=u16::MAX).map(|bucket| forwarding.counters().tally(bucket).packets()).sum();
    assert_eq!(counted, 50);
    // The same number is not taken up again.
    reload(&mut chain, &shunting(ShuntTo::Nowhere, 0));
    assert_eq!(seen(&run(&mut chain)).0, 30);
}
