//! `forebay filter -i`: captures on a device, in a network of its own.

use std::io::Read as _;
use std::process::{Child, Output, Stdio};

use crate::support::command::{command, run};
use crate::support::namespace::{in_namespace, ip, veth};
use serde_json::Value;

/// Starts a capture on device `b`, and returns when it receives.
fn capture(words: &[&str]) -> Child {
    let words = ["filter", "-i", "b"].iter().chain(words);
    let mut child = command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Byte by byte, to leave the rest to whoever wants it.
    let (stderr, mut said) = (child.stderr.as_mut().unwrap(), Vec::new());
    while said.last() != Some(&b'\n') {
        let mut byte = [0];
        stderr.read_exact(&mut byte).unwrap();
        said.extend(byte);
    }
    assert_eq!(String::from_utf8(said).unwrap(), "listening on b\n");
    child
}

fn end(child: Child) -> Output {
    // SAFETY: a signal to a child that was not waited for yet.
    assert_eq!(unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) }, 0);
    child.wait_with_output().unwrap()
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

fn generate(packets: u32) {
    let packets = packets.to_string();
    let ran = run(["gen", "-i", "g", "--rate", "2000", "--flows", "20", "--packets", &packets]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}

#[test]
fn a_capture_on_a_device_is_whole_after_a_signal() {
    in_namespace(|| {
        veth("g", "b");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("out.pcap");
        let name = file.to_str().unwrap();
        let child = capture(&["--json", "-w", name, "udp"]);
        generate(600);
        let said = json(&end(child));
        assert_eq!((&said["packets"], &said["matched"]), (&600.into(), &600.into()), "{said}");
        assert_eq!(said["ledger"][0]["stage"], "rx b");
        let counted = run(["filter", "-r", name, "--count", "--json", "udp"]);
        let counted: Value = serde_json::from_slice(&counted.stdout).unwrap();
        assert_eq!(counted["matched"], 600);
    });
}

#[test]
fn a_capture_ends_after_as_many_packets_as_are_asked_for() {
    in_namespace(|| {
        veth("g", "b");
        let child = capture(&["-c", "3", "udp"]);
        generate(50);
        let output = child.wait_with_output().unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && lines.lines().count() == 3, "{lines}");
        let child = capture(&["--count", "tcp"]);
        generate(50);
        let output = end(child);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "0 packets\n");
    });
}

#[test]
fn a_device_that_goes_away_is_told_and_what_came_before_is_kept() {
    in_namespace(|| {
        veth("g", "b");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("out.pcap");
        let name = file.to_str().unwrap();
        let child = capture(&["-w", name]);
        generate(100);
        ip("link del g");
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains('b'), "{said}");
        let counted = run(["filter", "-r", name, "--count", "udp"]);
        assert_eq!(String::from_utf8_lossy(&counted.stdout), "100 packets\n");
        let missing = run(["filter", "-i", "nothing", "udp"]);
        assert!(missing.status == 1 && missing.stderr.contains("nothing"), "{}", missing.stderr);
    });
}
