//! The generator's traffic as packets of numbered flows.

use std::collections::HashMap;

use forebay_gen::{Config, Generator};
use forebay_packet::{DecodeOptions, Decoder, FlowKey};

use super::SEED;
use crate::failure::Result;

/// TCP's FIN and RST.
const ENDS: u8 = 1 | 4;

/// The time of a packet that did not pass.
pub const LOST: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Nanoseconds since the first packet.
    pub at: u64,
    pub flow: u32,
    pub len: u32,
    pub is_end: bool,
}

/// Packets of each flow.
#[derive(Debug, Default)]
pub struct Flows(Vec<u32>);

impl Flows {
    /// The packets of a long flow, at least.
    pub const LONG: u32 = 10;

    pub fn all(&self) -> usize {
        self.0.len()
    }

    pub fn long(&self) -> usize {
        self.0.iter().filter(|&&packets| packets >= Self::LONG).count()
    }

    /// Of the flows of at least so many packets, the part that is complete.
    pub fn part(&self, complete: &[bool], least: u32) -> f64 {
        let flows = self.0.iter().zip(complete).filter(|(packets, _)| **packets >= least);
        let (all, whole) = flows.fold((0, 0), |(all, whole), (_, is_complete)| {
            (all + 1, whole + i32::from(*is_complete))
        });
        f64::from(whole) / f64::from(all)
    }

    /// The smallest flows, as many as have so many packets together: no policy can have more
    /// complete, whatever it knows of the future.
    pub fn smallest(&self, packets: f64) -> Vec<bool> {
        let mut order: Vec<usize> = (0..self.0.len()).collect();
        order.sort_by_key(|&flow| self.0[flow]);
        let (mut complete, mut left) = (vec![false; self.0.len()], packets);
        for flow in order {
            left -= f64::from(self.0[flow]);
            complete[flow] = left >= 0.0;
        }
        complete
    }
}

#[derive(Debug)]
pub struct Traffic {
    pub packets: Vec<Packet>,
    pub flows: Flows,
}

impl Traffic {
    /// The profile `mix`, ten packets a flow on average.
    pub fn new(packets: u64, rate_pps: u64) -> Result<Self> {
        let flows = packets / 10;
        let config = Config { packets, flows, rate_pps, seed: SEED, ..Config::default() };
        let mut generator = Generator::new(config)?;
        let decoder = Decoder::new(DecodeOptions::default());
        let mut numbers: HashMap<FlowKey, u32> = HashMap::new();
        let (mut packets, mut flows) = (Vec::with_capacity(packets as usize), Vec::new());
        let mut first = None;
        while let Some(batch) = generator.next_batch()? {
            for i in 0..batch.len() {
                let decoded = decoder.decode(batch.interface(i).link, batch.packet(i));
                let next = flows.len() as u32;
                let flow = *numbers.entry(decoded.key).or_insert(next);
                if flow == next {
                    flows.push(0);
                }
                flows[flow as usize] += 1;
                let nanos = batch.nanos(i);
                let at = nanos.abs_diff(*first.get_or_insert(nanos));
                let is_end = decoded.tcp_flags.is_some_and(|flags| flags & ENDS != 0);
                packets.push(Packet { at, flow, len: batch.wire_len(i), is_end });
            }
        }
        Ok(Self { packets, flows: Flows(flows) })
    }

    fn seconds(&self) -> f64 {
        self.packets.last().map_or(0.0, |packet| packet.at as f64 / 1e9)
    }

    /// The mean rate.
    pub fn pps(&self) -> f64 {
        self.packets.len() as f64 / self.seconds()
    }

    /// What a sensor takes in the time of the traffic.
    pub fn capacity(&self, pps: u64) -> f64 {
        pps as f64 * self.seconds()
    }

    /// Whether every packet of a flow passed.
    pub fn complete(&self, passed: &[u64]) -> Vec<bool> {
        let mut complete = vec![true; self.flows.all()];
        for (packet, &passed) in self.packets.iter().zip(passed) {
            complete[packet.flow as usize] &= passed != LOST;
        }
        complete
    }
}

/// The most packets that passed in any time of so many nanoseconds.
pub fn most_in(window: u64, passed: &[u64]) -> usize {
    let times: Vec<u64> = passed.iter().copied().filter(|&at| at != LOST).collect();
    let mut first = 0;
    let counts = times.iter().enumerate().map(|(last, at)| {
        first += times[first..].iter().take_while(|&&begin| at - begin >= window).count();
        last + 1 - first
    });
    counts.max().unwrap_or(0)
}
