//! What the tests of all crates share.
//!
//! | module | has |
//! |---|---|
//! | [`data`] | the test data from outside the project |
//! | [`namespace`] | a network namespace for a test, devices in it, waiting |
//!
//! A test that cannot run here calls [`skipped`] and returns.
#![deny(unsafe_code)]

pub mod data;
pub mod namespace;

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;

/// Reports that the calling test cannot run here, or only in part: on standard error, and in
/// the file that `FOREBAY_SKIPPED` names, a line for each test, which `make test` lists.
///
/// # Panics
/// With `FOREBAY_TEST_ALL=1`: then every test has to run.
pub fn skipped(why: &str) {
    assert!(env::var("FOREBAY_TEST_ALL").as_deref() != Ok("1"), "{why}");
    eprintln!("skipped: {why}");
    if let Some(list) = env::var_os("FOREBAY_SKIPPED") {
        // Cargo sets it for the programs that it runs.
        let package = env::var("CARGO_PKG_NAME").unwrap_or_default();
        let test = thread::current().name().unwrap_or("a thread").replace(':', ".");
        let file = OpenOptions::new().create(true).append(true).open(list);
        let mut file = file.expect("the file that FOREBAY_SKIPPED names can be written");
        // One write, so that lines of tests that end at once stay whole.
        let line = format!("{package} {test}: {why}\n");
        file.write_all(line.as_bytes()).expect("the list of skipped tests can be written");
    }
}

/// Whether a program can be started; the test is [`skipped`] where not.
pub fn has_program(name: &str) -> bool {
    let started = Command::new(name)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if started.is_err() {
        skipped(&format!("{name} is not installed"));
    }
    started.is_ok()
}

/// Whether this process is root's; the test is [`skipped`] where not.
pub fn is_root(needs: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skipped(&format!("{needs} takes root"));
    }
    is_root
}
