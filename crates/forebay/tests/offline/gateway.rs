//! `forebay gateway` on captures.

use std::collections::HashMap;

use serde_json::Value;

use crate::support::command::{run, run_with_input};
use crate::support::data;
use crate::support::scratch::Scratch;
use forebay_testkit::capture;

/// A capture with flows of all kinds, and a file of literals of which some of them have one.
fn generated(scratch: &Scratch) -> (String, String) {
    let (capture, literals) = (scratch.text("in.pcap"), scratch.text("literals"));
    let flows = ["--packets", "20000", "--flows", "800", "--profile", "mix", "--seed", "3"];
    run(["gen", "-q", "-w", &capture].iter().chain(&flows)).exits(0);
    // "Mozilla".
    std::fs::write(&literals, "4d6f7a696c6c61\n").unwrap();
    (capture, literals)
}

fn json(words: &[&str]) -> Value {
    run(["--json"].iter().chain(words)).exits(0).json()
}

/// The packets of each flow of a capture, by Community ID.
fn flows(capture: &str) -> HashMap<String, u64> {
    let said = json(&["flows", "-r", capture, "--format", "json"]);
    let all = said["flows"].as_array().unwrap();
    let mut flows = HashMap::new();
    for flow in all {
        let packets = ["packets_ab", "packets_ba"].map(|name| flow[name].as_u64().unwrap());
        *flows.entry(flow["community_id"].to_string()).or_default() += packets.iter().sum::<u64>();
    }
    flows
}

#[test]
fn the_same_is_found_in_what_passes_of_a_capture() {
    let scratch = Scratch::with_packets(1);
    let (capture, literals) = generated(&scratch);
    let out = scratch.text("out.pcap");
    for mode in [&["--mode", "hold"][..], &["--mode", "prefix", "--prefix", "10B"]] {
        let words = ["gateway", "-r", &capture, "-w", &out, "--literals", &literals];
        let said = json(&[&words, mode].concat());
        let withheld = said["withheld"]["packets"].as_u64().unwrap();
        let reasons = said["reasons"].as_array().unwrap();
        let passed: u64 = reasons.iter().map(|row| row["packets"].as_u64().unwrap()).sum();
        assert_eq!((&said["closes"], withheld + passed), (&true.into(), 20_000), "{said}");
        assert!(said["withheld"]["share"].as_f64().unwrap() > 0.3, "{said}");
        // A subsequence: order, times and bytes are those of the capture.
        let (all, rest) = (capture::read(&capture).packets, capture::read(&out).packets);
        assert_eq!(rest.len() as u64, passed);
        let mut all = all.iter();
        assert!(rest.iter().all(|packet| all.any(|other| other == packet)));
        let found = |file: &str| {
            json(&["scan", "--stream", "--literals", &literals, "-r", file])["found"].clone()
        };
        assert!(found(&capture)[0]["packets"].as_u64().unwrap() > 100);
        assert_eq!(found(&out), found(&capture));
        if mode[1] == "hold" {
            let before = flows(&capture);
            let after = flows(&out);
            let parted = after.iter().filter(|(id, packets)| before[*id] != **packets).count();
            // A flow that has ended, and of which a late packet passes.
            assert!(after.len() < before.len() / 2 && parted * 50 < after.len(), "{parted}");
        }
    }
}

#[test]
fn a_gateway_reads_a_pipe_and_explains_what_passes() {
    let scratch = Scratch::with_packets(1);
    let (capture, literals) = generated(&scratch);
    let (out, again) = (scratch.text("out.pcap"), scratch.text("again.pcap"));
    let ran = run(["gateway", "-r", &capture, "-w", &out, "--explain", "--literals", &literals]);
    let text = String::from_utf8(ran.exits(0).stdout).unwrap();
    for expected in ["literal", "doubt_fragment", "withheld", "a fragment", "100.0 %"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let bytes = std::fs::read(&capture).unwrap();
    run_with_input(["gateway", "-r", "-", "-w", &again, "--literals", &literals], &bytes).exits(0);
    assert_eq!(std::fs::read(&again).unwrap(), std::fs::read(&out).unwrap());
    // Everything passes, and is marked for what it would pass.
    let words = ["gateway", "-r", &capture, "--explain", "--mode", "annotate"];
    let said = json(&[&words[..], &["--literals", &literals]].concat());
    assert_eq!(said["withheld"]["packets"], 0, "{said}");
    assert!(said["reasons"].as_array().unwrap().iter().any(|row| row["reason"] == "clean"));
    for (words, expected) in [
        (&["gateway", "-r", &capture, "--literals", &literals][..], "expected -w PCAP, --explain"),
        (&["gateway", "-r", &capture, "-w", &out], "--literals"),
        (&["gateway"], "--config"),
        (
            &["gateway", "-r", &capture, "-w", &capture, "--literals", &literals],
            "is the input, and would be replaced",
        ),
        (
            &["gateway", "-r", &capture, "--explain", "--literals", &literals, "--prefix", "1KiB"],
            "--prefix is an option of --mode prefix",
        ),
        (
            &["gateway", "-r", &capture, "--explain", "--literals", &literals, "--memory", "7"],
            "`7` is no size",
        ),
        (
            &["gateway", "-r", "-", "-w", &out, "--literals", &literals, "--spill", "1"],
            "allow more with --spill",
        ),
    ] {
        let ran = run_with_input(words, &bytes);
        assert_ne!(ran.status, 0, "{words:?}");
        assert!(ran.stderr.contains(expected), "{words:?}: {}", ran.stderr);
    }
}

#[test]
fn packets_before_the_damage_of_a_capture_pass() {
    let scratch = Scratch::with_packets(1);
    let (capture, literals) = generated(&scratch);
    let bytes = std::fs::read(&capture).unwrap();
    let cut = scratch.text("cut.pcap");
    std::fs::write(&cut, &bytes[..bytes.len() / 2 + 7]).unwrap();
    let out = scratch.text("out.pcap");
    let ran = run(["--json", "gateway", "-r", &cut, "-w", &out, "--literals", &literals]);
    assert_ne!(ran.status, 0);
    let said: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(said["closes"], true, "{said}");
    let gateway = said["ledger"].as_array().unwrap();
    assert!(gateway.iter().any(|row| row["stage"] == "gateway"), "{said}");
    assert!(capture::read(&out).packets.len() > 1_000);
}

#[test]
fn of_every_capture_what_has_a_literal_passes() {
    let scratch = Scratch::with_packets(1);
    let literals = scratch.text("literals");
    // "GET ", "HTTP/1.1", "SSH-".
    std::fs::write(&literals, "47455420\n485454502f312e31\n5353482d\n").unwrap();
    let out = scratch.text("out.pcap");
    for indexed in data::captures(&data::folder()) {
        let file = indexed.path.to_str().unwrap();
        let words = ["gateway", "-r", file, "-w", &out, "--literals", &literals, "-q"];
        let ran = run(words);
        // Damaged ones are among them.
        if ran.status != 0 {
            continue;
        }
        let found = |file: &str| {
            json(&["scan", "--stream", "--literals", &literals, "-r", file])["found"].clone()
        };
        assert_eq!(found(&out), found(file), "{file}");
    }
}
