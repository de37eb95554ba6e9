//! `forebay accelerator`: a client gets the scanner's matches, and signals end the device.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use forebay_scan::accelerator::{Accelerator, BatchLimits, Remote, RemoteOptions};
use forebay_scan::{LiteralSet, Match};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);

fn start(socket: &Path, literals: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(["--json", "--quiet", "accelerator", "--nocase", "--socket"]);
    command.arg(socket).arg("--literals").arg(literals).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// Scans two texts. The literals of the second.
fn scan(socket: &Path, set: &LiteralSet) -> Vec<Match> {
    let limits = BatchLimits { time_limit: LIMIT.as_nanos() as u64, ..BatchLimits::default() };
    let patience = LIMIT.as_nanos() as u64;
    let options = RemoteOptions { limits, patience, ..RemoteOptions::new(socket.to_owned()) };
    let mut remote = Remote::new(options, set).unwrap();
    let (started, mut completed) = (Instant::now(), Vec::new());
    let mut is_submitted = false;
    while completed.is_empty() {
        let now = started.elapsed().as_nanos() as u64;
        if remote.is_connected() && !is_submitted {
            remote.push(&[b"nothing"]).unwrap();
            remote.push(&[b"in parts: nee", b"dle"]).unwrap();
            is_submitted = remote.submit(now).is_some();
        }
        remote.poll(now, &mut completed);
        remote.wait(Duration::from_millis(1)).unwrap();
        assert!(started.elapsed() < LIMIT, "{:?}", remote.take_trouble());
    }
    completed.pop().unwrap().result.unwrap()
}

#[test]
fn a_device_serves_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, file) = (folder.path().join("device"), folder.path().join("literals"));
    std::fs::write(&file, "# NEEDLE\n4e4545444c45\n").unwrap();
    let mut set = LiteralSet::new();
    set.push(b"NEEDLE", true).unwrap();
    let found = [Match { text: 1, literal: 0 }];
    // A socket that a killed device left is replaced.
    let mut killed = start(&socket, &file);
    assert_eq!(scan(&socket, &set), found);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(socket.exists());
    let device = start(&socket, &file);
    assert_eq!(scan(&socket, &set), found);
    kill_process(Pid::from_child(&device), Signal::TERM).unwrap();
    let ended = device.wait_with_output().unwrap();
    assert!(ended.status.success());
    let work: Value = serde_json::from_slice(&ended.stdout).unwrap();
    // Two texts and the probe, 7 + 16 + 6 bytes, each filled to 8 bytes and with a word before.
    assert_eq!(work, json!({ "clients": 1, "batches": 1, "bytes": 56 }));
    assert!(!socket.exists());
}

#[test]
fn a_file_that_is_no_socket_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("literals");
    std::fs::write(&file, "00\n").unwrap();
    let device = start(&file, &file).wait_with_output().unwrap();
    assert_eq!(device.status.code(), Some(1));
    assert!(file.exists());
}
