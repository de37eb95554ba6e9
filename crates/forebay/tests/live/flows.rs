//! `forebay flows -i`: the flows of a device, in a network of its own.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Output, Stdio};

use crate::support::command::{command, run};
use crate::support::namespace::{in_namespace, ip, veth, wait_for};
use serde_json::Value;

/// Begins to count the packets of device `b`, and returns when it receives.
fn count(words: &[&str]) -> Child {
    let words = ["flows", "-i", "b"].iter().chain(words);
    let mut child = command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (stderr, mut said) = (child.stderr.as_mut().unwrap(), Vec::new());
    while said.last() != Some(&b'\n') {
        let mut byte = [0];
        stderr.read_exact(&mut byte).unwrap();
        said.extend(byte);
    }
    assert_eq!(String::from_utf8(said).unwrap(), "listening on b\n");
    child
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: a signal to a child that was not waited for yet.
    assert_eq!(unsafe { libc::kill(child.id().cast_signed(), signal) }, 0);
}

fn text(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn generate(packets: u32) {
    let packets = packets.to_string();
    let ran = run(["gen", "-i", "g", "--rate", "2000", "--flows", "20", "--packets", &packets]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}

fn packets(flow: &Value) -> u64 {
    flow["packets_ab"].as_u64().unwrap() + flow["packets_ba"].as_u64().unwrap()
}

/// The UDP flows of a list and their packets: a new device has other packets, too.
fn of_probes<'a>(flows: impl IntoIterator<Item = &'a Value>) -> (usize, u64) {
    let probes: Vec<u64> =
        flows.into_iter().filter(|flow| flow["proto"] == "udp").map(packets).collect();
    (probes.len(), probes.iter().sum())
}

#[test]
fn a_signal_ends_the_count_and_open_flows_are_written() {
    in_namespace(|| {
        veth("g", "b");
        for end in [libc::SIGINT, libc::SIGTERM] {
            let child = count(&["--json"]);
            generate(600);
            signal(&child, end);
            let said: Value =
                serde_json::from_str(&text(&child.wait_with_output().unwrap())).unwrap();
            assert_eq!(of_probes(said["flows"].as_array().unwrap()), (20, 600), "{said}");
            assert_eq!(
                (&said["ledger"][0]["stage"], &said["closes"]),
                (&"rx b".into(), &true.into())
            );
        }
    });
}

#[test]
fn flows_are_written_as_they_end() {
    in_namespace(|| {
        veth("g", "b");
        let mut child = count(&["--format", "jsonl", "--idle-timeout", "300ms"]);
        generate(600);
        // No packet comes any more, and no signal yet.
        let mut flows = Vec::new();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        while of_probes(&flows).0 < 20 {
            let flow: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            assert_eq!(flow["ended"], "idle", "{flow}");
            flows.push(flow);
        }
        assert_eq!(of_probes(&flows).1, 600);
        signal(&child, libc::SIGINT);
        text(&child.wait_with_output().unwrap());
    });
}

#[test]
fn records_of_a_device_stand_however_the_run_ends() {
    in_namespace(|| {
        veth("g", "b");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flows.csv");
        let words = ["--format", "csv", "-w", file.to_str().unwrap()];
        let child = count(&[&words[..], &["--idle-timeout", "300ms"]].concat());
        generate(100);
        let partial = folder.path().join("flows.csv.partial");
        let lines = |file| fs::read_to_string(file).unwrap_or_default().lines().count();
        wait_for("the records", || lines(&partial) > 10);
        signal(&child, libc::SIGKILL);
        child.wait_with_output().unwrap();
        assert!(lines(&partial) > 10 && !file.exists());
        // The device goes.
        let child = count(&words);
        generate(100);
        ip("link delete dev b");
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(lines(&file) > 10 && !partial.exists());
        veth("g", "b");
        let child = count(&[&words[..], &["-c", "50", "--json"]].concat());
        generate(100);
        let said: Value = serde_json::from_str(&text(&child.wait_with_output().unwrap())).unwrap();
        let lines = fs::read_to_string(&file).unwrap().lines().count() as u64;
        assert_eq!(said["records"].as_u64(), Some(lines - 1), "{said}");
        assert!(lines > 1 && said["closes"] == true);
        let missing = run(["flows", "-i", "nothing"]);
        assert!(missing.status == 1 && missing.stderr.contains("nothing"), "{}", missing.stderr);
    });
}
