//! `run --check`: what a start would meet is told before one.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::broker::broker;
use crate::support::command::run;
use crate::support::namespace::{in_namespace, ip, veth};
use serde_json::{Value, json};

/// A configuration of one input and one output, and what is to stand before them.
fn configure(folder: &Path, broker: &str, input: &str, output: &str) -> PathBuf {
    let path = folder.join("run.toml");
    let text = format!(
        "[broker]\ncontrol = \"{}\"\n{broker}\n[[input]]\nname = \"tap\"\n{input}\n\
         [[output]]\nname = \"o\"\n{output}\n[[group]]\nname = \"ids\"\n\
         [[group.sensor]]\nname = \"s\"\noutput = \"o\"\nmac = \"02:00:00:00:01:00\"\n",
        folder.join("control").display()
    );
    std::fs::write(&path, text).unwrap();
    path
}

/// What the check finds: what a start would fail for, and hints.
fn check(config: &Path, status: i32) -> (Vec<String>, Vec<String>) {
    let ran = run(["run", "--json", "--check", "-c", config.to_str().unwrap()]).exits(status);
    let said: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let texts = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap() };
    let failures = texts(&said["failures"]);
    for failure in &failures {
        assert!(ran.stderr.contains(failure.as_str()), "{}", ran.stderr);
    }
    (failures, texts(&said["hints"]))
}

/// What `ip` and `ethtool` say of the input's device, and of the offloads of its other end.
fn devices() -> String {
    let shown = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).output();
        output.map_or_else(|_| String::new(), |output| String::from_utf8(output.stdout).unwrap())
    };
    // Of `b` alone: that its other end has no carrier comes to be known later.
    shown("ip", &["-d", "link", "show", "dev", "b"])
        + &shown("ethtool", &["-k", "b"])
        + &shown("ethtool", &["-k", "g"])
}

const B: &str = "type = \"af_packet\"\ninterface = \"b\"";
const Y: &str = "type = \"af_packet\"\ninterface = \"y\"";

#[test]
fn what_a_start_would_fail_for_is_found_without_one() {
    in_namespace(|| {
        let two = "numrxqueues 2 numtxqueues 2";
        ip(&format!("link add g {two} type veth peer name b {two}"));
        veth("x", "y");
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let taken = TcpListener::bind("[::1]:0").or_else(|_| TcpListener::bind("127.0.0.1:0"));
        let address = taken.as_ref().map(|taken| taken.local_addr().unwrap());
        let metrics = address.map_or(String::new(), |at| format!("metrics = \"{at}\""));
        let xdp = "type = \"af_xdp\"\ninterface = \"b\"\nqueues = 7";
        let frames = "type = \"af_xdp\"\ninterface = \"y\"\nsend = \"frames\"";
        let missing = B.replace("\"b\"", "\"nowhere\"");
        let recorder = "type = \"pcap\"\nfile = \"/nowhere/at/all.pcapng\"";
        // Only root may write to the folder.
        let own = format!("type = \"pcap\"\nfile = \"{}/o.pcapng\"", folder.display());
        ip("link set dev y mtu 9000");
        for (broker, input, output, expected) in [
            ("", missing.as_str(), Y, vec!["input tap: there is no network device nowhere"]),
            ("", xdp, Y, vec!["`queues` is 7", "2 at most"]),
            ("", B, frames, vec!["output o: ", "an MTU of 9000", "3373 at most"]),
            ("user = \"nobody-of-that-name\"", B, Y, vec!["no user `nobody-of-that-name`"]),
            ("workers = 1", B, recorder, vec!["output o: /nowhere/at: No such file"]),
            (
                "workers = 1",
                B,
                "type = \"pcap\"\nfile = \"/dev/null\"",
                vec!["output o: /dev/null is no regular file"],
            ),
            (
                "user = \"nobody\"",
                B,
                &own,
                vec!["output o: ", "Permission denied", "control socket"],
            ),
            ("workers = 2", B, recorder, vec!["output o: ", "expected `workers = 1`"]),
        ] {
            let config = configure(folder, broker, input, output);
            let (failures, _) = check(&config, 1);
            let all = failures.join("\n");
            assert!(expected.iter().all(|part| all.contains(part)), "{expected:?}: {all}");
            run(["run", "--check=file", "-c", config.to_str().unwrap()]).exits(0);
        }
        // A namespace of its own may have no address to listen at.
        if !metrics.is_empty() {
            let (failures, _) = check(&configure(folder, &metrics, B, Y), 1);
            assert!(failures.join("\n").contains("cannot serve metrics"), "{failures:?}");
        }
    });
}

#[test]
fn all_faults_are_told_at_once_and_those_of_the_file_first() {
    in_namespace(|| {
        let folder = tempfile::tempdir().unwrap();
        let config = configure(folder.path(), "user = \"nobody-of-that-name\"", B, Y);
        let (failures, hints) = check(&config, 1);
        assert_eq!((failures.len(), hints.len()), (3, 0), "{failures:?} {hints:?}");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, text.replace("af_packet", "af_pocket")).unwrap();
        let ran = run(["run", "--check", "-c", config.to_str().unwrap()]).exits(2);
        assert!(!ran.stderr.contains("no network device"), "{}", ran.stderr);
    });
}

#[test]
fn hints_have_the_commands_change_nothing_and_end_with_what_they_ask_for() {
    in_namespace(|| {
        veth("g", "b");
        veth("x", "y");
        ip("link set dev b down");
        let folder = tempfile::tempdir().unwrap();
        let config = configure(folder.path(), "", B, Y);
        let before = devices();
        let (failures, hints) = check(&config, 0);
        assert_eq!(failures, [""; 0]);
        let all = hints.join("\n");
        assert!(all.contains("run `ip link set dev b up`"), "{all}");
        assert!(all.contains("run `ethtool -K g "), "the other end cuts nothing up: {all}");
        assert_eq!(devices(), before, "it has changed nothing");
        assert!(!folder.path().join("control").exists());

        // A start mends what the hints are about.
        let socket = folder.path().join("control");
        let started = broker(&config, &socket);
        let (failures, _) = check(&config, 1);
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert!(failures[0].contains("another broker listens"), "{failures:?}");
        started.signal(libc::SIGTERM);
        started.ended();
        let ran = run(["run", "--json", "--check", "-c", config.to_str().unwrap()]).exits(0);
        assert!(ran.stderr.contains("all well"), "{}", ran.stderr);
        let well = json!({ "file": config, "failures": [], "hints": [] });
        assert_eq!(serde_json::from_slice::<Value>(&ran.stdout).unwrap(), well);
    });
}
