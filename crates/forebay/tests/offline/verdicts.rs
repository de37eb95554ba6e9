//! The verdicts of `forebay filter` against libpcap: its compiler, its interpreter, and
//! tcpdump.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::data::Indexed;
use crate::support::libpcap::Oracle;
use crate::support::{command, data};
use forebay_testkit::capture::{self, Packet};
use forebay_testkit::make::{ETHERNET, Pcap};
use forebay_testkit::parallel;

/// All packets of all captures that are nothing but Ethernet.
fn ethernet_packets(captures: &[Indexed]) -> Vec<Packet> {
    captures
        .iter()
        .filter(|one| one.link == "EN10MB")
        .flat_map(|one| capture::read(&one.path).packets)
        .filter(|packet| packet.link == ETHERNET)
        .collect()
}

fn write(path: &Path, packets: &[Packet]) {
    let format = Pcap::of(ETHERNET);
    let mut bytes = format.header();
    for packet in packets {
        bytes.extend(format.record(packet.nanos, &packet.data, packet.wire_len));
    }
    fs::write(path, bytes).unwrap();
}

/// What `--verdicts` should print.
fn expected(oracle: &Oracle, packets: &[Packet]) -> String {
    packets.iter().fold(String::new(), |mut text, packet| {
        writeln!(text, "{}", oracle.run(&packet.data, packet.wire_len)).unwrap();
        text
    })
}

/// Compares line by line, so that a failure names the packet.
fn assert_verdicts(of: &str, found: &str, expected: &str) {
    if found == expected {
        return;
    }
    for (number, (ours, theirs)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(ours, theirs, "{of}: packet {number}");
    }
    panic!("{of}: {} verdicts of {}", found.lines().count(), expected.lines().count());
}

#[test]
fn verdicts_equal_libpcaps_for_all_expressions_on_all_ethernet_packets() {
    let folder = data::folder();
    let packets = ethernet_packets(&data::captures(&folder));
    assert!(packets.len() > data::at_least(100_000, 3_000), "only {} packets", packets.len());
    let scratch = tempfile::tempdir().unwrap();
    let all = scratch.path().join("all.pcap");
    write(&all, &packets);
    let expressions = data::expressions(&folder);
    assert!(expressions.len() > 100);
    let compiled: Vec<_> = expressions
        .iter()
        .map(|expression| {
            let verdicts = Oracle::compile(expression, 1).map(|one| expected(&one, &packets));
            (expression, verdicts)
        })
        .collect();
    parallel::for_each(&compiled, |(expression, verdicts)| {
        let ran = command::run(["filter", "-r", all.to_str().unwrap(), "--verdicts", expression]);
        match verdicts {
            Ok(verdicts) => assert_verdicts(expression, &ran.exits(0).text(), verdicts),
            Err(message) => assert!(ran.exits(2).stdout.is_empty(), "{message}"),
        }
    });
    let refused = compiled.iter().filter(|(_, verdicts)| verdicts.is_err()).count();
    assert!(refused < compiled.len() / 10, "libpcap refuses {refused} expressions");
}

#[test]
fn what_libpcap_refuses_is_refused_with_its_message() {
    let folder = data::folder();
    let scratch = tempfile::tempdir().unwrap();
    let capture = scratch.path().join("one.pcap");
    fs::write(&capture, Pcap::of(ETHERNET).file(&[vec![0; 60]])).unwrap();
    let refused = data::refused(&folder);
    assert!(refused.len() > 20);
    for (expression, _) in &refused {
        let ran =
            command::run(["filter", "-r", capture.to_str().unwrap(), "--count", "--", expression]);
        // The version that is installed words some messages otherwise than the file. That
        // a saved capture knows no direction, it says only of a savefile.
        let message = match Oracle::compile(expression, 1) {
            Err(message) => message,
            Ok(_) => "savefile".to_owned(),
        };
        assert!(ran.exits(2).says(&[&message]).stdout.is_empty());
    }
}

/// What tcpdump makes of a capture; an expression it refuses is refused here too.
fn tcpdump(arguments: &[&str]) -> std::process::Output {
    // As root it would give up the right to write into the test's folder.
    Command::new("tcpdump").args(["-Z", "root"]).args(arguments).output().unwrap()
}

#[test]
fn counts_of_real_files_equal_tcpdumps() {
    let folder = data::folder();
    if !data::has_program("tcpdump") {
        return;
    }
    let captures = data::captures(&folder);
    // libpcap takes one link type a file, and knows no DLT_RAW of other systems: so three files of
    // the corpus.
    let refused = ["formats/sections.pcapng", "headers/link-12.pcap", "headers/link-14.pcap"];
    let reads = |capture: &&Indexed| !refused.iter().any(|name| capture.path.ends_with(name));
    let step = captures.len() / 60;
    let some: Vec<_> = captures.iter().step_by(step).filter(reads).collect();
    let expressions = ["", "ip", "udp port 53", "len <= 100", "not tcp", "ip[0] & 0xf != 5"];
    let compared = AtomicUsize::new(0);
    parallel::for_each(&some, |Indexed { path, .. }| {
        let file = path.to_str().unwrap();
        for expression in expressions {
            let theirs = tcpdump(&["-r", file, "-w", "-", expression]);
            let ours =
                command::run(["filter", "-r", file, "--count", "--json", "-q", "--", expression]);
            let message = String::from_utf8_lossy(&theirs.stderr).into_owned();
            if theirs.stdout.is_empty() {
                // An expression that is never true on this link type is an error for libpcap.
                let is_never = message.contains("rejects all packets");
                let none = ours.status != 0 || (is_never && ours.json()["matched"] == 0);
                assert!(none, "{file}: {expression}: tcpdump says {message}");
                continue;
            }
            let selected = capture::parse(&theirs.stdout).packets.len();
            let what = format!("{file}: {expression:?}: {message}");
            assert_eq!(ours.json()["matched"], selected, "{what}");
            assert_eq!(ours.status == 0, theirs.status.success(), "{what}");
            compared.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(compared.into_inner() > some.len() * expressions.len() / 2);
}

#[test]
fn written_files_equal_tcpdumps_byte_for_byte() {
    let folder = data::folder();
    if !data::has_program("tcpdump") {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let mix = folder.join("mix/dev-mix.pcap").to_str().unwrap().to_owned();
    let others = ["corelight__community-id-spec/pcaps/tcp.pcap", "formats/little-micro.pcap"];
    let paths = others.map(|name| folder.join("captures").join(name));
    let other = paths.iter().find(|path| path.exists()).unwrap();
    for file in [mix.as_str(), other.to_str().unwrap()] {
        for expression in ["", "tcp", "udp port 53", "host 1.2.3.4", "greater 1000"] {
            let (theirs, ours) = (path("theirs.pcap"), path("ours.pcap"));
            assert!(tcpdump(&["-r", file, "-w", &theirs, expression]).status.success());
            command::run(["filter", "-r", file, "-w", &ours, "--", expression]).exits(0);
            let equal = fs::read(&ours).unwrap() == fs::read(&theirs).unwrap();
            assert!(equal, "{file}: {expression:?}: the files differ");
        }
    }
}
