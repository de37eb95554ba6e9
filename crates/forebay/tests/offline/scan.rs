//! `forebay scan`: what is found, against a search byte by byte behind headers parsed here.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::command::{Ran, run, run_with_input};
use crate::support::data;
use crate::support::scratch::Scratch;
use forebay_testkit::capture::{self, Packet};
use forebay_testkit::make::{self, ETHERNET, Pcap};

/// UDP ports behind which a tunnel may be.
const TUNNELS: [u16; 4] = [4789, 8472, 6081, 2152];

fn scan(literals: &str, capture: &str, options: &[&str]) -> Ran {
    run(["scan", "--literals", literals, "-r", capture].iter().chain(options))
}

fn hex(literals: &[&[u8]]) -> String {
    let line = |literal: &&[u8]| {
        let digits: String = literal.iter().map(|byte| format!("{byte:02x}")).collect();
        digits + "\n"
    };
    literals.iter().map(line).collect()
}

/// The payload of a TCP segment or UDP datagram directly in IP directly in Ethernet.
fn payload(packet: &Packet) -> Option<&[u8]> {
    let frame = &packet.data;
    let word = |at: usize| Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?));
    if packet.link != ETHERNET {
        return None;
    }
    let (protocol, at, end) = match (word(12)?, frame.get(14)? >> 4) {
        (0x0800, 4) if word(20)? & 0x3fff == 0 => {
            let header = usize::from(frame.get(14)? & 15) * 4;
            (*frame.get(23)?, 14 + header, 14 + usize::from(word(16)?))
        }
        (0x86dd, 6) => (*frame.get(20)?, 54, 54 + usize::from(word(18)?)),
        _ => return None,
    };
    let start = match protocol {
        6 => at + usize::from(frame.get(at + 12)? >> 4) * 4,
        17 if !TUNNELS.contains(&word(at + 2)?) => at + 8,
        _ => return None,
    };
    frame.get(start..end.min(frame.len()))
}

fn is_in(literal: &[u8], text: &[u8], nocase: bool) -> bool {
    text.windows(literal.len()).any(|window| match nocase {
        true => window.eq_ignore_ascii_case(literal),
        false => window == literal,
    })
}

/// The pairs that `--hits` prints, as numbers from 0; each line once, in order.
fn pairs(text: &str) -> BTreeSet<(usize, usize)> {
    let number = |text: &str| text.parse::<usize>().unwrap() - 1;
    let pair =
        |line: &str| line.split_once(' ').map(|(packet, line)| (number(packet), number(line)));
    let listed: Vec<_> = text.lines().map(|line| pair(line).unwrap()).collect();
    assert!(listed.is_sorted(), "in order");
    let pairs: BTreeSet<_> = listed.iter().copied().collect();
    assert_eq!(pairs.len(), listed.len(), "each pair once");
    pairs
}

#[test]
fn hits_are_those_of_a_search_byte_by_byte() {
    let capture = data::folder().join("mix/dev-mix.pcap");
    let packets = capture::read(&capture).packets;
    let payloads: Vec<_> = packets.iter().map(payload).collect();
    let parsed = payloads.iter().flatten().filter(|text| !text.is_empty()).count();
    assert!(parsed > data::at_least(15_000, 1_000), "{parsed} payloads");
    // Of every so many payloads a piece, and short literals, which are found often.
    let texts = payloads.iter().flatten().filter(|text| text.len() > 40).step_by(parsed / 60);
    let piece = |(n, text): (usize, &&[u8])| text[n % 7..][..4 + n % 23].to_vec();
    let mut literals: Vec<Vec<u8>> = texts.enumerate().map(piece).collect();
    literals
        .extend([&b"\r\n"[..], b"HTTP", b"hTTp", b"\0", b"\0\0\0\x01\0", b"HTTP"].map(Vec::from));
    let scratch = Scratch::with_packets(0);
    let slices: Vec<&[u8]> = literals.iter().map(Vec::as_slice).collect();
    let file = scratch.file("literals", hex(&slices).as_bytes());
    for (option, nocase) in [(None, false), (Some("--nocase"), true)] {
        let mut expected = BTreeSet::new();
        for (i, text) in payloads.iter().enumerate().filter_map(|(i, text)| Some((i, (*text)?))) {
            let found = (0..literals.len()).filter(|&n| is_in(&literals[n], text, nocase));
            expected.extend(found.map(|n| (i, n)));
        }
        let options: Vec<&str> = ["--hits"].into_iter().chain(option).collect();
        let printed = scan(&file, capture.to_str().unwrap(), &options).exits(0).text();
        let mut found = pairs(&printed);
        found.retain(|&(packet, _)| payloads[packet].is_some());
        assert!(expected.len() > 300, "{} hits", expected.len());
        let (missed, wrong) =
            (expected.difference(&found).next(), found.difference(&expected).next());
        assert_eq!((missed, wrong), (None, None), "{option:?}");
    }
}

#[test]
fn every_form_of_the_result_has_the_same_hits() {
    let scratch = Scratch::with_packets(0);
    let datagram = |text: &[u8]| make::udp(([10, 0, 0, 1], 4_000), ([10, 0, 0, 2], 53), text);
    let arp = [&[0xff; 12][..], &[8, 6], &[0; 28]].concat();
    let frames =
        [datagram(b"one two"), arp, datagram(b""), datagram(b"TWO three\0"), datagram(b"4")];
    let input = scratch.file("in.pcap", &Pcap::of(ETHERNET).file(&frames));
    let text = format!("# words\n{}\n{}", hex(&[b"two"]), hex(&[b"one", b"e\0", b"five"]));
    let file = scratch.file("literals", text.as_bytes());
    let hits = scan(&file, &input, &["--hits"]).exits(0).text();
    assert_eq!(hits, "1 2\n1 4\n4 5\n", "packets and lines from 1");
    let from_stdin = ["scan", "--literals", "-", "-r", &input, "--hits", "--nocase"];
    let nocase = run_with_input(from_stdin, text.as_bytes()).exits(0).text();
    assert_eq!(nocase, "1 2\n1 4\n4 2\n4 5\n");

    let listed = scan(&file, &input, &["--hits", "--json"]).exits(0).json();
    let expected = json!([{"packet": 1, "literals": [2, 4]}, {"packet": 4, "literals": [5]}]);
    assert_eq!(listed["hits"], expected);
    let len = |packets: &[usize]| packets.iter().map(|&i| frames[i].len()).sum::<usize>();
    let sums = scan(&file, &input, &["--json"]).exits(0).json();
    assert_eq!(sums["hits"], Value::Null);
    for of in [&sums, &listed] {
        assert_eq!(of["all"], json!({"packets": 5, "bytes": len(&[0, 1, 2, 3, 4])}));
        assert_eq!(of["hit"], json!({"packets": 2, "bytes": len(&[0, 3])}));
        assert_eq!(of["not_ip"], json!({"packets": 1, "bytes": len(&[1])}));
        assert_eq!((&of["literals"], &of["matches"]), (&json!(4), &json!(3)));
        assert_eq!(of["scanned_bytes"], json!(7 + 10 + 1));
        let row = |line: u32, text: &str, packet: usize| json!({"literal": line, "text": text, "packets": 1, "bytes": len(&[packet])});
        assert_eq!(of["found"], json!([row(2, "two", 0), row(4, "one", 0), row(5, "e|00|", 3)]));
        let stages: Vec<_> =
            of["ledger"].as_array().unwrap().iter().map(|row| &row["stage"]).collect();
        assert_eq!(stages, ["read", "scan", "write"]);
    }
    let table = scan(&file, &input, &[]).exits(0).text();
    let rows: Vec<Vec<&str>> =
        table.lines().skip(2).map(|line| line.split_whitespace().take(2).collect()).collect();
    assert_eq!(rows, [["2", "1"], ["4", "1"], ["5", "1"], ["-", "1"], ["hit", "2"], ["all", "5"]]);
}

/// Segments of a connection to port 80, by sequence number: text and control bits.
fn segments(parts: &[(u32, &[u8], u8)]) -> Vec<Vec<u8>> {
    let segment = |&(sequence, text, flags): &(u32, &[u8], u8)| {
        let mut tcp = [4_000_u16.to_be_bytes(), 80_u16.to_be_bytes()].concat();
        tcp.extend(sequence.to_be_bytes());
        tcp.extend([0, 0, 0, 0, 0x50, flags, 0x20, 0, 0, 0, 0, 0]);
        tcp.extend(text);
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
        frame.extend((20 + tcp.len() as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(tcp);
        frame
    };
    parts.iter().map(segment).collect()
}

#[test]
fn by_stream_literals_are_found_across_segments_and_doubts_are_told() {
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    let scratch = Scratch::with_packets(0);
    let file = scratch.file("literals", hex(&[b"across segments", b"once"]).as_bytes());
    // The third segment comes first, and the second completes the literal.
    let frames = segments(&[
        (99, b"", SYN),
        (100, b"once acr", ACK),
        (115, b"ments", ACK),
        (108, b"oss seg", ACK),
        (108, b"oss seg", ACK),
    ]);
    let input = scratch.file("in.pcap", &Pcap::of(ETHERNET).file(&frames));
    assert_eq!(scan(&file, &input, &["--hits"]).exits(0).text(), "2 2\n");
    for engine in ["simd", "oracle"] {
        let options = ["--hits", "--stream", "--engine", engine];
        assert_eq!(scan(&file, &input, &options).exits(0).text(), "2 2\n4 1\n", "{engine}");
    }
    let said = scan(&file, &input, &["--stream", "--json"]).exits(0).json();
    assert_eq!((&said["matches"], &said["doubts"]), (&json!(2), &json!({})), "{said}");
    assert_eq!(said["closes"], true, "{said}");
    // A connection that is seen from its middle.
    let input = scratch.file("middle.pcap", &Pcap::of(ETHERNET).file(&frames[1..2]));
    let said = scan(&file, &input, &["--stream", "--json"]).exits(0).json();
    assert_eq!((&said["matches"], &said["doubts"]), (&json!(1), &json!({"middle": 1})), "{said}");
    // A hole that stays open to the end of the capture.
    let input = scratch
        .file("hole.pcap", &Pcap::of(ETHERNET).file(&[&frames[..1], &frames[2..3]].concat()));
    let said = scan(&file, &input, &["--stream", "--json"]).exits(0).json();
    assert_eq!((&said["matches"], &said["doubts"]), (&json!(0), &json!({"gap": 1})), "{said}");
    let input = scratch.file("middle.pcap", &Pcap::of(ETHERNET).file(&frames[1..2]));
    let table = scan(&file, &input, &["--stream"]).exits(0).text();
    assert!(table.contains("flows that may have more: middle 1"), "{table}");
}

#[test]
fn what_was_learned_of_traffic_changes_no_result() {
    let capture = data::folder().join("mix/dev-mix.pcap");
    let capture = capture.to_str().unwrap();
    let scratch = Scratch::with_packets(0);
    let file =
        scratch.file("literals", hex(&[b"HTTP/1.1", b"\r\n\r\n", b"ab", b"host: "]).as_bytes());
    let hits = |options: &[&str]| scan(&file, capture, options).exits(0).text();
    let usual = hits(&["--hits", "--nocase"]);
    assert!(usual.lines().count() > 100);
    assert_eq!(hits(&["--hits", "--nocase", "--learn", capture]), usual);
    let usual = hits(&["--hits", "--nocase", "--stream"]);
    assert_eq!(hits(&["--hits", "--nocase", "--stream", "--learn", capture]), usual);
    let refused = scan(&file, capture, &["--learn", "/nothing"]);
    assert!(refused.exits(1).stderr.contains("/nothing"));
}

#[test]
fn compiled_sets_are_kept_and_damaged_ones_replaced() {
    let capture = data::folder().join("mix/dev-mix.pcap");
    let capture = capture.to_str().unwrap();
    let scratch = Scratch::with_packets(0);
    let file = scratch.file("literals", hex(&[b"HTTP/1.1", b"\r\n\r\n", b"ab"]).as_bytes());
    let folder = scratch.path("cache").to_str().unwrap().to_owned();
    let cached = |options: &[&str]| {
        let options = [options, &["--json", "--cache", &folder]].concat();
        scan(&file, capture, &options).exits(0)
    };
    let usual = scan(&file, capture, &["--json"]).exits(0).json();
    assert_eq!(usual["cache"], Value::Null);
    for expected in ["written", "read"] {
        let said = cached(&[]);
        assert_eq!((&said.json()["cache"], &*said.stderr), (&json!(expected), ""));
        assert_eq!(said.json()["found"], usual["found"]);
    }
    assert_eq!(cached(&["--stream"]).json()["cache"], "read");
    assert_eq!(cached(&["--engine", "oracle"]).json()["cache"], Value::Null);
    let kept = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&kept, b"damaged").unwrap();
    let said = cached(&[]);
    assert_eq!(said.json()["cache"], "written");
    assert_eq!(said.json()["found"], usual["found"]);
    let warning = format!("warning: cache {}: it is too short", kept.display());
    assert!(said.stderr.starts_with(&warning), "{}", said.stderr);
}

#[test]
fn many_matches_come_in_order_and_memory_is_bounded() {
    let scratch = Scratch::with_packets(0);
    // As many matches as queues have room for, several times.
    let text: Vec<u8> = (0..=255).collect();
    let frame = make::udp(([10, 0, 0, 1], 4_000), ([10, 0, 0, 2], 53), &text);
    let packets = 600;
    let input = scratch.file("in.pcap", &Pcap::of(ETHERNET).file(&vec![frame; packets]));
    let literals: Vec<&[u8]> = (0..16).flat_map(|_| text.chunks(1)).collect();
    let file = scratch.file("literals", hex(&literals).as_bytes());
    let printed = scan(&file, &input, &["--hits"]).exits(0).text();
    let expected = packets * literals.len();
    assert!(expected > 2 << 20, "{expected} matches");
    assert_eq!(pairs(&printed).len(), expected);
}

#[test]
fn what_is_wrong_with_literals_is_said_with_its_line() {
    let scratch = Scratch::with_packets(3);
    let input = scratch.input.clone();
    for (text, line) in [("6f\n6f6\n", "line 2"), ("\n\nxx\n", "line 3"), ("é\n", "line 1")] {
        let file = scratch.file("wrong", text.as_bytes());
        scan(&file, &input, &[]).exits(1).says(&["wrong", line, "hexadecimal"]);
    }
    let long = "61".repeat(5_000);
    let file = scratch.file("long", long.as_bytes());
    scan(&file, &input, &[]).exits(1).says(&["long", "line 1", "4096"]);
    let file = scratch.file("binary", &[0x36, 0x31, b'\n', 0xff]);
    scan(&file, &input, &[]).exits(1).says(&["binary", "line 2", "0xff", "UTF-8"]);
    scan("/no/such/file", &input, &[]).exits(1).says(&["/no/such/file"]);
    scan("-", "-", &[]).exits(2).says(&["`-`"]);
    run(["scan", "-r", &input]).exits(2);
    let good = scratch.file("good", b"00\n");
    scan(&good, &input, &["--engine", "fast"]).exits(2).says(&["fast", "oracle"]);
    // No literals: nothing is found, and every packet accounted for.
    let empty = scratch.file("empty", b"# none\n");
    let none = scan(&empty, &input, &["--json"]).exits(0).json();
    assert_eq!((&none["matches"], &none["all"]["packets"]), (&json!(0), &json!(3)));
}
