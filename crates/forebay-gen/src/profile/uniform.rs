//! UDP frames of one size, each of a uniformly random flow.
//!
//! Every flow must appear. When only as many packets are left as there are flows not yet
//! seen, the rest of the capture has one packet of each of those.

use super::source::{EPOCH, Source};
use crate::config::{Config, FCS};
use crate::headers::{Direction, Frame, UDP_HEADER, protocol, write_udp};
use crate::path::{AddressPlan, Path};
use forebay_packet::random::{Random, fill_at};

const PORT: u16 = 9;

/// Times of packets at a mean rate: a gap of the mean with a random deviation of up to the
/// whole gap.
#[derive(Debug)]
pub struct Arrivals {
    random: Random,
    duration: u64,
    packets: u64,
    sent: u64,
}

impl Arrivals {
    /// The arrivals of a valid configuration.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            random: Random::of_part(config.seed, u64::MAX - 1),
            duration: config.duration(),
            packets: config.packets,
            sent: 0,
        }
    }

    /// Packets left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.packets - self.sent
    }

    /// The time of the next packet, at random within its slot of the capture.
    pub fn next(&mut self) -> u64 {
        let at = |n: u64| {
            (u128::from(self.duration) * u128::from(n) / u128::from(self.packets.max(1))) as u64
        };
        let (begin, end) = (at(self.sent), at(self.sent + 1));
        self.sent += 1;
        EPOCH + begin + self.random.below(end - begin)
    }
}

/// The packet source of the `uniform` profile.
#[derive(Debug)]
pub struct Uniform {
    seed: u64,
    flows: u64,
    captured: usize,
    plan: AddressPlan,
    random: Random,
    arrivals: Arrivals,
    /// One bit a flow.
    seen: Vec<u64>,
    unseen: u64,
    first_unseen: u64,
}

impl Uniform {
    /// The source for a valid configuration.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            seed: config.seed,
            flows: config.flows,
            captured: usize::from(config.size_or_default() - FCS),
            plan: AddressPlan::new(config.flows, config.seed),
            random: Random::of_part(config.seed, u64::MAX),
            arrivals: Arrivals::new(config),
            seen: vec![0; config.flows.div_ceil(64) as usize],
            unseen: config.flows,
            first_unseen: 0,
        }
    }

    fn is_seen(&self, flow: u64) -> bool {
        self.seen[(flow / 64) as usize] >> (flow % 64) & 1 == 1
    }

    /// The flow of the next packet.
    fn draw(&mut self) -> u64 {
        let flow = if self.arrivals.left() <= self.unseen {
            while self.first_unseen + 1 < self.flows && self.is_seen(self.first_unseen) {
                self.first_unseen += 1;
            }
            self.first_unseen
        } else {
            self.random.below(self.flows)
        };
        if !self.is_seen(flow) {
            self.seen[(flow / 64) as usize] |= 1 << (flow % 64);
            self.unseen -= 1;
        }
        flow
    }
}

impl Source for Uniform {
    fn next(&mut self, frame: &mut Frame) -> Option<u64> {
        if self.arrivals.left() == 0 {
            return None;
        }
        let flow = self.draw();
        let mut of_flow = Random::of_part(self.seed, flow);
        let (client, port) = self.plan.client(flow, false);
        let server = self.plan.server(&mut of_flow, false);
        let mut path = Path::new([client, server], [port, PORT], &mut of_flow);
        let key = self.random.next();
        let direction = if key & 1 == 0 { Direction::ToServer } else { Direction::ToClient };
        let len = path.transport_limit(self.captured);
        let header = path.header(direction, protocol::UDP);
        let room = frame.room(&path.encapsulation, direction, &header);
        write_udp(room, path.ports(direction), len - UDP_HEADER);
        fill_at(key, 0, &mut room[UDP_HEADER..len]);
        frame.seal(&path.encapsulation, direction, &header, len);
        Some(self.arrivals.next())
    }
}
