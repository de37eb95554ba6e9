//! Data flows go where the control connection goes that announced them.

use std::sync::Arc;

use crate::support::*;
use forebay_balance::moves::{Mover, RecordLimits, Worker, WorkerTable};
use forebay_balance::{Assignment, BucketTable, bucket_of};
use forebay_packet::{Affinity, DecodeOptions, Decoder, HashKey};
use forebay_pipeline::stages::{
    Classify, EXPECTED, Expectations, FlowOverride, Follow, Fragments, LiveBalance, LiveFragments,
    OF_ONE, OverriddenFlow, OverrideEntry, OverrideTable, Overrides, Timing, Window,
};
use forebay_pipeline::{Chain, Settings};

const MS: u64 = 1_000_000;
const IDLE: u64 = 2 * SECOND;
const LIVE: Timing = Timing::Live { idle: IDLE };

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const FIN: u8 = 0x11;

fn follow() -> Follow {
    let mut follow = Follow::default();
    follow.add("ftp").unwrap();
    follow.add("sip:5061").unwrap();
    follow
}

/// Stages behind the classifier, of a live group.
fn expect(timing: Timing) -> Chain {
    let stage = Expectations::new(follow(), DecodeOptions::default(), timing);
    Chain::new().with(classify()).with(stage)
}

fn tcp(from: (u8, u16), to: (u8, u16), flags: u8, payload: &str) -> Vec<u8> {
    let ports = [from.1.to_be_bytes(), to.1.to_be_bytes()].concat();
    let segment = [&ports[..], &[0; 8], &[0x50, flags, 1, 0, 0, 0, 0, 0], payload.as_bytes()];
    ipv4(from.0, to.0, 6, 0, 0, &segment.concat())
}

fn datagram(from: (u8, u16), to: (u8, u16), payload: &str) -> Vec<u8> {
    let mut datagram = udp(from.1, to.1);
    datagram[4..6].copy_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    datagram.extend(payload.as_bytes());
    ipv4(from.0, to.0, 17, 0, 0, &datagram)
}

/// A client's command that the server is to connect to a port of the client's.
fn port(client: (u8, u16), server: u8, announced: u16) -> Vec<u8> {
    let [high, low] = announced.to_be_bytes();
    let text = format!("PORT 10,0,0,{},{high},{low}\r\n", client.0);
    tcp(client, (server, 21), ACK, &text)
}

fn remark(chain: &Chain, name: &str) -> u64 {
    chain.remarks().get(name)
}

/// Remarks on announcements: expected, followed, packets, elsewhere, refused.
fn counts(chain: &Chain) -> [u64; 5] {
    ["expected", "followed", "packets_followed", "elsewhere", "refused"].map(|name| {
        let name = if name.starts_with("packets") {
            "data_packets_followed".to_owned()
        } else {
            format!("data_flows_{name}")
        };
        remark(chain, &name)
    })
}

#[test]
fn data_flows_have_the_hash_of_their_control_connection() {
    let (client, server) = ((1, 40_000), (2, 21));
    let input: Vec<(u64, Vec<u8>)> = [
        tcp((2, 20), (1, 5_000), SYN, ""),
        port(client, 2, 5_000),
        tcp((2, 20), (1, 5_000), SYN, ""),
        tcp((1, 5_000), (2, 20), ACK, "x"),
        tcp(server, client, ACK, "227 Entering Passive Mode (10,0,0,2,4,1)\r\n"),
        tcp((1, 41_000), (2, 1_025), SYN, ""),
        tcp((2, 1_025), (1, 41_000), ACK, "y"),
        tcp(server, client, ACK, "229 Entering Extended Passive Mode (|||1026|)\r\n"),
        tcp((1, 41_001), (2, 1_026), SYN, ""),
        // Another client of that port, and another protocol.
        tcp((3, 41_001), (2, 1_026), SYN, ""),
        datagram((1, 41_001), (2, 1_026), ""),
    ]
    .into_iter()
    .enumerate()
    .map(|(i, packet)| (i as u64, packet))
    .collect();
    for timing in [LIVE, Timing::Capture] {
        for size in [1, 4, 20] {
            let mut chain = expect(timing);
            let hash = hashes(&through(&mut chain, batches(&input, size)));
            let control = hash[1];
            assert_ne!(hash[0], control, "it was not announced yet");
            assert_eq!(hash[2..=8], [control; 7], "batches of {size}");
            assert!(hash[9] != control && hash[10] != control);
            assert_eq!(counts(&chain), [3, 3, 5, 0, 0]);
        }
    }
}

#[test]
fn data_flows_and_their_control_connections_are_shunted_each_by_its_own_name() {
    let input: Vec<(u64, Vec<u8>)> = [
        port((1, 40_000), 2, 5_000),
        tcp((2, 20), (1, 5_000), SYN, ""),
        tcp((1, 5_000), (2, 20), ACK, "x"),
        tcp((2, 20), (1, 5_000), ACK, "y"),
        tcp((2, 21), (1, 40_000), ACK, "z"),
    ]
    .into_iter()
    .enumerate()
    .map(|(i, packet)| (i as u64, packet))
    .collect();
    let decoder = Decoder::new(DecodeOptions::default());
    for (named, dropped) in [(0, 2), (1, 3)] {
        let stage = Overrides::new(decoder, Affinity::FiveTuple, HashKey::OFFLINE);
        let mut chain = expect(LIVE).with(stage);
        let first = batches(&input, input.len()).remove(0);
        let key = decoder.decode(first.interface(0).link, first.packet(named)).key;
        let flow = Arc::new(OverriddenFlow::new(key, FlowOverride::Shunt, u64::MAX));
        let hash = Affinity::FiveTuple.hashes(&key, &HashKey::OFFLINE)[0];
        let table = OverrideTable::new(vec![OverrideEntry { hash, flow: Arc::clone(&flow) }]);
        reload(&mut chain, &Settings::new().with(Arc::new(table)));
        through(&mut chain, batches(&input, 2));
        assert_eq!((flow.counted().0, chain.rows()[2].drops[0].packets), (dropped, dropped));
    }
}

#[test]
fn media_have_the_hash_of_their_call() {
    let offer =
        |port: u16| format!("INVITE x\r\n\r\nc=IN IP4 10.0.0.1\r\nm=audio {port} RTP/AVP 0\r\n");
    let input = vec![
        (0, datagram((1, 5_061), (2, 5_061), &offer(6_000))),
        (1, datagram((2, 7_000), (1, 6_000), "rtp")),
        (2, datagram((1, 6_001), (2, 7_001), "rtcp")),
        (3, datagram((2, 5_061), (1, 5_061), &offer(6_010))),
        (4, datagram((2, 7_000), (1, 6_010), "rtp")),
    ];
    let mut chain = expect(LIVE);
    let hash = hashes(&through(&mut chain, batches(&input, 2)));
    assert_eq!(hash[1..=2], [hash[0]; 2]);
    assert_ne!(hash[4], hash[0], "the callee cannot speak for the caller");
    assert_eq!(counts(&chain), [2, 2, 2, 2, 0]);
}

#[test]
fn fragments_and_errors_of_data_flows_go_with_them() {
    let call = "c=IN IP4 10.0.0.1\r\nm=audio 6000 RTP/AVP 0\r\n";
    let quoted = datagram((2, 7_000), (1, 6_000), "rtp")[14..].to_vec();
    let error = ipv4(1, 2, 1, 0, 0, &[&[3, 3, 0, 0, 0, 0, 0, 0], &quoted[..]].concat());
    let input = vec![
        (0, datagram((1, 5_061), (2, 5_061), call)),
        (1, first(2, 1, 9, (7_000, 6_000))),
        (2, later(2, 1, 9)),
        (3, error),
    ];
    for offline in [true, false] {
        let chain = expect(if offline { Timing::Capture } else { LIVE });
        let mut chain = if offline {
            chain.with(Fragments::new(Window::OFFLINE))
        } else {
            chain.with(LiveFragments::new(HashKey::OFFLINE))
        };
        let hash = hashes(&through(&mut chain, batches(&input, 4)));
        assert_eq!(hash, [hash[0]; 4]);
    }
}

#[test]
fn data_between_two_addresses_may_follow_a_pairs_key() {
    let options = DecodeOptions { affinity: Affinity::IpPair, ..DecodeOptions::default() };
    let classify = Classify::hashing(Decoder::new(options), HashKey::OFFLINE);
    let mut chain =
        Chain::new().with(classify).with(Expectations::new(follow(), options, Timing::Capture));
    let input = vec![(0, port((1, 9), 2, 5_000)), (1, tcp((2, 20), (1, 5_000), SYN, ""))];
    let hash = hashes(&through(&mut chain, batches(&input, 2)));
    assert_eq!(hash[0], hash[1]);
    assert_eq!(counts(&chain)[..2], [1, 1]);
}

#[test]
fn expectations_end() {
    let control = port((1, 9), 2, 5_000);
    let data = tcp((2, 20), (1, 5_000), SYN, "");
    let mut chain = expect(LIVE);
    let mut at = |seconds: u64, packet: &Vec<u8>| {
        chain.begin(seconds * SECOND);
        hashes(&through(&mut chain, batches(&[(0, packet.clone())], 1)))[0]
    };
    let expected = at(1, &control);
    let own = at(62, &data);
    assert_ne!(own, expected, "it came too late");
    at(100, &control);
    assert_eq!(at(155, &data), expected);
    assert_eq!(at(160, &data), expected, "what was announced has its time");
    assert_eq!(at(162, &data), expected, "it has not paused for the idle timeout");
    assert_eq!(at(165, &data), own, "it has");
    // By the time stamps of a capture a flow that began stays.
    let mut chain = expect(Timing::Capture);
    let input = [(0, control.clone()), (SECOND, data.clone()), (9_000 * SECOND, data)];
    let hash = hashes(&through(&mut chain, batches(&input, 1)));
    assert_eq!(hash, [expected; 3]);
}

#[test]
fn a_port_announced_by_another_connection_is_that_ones() {
    let data = tcp((2, 20), (1, 5_000), SYN, "");
    let input = vec![
        (0, port((1, 9), 2, 5_000)),
        (1, data.clone()),
        (2, port((1, 10), 2, 5_000)),
        (3, tcp((1, 5_000), (2, 20), ACK, "x")),
        (4, data),
        (5, tcp((1, 5_000), (2, 20), ACK, "x")),
    ];
    let hash = hashes(&through(&mut expect(LIVE), batches(&input, 4)));
    let (old, new) = (hash[0], hash[2]);
    assert_ne!(old, new);
    assert_eq!(hash, [old, old, new, old, new, new], "from the SYN of its connection");
}

#[test]
fn a_connection_that_runs_is_not_moved_by_an_announcement() {
    let (client, server) = ((1, 40_000), (2, 80));
    let input: Vec<(u64, Vec<u8>)> = [
        tcp(client, server, SYN, ""),
        port((1, 50_000), 2, client.1),
        tcp(client, server, ACK, "GET"),
        tcp(server, client, 0x12, ""),
        tcp(server, client, ACK, "200"),
        // The announcer's own SYN begins nothing at its end.
        tcp(client, server, SYN, ""),
        tcp(client, server, ACK, "GET"),
        // A transfer to that port is followed, and it alone.
        tcp((2, 20), client, SYN, ""),
        tcp((2, 20), client, ACK, "data"),
        tcp(client, server, ACK, "GET"),
    ]
    .into_iter()
    .enumerate()
    .map(|(i, packet)| (i as u64, packet))
    .collect();
    for timing in [LIVE, Timing::Capture] {
        let mut chain = expect(timing);
        let hash = hashes(&through(&mut chain, batches(&input, 3)));
        let (own, control) = (hash[0], hash[1]);
        assert_ne!(own, control);
        assert_eq!(hash[2..7], [own; 5]);
        assert_eq!(hash[7..], [control, control, own]);
        assert_eq!(counts(&chain), [1, 1, 2, 0, 0]);
    }
}

#[test]
fn media_that_flow_are_not_moved_by_another_announcement() {
    let call = "c=IN IP4 10.0.0.1\r\nm=audio 6000 RTP/AVP 0\r\n";
    let media = datagram((2, 7_000), (1, 6_000), "rtp");
    for timing in [LIVE, Timing::Capture] {
        let mut chain = expect(timing);
        let mut at = |seconds: u64, packet: &Vec<u8>| {
            chain.begin(seconds * SECOND);
            let input = [(seconds * SECOND, packet.clone())];
            hashes(&through(&mut chain, batches(&input, 1)))[0]
        };
        let first = at(1, &datagram((1, 5_061), (2, 5_061), call));
        assert_eq!(at(2, &media), first);
        let again = datagram((1, 5_062), (2, 5_061), call);
        let other = at(3, &again);
        assert_ne!(first, other);
        assert_eq!(at(4, &media), first);
        // A call that comes after a pause is another.
        assert_eq!(at(100, &again), other);
        assert_eq!(at(101, &media), other);
        // An end for RTP and one for RTCP; nothing came at the latter, and it is the last one's.
        assert_eq!(counts(&chain), [5, 2, 3, 0, 1]);
    }
}

#[test]
fn what_is_expected_is_bounded() {
    let mut chain = expect(LIVE);
    chain.begin(SECOND);
    let of_one = u64::from(OF_ONE);
    let floods: Vec<(u64, Vec<u8>)> =
        (0..of_one + 5).map(|i| (i, port((1, 9), 2, 1_000 + i as u16))).collect();
    through(&mut chain, batches(&floods, 256));
    assert_eq!(counts(&chain), [of_one, 0, 0, 0, 5]);
    // The other connections of a hostile host take the rest.
    let more: Vec<(u64, Vec<u8>)> = (0..EXPECTED as u64)
        .map(|i| (i, port((1, 10_000 + (i / of_one) as u16), 2, 5_000 + i as u16)))
        .collect();
    through(&mut chain, batches(&more, 256));
    let [expected, .., refused] = counts(&chain);
    assert_eq!((expected, refused), (EXPECTED as u64, 5 + of_one));
    // One that is expected stays so, and all are forgotten in time.
    let data = vec![(0, tcp((2, 20), (1, 1_000), SYN, ""))];
    through(&mut chain, batches(&data, 1));
    assert_eq!(counts(&chain)[1], 1);
    chain.begin(70 * SECOND);
    through(&mut chain, batches(&[(0, port((1, 9), 2, 1_000))], 1));
    assert_eq!(counts(&chain)[0], EXPECTED as u64 + 1);
}

#[test]
fn control_connections_are_named_with_their_ports() {
    for wrong in ["", "http", "ftp:", "ftp:0", "ftp:65536", "ftp:x", ":21"] {
        assert!(Follow::default().add(wrong).is_err(), "{wrong}");
    }
    let mut follow = Follow::default();
    (0..16).for_each(|_| follow.add("ftp:2121").unwrap());
    assert!(follow.add("sip").is_err());
}

/// A control connection and its transfers, of which each begins and ends, while their bucket
/// moves.
#[test]
fn a_bucket_that_moves_tears_neither_control_nor_data() {
    let table = BucketTable::new(&Assignment::of_weights(&[1, 1]).unwrap());
    let forwarding = Arc::new(WorkerTable::new(table, 1, IDLE, RecordLimits::default()));
    let worker = Box::new(Worker::new(Arc::clone(&forwarding), 0));
    let mut mover = Mover::new(Arc::clone(&forwarding), IDLE, 16);
    let decoder = Decoder::new(DecodeOptions::default());
    let steer = LiveBalance::new(worker, decoder, true).following(follow(), HashKey::OFFLINE);
    let mut chain = expect(LIVE).with(steer);
    let mut now = SECOND;
    let mut pass = |now: u64, packet: Vec<u8>| {
        chain.begin(now);
        let out = through(&mut chain, batches(&[(0, packet)], 1));
        (out[0].hash[0], out[0].output[0])
    };
    let (hash, home) = pass(now, port((1, 9), 2, 5_000));
    let bucket = bucket_of(hash);
    mover.begin(bucket, 1 - home, None).unwrap();
    let (a, b) = ((2, 20), (1, 5_000));
    for round in 0..200_u64 {
        now += 50 * MS;
        mover.tick(now);
        let packet = match round % 10 {
            0 => port((1, 9), 2, 5_000),
            1 => tcp(a, b, SYN, ""),
            7 => tcp(a, b, FIN, ""),
            8 => tcp(b, a, FIN, ""),
            _ => tcp(a, b, ACK, "data"),
        };
        assert_eq!(pass(now, packet), (hash, home), "round {round}");
    }
    assert_eq!(mover.counts().completed, 0, "its key is still there");
    // When both have paused the bucket goes, and the next connection with it.
    for _ in 0..200 {
        now += 50 * MS;
        mover.tick(now);
        pass(now, whole(7, 8, (1, 1)));
    }
    assert_eq!(mover.counts().completed, 1);
    assert_eq!(pass(now, port((1, 9), 2, 5_000)), (hash, 1 - home));
    assert_eq!(pass(now, tcp(a, b, SYN, "")), (hash, 1 - home));
}
