//! Scanning for rules as a stage: which packets are suspect, and what passed them.

use std::sync::Arc;

use forebay_packet::HashKey;
use forebay_pipeline::stages::{CompiledScan, Scan, ScanMode, ScanOptions, ScanReports, ScanRules};
use forebay_pipeline::{Chain, Settings};
use forebay_scan::Engine;
use forebay_scan::rules::{Hazard, RuleSet, Variables};

use crate::scan::{acknowledging, suspects, tcp_packet, udp_packet};
use crate::support::*;

const SYN: u8 = 2;
const ACK: u8 = 16;

/// Rules, compiled.
pub fn compiled(text: &str) -> Arc<CompiledScan> {
    compiled_for(text, ScanOptions::new(ScanMode::Stream, Engine::default()))
}

fn compiled_for(text: &str, options: ScanOptions) -> Arc<CompiledScan> {
    let mut variables = Variables::new();
    variables.set("HOME", "10.0.0.2");
    let (mut rules, mut errors) = (RuleSet::with_variables(variables), Vec::new());
    rules.parse("rules", text.as_bytes(), &mut errors);
    assert!(errors.is_empty(), "{errors:?}");
    Arc::new(CompiledScan::of_rules(ScanRules::new(rules).unwrap(), options, None).unwrap())
}

fn chain(scan: &Arc<CompiledScan>) -> Chain {
    Chain::new().with(Scan::optional(Some(Arc::clone(scan)), HashKey::OFFLINE))
}

fn verdicts(rules: &str, packets: &[Vec<u8>]) -> Vec<bool> {
    suspects(&mut chain(&compiled(rules)), packets)
}

/// A connection from 10.0.0.1:4000 to 10.0.0.2:80: what the client says, and the answer.
fn connection(request: &[u8], answer: &[u8]) -> Vec<Vec<u8>> {
    vec![
        tcp_packet(1, 2, SYN, 100, b""),
        tcp_packet(2, 1, SYN | ACK, 500, b""),
        tcp_packet(1, 2, ACK, 101, b""),
        tcp_packet(1, 2, ACK, 101, request),
        tcp_packet(2, 1, ACK, 501, answer),
        tcp_packet(1, 2, ACK, 101 + request.len() as u32, b""),
    ]
}

#[test]
fn a_literal_counts_in_flows_of_its_rule_and_in_its_direction() {
    let rule = |header: &str, options: &str| {
        format!("alert {header} (msg:\"it\"; {options}content:\"evil-word\"; sid:7;)")
    };
    let request = connection(b"an evil-word", b"fine");
    let from_request = [false, false, false, true, true, true];
    let answer = connection(b"please", b"an evil-word");
    let from_answer = [false, false, false, false, true, true];
    let any = rule("tcp any any -> any any", "");
    assert_eq!(verdicts(&any, &request), from_request);
    assert_eq!(verdicts(&any, &answer), from_answer);
    // A direction holds for all packets of the connection, an end for its ends.
    let to_client = rule("tcp any any -> any any", "flow:to_client; ");
    assert_eq!(verdicts(&to_client, &request), [false; 6]);
    assert_eq!(verdicts(&to_client, &answer), from_answer);
    let home = rule("tcp $HOME 80 -> any any", "");
    assert_eq!(verdicts(&home, &answer), from_answer);
    for other in ["tcp any any -> any 81", "udp any any -> any any", "tcp !$HOME any -> !$HOME any"]
    {
        assert_eq!(verdicts(&rule(other, ""), &request), [false; 6], "{other}");
    }
    // Across segments, of which the first comes last: while bytes are missing, packets are suspect.
    let parted = [
        tcp_packet(1, 2, SYN, 100, b""),
        tcp_packet(1, 2, ACK, 108, b"word"),
        tcp_packet(1, 2, ACK, 101, b"__evil-"),
    ];
    assert_eq!(verdicts(&any, &parted), [false, true, true]);
    let datagrams = [udp_packet(1, 2, (1, 2), b"evil-word"), udp_packet(2, 1, (2, 1), b"x")];
    assert_eq!(verdicts(&rule("udp any any -> any 2", ""), &datagrams), [true, true]);
    assert_eq!(verdicts(&any, &datagrams), [false, false]);
}

#[test]
fn a_stream_is_of_http_by_its_start() {
    let rule = "alert http any any -> any any (http.uri; content:\"secretpath\"; sid:9;)";
    let request = b"GET /secretpath HTTP/1.1\r\n\r\n";
    let passes = |packets: &[Vec<u8>]| *verdicts(rule, packets).last().unwrap();
    let of = |before: &[u8]| connection(&[before, request].concat(), b"");
    assert!(passes(&of(b"")) && passes(&of(b"\r\n")) && passes(&of(b"a001 STARTTLS\r\n")));
    assert!(!passes(&of(b"\x16\x03\x01\x02\0")));
    assert!(passes(&of(b"AUTH_TLS\r\n")));
    // A sensor may take a connection from any segment on, or not have taken a byte that comes again.
    let (handshake, end) = (&of(b"")[..3], 103 + request.len() as u32);
    let sends = |number, bytes: &[u8]| tcp_packet(1, 2, ACK, number, bytes);
    let before = [sends(101, b"XX"), acknowledging(103, tcp_packet(2, 1, ACK, 501, b""))];
    let whole = [sends(103, request), sends(end, b"")];
    assert!(passes(&[handshake, &before, &whole].concat()));
    let again = [sends(102, b"G"), sends(103, &request[1..]), sends(end - 1, b"")];
    assert!(passes(&[handshake, &before, &again].concat()));
    // By the answer, in parts, with the second one first, and in a second connection of the same ends.
    assert!(passes(&connection(b"what of /secretpath", b"HTTP/1.1 200 OK")));
    let parts = [
        tcp_packet(1, 2, ACK, 102, &request[1..]),
        tcp_packet(1, 2, ACK, 101, &request[..1]),
        tcp_packet(1, 2, ACK, 101 + request.len() as u32, b""),
    ];
    assert!(passes(&[handshake, &parts[..]].concat()));
    let fin = [
        tcp_packet(1, 2, 1 | ACK, 104, b""),
        tcp_packet(2, 1, 1 | ACK, 501, b""),
        tcp_packet(1, 2, ACK, 105, b""),
    ];
    let again = [
        tcp_packet(1, 2, SYN, 900_000, b""),
        tcp_packet(2, 1, SYN | ACK, 800_000, b""),
        tcp_packet(1, 2, ACK, 900_001, request),
        tcp_packet(1, 2, ACK, 900_001 + request.len() as u32, b""),
    ];
    let other = tcp_packet(1, 2, ACK, 101, b"SSH");
    let both = [handshake, &[other], &fin, &again[..]].concat();
    let found = verdicts(rule, &both);
    assert_eq!(found[..9], [false; 9], "{found:?}");
    assert_eq!(found[9..], [true, true], "{found:?}");
}

#[test]
fn rules_and_triggers_are_counted_by_packets_and_flows() {
    let scan = compiled(
        "alert tcp any any -> any any (msg:\"one\"; content:\"evil-word\"; sid:7;)\n\
         alert tcp any any -> any 99 (msg:\"two\"; content:\"evil-word\"; sid:8;)\n\
         alert http any any -> any any (http.uri; content:\"secretpath\"; sid:9;)\n\
         alert tcp any any -> any 9999 (flags:S; sid:10;)",
    );
    let mut chain = chain(&scan);
    suspects(&mut chain, &connection(b"an evil-word", b"evil-word"));
    let other = connection(b"GET /%73ecret HTTP/1.1\r\n\r\n", b"");
    let moved = other.iter().map(|packet| {
        let mut packet = packet.clone();
        // The last bytes of the addresses.
        packet[29] += 10;
        packet[33] += 10;
        packet
    });
    suspects(&mut chain, &moved.collect::<Vec<_>>());
    let rules = scan.rules().unwrap();
    let hits = rules.hits(&scan.hits().read().literals);
    let sids: Vec<_> = hits
        .iter()
        .map(|hit| (rules.set().rules()[hit.rule as usize].sid, hit.packets, hit.flows))
        .collect();
    assert_eq!(sids, [(7, 2, 1), (8, 2, 0)]);
    let encoding = rules.hazards();
    let encoding = encoding.iter().find(|(hazard, ..)| *hazard == Hazard::PercentEncoding);
    assert_eq!(encoding.unwrap().2.flows, 1);
    let remarks = chain.remarks();
    assert_eq!((remarks.get("scan_flows_hit"), remarks.get("scan_flows_trigger")), (2, 1));
    assert_eq!(remarks.get("scan_packets_hit"), 2);
    assert!(rules.forwarded().is_empty());
}

#[test]
fn a_gateway_has_suspect_flows_scanned_no_more() {
    let rule = "alert tcp any any -> any any (content:\"evil-word\"; sid:7;)";
    let packets = connection(b"an evil-word", b"evil-word");
    let found = |reports| {
        let scan = compiled(rule);
        let stage = Scan::optional(Some(Arc::clone(&scan)), HashKey::OFFLINE);
        let mut chain = Chain::new().with(stage.reporting(ScanReports(reports)));
        // The first batch ends with the packet that has the literal.
        let (first, rest) = packets.split_at(4);
        let suspects = [suspects(&mut chain, first), suspects(&mut chain, rest)];
        let hits = scan.rules().unwrap().hits(&scan.hits().read().literals);
        (suspects, hits[0].packets, hits[0].flows)
    };
    let (all, packets, flows) = found(false);
    assert_eq!((packets, flows), (2, 1));
    assert_eq!(found(true), (all, 1, 1));
}

#[test]
fn conditions_of_always_forward_rules_pass_packets_or_flows() {
    let icmp = |kind: u8| ipv4(1, 2, 1, 0, 0, &[kind, 0, 0, 0, 0, 1, 0, 1, 9, 9]);
    let pings = [icmp(8), icmp(13), icmp(8)];
    let rule = "alert icmp any any -> $HOME any (itype:8; sid:1;)";
    assert_eq!(verdicts(rule, &pings), [true, false, true]);
    assert_eq!(verdicts("alert icmp $HOME any -> any any (sid:1;)", &pings), [false; 3]);
    assert_eq!(verdicts("alert ip any any -> any any (ip_proto:47; sid:1;)", &pings), [false; 3]);

    let scan = connection(b"hello", b"world!");
    // The SYN alone; the flow from the packet on; nothing before the handshake is complete.
    let syn = "alert tcp any any -> $HOME any (flags:S; sid:1;)";
    assert_eq!(verdicts(syn, &scan), [true, false, false, false, false, false]);
    let long = "alert tcp any any -> any any (flow:to_client; dsize:>5; sid:1;)";
    assert_eq!(verdicts(long, &scan), [false, false, false, false, true, true]);
    let established = "alert tcp any any -> any 80 (flow:established,to_server; sid:1;)";
    assert_eq!(verdicts(established, &scan), [false, false, true, true, true, true]);
    let port = "alert tcp any any -> any 81 (flow:established; sid:1;)";
    assert_eq!(verdicts(port, &scan), [false; 6]);
    let http = "alert http any any -> any any (http.method; content:!\"GET\"; sid:1;)";
    assert_eq!(verdicts(http, &scan), [false; 6]);
    let request = connection(b"POST / HTTP/1.1\r\n", b"");
    assert_eq!(verdicts(http, &request), [false, false, false, true, true, true]);
    // That a rule passes a packet by itself does not hide another, which passes the flow.
    let two = format!("{syn}\nalert tcp any any -> any any (flow:stateless; flags:S+; sid:2;)");
    assert_eq!(verdicts(&two, &scan), [true; 6]);
    let two = "alert ip 10.0.0.1 any -> any any (sid:1;)\n\
               alert tcp any any -> any 80 (flow:to_server; dsize:5; sid:2;)";
    assert_eq!(verdicts(two, &scan), [true, false, true, true, true, true]);
    // What is not IP meets headers of every protocol only.
    let mut arp = vec![0xff; 12];
    arp.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    arp.resize(60, 0);
    assert_eq!(verdicts("alert ip any any -> any any (sid:1;)", &[arp.clone()]), [true]);
    assert_eq!(verdicts(syn, &[arp]), [false]);
}

#[test]
fn packets_and_flows_of_always_forward_rules_are_counted_by_cause() {
    let scan = compiled(
        "alert icmp any any -> any any (itype:8; sid:1;)\n\
         alert tcp any any -> any 80 (flow:established; pcre:\"/a.b/\"; sid:2;)",
    );
    let mut chain = chain(&scan);
    let mut packets = connection(b"hello", b"world");
    packets.push(ipv4(1, 2, 1, 0, 0, &[8, 0, 0, 0, 0, 1, 0, 1]));
    suspects(&mut chain, &packets);
    let rules = scan.rules().unwrap();
    let passed: Vec<_> = rules
        .causes()
        .iter()
        .map(|(cause, number, passed)| (cause.name(), *number, passed.packets, passed.flows))
        .collect();
    assert_eq!(passed, [("pcre_only", 1, 0, 1), ("no_content", 1, 1, 0)]);
    assert_eq!(rules.forwarded().len(), 2);
    let remarks = chain.remarks();
    assert_eq!(remarks.get("scan_flows_forward"), 1);
    assert_eq!(remarks.get("scan_packets_forward"), 1);
}

#[test]
fn headers_around_a_tunnel_count_too() {
    let tunnelled = |packet: Vec<u8>| ipv4(7, 8, 4, 0, 0, &packet[14..]);
    let inner: Vec<_> = connection(b"an evil-word", b"").into_iter().map(tunnelled).collect();
    let hit = [false, false, false, true, true, true];
    let of = |header: &str| format!("alert {header} (content:\"evil-word\"; sid:1;)");
    assert_eq!(verdicts(&of("tcp any any -> any 80"), &inner), hit);
    // The text around the tunnel is another packet's: of any ends.
    assert_eq!(verdicts(&of("udp any any -> any 9"), &inner), hit);
    // A header is met within or around, one way or the other.
    let pass = |header: &str| format!("alert {header} (sid:1;)");
    assert_eq!(verdicts(&pass("ip 10.0.0.8 any -> 10.0.0.7 any"), &inner), [true; 6]);
    assert_eq!(verdicts(&pass("ip 10.0.0.9 any -> any any"), &inner), [false; 6]);
    let ping = [tunnelled(ipv4(1, 2, 1, 0, 0, &[8, 0, 0, 0, 0, 1, 0, 1]))];
    assert_eq!(verdicts(&pass("ip 10.0.0.7 any -> any any"), &ping), [true]);
    assert_eq!(verdicts(&pass("icmp 10.0.0.1 any -> any any"), &ping), [true]);
    assert_eq!(verdicts(&pass("icmp 10.0.0.7 any -> 10.0.0.9 any"), &ping), [false]);
}

#[test]
fn who_is_the_server_is_said_of_connections_seen_from_their_start_only() {
    let rule = "alert tcp any any -> any any (flow:to_client; content:\"evil-word\"; sid:1;)";
    // Without the SYN the flow is in doubt, and so it is where both ends open it.
    let middle = [tcp_packet(1, 2, ACK, 101, b"an evil-word")];
    assert_eq!(verdicts(rule, &middle), [true]);
    let both = [tcp_packet(1, 2, SYN, 100, b""), tcp_packet(2, 1, SYN, 500, b"")];
    assert_eq!(verdicts(rule, &both), [false, true]);
}

#[test]
fn what_is_around_the_payload_of_icmp_is_no_length_of_it() {
    let rule = r#"alert icmp any any -> any any (itype:8; dsize:8; content:"evil-one"; sid:1;)"#;
    let mut ping = ipv4(1, 2, 1, 0, 0, b"\x08\0\0\0\0\x01\0\x01evil-one");
    assert_eq!(verdicts(rule, &[ping.clone()]), [true]);
    ping.extend([0; 1000]);
    assert_eq!(verdicts(rule, &[ping.clone()]), [true]);
    ping[34] = 0;
    assert_eq!(verdicts(rule, &[ping]), [false]);
}

#[test]
fn a_flow_that_may_have_been_known_as_dns_needs_no_other_sign_of_it() {
    let rule = |word: &str| {
        format!(r#"alert dns any any -> any any (content:"{word}-word-of-a-name"; sid:1;)"#)
    };
    let text = b"evil-word-of-a-name";
    let of = |host: u8, text: &[u8]| [udp_packet(host, 200, (1, 2), text)];
    let query = [&[0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &[0; 9]].concat();
    assert_eq!(verdicts(&rule("evil"), &of(1, text)), [false]);
    let mut chain = chain(&compiled(&rule("bad")));
    assert_eq!(suspects(&mut chain, &of(1, &query)), [false]);
    assert_eq!(suspects(&mut chain, &of(1, text)), [false]);
    reload(&mut chain, &Settings::new().with(Some(compiled(&rule("evil")))));
    assert_eq!(suspects(&mut chain, &of(1, text)), [true]);
    // Other flows take its place, and it begins anew.
    let mut options = ScanOptions::new(ScanMode::Stream, Engine::default());
    options.flows = 4;
    let mut chain = self::chain(&compiled_for(&rule("evil"), options));
    assert_eq!(suspects(&mut chain, &of(1, &query)), [false]);
    (2..=9).for_each(|host| assert_eq!(suspects(&mut chain, &of(host, b"x")), [false]));
    assert_eq!(suspects(&mut chain, &of(1, text)), [true]);
}

#[test]
fn evidence_of_old_rules_counts_no_more() {
    let waiting = "alert http any any -> any any (http.user_agent; content:\"evil-word\"; sid:1;)";
    let datagrams = |text: &[u8]| [udp_packet(1, 2, (1, 2), text)];
    let of_udp = "alert udp any any -> any any (content:\"evil-word\"; sid:1;)";
    let (one, other) = (compiled(of_udp), compiled(&of_udp.replace("evil", "bad")));
    let mut chain = chain(&one);
    assert_eq!(suspects(&mut chain, &datagrams(b"bad-word")), [false]);
    reload(&mut chain, &Settings::new().with(Some(other)));
    assert_eq!(suspects(&mut chain, &datagrams(b"evil-word")), [false]);
    assert_eq!(suspects(&mut chain, &datagrams(b"bad-word")), [true]);
    // Rules and literals take each other's place. What was suspect stays so, and what is open and
    // TCP is in doubt with the next segment.
    let open = connection(b"User-Agent: evil-word\r\n", b"");
    assert_eq!(suspects(&mut chain, &open), [false; 6]);
    reload(&mut chain, &Settings::new().with(Some(compiled(waiting))));
    assert_eq!(suspects(&mut chain, &datagrams(b"x")), [true]);
    let next = [tcp_packet(1, 2, ACK, 101 + 23, b"x")];
    assert_eq!(suspects(&mut chain, &next), [true]);
    assert_eq!(chain.remarks().get("scan_doubt_reload"), 1);
    reload(
        &mut chain,
        &Settings::new().with(Some(crate::scan::compiled(ScanMode::Stream, &[b"y"]))),
    );
    assert_eq!(suspects(&mut chain, &[udp_packet(5, 6, (1, 2), b"y")]), [true]);
    assert!(chain.rows().iter().all(|row| row.closes()));
}
