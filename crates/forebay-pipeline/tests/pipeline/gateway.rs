//! The gateway: a flow in which something may be found passes whole and in order, others are
//! withheld, and every packet is accounted for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_packet::random::Random;
use forebay_packet::{Batch, HashKey};
use forebay_pipeline::stages::{
    CompiledScan, Gateway, GatewayMode, GatewayOptions, Scan, ScanMode, ScanOptions, ScanReports,
    ScannedFlowsOf, WaitForSensor,
};
use forebay_pipeline::{Chain, Settings, StageError};
use forebay_scan::Engine;

#[path = "../support/gateway_model.rs"]
mod gateway_model;

use crate::scan::{acknowledging, compiled, tcp_packet, udp_packet, with_options};
use crate::support::*;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

const EVIL: &[u8] = b"evil-word";

fn hold() -> GatewayOptions {
    GatewayOptions { mode: GatewayMode::Hold, ..GatewayOptions::default() }
}

fn chain_of(scan: &Arc<CompiledScan>, options: GatewayOptions) -> Chain {
    let flows = ScannedFlowsOf { flows: 1_000, idle: scan.options().idle };
    Chain::new()
        .with(Scan::optional(Some(Arc::clone(scan)), HashKey::OFFLINE).reporting(ScanReports(true)))
        .with(classify())
        .with(Gateway::new(options))
        .configured(&Settings::new().with(flows))
}

fn chain(options: GatewayOptions) -> Chain {
    chain_of(&compiled(ScanMode::Stream, &[EVIL]), options)
}

/// Packets with other ports, so that they are of another flow.
fn of_flow(flow: u16, mut packets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    for packet in &mut packets {
        // The port that is not 80 is the client's.
        let at = if packet[34..36] == 80u16.to_be_bytes() { 36 } else { 34 };
        packet[at..at + 2].copy_from_slice(&(10_000 + flow).to_be_bytes());
    }
    packets
}

/// A connection, from the SYN to the last acknowledgment; each part of the request is a segment.
fn connection(request: &[&[u8]], answer: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = vec![
        tcp_packet(1, 2, SYN, 100, b""),
        acknowledging(101, tcp_packet(2, 1, SYN | ACK, 500, b"")),
        acknowledging(501, tcp_packet(1, 2, ACK, 101, b"")),
    ];
    let mut next = 101;
    for part in request {
        packets.push(acknowledging(501, tcp_packet(1, 2, ACK, next, part)));
        next += part.len() as u32;
    }
    packets.push(acknowledging(next, tcp_packet(2, 1, ACK, 501, answer)));
    let end = 501 + answer.len() as u32;
    packets.push(acknowledging(end, tcp_packet(1, 2, FIN | ACK, next, b"")));
    packets.push(acknowledging(next + 1, tcp_packet(2, 1, FIN | ACK, end, b"")));
    packets.push(acknowledging(end + 1, tcp_packet(1, 2, ACK, next + 1, b"")));
    packets
}

/// What comes out of a chain of packets that come a microsecond apart, then at its end.
fn passed(chain: &mut Chain, packets: &[Vec<u8>], of_batch: usize) -> Vec<Vec<u8>> {
    let timed: Vec<_> = (0..).map(|i| i * 1_000).zip(packets.iter().cloned()).collect();
    passed_at(chain, &timed, of_batch)
}

fn passed_at(chain: &mut Chain, timed: &[(u64, Vec<u8>)], of_batch: usize) -> Vec<Vec<u8>> {
    let out = packets_of(&through(chain, batches(timed, of_batch)));
    let rows = chain.rows();
    assert!(rows.iter().all(|row| row.closes() && row.held == 0), "{rows:?}");
    out
}

/// What comes out of a chain so far.
fn pushed(chain: &mut Chain, timed: &[(u64, Vec<u8>)], of_batch: usize) -> Vec<Batch> {
    let mut out = Vec::new();
    for batch in batches(timed, of_batch) {
        let mut keep = |batch| -> Result<(), StageError> {
            out.push(batch);
            Ok(())
        };
        chain.push(batch, &mut keep).unwrap();
    }
    out
}

fn packets_of(out: &[Batch]) -> Vec<Vec<u8>> {
    packets(out).into_iter().map(|(_, packet)| packet).collect()
}

#[test]
fn a_clean_connection_is_withheld_and_one_with_a_literal_passes_whole() {
    let clean = of_flow(1, connection(&[b"please"], b"here"));
    let hit = of_flow(2, connection(&[b"an evil", b"-word"], b"here"));
    // One after the other, and packet by packet.
    let after: Vec<_> = clean.iter().chain(&hit).cloned().collect();
    let mixed = clean.iter().zip(&hit).flat_map(|(a, b)| [a.clone(), b.clone()]);
    let mut mixed: Vec<_> = mixed.collect();
    mixed.push(hit[hit.len() - 1].clone());
    for (packets, of_batch) in [(&after, 1), (&after, 7), (&mixed, 1), (&mixed, 3), (&mixed, 256)] {
        let mut chain = chain(hold());
        assert_eq!(passed(&mut chain, packets, of_batch), hit, "{of_batch}");
        let remarks = chain.remarks();
        assert_eq!(remarks.get("gateway_withheld_flows"), 1);
        assert_eq!(remarks.get("gateway_passed_literal"), hit.len() as u64);
        let bytes: usize = clean.iter().map(Vec::len).sum();
        assert_eq!(remarks.get("gateway_withheld_bytes"), bytes as u64);
        let drop = &chain.rows()[2].drops[0];
        assert_eq!((drop.name, drop.packets), ("withheld", clean.len() as u64));
    }
}

#[test]
fn what_waits_goes_on_with_its_time_its_flow_and_the_mark_before_what_comes() {
    let packets = connection(&[b"an evil", b"-word"], b"here");
    let timed: Vec<_> = (0..).map(|i| i * 1_000_000).zip(packets).collect();
    let mut chain = chain(hold());
    let out = pushed(&mut chain, &timed, 4);
    assert_eq!(crate::support::packets(&out), timed);
    for batch in &out {
        assert_eq!(batch.live().and(&batch.suspect), batch.live());
        assert_eq!((batch.key.len(), batch.hash.len()), (batch.len(), batch.len()));
        assert!(batch.hash.iter().all(|&hash| hash == out[0].hash[0]));
    }
}

#[test]
fn a_connection_without_an_end_passes_when_it_has_waited() {
    let open = connection(&[b"please"], b"here")[..5].to_vec();
    let mut timed: Vec<_> = (0..).map(|i| i * 1_000_000).zip(open.clone()).collect();
    timed.push((61_000_000_000, udp_packet(1, 2, (7, 8), b"later")));
    let mut long = chain(hold());
    let out = packets_of(&pushed(&mut long, &timed, 1));
    assert_eq!(out, open);
    assert_eq!(long.remarks().get("gateway_passed_wait"), 5);
    // It has passed for good.
    let more = acknowledging(501, tcp_packet(1, 2, ACK, 107, b"more"));
    timed.push((62_000_000_000, more.clone()));
    let out = passed_at(&mut chain(hold()), &timed, 1);
    assert_eq!((&out[..5], &out[5]), (&open[..], &more));

    // At the end of a capture nothing comes any more.
    let at_end = GatewayOptions { clears_at_end: true, ..hold() };
    assert!(passed(&mut chain(at_end), &open, 2).is_empty());
    assert_eq!(passed(&mut chain(hold()), &open, 2), open);
    // But bytes that are missing may be what is looked for.
    let lacking: Vec<_> = [0, 1, 2, 4].map(|i| open[i].clone()).to_vec();
    assert_eq!(passed(&mut chain(at_end), &lacking, 1), lacking);
}

#[test]
fn datagrams_end_when_the_scanner_forgets_their_flow() {
    let (question, answer) = (udp_packet(1, 2, (9, 53), b"who"), udp_packet(2, 1, (53, 9), b"me"));
    let other = udp_packet(1, 3, (9, 53), b"else");
    let evil = udp_packet(2, 1, (53, 9), EVIL);
    let second = 1_000_000_000;
    let at = |times: [u64; 4]| {
        let packets = [&question, &answer, &other, &evil];
        times.into_iter().zip(packets.map(Clone::clone)).collect::<Vec<_>>()
    };
    // 60 s of silence end the flow: the literal is in another.
    let out = passed_at(&mut chain(hold()), &at([0, second, 70 * second, 71 * second]), 1);
    assert_eq!(out, [evil.clone(), other.clone()]);
    let out = passed_at(&mut chain(hold()), &at([0, second, 2 * second, 59 * second]), 1);
    assert_eq!(out[..3], [question, answer, evil]);
}

#[test]
fn a_flow_that_is_too_long_and_all_that_memory_has_no_room_for_pass() {
    let big = vec![b'x'; 1_400];
    let long = of_flow(1, connection(&[&big[..]; 20], b""));
    let options = GatewayOptions { flow_memory: 10_000, ..hold() };
    let mut few = chain(options);
    assert_eq!(passed(&mut few, &long, 5), long);
    assert_eq!(few.remarks().get("gateway_passed_flow_memory"), long.len() as u64);

    let memory = GatewayOptions { memory: 1 << 20, flow_memory: 1 << 20, ..hold() };
    let mut small = chain(memory);
    let flows: Vec<_> = (0..100)
        .map(|flow| of_flow(flow, connection(&[&big[..]; 20], b"")[..20].to_vec()))
        .collect();
    let packets: Vec<_> = flows.iter().flatten().cloned().collect();
    let timed: Vec<_> = (0..).map(|i| i * 1_000).zip(packets).collect();
    let out = packets_of(&pushed(&mut small, &timed, 16));
    // Those that came first, whole.
    assert!(
        out.len() >= 60 * 20
            && out[..]
                == timed[..out.len()].iter().map(|(_, packet)| packet.clone()).collect::<Vec<_>>()
                    [..]
    );
    let held = small.rows()[2].held;
    assert_eq!(out.len() as u64 + held, 2_000);
    assert_eq!(small.remarks().get("gateway_passed_memory"), out.len() as u64);
    assert!(small.rows()[2].closes());
}

#[test]
fn a_connection_that_goes_on_behind_its_end_is_not_lost() {
    // A reset that its sender takes back: the other side may not have accepted it.
    let mut packets = connection(&[b"an evil"], b"")[..4].to_vec();
    packets.push(acknowledging(501, tcp_packet(1, 2, RST | ACK, 108, b"")));
    packets.push(acknowledging(501, tcp_packet(1, 2, ACK, 108, b"-word")));
    assert_eq!(passed(&mut chain(hold()), &packets, 2), packets);
    // Also after some seconds.
    let timed: Vec<_> = [0, 1, 2, 3, 4, 24].map(|time| time * 1_000_000_000).into_iter().collect();
    let timed: Vec<_> = timed.into_iter().zip(packets.clone()).collect();
    assert_eq!(passed_at(&mut chain(hold()), &timed, 2), packets);
    // A new connection between the same ports is another one.
    let first = connection(&[b"please"], b"here");
    let again: Vec<_> = connection(&[EVIL], b"here")
        .into_iter()
        .map(|mut packet| {
            for at in [38, 42] {
                let number = u32::from_be_bytes(packet[at..at + 4].try_into().unwrap());
                packet[at..at + 4].copy_from_slice(&(number + 5_000).to_be_bytes());
            }
            packet
        })
        .collect();
    let both: Vec<_> = first.iter().chain(&again).cloned().collect();
    let out = passed(&mut chain(hold()), &both, 3);
    assert_eq!(out[out.len() - again.len()..], again);
}

#[test]
fn the_first_bytes_of_each_direction_pass_with_what_is_before_them() {
    let options = GatewayOptions { mode: GatewayMode::Prefix, prefix: 10, ..hold() };
    let packets = connection(&[b"12345678", b"90", b"abc", b"def"], b"answer");
    for of_batch in [1, 2, 5, 256] {
        let mut chain = chain(options);
        let out = passed(&mut chain, &packets, of_batch);
        // "abc" and "def" wait, and go on with the answer, which has the first bytes of its side.
        assert_eq!(out, packets[..8], "{of_batch}");
        let remarks = chain.remarks();
        assert_eq!(remarks.get("gateway_passed_prefix"), 8);
        assert_eq!(chain.rows()[2].drops[0].packets, packets.len() as u64 - 8);
    }
}

#[test]
fn packets_that_pass_alone_stay_before_the_rest_of_their_flow() {
    let rules = "alert tcp any any -> any any (flags:S; sid:1;)\n\
                 alert tcp any any -> any any (content:\"evil-word\"; sid:2;)";
    for (text, hits) in [(&b"evil-word"[..], true), (b"good-word", false)] {
        let packets = connection(&[b"please", text], b"here");
        for of_batch in [1, 3, 256] {
            let mut chain = chain_of(&crate::scan_rules::compiled(rules), hold());
            let out = passed(&mut chain, &packets, of_batch);
            let expected = if hits { &packets[..] } else { &packets[..1] };
            assert_eq!(out, expected, "{of_batch}");
            assert_eq!(chain.remarks().get("gateway_passed_forward_no_content"), 1);
        }
    }
}

#[test]
fn another_table_of_the_scanner_parts_no_flow() {
    let packets = connection(&[b"please", EVIL], b"here");
    let timed: Vec<_> = (0..).map(|i| i * 1_000).zip(packets.clone()).collect();
    let mut chain = chain(hold());
    let mut out = packets_of(&pushed(&mut chain, &timed[..4], 2));
    let mut options = ScanOptions::new(ScanMode::Stream, Engine::default());
    options.flows = 77;
    reload(&mut chain, &Settings::new().with(Some(with_options(options, &[EVIL]))));
    out.extend(packets_of(&pushed(&mut chain, &timed[4..], 2)));
    assert_eq!(out, packets);
}

#[test]
fn one_packet_from_the_future_ends_no_flow() {
    let second = 1_000_000_000;
    let (question, evil) = (udp_packet(1, 2, (9, 53), b"who"), udp_packet(2, 1, (53, 9), EVIL));
    let other = udp_packet(1, 3, (9, 53), b"else");
    let timed = [(second, question.clone()), (9_999 * second, other), (2 * second, evil.clone())];
    assert_eq!(passed_at(&mut chain(hold()), &timed, 3)[..2], [question, evil]);
}

#[test]
fn with_annotate_everything_passes_and_is_counted_by_reason() {
    let clean = of_flow(1, connection(&[b"please"], b"here"));
    let hit = of_flow(2, connection(&[EVIL], b"here"));
    let packets: Vec<_> = clean.iter().chain(&hit).cloned().collect();
    let mut chain = chain(GatewayOptions::default());
    assert_eq!(passed(&mut chain, &packets, 4), packets);
    let remarks = chain.remarks();
    assert_eq!(remarks.get("gateway_passed_clean"), clean.len() as u64 + 3);
    assert_eq!(remarks.get("gateway_passed_literal"), hit.len() as u64 - 3);
}

#[test]
fn settings_change_and_nothing_is_lost() {
    let open = connection(&[b"please"], b"here")[..5].to_vec();
    let timed: Vec<_> = (0..).map(|i| i * 1_000).zip(open.clone()).collect();
    let mut chain = chain(hold());
    assert!(packets_of(&pushed(&mut chain, &timed[..3], 1)).is_empty());
    reload(&mut chain, &Settings::new().with(GatewayOptions { memory: 1 << 20, ..hold() }));
    let out = packets_of(&pushed(&mut chain, &timed[3..], 1));
    assert_eq!(out, open);
    assert_eq!(chain.remarks().get("gateway_passed_stop"), 5);
    // Without anything to scan for, all pass.
    let other = of_flow(7, open);
    reload(&mut chain, &Settings::new().with(None::<Arc<CompiledScan>>));
    assert_eq!(passed(&mut chain, &other, 2), other);
    assert_eq!(chain.remarks().get("gateway_passed_unscanned"), 5);
}

/// A chain whose gateway has packets wait for a sensor, and what says whether one is up.
struct Behind {
    chain: Chain,
    is_without: Arc<AtomicBool>,
    /// The time of the next packet.
    time: u64,
}

impl Behind {
    fn new(options: GatewayOptions) -> Self {
        let is_without = Arc::<AtomicBool>::default();
        let mut chain = chain(options);
        let wait = WaitForSensor(Some(Arc::clone(&is_without)));
        reload(&mut chain, &Settings::new().with(wait));
        Self { chain, is_without, time: 0 }
    }

    fn set_sensor(&self, is_up: bool) {
        self.is_without.store(!is_up, Ordering::Relaxed);
    }

    fn set(&mut self, options: GatewayOptions) {
        reload(&mut self.chain, &Settings::new().with(options));
    }

    /// What comes out when these come, a microsecond apart.
    fn push(&mut self, packets: &[Vec<u8>], of_batch: usize) -> Vec<Vec<u8>> {
        let timed = packets.iter().map(|packet| {
            self.time += 1_000;
            (self.time, packet.clone())
        });
        let timed: Vec<_> = timed.collect();
        let out = packets_of(&pushed(&mut self.chain, &timed, of_batch));
        assert!(self.chain.rows().iter().all(|row| row.closes()), "{:?}", self.chain.rows());
        out
    }

    /// What comes out when so many seconds have passed since the first packet.
    fn tick(&mut self, seconds: u64) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let mut keep = |batch| -> Result<(), StageError> {
            out.push(batch);
            Ok(())
        };
        self.chain.tick(seconds * SECOND, &mut keep).unwrap();
        assert!(self.chain.rows().iter().all(|row| row.closes()), "{:?}", self.chain.rows());
        packets_of(&out)
    }

    /// What comes out at the end.
    fn drain(&mut self) -> Vec<Vec<u8>> {
        packets_of(&through(&mut self.chain, Vec::new()))
    }

    fn held(&self) -> u64 {
        self.chain.rows()[2].held
    }

    fn dropped(&self, name: &str) -> u64 {
        let row = &self.chain.rows()[2];
        row.drops.iter().find(|drop| drop.name == name).unwrap().packets
    }
}

#[test]
fn what_passes_while_no_sensor_is_up_waits_and_goes_on_in_order() {
    let early = of_flow(1, connection(&[EVIL, b"more", b"still more"], b"here"));
    let clean = of_flow(2, connection(&[b"please"], b"here"));
    let hit = of_flow(3, connection(&[b"an evil", b"-word"], b"here"));
    for of_batch in [1, 3, 256] {
        let mut behind = Behind::new(hold());
        // A flow that passes before the sensor goes.
        assert_eq!(behind.push(&early[..5], of_batch), early[..5]);
        behind.set_sensor(false);
        assert!(behind.push(&early[5..], of_batch).is_empty());
        assert!(behind.push(&clean, of_batch).is_empty());
        assert!(behind.push(&hit, of_batch).is_empty());
        assert!(behind.tick(10).is_empty());
        // What has ended clean is withheld as ever.
        assert_eq!(behind.dropped("withheld"), clean.len() as u64);
        let waiting = [&early[5..], &hit[..]].concat();
        assert_eq!(behind.held(), waiting.len() as u64);
        behind.set_sensor(true);
        assert_eq!(behind.tick(11), waiting);
        assert_eq!((behind.held(), behind.dropped("no_sensor")), (0, 0));
        let remarks = behind.chain.remarks();
        assert_eq!(remarks.get("gateway_waited_for_sensor"), waiting.len() as u64);
        let of_both = (early.len() + hit.len()) as u64;
        assert_eq!(remarks.get("gateway_passed_literal"), of_both);
        // Then all is as before.
        assert_eq!(behind.push(&of_flow(4, hit.clone()), of_batch), of_flow(4, hit.clone()));
    }
}

#[test]
fn what_waits_goes_on_a_part_at_a_time_and_before_what_comes() {
    let evil = |n: u16| {
        let mut packet = udp_packet(1, 2, (1_000, 53), EVIL);
        packet[18..20].copy_from_slice(&n.to_be_bytes());
        packet
    };
    // Another mode and less memory must wait, too.
    let prefix = GatewayOptions { mode: GatewayMode::Prefix, memory: 1 << 20, ..hold() };
    for (next, passed) in [(hold(), 0), (prefix, 1)] {
        let mut behind = Behind::new(hold());
        behind.set_sensor(false);
        let first: Vec<_> = (0..3_000).map(evil).collect();
        assert!(behind.push(&first, 256).is_empty());
        behind.set(next);
        behind.set_sensor(true);
        let second: Vec<_> = (3_000..3_256).map(evil).collect();
        let mut out = behind.push(&second, 256);
        assert!((512..600).contains(&out.len()), "{}", out.len());
        behind.set_sensor(false);
        assert!(behind.tick(1).is_empty(), "the sensor is gone again");
        behind.set_sensor(true);
        let ticks = [2, 3, 4].map(|seconds| behind.tick(seconds));
        assert_eq!(ticks.each_ref().map(Vec::len), [1_024, 1_024, 696]);
        out.extend(ticks.concat());
        let third: Vec<_> = (3_256..3_300).map(evil).collect();
        out.extend(behind.push(&third, 256));
        assert!(out == [&first[..], &second, &third].concat());
        assert_eq!(behind.push(&[udp_packet(1, 2, (1, 53), b"clean")], 1).len(), passed);
    }
}

#[test]
fn beyond_the_budgets_packets_are_dropped_for_want_of_a_sensor() {
    let big = vec![b'x'; 1_400];
    let of_bytes = |flow, segments| {
        let parts = [&[EVIL][..], &vec![&big[..]; segments]].concat();
        of_flow(flow, connection(&parts, b"")[..4 + segments].to_vec())
    };
    // One flow has more than it may: what it has so far waits.
    let long = of_bytes(1, 20);
    let mut few = Behind::new(GatewayOptions { flow_memory: 10_000, ..hold() });
    few.set_sensor(false);
    few.push(&long, 5);
    let held = few.held() as usize;
    assert!((7..=9).contains(&held), "{held}");
    assert_eq!(few.dropped("no_sensor"), (long.len() - held) as u64);
    few.set_sensor(true);
    assert_eq!(few.tick(1), long[..held]);

    // All of them do: flows in which nothing was found make room for those that pass.
    let options = GatewayOptions { memory: 1 << 20, flow_memory: 1 << 20, ..hold() };
    let mut small = Behind::new(options);
    small.set_sensor(false);
    let open = |flow| of_flow(flow, connection(&[&big[..]; 20], b"")[..20].to_vec());
    let clean: Vec<_> = (100..120).flat_map(open).collect();
    small.push(&clean, 16);
    assert_eq!((small.held(), small.dropped("no_sensor")), (400, 0));
    let suspect: Vec<_> = (200..300).flat_map(|flow| of_bytes(flow, 16)).collect();
    small.push(&suspect, 16);
    let dropped = small.dropped("no_sensor");
    assert!(dropped > 1_500 && dropped + small.held() == 2_400, "{dropped}");
    small.set_sensor(true);
    let out = small.tick(1);
    assert_eq!((small.held(), small.dropped("no_sensor")), (0, dropped));
    // Those that came first, and of the others what found room, in order.
    assert_eq!(out[..600], suspect[..600]);
    let mut rest = suspect.iter();
    assert!(out.iter().all(|packet| rest.any(|other| other == packet)));

    // They wait for as long as they may.
    let mut late = Behind::new(GatewayOptions { wait: 20 * SECOND, ..hold() });
    late.set_sensor(false);
    late.push(&long, 5);
    assert!(late.tick(19).is_empty());
    assert_eq!((late.held(), late.dropped("no_sensor")), (long.len() as u64, 0));
    assert!(late.tick(21).is_empty());
    assert_eq!((late.held(), late.dropped("no_sensor")), (0, long.len() as u64));
    // The flow may have as much again.
    let few = GatewayOptions { flow_memory: 10_000, wait: 20 * SECOND, ..hold() };
    let mut again = Behind::new(few);
    again.set_sensor(false);
    again.push(&long[..6], 5);
    again.tick(21);
    assert_eq!((again.held(), again.dropped("no_sensor")), (0, 6));
    again.push(&long[6..10], 5);
    again.set_sensor(true);
    assert_eq!(again.tick(22), long[6..10]);
}

#[test]
fn what_waits_makes_room_for_what_comes_when_a_sensor_is_up() {
    let evil = |n: u16, len: usize| {
        let mut packet = udp_packet(1, 2, (1_000 + n % 8, 53), &[EVIL, &vec![b'x'; len]].concat());
        packet[18..20].copy_from_slice(&n.to_be_bytes());
        packet
    };
    let mut behind =
        Behind::new(GatewayOptions { memory: 1 << 20, flow_memory: 1 << 20, ..hold() });
    behind.set_sensor(false);
    // A block each, of which there are as many.
    let small: Vec<_> = (0..2_048).map(|n| evil(n, 10)).collect();
    behind.push(&small, 256);
    assert_eq!((behind.held(), behind.dropped("no_sensor")), (2_048, 0));
    behind.set_sensor(true);
    // More than the part of it that goes on takes.
    let big: Vec<_> = (2_048..2_304).map(|n| evil(n, 1_990)).collect();
    let mut out = behind.push(&big, 256);
    for round in 0..3 {
        out.extend(behind.tick(1 + round));
    }
    assert_eq!((behind.held(), behind.dropped("no_sensor")), (0, 0));
    assert_eq!(out, [small, big].concat());
}

#[test]
fn the_memory_of_a_flow_limits_what_waits_only_while_no_sensor_is_up() {
    let big = vec![b'x'; 1_400];
    let long = connection(&[&[EVIL][..], &[&big[..]; 20]].concat(), b"")[..24].to_vec();
    let other: Vec<_> = (0..512).map(|n| udp_packet(1, 2, (n, 53), EVIL)).collect();
    let mut behind = Behind::new(GatewayOptions { flow_memory: 10_000, ..hold() });
    behind.set_sensor(false);
    assert!(behind.push(&other, 256).is_empty());
    assert!(behind.push(&long[..8], 4).is_empty());
    assert_eq!((behind.held(), behind.dropped("no_sensor")), (512 + 8, 0));
    // Others wait before it, and more comes of it than it may have.
    behind.set_sensor(true);
    let mut out = behind.push(&long[8..], 16);
    assert!(out.len() < 64 && behind.held() > 480, "{}", out.len());
    out.extend(behind.tick(1));
    assert_eq!((behind.held(), behind.dropped("no_sensor")), (0, 0));
    assert_eq!(out, [other, long].concat());
}

#[test]
fn what_waits_for_a_sensor_and_for_a_verdict_is_in_the_memory_of_one_flow() {
    let big = vec![b'x'; 1_400];
    let clean = connection(&[&big[..]; 12], b"")[..15].to_vec();
    let options = GatewayOptions { mode: GatewayMode::Prefix, prefix: 4_000, ..hold() };
    // The handshake and the first three segments wait for a sensor, in 6 KiB, and nine for a verdict,
    // in 13.5 KiB. Either has room alone; together they are too long, so that the flow passes.
    for (flow_memory, passed, reasons, dropped) in
        [(20 << 10, 6, [6, 0], 0), (16 << 10, 12, [6, 6], 3)]
    {
        let mut behind = Behind::new(GatewayOptions { flow_memory, ..options });
        behind.set_sensor(false);
        assert!(behind.push(&clean, 4).is_empty());
        let held = clean.len() as u64 - dropped;
        assert_eq!((behind.held(), behind.dropped("no_sensor")), (held, dropped));
        behind.set_sensor(true);
        assert_eq!(behind.tick(1), clean[..passed]);
        let remarks = behind.chain.remarks();
        let passed = ["gateway_passed_prefix", "gateway_passed_flow_memory"];
        assert_eq!(passed.map(|name| remarks.get(name)), reasons);
    }
}

#[test]
fn a_tick_drops_a_bounded_number_of_flows_or_single_packets_that_waited_for_too_long() {
    let evil: Vec<_> = (0..9_000).map(|n| udp_packet(1, 2, (n, 53), EVIL)).collect();
    let mut behind = Behind::new(GatewayOptions { wait: 20 * SECOND, ..hold() });
    behind.set_sensor(false);
    // What waited of this flow when it became suspect, four packets, counts as one.
    let flow = of_flow(1, connection(&[b"clean", EVIL], b""));
    assert!(behind.push(&flow[..5], 256).is_empty());
    assert!(behind.push(&evil, 256).is_empty());
    for (seconds, dropped) in [(19, 0), (21, 8_192 + 3), (21, 9_000 + 5)] {
        assert!(behind.tick(seconds).is_empty());
        assert_eq!((behind.dropped("no_sensor"), behind.held()), (dropped, 9_005 - dropped));
    }
}

#[test]
fn how_late_a_packet_is_counts_time_without_packets() {
    let replayed = |seconds| {
        let mut behind = Behind::new(GatewayOptions { wait: 600 * SECOND, ..hold() });
        behind.set_sensor(false);
        assert!(behind.push(&[udp_packet(1, 2, (1, 53), EVIL)], 1).is_empty());
        assert!(behind.tick(seconds - 1).is_empty());
        behind.set_sensor(true);
        assert_eq!(behind.tick(seconds).len(), 1);
        let remarks = behind.chain.remarks();
        ["within_1s", "within_1m", "later"]
            .map(|slot| remarks.get(&format!("gateway_replayed_{slot}")))
    };
    assert_eq!([1, 60, 61].map(replayed), [[1, 0, 0], [0, 1, 0], [0, 0, 1]]);
}

#[test]
fn what_waits_for_a_sensor_at_the_end_is_dropped_and_goes_on_if_it_need_not_wait() {
    let hit = connection(&[EVIL], b"here");
    let open = of_flow(7, connection(&[b"please"], b"here")[..5].to_vec());
    let all = [&hit[..], &open[..]].concat();
    let mut behind = Behind::new(hold());
    behind.set_sensor(false);
    behind.push(&all, 4);
    assert!(behind.drain().is_empty());
    assert_eq!((behind.held(), behind.dropped("no_sensor")), (0, all.len() as u64));

    let mut behind = Behind::new(hold());
    behind.set_sensor(false);
    behind.push(&all, 4);
    behind.set_sensor(true);
    assert_eq!(behind.drain(), all);

    // Another `no_sensor`.
    let mut behind = Behind::new(hold());
    behind.set_sensor(false);
    behind.push(&hit, 4);
    reload(&mut behind.chain, &Settings::new().with(WaitForSensor(None)));
    assert_eq!(behind.tick(1), hit);
}

#[test]
fn another_memory_or_mode_loses_nothing_that_waits_for_a_sensor() {
    let big = vec![b'x'; 1_400];
    let flow = |number| {
        of_flow(number, connection(&[&[EVIL][..], &[&big[..]; 30]].concat(), b"")[..34].to_vec())
    };
    let of_memory = |memory| GatewayOptions { memory, flow_memory: 1 << 20, ..hold() };
    let waiting: Vec<_> = (0..20).flat_map(flow).collect();
    let clean = of_flow(40, connection(&[b"please"], b"here"));
    for mode in [GatewayMode::Hold, GatewayMode::Prefix] {
        let mut behind = Behind::new(of_memory(1 << 20));
        behind.set_sensor(false);
        // More is in force at once, also with another mode.
        let (first, rest) = waiting.split_at(34 * 18);
        behind.push(first, 16);
        assert_eq!(behind.dropped("no_sensor"), 0);
        behind.set(GatewayOptions { mode, ..of_memory(2 << 20) });
        behind.push(rest, 16);
        // Less, and another mode, when a sensor is up.
        behind.set(GatewayOptions { mode: GatewayMode::Prefix, ..of_memory(1 << 20) });
        assert!(behind.tick(1).is_empty());
        let last: Vec<_> = (20..30).flat_map(flow).collect();
        assert!(behind.push(&last, 16).is_empty());
        assert_eq!(behind.dropped("no_sensor"), 0);
        behind.set_sensor(true);
        assert_eq!(behind.tick(2), [&waiting[..], &last].concat());
        assert_eq!((behind.held(), behind.dropped("no_sensor")), (0, 0));
        // Then it is.
        assert_eq!(behind.push(&clean, 16), clean);
    }
    // If nothing waits, it is at once.
    let mut behind = Behind::new(GatewayOptions { mode: GatewayMode::Annotate, ..hold() });
    behind.set_sensor(false);
    behind.set(hold());
    assert!(behind.push(&clean, 16).is_empty());
}

/// The model found this in a longer run: a connection that was reset waits to be dropped, the scanner
/// forgets it, another one between the same ends passes, and then a third flow gets its number.
#[test]
fn a_connection_that_was_reset_does_not_pass_behind_the_next_one() {
    let mut random = Random::new(77);
    let mut data = Vec::new();
    for _ in 0..=21_431 {
        let len = 2 + 4 * random.below(300);
        data = (0..len).map(|_| random.next() as u8).collect();
    }
    assert_eq!((data.len(), &data[..2]), (898, &[0x08, 0x48][..]), "the input that failed");
    gateway_model::packets_of(&data);
}

#[test]
fn packets_of_any_bytes_are_accounted_for_and_flows_with_a_reason_pass_whole() {
    // The fuzzer found this: a flow goes on at the very time after which the scanner forgets it.
    gateway_model::packets_of(&[&[0, 0, 255, 255][..], &[205; 46], &[255; 4]].concat());
    let mut random = Random::new(5);
    for _ in 0..600 {
        let len = 2 + 4 * random.below(300) as usize;
        let data: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        gateway_model::packets_of(&data);
    }
}

/// A flow of the model: its packets, and whether its bytes have the literal.
struct Modelled {
    packets: Vec<Vec<u8>>,
    is_evil: bool,
}

/// A flow, cut up and disturbed by chance.
fn modelled(flow: u16, random: &mut Random) -> Modelled {
    let mut text = vec![b'.'; random.below(60) as usize + EVIL.len()];
    let is_evil = random.below(3) == 0;
    if is_evil {
        let at = random.below((text.len() - EVIL.len() + 1) as u64) as usize;
        text[at..at + EVIL.len()].copy_from_slice(EVIL);
    }
    if random.below(4) == 0 {
        let mut packets: Vec<_> = (0..=random.below(3))
            .map(|_| udp_packet(1, 2, (20_000 + flow, 53), b"a question"))
            .collect();
        packets.push(udp_packet(2, 1, (53, 20_000 + flow), &text));
        return Modelled { packets, is_evil };
    }
    let mut parts: Vec<&[u8]> = Vec::new();
    let mut rest = &text[..];
    while !rest.is_empty() {
        let (part, others) = rest.split_at(rest.len().min(1 + random.below(20) as usize));
        parts.push(part);
        rest = others;
    }
    let mut packets = of_flow(flow, connection(&parts, b"fine"));
    let data = 3..3 + parts.len();
    match random.below(6) {
        // Out of order, again, missing, without an end, with a reset for an end.
        0 => packets[data.clone()].reverse(),
        1 => packets.insert(data.end, packets[data.start].clone()),
        2 => drop(packets.remove(data.start)),
        3 => packets.truncate(data.end + 1),
        4 => {
            let end = packets.len() - 3;
            packets.truncate(end);
            let mut reset = packets[data.end - 1].clone();
            let last = u32::from_be_bytes(reset[38..42].try_into().unwrap());
            let next = last + parts.last().map_or(0, |part| part.len() as u32);
            reset[38..42].copy_from_slice(&next.to_be_bytes());
            reset[47] = RST | ACK;
            reset.truncate(54);
            reset[16..18].copy_from_slice(&40u16.to_be_bytes());
            packets.push(reset);
        }
        _ => {}
    }
    Modelled { packets, is_evil }
}

#[test]
fn flows_pass_whole_and_in_order_or_not_at_all() {
    let mut random = Random::new(11);
    let (mut withheld, mut evil) = (0, 0);
    for round in 0..60 {
        let flows: Vec<_> = (0..40).map(|flow| modelled(flow, &mut random)).collect();
        // Those of a flow in order, the flows by chance.
        let mut next = vec![0; flows.len()];
        let (mut timed, mut time) = (Vec::new(), 0u64);
        let mut open: Vec<usize> = (0..flows.len()).collect();
        while !open.is_empty() {
            let place = random.below(open.len() as u64) as usize;
            let flow = open[place];
            time += random.below(200_000_000);
            timed.push((time, flows[flow].packets[next[flow]].clone()));
            next[flow] += 1;
            if next[flow] == flows[flow].packets.len() {
                open.swap_remove(place);
            }
        }
        let mut options = ScanOptions::new(ScanMode::Stream, Engine::default());
        options.flows = [1_000, 16][round % 2];
        let mut gateway = GatewayOptions { clears_at_end: round % 3 == 0, ..hold() };
        if round % 5 == 0 {
            (gateway.flow_memory, gateway.wait) = (1_500, 5_000_000_000);
        }
        let mut chain = chain_of(&with_options(options, &[EVIL]), gateway);
        let out = passed_at(&mut chain, &timed, 1 + random.below(60) as usize);
        let mut by_flow: HashMap<(u8, [u8; 2]), Vec<Vec<u8>>> = HashMap::new();
        for packet in out {
            let client = if packet[34] >= 10_000u16.to_be_bytes()[0] { 34 } else { 36 };
            by_flow
                .entry((packet[23], [packet[client], packet[client + 1]]))
                .or_default()
                .push(packet);
        }
        for Modelled { packets, is_evil } in &flows {
            let name = (packets[0][23], [packets[0][34], packets[0][35]]);
            let got = by_flow.remove(&name).unwrap_or_default();
            evil += u32::from(*is_evil);
            // What comes long behind the end of a connection is of no flow that is known.
            let is_late = |packet: &Vec<u8>| packet[23] == 6 && packet.len() == 54;
            if !is_evil && packets.ends_with(&got) && got.len() < 3 && got.iter().all(is_late) {
                withheld += 1;
            } else if options.flows == 1_000 {
                assert_eq!(&got, packets, "round {round}");
            } else if *is_evil {
                // Flows that are forgotten before their end may be parted, but none is lost.
                assert!(!got.is_empty(), "round {round}");
            }
        }
    }
    assert!(withheld > 300 && evil > 600, "{withheld} {evil}");
}
