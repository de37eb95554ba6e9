//! Captures of the `mix` profile, examined by a parser of the tests' own.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::common::{End, Inner, Key, Segment, ones_sum, packets_of, parse};
use forebay_gen::{Config, Framing, Profile};
use proptest::prelude::*;

fn config(packets: u64, flows: u64, seed: u64) -> Config {
    Config { packets, flows, seed, ..Config::default() }
}

/// Packets of each flow; every later fragment must have a first.
fn flows_of(packets: &[(u64, Vec<u8>)]) -> HashMap<Key, u64> {
    let mut flows: HashMap<Key, u64> = HashMap::new();
    let mut owners = HashMap::new();
    let mut later = Vec::new();
    for (_, packet) in packets {
        let parsed = parse(packet);
        match parsed.inner {
            Inner::Flow(key) => {
                *flows.entry(key.clone()).or_default() += 1;
                if let Some((fragment, ..)) = parsed.fragment {
                    owners.insert(fragment, key);
                }
            }
            Inner::Later => later.extend(parsed.fragment.map(|(fragment, ..)| fragment)),
        }
    }
    for fragment in later {
        *flows.get_mut(&owners[&fragment]).unwrap() += 1;
    }
    flows
}

#[test]
fn counts_are_exact_and_popularity_is_zipf() {
    let (packets, flows) = (120_000, 12_000);
    let capture = packets_of(config(packets, flows, 3));
    assert_eq!(capture.len() as u64, packets);
    let counts = flows_of(&capture);
    assert_eq!(counts.len() as u64, flows);
    assert_eq!(counts.values().sum::<u64>(), packets);
    let mut counts: Vec<u64> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    // One in the harmonic number of 12,000, which is 9.970.
    let first = packets * 1_000 / 9_970;
    for rank in [1, 2, 5, 20, 100] {
        let expected = first / rank;
        assert!(
            counts[rank as usize - 1].abs_diff(expected) <= expected / 20 + 1,
            "rank {rank}: {} packets, not about {expected}",
            counts[rank as usize - 1]
        );
    }
}

#[test]
fn everything_promised_occurs() {
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut acks, mut full, mut ipv6) = (0, 0, 0);
    let capture = packets_of(config(100_000, 10_000, 11));
    for (_, packet) in &capture {
        let parsed = parse(packet);
        for name in parsed.traits {
            *seen.entry(name).or_default() += 1;
            ipv6 += u64::from(name == "ipv6");
        }
        acks += u64::from(packet.len() <= 90);
        full += u64::from(packet.len() >= 1_450);
        assert!(packet.len() <= 1_514);
    }
    for name in [
        "tcp",
        "dns",
        "ntp",
        "quic",
        "udp",
        "echo",
        "icmp-error",
        "ipv6",
        "vlan",
        "qinq",
        "vxlan",
        "geneve",
        "gre",
        "gtp-u",
        "ipip",
        "6in4",
        "fragment4",
        "fragment6",
    ] {
        assert!(seen.get(name).is_some_and(|&n| n >= 10), "{name}: {seen:?}");
    }
    let total = capture.len() as u64;
    assert!((total / 10..total / 3).contains(&ipv6), "{ipv6} of IPv6");
    assert!(acks > total / 4 && full > total / 4, "{acks} small and {full} full frames");
}

#[test]
fn seeds_decide_every_byte() {
    let digest = |config: Config| {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut put = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        for (time, packet) in packets_of(config) {
            time.to_le_bytes().into_iter().for_each(&mut put);
            packet.into_iter().for_each(&mut put);
        }
        hash
    };
    let one = digest(config(20_000, 2_000, 1));
    assert_eq!(one, digest(config(20_000, 2_000, 1)));
    assert_ne!(one, digest(config(20_000, 2_000, 2)));
    assert_eq!(one, GOLDEN_MIX, "{one:#x}");
    let uniform = Config { profile: Profile::Uniform, ..config(20_000, 2_000, 1) };
    let paper = Config { profile: Profile::Paper, ..uniform };
    assert_eq!(digest(uniform), GOLDEN_UNIFORM, "{:#x}", digest(uniform));
    assert_eq!(digest(paper), GOLDEN_PAPER, "{:#x}", digest(paper));
}

/// FNV-1a of times and bytes: they change only when the generator is changed.
const GOLDEN_MIX: u64 = 0x7265_3667_9d79_02dc;
const GOLDEN_UNIFORM: u64 = 0xb1af_47ff_e8e5_f770;
const GOLDEN_PAPER: u64 = 0xaab2_513a_850a_dfe4;

#[test]
fn times_ascend_at_the_rate_asked_for() {
    for (packets, flows, rate_pps) in
        [(100_000, 10_000, 100_000), (50_000, 500, 1_000), (50_000, 20_000, 5_000_000)]
    {
        let capture = packets_of(Config { rate_pps, ..config(packets, flows, 5) });
        assert!(capture.is_sorted_by(|a, b| a.0 < b.0));
        let span = capture.last().unwrap().0 - capture[0].0;
        let expected = packets * 1_000_000_000 / rate_pps;
        assert!(span.abs_diff(expected) < expected / 10, "{span} ns, not about {expected}");
        // The load is spread: no tenth of the time has more than three times its
        // share of the packets.
        let mut tenths = [0_u64; 11];
        for (time, _) in &capture {
            tenths[((time - capture[0].0) * 10 / (span + 1)) as usize] += 1;
        }
        assert!(tenths.iter().all(|&n| n < packets * 3 / 10), "{tenths:?}");
        assert!(tenths[..10].iter().all(|&n| n > packets / 50), "{tenths:?}");
    }
}

/// One direction of a connection, as far as the tap has seen it.
#[derive(Default)]
struct Stream {
    first: u32,
    /// Bytes from the first sequence number on; nothing where none was seen.
    bytes: Vec<Option<u8>>,
    /// How many of them are there without a gap.
    whole: usize,
    acknowledged: u32,
    ended: bool,
}

impl Stream {
    /// Sequence number behind what is there without a gap.
    fn contiguous(&mut self) -> u32 {
        while self.bytes.get(self.whole).is_some_and(Option::is_some) {
            self.whole += 1;
        }
        self.first.wrapping_add(self.whole as u32)
    }

    /// Adds a segment; returns how many of its bytes were there before.
    fn add(&mut self, segment: &Segment) -> usize {
        if segment.flags & 2 != 0 {
            if !self.bytes.is_empty() {
                assert_eq!(self.first, segment.sequence, "a repeated SYN has its number");
                return 1;
            }
            self.first = segment.sequence;
            self.bytes.push(Some(0));
        }
        let at =
            segment.sequence.wrapping_sub(self.first) as usize + (segment.flags >> 1 & 1) as usize;
        let fin = segment.flags & 1 != 0;
        assert!(at <= self.bytes.len() + 4 * 1_460, "a jump of the sequence number");
        let end = at + segment.payload.len() + usize::from(fin);
        if self.bytes.len() < end {
            assert!(!self.ended, "data behind a FIN");
            self.bytes.resize(end, None);
        }
        self.ended |= fin;
        let mut again = 0;
        for (slot, &byte) in
            self.bytes[at..].iter_mut().zip(segment.payload.iter().chain(fin.then_some(&0)))
        {
            if let Some(before) = slot.replace(byte) {
                assert_eq!(before, byte, "a retransmission has the same bytes");
                again += 1;
            }
        }
        again
    }
}

#[test]
fn tcp_numbers_are_consistent() {
    let mut streams: HashMap<(End, End), Stream> = HashMap::new();
    let (mut data, mut repeated, mut disordered, mut sacks) = (0_u64, 0, 0, 0);
    let (mut fins, mut resets) = (0, 0);
    for (_, packet) in packets_of(config(100_000, 5_000, 23)) {
        let Some(segment) = parse(&packet).segment else { continue };
        let (forward, backward) = (
            (segment.from.clone(), segment.to.clone()),
            (segment.to.clone(), segment.from.clone()),
        );
        fins += u64::from(segment.flags & 1 != 0);
        resets += u64::from(segment.flags & 4 != 0);
        if segment.flags & 0x10 != 0 {
            let peer = streams.get_mut(&backward).expect("an acknowledgement of something");
            let limit = peer.contiguous();
            let behind = limit.wrapping_sub(segment.acknowledgement);
            assert!(behind < 1 << 24, "acknowledges what was not sent");
            assert!(
                segment.acknowledgement.wrapping_sub(peer.acknowledged) < 1 << 30
                    || peer.acknowledged == 0
            );
            peer.acknowledged = segment.acknowledgement;
            if let Some((left, right)) = segment.sack {
                sacks += 1;
                assert!(left.wrapping_sub(segment.acknowledgement) as i32 > 0);
                assert!(right.wrapping_sub(left) as i32 > 0);
                let highest = peer.first.wrapping_add(peer.bytes.len() as u32);
                assert!(highest.wrapping_sub(right) as i32 >= 0, "SACK of what was sent");
            }
        }
        if segment.flags & 4 != 0 {
            continue;
        }
        let stream = streams.entry(forward).or_default();
        let before = stream.bytes.len();
        let again = stream.add(&segment);
        if !segment.payload.is_empty() {
            data += 1;
            let new_end = stream.bytes.len() > before;
            repeated += u64::from(again == segment.payload.len());
            disordered += u64::from(again == 0 && !new_end);
        }
    }
    for (ends, stream) in &streams {
        assert!(stream.bytes.iter().all(Option::is_some), "{ends:?} has gaps");
    }
    assert!(fins > 500 && resets > 100, "{fins} FIN, {resets} RST");
    let share = (repeated + disordered) * 1_000 / data;
    assert!((5..=15).contains(&share), "{share} per mille of {data} segments are repeated or late");
    assert!(repeated > 50 && disordered > 50 && sacks > 100, "{repeated} {disordered} {sacks}");
}

/// Offset, payload and whether more follow.
type Part = (usize, Vec<u8>, bool);

#[test]
fn fragments_make_whole_datagrams_with_valid_checksums() {
    let mut datagrams: HashMap<_, Vec<Part>> = HashMap::new();
    for (_, packet) in packets_of(config(100_000, 10_000, 31)) {
        if let Some((key, offset, payload, more)) = parse(&packet).fragment {
            datagrams.entry(key).or_default().push((offset, payload, more));
        }
    }
    assert!(datagrams.len() > 100);
    let mut first_late = 0;
    for ((source, destination, _), mut parts) in datagrams {
        first_late += u64::from(parts[0].0 > 0);
        parts.sort_by_key(|part| part.0);
        let mut whole = Vec::new();
        let last = parts.len() - 1;
        for (i, (offset, payload, more)) in parts.into_iter().enumerate() {
            assert_eq!(offset, whole.len(), "fragments touch");
            assert_eq!(more, i < last);
            whole.extend(payload);
        }
        let len = u16::from_be_bytes([whole[4], whole[5]]);
        assert_eq!(usize::from(len), whole.len());
        let len = u32::from(len).to_be_bytes();
        assert_eq!(ones_sum(&[&source, &destination, &len, &[0, 17], &whole]), 0xffff);
    }
    assert!(first_late > 10);
}

#[test]
fn errors_quote_packets_that_were_sent() {
    let capture = packets_of(config(20_000, 8_000, 41));
    let mut sent: HashSet<Vec<u8>> = HashSet::new();
    let mut errors = 0;
    for (_, packet) in &capture {
        let parsed = parse(packet);
        let plain = parsed.traits.iter().all(|t| ["udp", "tcp", "ipv6", "icmp-error"].contains(t));
        if !plain {
            continue;
        }
        let at = if parsed.traits.contains("ipv6") { 40 } else { 20 };
        if parsed.traits.contains("icmp-error") {
            errors += 1;
            let quote = &packet[14 + at + 8..];
            assert!(sent.contains(&quote[..at + 8]), "quotes a packet of the capture");
        } else {
            sent.insert(packet[14..14 + at + 8].to_vec());
        }
    }
    assert!(errors > 20, "{errors} errors");
}

#[test]
fn tunnels_and_tags_of_a_flow_stay_the_same() {
    let mut sets: HashMap<Key, BTreeSet<BTreeSet<&str>>> = HashMap::new();
    let mut one_way = 0;
    for (_, packet) in packets_of(config(50_000, 5_000, 51)) {
        let parsed = parse(&packet);
        if let Inner::Flow(key) = parsed.inner {
            let keep = ["vlan", "qinq", "vxlan", "geneve", "gre", "gtp-u", "ipip", "6in4", "ipv6"];
            let set = parsed.traits.into_iter().filter(|t| keep.contains(t)).collect();
            sets.entry(key).or_default().insert(set);
        }
    }
    for (key, sets) in sets {
        let without_tags: BTreeSet<BTreeSet<&str>> = sets
            .iter()
            .map(|set| set.iter().copied().filter(|t| !["vlan", "qinq"].contains(t)).collect())
            .collect();
        assert_eq!(without_tags.len(), 1, "{key:?} is in one tunnel: {sets:?}");
        assert!(sets.len() <= 2, "tagged, or not, by direction: {sets:?}");
        one_way += usize::from(sets.len() == 2);
    }
    assert!(one_way > 10, "{one_way} flows tagged one way");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_request_is_met_exactly(
        flows in 1_u64..300,
        more in 0_u64..3_000,
        seed: u64,
        size in 576_u16..=9_014,
        rate_pps in 1_u64..=1_000_000_000,
    ) {
        let packets = flows + more;
        let request = Config {
            packets, flows, seed,
            framing: Framing::Ethernet, size: Some(size), rate_pps, profile: Profile::Mix,
        };
        let capture = packets_of(request);
        prop_assert_eq!(capture.len() as u64, packets);
        prop_assert!(capture.iter().all(|(_, packet)| packet.len() <= usize::from(size)));
        prop_assert!(capture.is_sorted_by(|a, b| a.0 < b.0));
        prop_assert_eq!(flows_of(&capture).len() as u64, flows);
    }
}
