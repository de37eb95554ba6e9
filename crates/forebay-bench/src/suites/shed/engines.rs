//! What decides which packets a sensor gets.

use std::sync::Arc;

use forebay_flow::policy::Count;
use forebay_flow::shed::{Arrival, Limit, OnOverload, Shedder};

use super::traffic::{LOST, Packet};
use crate::failure::Result;

/// The most packets of a batch, and their time in nanoseconds.
const BATCH: usize = 256;
const BATCH_TIME: u64 = 200_000;

pub trait Engine {
    /// The next packets arrive.
    fn pass(&mut self, packets: &[Packet]);

    /// When each packet so far passed, or [`LOST`].
    fn passed(&self) -> &[u64];
}

/// A sensor with a queue, which drops what arrives while it is full: as long as what it takes in
/// 100 ms, and emptied at the sensor's rate.
#[derive(Debug)]
pub struct TailDrop {
    /// Nanoseconds that the sensor takes for a packet.
    each: f64,
    room: f64,
    /// When the last packet of the queue will be done.
    done: f64,
    passed: Vec<u64>,
}

impl TailDrop {
    pub fn new(pps: u64) -> Self {
        let each = 1e9 / pps as f64;
        Self { each, room: 1e8, done: 0.0, passed: Vec::new() }
    }
}

impl Engine for TailDrop {
    fn pass(&mut self, packets: &[Packet]) {
        for packet in packets {
            let now = packet.at as f64;
            let done = self.done.max(now) + self.each;
            let fits = done - now <= self.room;
            if fits {
                self.done = done;
            }
            self.passed.push(if fits { packet.at } else { LOST });
        }
    }

    fn passed(&self) -> &[u64] {
        &self.passed
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    prior: Count,
    state: u16,
}

/// A policy of the broker.
#[derive(Debug)]
pub struct Policy {
    shedder: Shedder,
    flows: Vec<Flow>,
    passed: Vec<u64>,
}

impl Policy {
    pub fn new(limit: Arc<Limit>, policy: OnOverload, seed: u64, flows: usize) -> Result<Self> {
        let shedder = Shedder::new(limit, policy, seed)?;
        Ok(Self { shedder, flows: vec![Flow::default(); flows], passed: Vec::new() })
    }

    fn batch(&mut self, packets: &[Packet], now: u64) {
        let Self { shedder, flows, passed } = self;
        let offered = packets.iter().map(|packet| Count::of(packet.len)).sum();
        let decides = shedder.begin(now, offered);
        for packet in packets {
            let flow = &mut flows[packet.flow as usize];
            let arrival = Arrival {
                flow: packet.flow,
                len: packet.len,
                prior: flow.prior,
                is_first: flow.prior.packets == 0,
                is_end: packet.is_end,
                is_suspect: false,
                label: None,
            };
            flow.prior += Count::of(packet.len);
            let passes = !decides || shedder.packet(&arrival, &mut flow.state).is_none();
            passed.push(if passes { now } else { LOST });
        }
        if decides {
            shedder.end();
        }
    }
}

impl Engine for Policy {
    fn pass(&mut self, mut packets: &[Packet]) {
        while let Some(first) = packets.first() {
            let is_in = |packet: &&Packet| packet.at < first.at + BATCH_TIME;
            let len = packets.iter().take(BATCH).take_while(is_in).count();
            let (batch, rest) = packets.split_at(len);
            self.batch(batch, batch[len - 1].at);
            packets = rest;
        }
    }

    fn passed(&self) -> &[u64] {
        &self.passed
    }
}
