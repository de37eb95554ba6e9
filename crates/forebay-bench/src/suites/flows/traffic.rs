//! Flows by number, and the order in which their packets come.

use forebay_flow::ShortKey;
use forebay_packet::FlowKey;
use forebay_packet::flow::AddressKind;
use forebay_packet::random::{Random, mix};

use crate::named::named;
use crate::peers::rte_hash::Key;

/// TCP.
const PROTOCOL: u8 = 6;

/// The network of IPv6 addresses, that of documentation (RFC 3849).
const NETWORK: u128 = 0x2001_0db8 << 96;

/// The two ends of flow `flow`, whose first address is its number.
fn ends(flow: u32) -> [(u32, u16); 2] {
    let drawn = mix(flow.into());
    [(flow, drawn as u16), ((drawn >> 16) as u32, 443)]
}

/// The key of a flow for our table.
pub fn short_key(flow: u32) -> ShortKey {
    let [a, b] = ends(flow).map(|(address, port)| (u128::from(address), port));
    let (key, _) = FlowKey::two_way(AddressKind::Ipv4, PROTOCOL, a, b);
    let short = ShortKey::new(&FlowKey { has_ports: true, ..key });
    short.expect("its addresses are those of IPv4")
}

/// The key of a flow for our table of whole keys: one between IPv6 addresses.
pub fn whole_key(flow: u32) -> FlowKey {
    let key = short_key(flow).whole();
    let [low, high] = [key.low, key.high].map(|address| address | NETWORK);
    FlowKey { kind: AddressKind::Ipv6, low, high, ..key }
}

/// The whole key of a flow for DPDK's table.
pub fn peer_whole_key(flow: u32) -> Key<12> {
    let FlowKey { low, high, scope, port_low, port_high, protocol, kind, .. } = whole_key(flow);
    let word = |value: u128, at: usize| (value >> (32 * at)) as u32;
    let ports = u32::from(port_low) | u32::from(port_high) << 16;
    let others = [u128::from(scope) as u32, ports, protocol.into(), kind as u32];
    std::array::from_fn(|at| match at {
        0..4 => word(low, at),
        4..8 => word(high, at - 4),
        _ => others[at - 8],
    })
}

/// The key of a flow for the others, ready made as ours.
pub fn peer_key(flow: u32) -> Key {
    let [(a, a_port), (b, b_port)] = ends(flow);
    [a, b, u32::from(a_port) | u32::from(b_port) << 16, PROTOCOL.into()]
}

/// The state that look-ups find.
pub fn state(flow: u32) -> u16 {
    mix(u64::from(flow) ^ 0x5354_4154) as u16
}

named! {
    /// How the flows of look-ups are drawn.
    pub enum Input {
        /// All alike.
        Uniform = "uniform",
        /// Flow k in proportion to 1/k.
        Zipf = "zipf",
    }
}

impl Input {
    /// `count` of `flows` flows.
    pub fn draw(self, random: &mut Random, flows: u32, count: usize) -> Vec<u32> {
        match self {
            Self::Uniform => (0..count).map(|_| random.below(flows.into()) as u32).collect(),
            Self::Zipf => (0..count).map(|_| zipf(random, flows)).collect(),
        }
    }
}

/// A prime that divides no number of flows here: ranks are spread over the numbers of flows, as
/// tables were filled by these.
const SPREAD: u64 = 2_654_435_761;

/// A flow by Zipf's law with exponent 1, by rejection-inversion (Hörmann and Derflinger,
/// "Rejection-inversion to generate variates from monotone discrete distributions", 1996).
fn zipf(random: &mut Random, flows: u32) -> u32 {
    let (low, high) = (1.5_f64.ln() - 1.0, (f64::from(flows) + 0.5).ln());
    let at_once = 2.0 - (2.5_f64.ln() - 0.5).exp();
    loop {
        let unit = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let at = high + unit * (low - high);
        let rank = at.exp().round().clamp(1.0, flows.into());
        if rank - at.exp() <= at_once || at >= (rank + 0.5).ln() - 1.0 / rank {
            return (rank as u64 * SPREAD % u64::from(flows)) as u32;
        }
    }
}

/// Part of the packets that are the first of their flows: one in so many.
pub const NEW_ONE_IN: usize = 10;

/// Epochs of silence that end a flow.
pub const LIFETIME: u8 = 40;

/// A stream in which flows begin and end. It goes in rounds: in each, every flow under way has a
/// packet, in a random order, and after every ninth one the flow is over and another begins. So
/// a flow under way is never silent for longer than two rounds.
#[derive(Debug)]
pub struct Stream {
    /// The flows under way, and their packets so far.
    live: Vec<(u32, u16)>,
    /// The next one of this round.
    at: usize,
    /// The number of the next new flow, whose first packet may be next.
    next: u32,
    is_begun: bool,
    random: Random,
}

impl Stream {
    /// So many flows under way, of which none has had a packet.
    pub fn new(live: usize) -> Self {
        let flows = (0..live as u32).map(|flow| (flow, 0)).collect();
        let random = Random::new(live as u64);
        Self { live: flows, at: 0, next: live as u32, is_begun: false, random }
    }

    /// The flows of the next packets, and how many packets each flow had before, modulo 2^16.
    pub fn draw(&mut self, count: usize) -> (Vec<u32>, Vec<u32>) {
        (0..count).map(|_| self.packet()).unzip()
    }

    fn packet(&mut self) -> (u32, u32) {
        let ninth = NEW_ONE_IN - 1;
        let is_due = self.at > 0 && self.at.is_multiple_of(ninth);
        if is_due && !std::mem::take(&mut self.is_begun) {
            self.is_begun = true;
            let flow = self.next;
            self.next += 1;
            self.live[self.at - 1] = (flow, 1);
            return (flow, 0);
        }
        if self.at == self.live.len() {
            self.at = 0;
            self.is_begun = false;
            for last in (1..self.live.len()).rev() {
                self.live.swap(last, self.random.index(last + 1));
            }
        }
        let (flow, packets) = &mut self.live[self.at];
        self.at += 1;
        let before = *packets;
        *packets = before.wrapping_add(1);
        (*flow, before.into())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn one_packet_in_ten_is_new_and_no_flow_is_silent_for_long() {
        const LIVE: usize = 999;
        let mut stream = Stream::new(LIVE);
        let mut seen: HashMap<u32, (usize, u32)> = HashMap::new();
        let (flows, before) = stream.draw(20 * LIVE);
        for (at, (flow, before)) in flows.into_iter().zip(before).enumerate() {
            let (last, packets) = seen.get(&flow).copied().unwrap_or((at, 0));
            assert_eq!(before, packets, "packet {at}");
            assert!(at - last <= 2 * LIVE * NEW_ONE_IN / (NEW_ONE_IN - 1) + 2);
            seen.insert(flow, (at, packets + 1));
        }
        let new = seen.len() - LIVE;
        assert!(new.abs_diff(20 * LIVE / NEW_ONE_IN) <= 20, "{new}");
    }

    #[test]
    fn draws_follow_the_law() {
        let flows = 1_000;
        let count = 200_000;
        let drawn = Input::Zipf.draw(&mut Random::new(1), flows, count);
        let harmonic: f64 = (1..=flows).map(|rank| 1.0 / f64::from(rank)).sum();
        for rank in [1, 2, 10, 500] {
            let flow = (rank * SPREAD % u64::from(flows)) as u32;
            let found = drawn.iter().filter(|&&one| one == flow).count() as f64;
            let expected = count as f64 / (harmonic * rank as f64);
            let sigma = expected.sqrt();
            assert!((found - expected).abs() < 5.0 * sigma, "{rank}: {found}, not {expected}");
        }
        let most = Input::Uniform.draw(&mut Random::new(1), flows, count);
        assert!(most.iter().all(|&flow| flow < flows));
    }

    #[test]
    fn keys_differ() {
        let mut keys: Vec<Key> = (0..10_000).map(peer_key).collect();
        let mut short: Vec<ShortKey> = (0..10_000).map(short_key).collect();
        keys.sort_unstable();
        keys.dedup();
        short.sort_unstable();
        short.dedup();
        let mut whole: Vec<FlowKey> = (0..10_000).map(whole_key).collect();
        whole.sort_unstable();
        whole.dedup();
        let mut peer: Vec<Key<12>> = (0..10_000).map(peer_whole_key).collect();
        peer.sort_unstable();
        peer.dedup();
        assert_eq!([keys.len(), short.len(), whole.len(), peer.len()], [10_000; 4]);
    }
}
