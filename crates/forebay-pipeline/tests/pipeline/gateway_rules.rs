//! Rules behind a gateway: a flow on which the reference matcher fires passes whole, in whatever
//! packets it comes, and one without the rule's contents is withheld.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use forebay_packet::HashKey;
use forebay_packet::random::Random;
use forebay_pipeline::stages::{
    CompiledScan, Gateway, GatewayMode, GatewayOptions, Scan, ScanMode, ScanOptions, ScanReports,
    ScanRules, ScannedFlowsOf,
};
use forebay_pipeline::{Chain, Settings};
use forebay_scan::Engine;
use forebay_scan::reassembly::Limits;
use forebay_scan::rules::{Class, RuleSet};
use forebay_testkit::ids_rules::reference::{self, Traffic};
use forebay_testkit::ids_rules::{ends, lines, make};
use forebay_testkit::parallel;

use crate::support::*;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The two ends of a flow, the client first.
struct Ends {
    protocol: u8,
    /// The ICMP type, if it is that.
    kind: u8,
    sides: [(Ipv4Addr, u16); 2],
}

impl Ends {
    /// Those of a flow that meets the rule's header.
    fn of(rule: &reference::Rule, line: &str) -> Option<Self> {
        let (protocol, mut sides) = ends(rule);
        if rule.to_client {
            sides.reverse();
        }
        let four = |(address, port)| match address {
            IpAddr::V4(address) => Some((address, port)),
            IpAddr::V6(_) => None,
        };
        let kind = line.split_once("itype:").map_or(Some(8), |(_, rest)| {
            let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse().ok()
        })?;
        Some(Self { protocol, kind, sides: [four(sides[0])?, four(sides[1])?] })
    }

    /// An IPv4 packet of one end, part of a datagram where `fragment` says so.
    fn ip(&self, side: usize, id: u16, fragment: u16, bytes: &[u8]) -> Vec<u8> {
        let mut frame = ipv4(1, 2, self.protocol, id, fragment, bytes);
        frame[26..30].copy_from_slice(&self.sides[side].0.octets());
        frame[30..34].copy_from_slice(&self.sides[1 - side].0.octets());
        frame
    }

    fn ports(&self, side: usize) -> Vec<u8> {
        [self.sides[side].1.to_be_bytes(), self.sides[1 - side].1.to_be_bytes()].concat()
    }

    fn tcp(&self, side: usize, flags: u8, [sequence, answer]: [u32; 2], data: &[u8]) -> Vec<u8> {
        let answer = if flags & ACK == 0 { 0 } else { answer };
        let numbers = [sequence.to_be_bytes(), answer.to_be_bytes()].concat();
        let rest = [0x50, flags, 0xff, 0xff, 0, 0, 0, 0];
        self.ip(side, 0, 0, &[&self.ports(side)[..], &numbers, &rest, data].concat())
    }

    /// A packet of a protocol without connections.
    fn datagram(&self, side: usize, data: &[u8]) -> Vec<u8> {
        if self.protocol != UDP {
            return self.ip(side, 0, 0, &[&[self.kind, 0, 0, 0, 0, 1, 0, 1], data].concat());
        }
        let len = (8 + data.len() as u16).to_be_bytes();
        self.ip(side, 0, 0, &[&self.ports(side)[..], &len, &[0, 0], data].concat())
    }
}

/// A piece of one end's stream: where it begins, and its bytes.
type Piece = (usize, Vec<u8>);

/// How a flow comes in packets.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    /// The pieces of a stream.
    pieces: fn(&[u8]) -> Vec<Piece>,
    /// The initial sequence number of the client.
    first: u32,
    opens: bool,
    /// The flags of the last packets.
    end: Option<u8>,
    /// Streams take turns, the server's first.
    alternates: bool,
    /// Packets with data come in fragments.
    fragments: bool,
}

/// Pieces of some length that begin so far behind each other.
fn cut(stream: &[u8], len: usize, step: usize) -> Vec<Piece> {
    let starts = (0..stream.len()).step_by(step);
    starts.map(|at| (at, stream[at..stream.len().min(at + len)].to_vec())).collect()
}

/// Short pieces, or fewer of long streams.
fn short(stream: &[u8], len: usize) -> Vec<Piece> {
    let len = len.max(stream.len() / 100);
    cut(stream, len, len)
}

fn reordered(stream: &[u8]) -> Vec<Piece> {
    let mut pieces = short(stream, 5);
    let mut random = Random::new(stream.len() as u64);
    for at in 1..pieces.len() {
        let with = at - random.below(4.min(at as u64 + 1)) as usize;
        pieces.swap(at, with);
    }
    pieces
}

fn twice(stream: &[u8]) -> Vec<Piece> {
    let pieces = short(stream, 11);
    pieces.iter().flat_map(|piece| [piece.clone(), piece.clone()]).chain(pieces.clone()).collect()
}

fn overlapping(stream: &[u8]) -> Vec<Piece> {
    let step = 5.max(stream.len() / 100);
    cut(stream, 2 * step, step)
}

/// Each piece also with other bytes: first, if `before`.
fn conflicting(stream: &[u8], before: bool) -> Vec<Piece> {
    let with_other = |(at, bytes): Piece| {
        let other = (at, bytes.iter().map(|byte| byte ^ 0x55).collect());
        if before { [other, (at, bytes)] } else { [(at, bytes), other] }
    };
    short(stream, 23).into_iter().flat_map(with_other).collect()
}

const PLAIN: Way = Way {
    name: "plain",
    pieces: |stream| cut(stream, 1_400, 1_400),
    first: 1_000,
    opens: true,
    end: Some(FIN | ACK),
    alternates: false,
    fragments: false,
};

const WAYS: [Way; 15] = [
    PLAIN,
    Way { name: "bytes", pieces: |stream| short(stream, 1), ..PLAIN },
    Way { name: "segments of seven bytes", pieces: |stream| short(stream, 7), ..PLAIN },
    Way { name: "reordered", pieces: reordered, ..PLAIN },
    Way { name: "retransmitted", pieces: twice, ..PLAIN },
    Way { name: "overlapping", pieces: overlapping, ..PLAIN },
    Way { name: "other bytes first", pieces: |stream| conflicting(stream, true), ..PLAIN },
    Way { name: "other bytes later", pieces: |stream| conflicting(stream, false), ..PLAIN },
    Way {
        name: "sequence numbers that wrap",
        pieces: |stream| short(stream, 3),
        first: u32::MAX - 9,
        ..PLAIN
    },
    Way { name: "in turns", pieces: |stream| short(stream, 13), alternates: true, ..PLAIN },
    Way { name: "from the middle", opens: false, ..PLAIN },
    Way { name: "without an end", end: None, ..PLAIN },
    Way { name: "reset", end: Some(RST | ACK), ..PLAIN },
    Way { name: "fragments", fragments: true, ..PLAIN },
    Way {
        name: "fragments from the middle",
        pieces: |stream| short(stream, 40),
        opens: false,
        fragments: true,
        ..PLAIN
    },
];

impl Way {
    /// The packets of a flow.
    fn packets(&self, ends: &Ends, traffic: &Traffic) -> Vec<Vec<u8>> {
        let packets = match ends.protocol {
            TCP => self.connection(ends, traffic),
            _ => self.datagrams(ends, traffic),
        };
        if !self.fragments {
            return packets;
        }
        let mut parts = Vec::new();
        for (packet, id) in packets.into_iter().zip(1..) {
            let data = &packet[34..];
            if data.len() <= 32 {
                parts.push(packet);
                continue;
            }
            let side = usize::from(packet[26..30] != ends.sides[0].0.octets());
            let half = (data.len() / 2).next_multiple_of(8);
            parts.push(ends.ip(side, id, MORE, &data[..half]));
            parts.push(ends.ip(side, id, (half / 8) as u16, &data[half..]));
        }
        parts
    }

    fn connection(&self, ends: &Ends, traffic: &Traffic) -> Vec<Vec<u8>> {
        let streams = [&traffic.to_server, &traffic.to_client];
        let starts = [self.first.wrapping_add(1), 7_001];
        let end = |side: usize| starts[side].wrapping_add(streams[side].len() as u32);
        let mut packets = Vec::new();
        if self.opens {
            packets.push(ends.tcp(0, SYN, [self.first, 0], b""));
            packets.push(ends.tcp(1, SYN | ACK, [7_000, starts[0]], b""));
            packets.push(ends.tcp(0, ACK, starts, b""));
        }
        let segment = |side: usize, (at, data): &Piece, answer: u32| {
            ends.tcp(side, ACK, [starts[side].wrapping_add(*at as u32), answer], data)
        };
        let pieces = streams.map(|stream| (self.pieces)(stream));
        if self.alternates {
            for turn in 0..pieces[0].len().max(pieces[1].len()) {
                for side in [1, 0] {
                    let piece = pieces[side].get(turn);
                    packets.extend(piece.map(|piece| segment(side, piece, starts[1 - side])));
                }
            }
        } else {
            packets.extend(pieces[0].iter().map(|piece| segment(0, piece, starts[1])));
            packets.extend(pieces[1].iter().map(|piece| segment(1, piece, end(0))));
        }
        if let Some(flags) = self.end {
            let (a, b) = (end(0), end(1));
            packets.push(ends.tcp(0, flags, [a, b], b""));
            if flags & FIN != 0 {
                packets.push(ends.tcp(1, flags, [b, a.wrapping_add(1)], b""));
                packets.push(ends.tcp(0, ACK, [a.wrapping_add(1), b.wrapping_add(1)], b""));
            }
        }
        packets
    }

    fn datagrams(&self, ends: &Ends, traffic: &Traffic) -> Vec<Vec<u8>> {
        let sides = if self.alternates { [1, 0] } else { [0, 1] };
        let texts = [&traffic.to_server, &traffic.to_client];
        let sent = sides.into_iter().filter(|&side| !texts[side].is_empty());
        sent.map(|side| ends.datagram(side, texts[side])).collect()
    }
}

/// What a gateway has for its flows.
#[derive(Clone, Copy)]
enum Room {
    Enough,
    /// Too little for packets that wait.
    FewPackets,
    /// Too little for a flow, or too little time.
    ShortWait,
    /// Too little for the scanner's flows and their bytes.
    FewFlows,
}

const ROOMS: [Room; 4] = [Room::Enough, Room::FewPackets, Room::ShortWait, Room::FewFlows];

fn compiled(rules: RuleSet, engine: Engine, room: Room) -> Arc<CompiledScan> {
    let mut options = ScanOptions::new(ScanMode::Stream, engine);
    if let Room::FewFlows = room {
        options.flows = 1;
        options.reassembly = Limits { connection: 16, ..options.reassembly };
    }
    Arc::new(CompiledScan::of_rules(ScanRules::new(rules).unwrap(), options, None).unwrap())
}

/// What a gateway lets through of the packets.
fn passed(
    scan: &Arc<CompiledScan>,
    room: Room,
    mode: GatewayMode,
    packets: &[Vec<u8>],
) -> Vec<Vec<u8>> {
    let usual = GatewayOptions { mode, clears_at_end: true, ..GatewayOptions::default() };
    let options = match room {
        Room::Enough | Room::FewFlows => usual,
        Room::FewPackets => GatewayOptions { memory: 2 << 10, ..usual },
        Room::ShortWait => GatewayOptions { flow_memory: 600, wait: 3_000, ..usual },
    };
    let scanner = Scan::optional(Some(Arc::clone(scan)), HashKey::OFFLINE);
    let flows = ScannedFlowsOf { flows: 16, idle: scan.options().idle };
    let mut chain = Chain::new()
        .with(scanner.reporting(ScanReports(true)))
        .with(classify())
        .with(Gateway::new(options))
        .configured(&Settings::new().with(flows));
    let timed: Vec<_> = (1..).map(|i| i * 1_000).zip(packets.iter().cloned()).collect();
    let out = through(&mut chain, batches(&timed, 1 + packets.len() % 9));
    let rows = chain.rows();
    assert!(rows.iter().all(|row| row.closes() && row.held == 0), "{rows:?}");
    self::packets(&out).into_iter().map(|(_, packet)| packet).collect()
}

fn rule_set(line: &str) -> RuleSet {
    let (mut rules, mut errors) = (RuleSet::new(), Vec::new());
    rules.parse("rules", line.as_bytes(), &mut errors);
    assert!(errors.is_empty(), "{errors:?} {line}");
    rules
}

/// A rule that can be filtered, the ends of a flow for it, and traffic on which it fires. Texts are
/// made without regard to their length, so that a datagram is left out where a rule asks for one.
fn subject(line: &str) -> Option<(RuleSet, reference::Rule, Ends, Traffic)> {
    let rules = rule_set(line);
    let rule = &rules.rules()[0];
    let reference = reference::parse(line)?;
    let ends = Ends::of(&reference, line)?;
    let has_length = rule.features.least_payload > 0 || !rule.condition.fields.is_empty();
    if rule.class != Class::Filterable || ends.protocol != TCP && has_length {
        return None;
    }
    let traffic = make::traffic(&reference)?;
    Some((rules, reference, ends, traffic))
}

/// The bytes of two lists of packets are the same, in whatever order.
fn same(mut a: Vec<Vec<u8>>, mut b: Vec<Vec<u8>>) -> bool {
    a.sort_unstable();
    b.sort_unstable();
    a == b
}

#[test]
fn a_flow_on_which_a_rule_fires_passes_whole() {
    let Some(lines) = lines() else { return };
    let numbered: Vec<_> = (0..).zip(&lines).collect();
    let [rules_seen, flows, packets_seen] = [const { AtomicUsize::new(0) }; 3];
    parallel::for_each(&numbered, |&(number, line): &(usize, &String)| {
        let Some((rules, reference, ends, plain)) = subject(line) else { return };
        rules_seen.fetch_add(1, Ordering::Relaxed);
        let (engine, room) = (Engine::ALL[number % 2], ROOMS[number / 2 % 4]);
        let scan = compiled(rules, engine, room);
        let mutants = make::MUTATIONS.iter().filter_map(|(name, change)| {
            let mutant = make::mutated(&plain, *change)?;
            reference.fires(&mutant).then_some((*name, mutant))
        });
        // The plain text in every way, and each mutant in one.
        let all = WAYS.map(|way| (way, "", plain.clone())).into_iter().chain(
            mutants
                .enumerate()
                .map(|(at, (name, mutant))| (WAYS[(number + at) % WAYS.len()], name, mutant)),
        );
        for (at, (way, mutation, traffic)) in all.enumerate() {
            if ends.protocol != TCP && traffic.to_server.len().max(traffic.to_client.len()) > 1_400
            {
                continue;
            }
            let packets = way.packets(&ends, &traffic);
            let mode = [GatewayMode::Hold, GatewayMode::Prefix][(number + at) % 2];
            let out = passed(&scan, room, mode, &packets);
            let is_whole = if way.fragments { same(out, packets.clone()) } else { out == packets };
            assert!(is_whole, "{}, {mutation}, {}: {line}", way.name, mode.name());
            flows.fetch_add(1, Ordering::Relaxed);
            packets_seen.fetch_add(packets.len(), Ordering::Relaxed);
        }
    });
    let [rules_seen, flows] = [rules_seen, flows].map(AtomicUsize::into_inner);
    println!("{rules_seen} of {} rules, {flows} flows, {packets_seen:?} packets", lines.len());
    assert!(rules_seen * 10 > lines.len() * 8 && flows > rules_seen * WAYS.len(), "{flows}");
}

#[test]
fn a_flow_without_the_contents_of_its_rule_is_withheld() {
    let Some(lines) = lines() else { return };
    let [made, withheld, missed] = [const { AtomicUsize::new(0) }; 3];
    parallel::for_each(&lines, |line| {
        let Some((rules, reference, ends, traffic)) = subject(line) else { return };
        let scan = compiled(rules, Engine::Oracle, Room::Enough);
        let mut other = reference.clone();
        for content in other.contents.iter_mut().filter(|content| !content.negated) {
            content.bytes.fill(b'q');
        }
        let Some(without) = make::traffic(&other).filter(|made| !reference.fires(made)) else {
            return;
        };
        if without.to_server.len().max(without.to_client.len()) > 1_400 {
            return;
        }
        made.fetch_add(1, Ordering::Relaxed);
        let out = passed(&scan, Room::Enough, GatewayMode::Hold, &PLAIN.packets(&ends, &without));
        withheld.fetch_add(usize::from(out.is_empty()), Ordering::Relaxed);
        // What the other test would find if the literals of a rule were not looked for: those of a
        // rule with other contents are looked for in the traffic of this one.
        let mut parts = line.split("content:\"").map(str::to_owned);
        let mut changed = parts.next().unwrap();
        for part in parts {
            let end = part.find('"').unwrap();
            changed = format!("{changed}content:\"{}{}", "q".repeat(end.min(6)), &part[end..]);
        }
        let (mut rules, mut errors) = (RuleSet::new(), Vec::new());
        rules.parse("rules", changed.as_bytes(), &mut errors);
        if rules.filterable().count() == 1 {
            let scan = compiled(rules, Engine::Oracle, Room::Enough);
            let packets = PLAIN.packets(&ends, &traffic);
            let out = passed(&scan, Room::Enough, GatewayMode::Hold, &packets);
            missed.fetch_add(usize::from(out.is_empty()), Ordering::Relaxed);
        }
    });
    let [made, withheld, missed] = [made, withheld, missed].map(AtomicUsize::into_inner);
    println!("{withheld} of {made} withheld, {missed} missed");
    assert!(made > 1_000 && withheld * 10 > made * 9, "{withheld} of {made}");
    assert!(missed * 10 > made * 8, "{missed} of {made}");
}
