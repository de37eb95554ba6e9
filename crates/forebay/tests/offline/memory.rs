//! Memory does not grow with the length of a capture; with its flows it may.
//!
//! Peak memory is what the kernel says of the process (VmHWM of proc(5)), read when its
//! work is done and it has yet to end: its last act is to print, and the pipe it prints to
//! is full.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::command::{command, run};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// By how much the peak may differ, in KiB: 8 MiB.
const MOST_KIB: u64 = 8 << 10;

/// Peak memory of a run of the command, in KiB.
fn peak(arguments: &[&str]) -> u64 {
    let (unread, full) = io::pipe().unwrap();
    fill(&full);
    let mut child =
        command(arguments).stdout(full.try_clone().unwrap()).stderr(Stdio::null()).spawn().unwrap();
    let about = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", child.id())).unwrap();
    let (mut used, mut since) = (String::new(), Instant::now());
    while since.elapsed() < Duration::from_millis(700) {
        sleep(Duration::from_millis(20));
        // utime and stime: the 14th and 15th fields; the 2nd is a name in parentheses.
        let stat = about("stat");
        let fields = stat.rsplit(") ").next().unwrap().split(' ');
        let now: String = fields.skip(11).take(2).collect::<Vec<_>>().join(" ");
        if now != used {
            (used, since) = (now, Instant::now());
        }
    }
    let status = about("status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = line.expect("it ended before it was asked").trim().trim_end_matches(" kB");
    let peak = peak.parse().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    drop(unread);
    peak
}

/// Writes to a pipe until it takes no more.
fn fill(mut pipe: &io::PipeWriter) {
    let flags = fcntl_getfl(pipe).unwrap();
    fcntl_setfl(pipe, flags | OFlags::NONBLOCK).unwrap();
    while pipe.write(&[0]).is_ok() {}
    // The flag would be the child's as well.
    fcntl_setfl(pipe, flags).unwrap();
}

fn generated(folder: &Path, packets: &str) -> (String, u64) {
    let path = folder.join(format!("{packets}.pcap"));
    let name = path.to_str().unwrap().to_owned();
    let options = ["--profile", "uniform", "--flows", "1000", "--size", "1000"];
    let arguments = ["gen", "-q", "-w", &name, "--packets", packets];
    run(arguments.iter().chain(&options)).exits(0);
    (name, fs::metadata(path).unwrap().len())
}

#[test]
fn a_filter_needs_no_more_memory_for_a_longer_capture() {
    let folder = tempfile::tempdir().unwrap();
    let (short, short_len) = generated(folder.path(), "10000");
    let (long, long_len) = generated(folder.path(), "150000");
    println!("captures of {short_len} and {long_len} bytes");
    assert!(short_len > 8_000_000 && long_len > 14 * short_len);
    let copy = folder.path().join("copy.pcap");
    let copy = copy.to_str().unwrap();
    for (what, options) in
        [("-w", &["-w", copy, "--json", "len > 0"][..]), ("--count", &["--count", "udp"])]
    {
        let measured = [&short, &long].map(|input| {
            let arguments: Vec<&str> =
                ["filter", "-r", input].into_iter().chain(options.iter().copied()).collect();
            let peak = peak(&arguments);
            if what == "-w" {
                // All of it is written: what was measured is the whole run.
                let lens = [input.as_str(), copy].map(|file| fs::metadata(file).unwrap().len());
                assert_eq!(lens[0], lens[1]);
                fs::remove_file(copy).unwrap();
            }
            peak
        });
        println!("filter {what}: peaks of {measured:?} KiB");
        assert!(measured[0].abs_diff(measured[1]) < MOST_KIB, "filter {what}: {measured:?} KiB");
    }
}
