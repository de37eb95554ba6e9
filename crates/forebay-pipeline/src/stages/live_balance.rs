//! Gives every packet its output on a live link, where buckets move between sensors.

use forebay_balance::NO_SENSOR;
use forebay_balance::moves::{PacketFacts, TcpSignal, Worker};
use forebay_packet::{Batch, Decoded, Decoder, FlowKey, HashKey, LiveMask};

use super::expectations::Follow;
use super::shunt::{Shunt, ShuntRule, ShuntedFlow, Verdict};
use crate::stage::{Outbox, Promises, Setting, Settings, Stage, StageError};

/// Finds the sensor of each packet, for one thread.
pub trait Steering: Send {
    /// A batch begins at the time `now` of the monotonic clock, in nanoseconds. Packets of
    /// the batch before have been counted.
    fn begin(&mut self, now: u64);

    /// No batch is under way, and none may come for a while.
    fn rest(&mut self);

    /// Puts into `sensors` the sensor of each packet, [`NO_SENSOR`] where there is none.
    /// Packets are known by their hash; what else there is to know of packet `i` is asked
    /// of `facts(i)` once in a while.
    fn assign(
        &mut self,
        hashes: &[u64],
        sensors: &mut Vec<u16>,
        facts: &dyn Fn(usize) -> PacketFacts,
    );

    /// Counts packets by their hash and bytes on the wire.
    fn count(&mut self, hashes: &[u64], bytes: &[u32]);
}

impl Steering for Worker {
    fn begin(&mut self, now: u64) {
        Self::begin(self, now);
    }

    fn rest(&mut self) {
        Self::rest(self);
    }

    fn assign(
        &mut self,
        hashes: &[u64],
        sensors: &mut Vec<u16>,
        facts: &dyn Fn(usize) -> PacketFacts,
    ) {
        Self::assign(self, hashes, sensors, facts);
    }

    fn count(&mut self, hashes: &[u64], bytes: &[u32]) {
        Self::count(self, hashes, bytes);
    }
}

/// The sensors that packets are spread over while none is up; with an empty list they are
/// dropped.
pub struct SpareSensors(pub Vec<u16>);

impl Setting for SpareSensors {}

/// Which flows are shunted and to where, or none any more.
impl Setting for Option<ShuntRule> {}

/// The flows that were named last as too big, also if they are known.
impl Setting for Vec<ShuntedFlow> {}

/// Sets each packet's output to the sensor that its bucket, or its record, names; counts
/// it for the balancer; drops those that no sensor takes.
pub struct LiveBalance {
    worker: Box<dyn Steering>,
    facts: Facts,
    shunt: Shunt,
    /// Packets of shunted flows, and their sensors.
    shunted: Vec<(usize, u16)>,
    /// Where packets go while no sensor is up.
    spare: Vec<u16>,
    /// Of the live packets of a batch, where some are not.
    hashes: Vec<u64>,
    bytes: Vec<u32>,
    places: Vec<usize>,
    sensors: Vec<u16>,
}

impl LiveBalance {
    /// Steers by `worker`, which only this stage uses. `decoder` is that of the
    /// group, `connections` whether its key is that of a transport connection.
    #[must_use]
    pub fn new(worker: Box<dyn Steering>, decoder: Decoder, connections: bool) -> Self {
        Self {
            worker,
            facts: Facts { decoder, connections, follow: None },
            shunt: Shunt::default(),
            shunted: Vec::new(),
            spare: Vec::new(),
            hashes: Vec::new(),
            bytes: Vec::new(),
            places: Vec::new(),
            sensors: Vec::new(),
        }
    }

    /// The same behind [`super::Expectations`]: keys of control connections and their data
    /// flows, hashed with `hash_key`, are several connections each.
    #[must_use]
    pub fn following(mut self, follow: Follow, hash_key: HashKey) -> Self {
        self.facts.follow = Some((follow, hash_key));
        self
    }

    /// Takes the packets of shunted flows out, but for those that an operator exempts; returns
    /// how many it dropped.
    fn divert(&mut self, batch: &mut Batch) -> u64 {
        self.shunted.clear();
        let mut dropped = 0;
        for i in batch.live().without(&batch.exempt).iter() {
            match self.shunt.judge(batch, i, || flow_of(&self.facts.decoder, batch, i)) {
                Verdict::AsUsual => {}
                Verdict::To(sensor) => self.shunted.push((i, sensor)),
                Verdict::Drop => {
                    batch.drop_packet(i);
                    dropped += 1;
                }
            }
        }
        dropped
    }

    /// Gives out sensors where all packets are live: their columns are used as they are.
    fn steer_all(&mut self, batch: &mut Batch) {
        let Self { worker, facts, sensors, .. } = self;
        worker.assign(&batch.hash, sensors, &|i| facts.of(batch, i));
        worker.count(&batch.hash, batch.wire_lens());
        batch.output.clear();
        batch.output.extend_from_slice(sensors);
    }

    /// Gives out sensors where some packets were dropped.
    fn steer_live(&mut self, batch: &mut Batch) {
        let Self { worker, facts, hashes, bytes, places, sensors, shunted, .. } = self;
        hashes.clear();
        bytes.clear();
        places.clear();
        let mut apart = shunted.iter().map(|&(i, _)| i).peekable();
        for i in batch.live().iter() {
            if apart.next_if_eq(&i).is_some() {
                continue;
            }
            hashes.push(batch.hash[i]);
            bytes.push(batch.wire_len(i));
            places.push(i);
        }
        worker.assign(hashes, sensors, &|i| facts.of(batch, places[i]));
        worker.count(hashes, bytes);
        let packets = batch.len();
        batch.output.clear();
        batch.output.resize(packets, NO_SENSOR);
        for (&i, &sensor) in places.iter().zip(&*sensors) {
            batch.output[i] = sensor;
        }
        for &(i, sensor) in &*shunted {
            batch.output[i] = sensor;
        }
    }

    /// Drops the packets that no sensor takes, unless one is to be found for them. Returns
    /// how many.
    fn drop_others(&self, batch: &mut Batch) -> u64 {
        if !batch.output.iter().fold(false, |any, &sensor| any | (sensor == NO_SENSOR)) {
            return 0;
        }
        let taken = LiveMask::of(&batch.output, |sensor| sensor != NO_SENSOR);
        let live = batch.live();
        if live.and(&taken) == live {
            return 0;
        }
        let mut dropped = 0;
        for i in live.iter().filter(|&i| !taken.contains(i)) {
            let spare = spare_of(&self.spare, batch.hash[i]);
            batch.output[i] = spare;
            if spare == NO_SENSOR {
                batch.drop_packet(i);
                dropped += 1;
            }
        }
        dropped
    }
}

/// One of the spare sensors, always the same for a flow.
fn spare_of(spare: &[u16], hash: u64) -> u16 {
    match spare.len() as u64 {
        0 => NO_SENSOR,
        n => spare[(((hash >> 32) * n) >> 32) as usize],
    }
}

/// What the headers of packet `i` say.
fn decode(decoder: &Decoder, batch: &Batch, i: usize) -> Decoded {
    decoder.decode(batch.interface(i).link, batch.packet(i))
}

/// The flow of packet `i`.
pub(super) fn flow_of(decoder: &Decoder, batch: &Batch, i: usize) -> FlowKey {
    batch.flow(i).map_or_else(|| decode(decoder, batch, i).key, |(key, _)| key)
}

/// How packets are looked at whose flow is asked for, once in a while.
struct Facts {
    decoder: Decoder,
    /// Whether a key is one connection, so that TCP's flags say when it ends.
    connections: bool,
    /// The control connections whose data flows have their key.
    follow: Option<(Follow, HashKey)>,
}

impl Facts {
    /// Whether other connections have the hash of a flow, too.
    fn is_shared(&self, hash: u64, flow: &FlowKey) -> bool {
        self.follow.as_ref().is_some_and(|(follow, hash_key)| {
            follow.control(flow).is_some() || flow.hash(hash_key) != hash
        })
    }

    /// What there is to know of packet `i`.
    fn of(&self, batch: &Batch, i: usize) -> PacketFacts {
        let decoded = decode(&self.decoder, batch, i);
        // The flow of a later fragment is that of its first.
        let (key, reversed) = batch.flow(i).unwrap_or((decoded.key, decoded.reversed));
        let is_one = self.connections && !self.is_shared(batch.hash[i], &key);
        let signal = |flags| TcpSignal::of_flags(flags, reversed);
        let tcp = decoded.tcp_flags.filter(|_| is_one).map_or(TcpSignal::Nothing, signal);
        PacketFacts { key, tcp, bytes: batch.wire_len(i) }
    }
}

impl Stage for LiveBalance {
    fn name(&self) -> &'static str {
        "balance"
    }

    fn drop_names(&self) -> &'static [&'static str] {
        &["no_sensor", "shunted"]
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        if self.shunt.is_idle() {
            self.shunted.clear();
        } else {
            let dropped = self.divert(&mut batch);
            out.dropped(1, dropped);
        }
        if self.shunted.is_empty() && batch.live().count() == batch.len() {
            self.steer_all(&mut batch);
        } else {
            self.steer_live(&mut batch);
        }
        let dropped = self.drop_others(&mut batch);
        out.dropped(0, dropped);
        out.emit(batch);
        Ok(())
    }

    fn reload(&mut self, settings: &Settings) {
        if let Some(spare) = settings.get::<SpareSensors>() {
            self.spare.clone_from(&spare.0);
        }
        if let Some(rule) = settings.get::<Option<ShuntRule>>() {
            self.shunt.set_rule(*rule);
        }
        if let Some(flows) = settings.get::<Vec<ShuntedFlow>>() {
            self.shunt.add(flows);
        }
    }

    fn begin(&mut self, now: u64) {
        self.worker.begin(now);
        self.shunt.begin(now);
    }

    fn rest(&mut self) {
        self.worker.rest();
    }

    fn tick(&mut self, now: u64, _out: &mut Outbox) -> Result<(), StageError> {
        // Who never rests does not hold up moves while there are no packets.
        self.worker.begin(now);
        Ok(())
    }
}
