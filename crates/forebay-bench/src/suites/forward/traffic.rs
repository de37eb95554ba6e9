//! Frames: probes of many flows, of one size or in a mix, from one station.

use std::fmt;

use forebay_bpf::programs::generator::{Flows, Generator, HEAD};
use forebay_gen::probe::{Probe, ProbeFrame};
use forebay_packet::MacAddress;

use crate::failure::Result;
use forebay_packet::random::Random;

/// Flows, each as often as any other.
pub const FLOWS: u32 = 4096;

/// Bytes of the frame check sequence, which sizes include and virtual interfaces lack.
pub const CHECK_SEQUENCE: usize = 4;

/// The sizes of the mix, with their weights.
const MIX: [(usize, usize); 3] = [(64, 7), (570, 4), (1518, 1)];

/// The offset of a probe's number.
const NUMBER_AT: usize = 50;

/// The source address, and the destination before a forwarder sets it.
const FROM: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 0x01]);
const TO: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 0x99]);

/// Stations that frames are spread over.
pub const SENSORS: [MacAddress; 4] = [
    MacAddress([0x02, 0, 0, 0, 1, 0x01]),
    MacAddress([0x02, 0, 0, 0, 1, 0x02]),
    MacAddress([0x02, 0, 0, 0, 1, 0x03]),
    MacAddress([0x02, 0, 0, 0, 1, 0x04]),
];

/// The size of frames, with the frame check sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Bytes(usize),
    /// 64, 570 and 1,518 bytes as 7 to 4 to 1.
    Imix,
}

impl Size {
    pub const ALL: [Self; 8] = [
        Self::Bytes(64),
        Self::Bytes(128),
        Self::Bytes(256),
        Self::Bytes(512),
        Self::Bytes(1024),
        Self::Bytes(1500),
        Self::Bytes(1518),
        Self::Imix,
    ];

    pub const QUICK: [Self; 2] = [Self::Bytes(64), Self::Bytes(1500)];

    fn longest(self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Imix => 1518,
        }
    }

    /// The size of each flow's frames.
    fn of_flow(self, flow: u32) -> usize {
        let Self::Bytes(bytes) = self else {
            let weights: usize = MIX.iter().map(|(_, weight)| weight).sum();
            let mut place = flow as usize % weights;
            let chosen = MIX.iter().find(|(_, weight)| {
                let here = place < *weight;
                place = place.saturating_sub(*weight);
                here
            });
            return chosen.map_or(MIX[0].0, |(bytes, _)| *bytes);
        };
        bytes
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Imix => f.write_str("imix"),
        }
    }
}

/// The destination of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressed {
    /// Each flow to a sensor, for forwarders that do not choose.
    ToSensors,
    /// All to one station, for forwarders that spread them.
    ToOne,
}

/// Frames of some size with a loaded generator.
pub struct Traffic {
    pub generator: Generator,
    /// The frame that the generator's frames are made of.
    pub frame: Vec<u8>,
    /// Bytes of a frame on average, with the frame check sequence.
    pub mean: f64,
}

impl Traffic {
    pub fn new(size: Size, addressed: Addressed) -> Result<Self> {
        let longest = size.longest() - CHECK_SEQUENCE;
        let sizes: Vec<usize> = (0..FLOWS).map(|flow| size.of_flow(flow)).collect();
        let heads: Vec<[u8; HEAD]> = (0..FLOWS)
            .map(|flow| {
                let to = match addressed {
                    Addressed::ToSensors => sensor_of(flow),
                    Addressed::ToOne => TO,
                };
                let len = sizes[flow as usize] - CHECK_SEQUENCE;
                let mut head = [0; HEAD];
                let mut frame = ProbeFrame::new(len, to, FROM);
                head.copy_from_slice(&frame.with(Probe { flow, sequence: 0, run: 0 })[..HEAD]);
                head
            })
            .collect();
        let cuts: Vec<u16> = match size {
            Size::Bytes(_) => Vec::new(),
            Size::Imix => {
                sizes.iter().map(|size| (longest + CHECK_SEQUENCE - size) as u16).collect()
            }
        };
        let order = Random::new(1).draw(FLOWS as usize, FLOWS as usize);
        let flows = Flows { heads: &heads, cuts: &cuts, order: &order, number_at: NUMBER_AT };
        let generator = Generator::load(&flows)?;
        let mean = sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
        Ok(Self { generator, frame: vec![0; longest], mean })
    }
}

/// The sensor of a flow for forwarders that do not choose.
pub fn sensor_of(flow: u32) -> MacAddress {
    SENSORS[flow as usize % SENSORS.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_has_its_weights() {
        let flows: Vec<usize> = (0..12 * 300).map(|flow| Size::Imix.of_flow(flow)).collect();
        for (bytes, weight) in MIX {
            assert_eq!(flows.iter().filter(|&&size| size == bytes).count(), weight * 300);
        }
        assert!(Size::ALL.iter().all(|size| size.longest() <= 1518 && size.of_flow(5) >= 64));
        assert_eq!(Size::ALL.map(|size| size.to_string())[7], "imix");
    }
}
