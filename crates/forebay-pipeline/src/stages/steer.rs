//! Gives every packet its output on a live link, where buckets move between sensors.

use forebay_balance::NO_SENSOR;
use forebay_balance::moves::{PacketFacts, TcpSignal, Worker};
use forebay_packet::Batch;
use forebay_rules::Key;

use crate::stage::{Outbox, Promises, Settings, Stage, StageError};

/// Sets each packet's output to the sensor that its bucket, or its record, names; counts
/// it for the balancer; drops those that no sensor takes.
pub struct Steer {
    worker: Worker,
    /// Whether a key is one connection, so that TCP's flags say when it ends.
    connections: bool,
    /// Where packets go while no sensor is up.
    spare: Vec<u16>,
    /// Of the live packets of a batch.
    hashes: Vec<u64>,
    bytes: Vec<u32>,
    places: Vec<usize>,
    sensors: Vec<u16>,
}

impl Steer {
    /// Steers as `worker` says. `connections` is whether the key of the group is that of
    /// a transport connection.
    #[must_use]
    pub fn new(worker: Worker, connections: bool) -> Self {
        Self {
            worker,
            connections,
            spare: Vec::new(),
            hashes: Vec::new(),
            bytes: Vec::new(),
            places: Vec::new(),
            sensors: Vec::new(),
        }
    }

    /// Takes what matters of the live packets out of a batch.
    fn gather(&mut self, batch: &Batch) {
        self.hashes.clear();
        self.bytes.clear();
        self.places.clear();
        for i in batch.live().iter() {
            self.hashes.push(batch.hash[i]);
            self.bytes.push(batch.wire_len(i));
            self.places.push(i);
        }
    }
}

/// One of the spare sensors, always the same for a flow.
fn spare_of(spare: &[u16], hash: u64) -> u16 {
    match spare.len() as u64 {
        0 => NO_SENSOR,
        n => spare[(((hash >> 32) * n) >> 32) as usize],
    }
}

/// What is asked about packet `i`, once in a while.
fn facts_of(batch: &Batch, i: usize, connections: bool) -> PacketFacts {
    let key = batch.key[i];
    // A packet in a tunnel has no TCP header where this looks: its flow ends by idling.
    let outer = connections.then(|| Key::of_packet(batch.interface(i).link, batch.packet(i)));
    let flags = outer.flatten().and_then(|key| key.tcp_flags);
    let signal = |flags| TcpSignal::of_flags(flags, batch.reversed[i]);
    let tcp = flags.map_or(TcpSignal::Nothing, signal);
    PacketFacts { key, tcp, bytes: batch.wire_len(i) }
}

impl Stage for Steer {
    fn name(&self) -> &'static str {
        "balance"
    }

    fn drop_names(&self) -> &'static [&'static str] {
        &["no_sensor"]
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        self.gather(&batch);
        let Self { worker, connections, spare, hashes, bytes, places, sensors } = self;
        worker.assign(hashes, sensors, |i| facts_of(&batch, places[i], *connections));
        worker.count(hashes, bytes);
        batch.output.clear();
        batch.output.resize(batch.len(), NO_SENSOR);
        let mut dropped = 0;
        for ((&i, &hash), &sensor) in places.iter().zip(&*hashes).zip(&*sensors) {
            let sensor = if sensor == NO_SENSOR { spare_of(spare, hash) } else { sensor };
            batch.output[i] = sensor;
            if sensor == NO_SENSOR {
                batch.drop_packet(i);
                dropped += 1;
            }
        }
        out.dropped(0, dropped);
        out.emit(batch);
        Ok(())
    }

    fn reload(&mut self, settings: &Settings) {
        if let Some(spare) = &settings.spare {
            self.spare.clone_from(spare);
        }
    }

    fn tick(&mut self, now: u64, _out: &mut Outbox) -> Result<(), StageError> {
        self.worker.begin(now);
        Ok(())
    }
}
