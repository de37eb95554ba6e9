//! Captures of the `uniform` and `paper` profiles, and what tcpdump says of all.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::process::{Command, Stdio};

use crate::common::{Inner, packets_of, parse, pcap};
use forebay_gen::{Config, Generator, Profile};
use forebay_packet::Layout;

fn keys(capture: &[(u64, Vec<u8>)]) -> HashMap<crate::common::Key, u64> {
    let mut counts = HashMap::new();
    for (_, packet) in capture {
        match parse(packet).inner {
            Inner::Flow(key) => *counts.entry(key).or_default() += 1,
            Inner::Later => panic!("no fragments here"),
        }
    }
    counts
}

/// Output of tcpdump reading a capture from standard input, errors last; nothing
/// where tcpdump is not installed.
fn tcpdump(file: &[u8], arguments: &[&str]) -> Option<String> {
    let child = Command::new("tcpdump")
        .args(["-nn", "-r", "-"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            forebay_testkit::skipped(&format!("tcpdump does not run: {error}"));
            return None;
        }
    };
    let mut stdin = child.stdin.take().unwrap();
    let file = file.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&file));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "tcpdump {arguments:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn uniform_frames_have_one_size_and_visit_every_flow() {
    for (packets, flows, size) in [(40_000, 100, 64), (500, 500, 64), (1_000, 990, 1_518)] {
        let config = Config {
            packets,
            flows,
            size: Some(size),
            profile: Profile::Uniform,
            ..Config::default()
        };
        let capture = packets_of(config);
        assert_eq!(capture.len() as u64, packets);
        assert!(capture.iter().all(|(_, packet)| packet.len() == usize::from(size) - 4));
        assert!(capture.is_sorted_by(|a, b| a.0 < b.0));
        let counts = keys(&capture);
        assert_eq!(counts.len() as u64, flows);
        let mean = packets / flows;
        let spread = |n: u64| n > mean / 2 && n < mean * 2;
        assert!(mean < 100 || counts.values().all(|&n| spread(n)), "{counts:?}");
    }
}

#[test]
fn paper_shares_are_those_of_table_1() {
    // In hundredths of a percent.
    let shares = [
        ("ip", 10_000),
        ("ip and tcp", 9_980),
        ("tcp", 9_980),
        ("ip and udp", 20),
        ("udp", 20),
        ("ip and dst net 192.168.1.0/24", 490),
        ("dst net 192.168.1.0/24", 490),
        ("ip and net 192.168.1.0/24", 1_090),
        ("net 192.168.1.0/24", 1_090),
        ("ip and dst port 3000", 930),
        ("dst port 3000", 930),
        ("ip and port 3000", 2_141),
        ("port 3000", 2_141),
    ];
    for (packets, flows) in [(10_000, 10), (10_000, 1_000), (3_000, 3_000)] {
        let config = Config { packets, flows, profile: Profile::Paper, ..Config::default() };
        let capture = packets_of(config);
        assert_eq!(capture.len() as u64, packets);
        assert!(capture.iter().all(|(_, packet)| packet.len() == 60));
        assert_eq!(keys(&capture).len() as u64, flows);
        let file = pcap(&capture);
        for (filter, share) in shares {
            let Some(lines) = tcpdump(&file, &[filter]) else { return };
            let matched = lines.lines().count() as i64;
            let off = matched * 10_000 / packets as i64 - share;
            assert!(off.abs() <= 10, "{filter}: {matched} of {packets}");
        }
    }
}

#[test]
fn tcpdump_finds_nothing_wrong() {
    let config = Config { packets: 30_000, flows: 4_000, seed: 8, ..Config::default() };
    let file = pcap(&packets_of(config));
    let Some(text) = tcpdump(&file, &["-vv"]) else { return };
    assert!(text.lines().count() > 30_000);
    let mut error = false;
    for line in text.lines() {
        // Segments in the middle of a body are no HTTP messages.
        let mut line = line.replace("[|http]", "");
        if error {
            // What an ICMP error quotes of a TCP segment is eight bytes.
            line = line.replace("[|tcp]", "");
        }
        error = match line.starts_with('\t') {
            true => error,
            false => line.contains("unreachable") || (error && line.starts_with(' ')),
        };
        for bad in [
            "(bad",
            "bad cksum",
            "bad udp",
            "incorrect",
            "truncated",
            "[|",
            "invalid",
            "malformed",
            "wrong",
        ] {
            assert!(!line.contains(bad), "{line}");
        }
    }
}

#[test]
fn an_empty_capture_is_no_batch() {
    for profile in Profile::ALL {
        let config = Config { packets: 0, flows: 0, profile, ..Config::default() };
        assert!(Generator::new(config).unwrap().next_batch().unwrap().is_none());
    }
}

#[test]
fn batches_lie_as_pcap_records_and_all_but_the_last_are_full() {
    let config = Config { packets: 5_000, flows: 100, ..Config::default() };
    let mut generator = Generator::new(config).unwrap();
    let mut sizes = Vec::new();
    let mut left = generator.left();
    assert_eq!(left, 5_000);
    while let Some(batch) = generator.next_batch().unwrap() {
        left -= batch.len() as u64;
        assert_eq!(generator.left(), left);
        assert_eq!(batch.interfaces(), generator.interfaces());
        sizes.push(batch.len());
        assert_eq!(batch.layout(), Layout::PcapRecords);
        for i in 0..batch.len() {
            let time = batch.ticks(i);
            let fields = [time / 1_000_000_000, time % 1_000_000_000].map(|field| field as u32);
            let fields = [fields[0], fields[1], batch.cap_len(i), batch.wire_len(i)];
            let start = batch.offset(i) as usize - 16;
            let header = &batch.region().bytes()[start..start + 16];
            assert_eq!(header, fields.map(u32::to_le_bytes).concat());
        }
    }
    let last = sizes.pop().unwrap();
    assert_eq!(sizes.iter().copied().collect::<HashSet<_>>(), HashSet::from([256]));
    assert_eq!(sizes.len() * 256 + last, 5_000);
}
