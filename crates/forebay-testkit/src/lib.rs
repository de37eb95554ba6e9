//! Shared code of the tests of all crates.
//!
//! | module | has |
//! |---|---|
//! | [`capture`] | an independent reader of captures |
//! | [`corpus`] | makes the captures of the repository |
//! | [`data`] | finds test data |
//! | [`ids_rules`] | an independent judge of rules of intrusion detection, and traffic for each |
//! | [`independent`] | an independent judge of which packets are of one flow |
//! | [`make`] | captures made by hand, byte by byte |
//! | [`namespace`] | a network namespace for a test, devices in it, waiting |
//! | [`packets`] | packets of every kind that the decoder knows |
//! | [`parallel`] | work on all processors |
//!
//! A test that cannot run on the present machine calls [`skipped`] and returns.
#![deny(unsafe_code)]

pub mod capture;
pub mod corpus;
pub mod data;
pub mod ids_rules;
pub mod independent;
pub mod make;
pub mod namespace;
pub mod packets;
pub mod parallel;

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;

/// Reports that the calling test cannot run on this machine, or only in part: on standard
/// error, and in the file `FOREBAY_SKIPPED`, a line for each test, which `make test` lists.
///
/// # Panics
/// With `FOREBAY_TEST_ALL=1`, which requires every test to run.
pub fn skipped(why: &str) {
    assert!(env::var("FOREBAY_TEST_ALL").as_deref() != Ok("1"), "{why}");
    eprintln!("skipped: {why}");
    if let Some(list) = env::var_os("FOREBAY_SKIPPED") {
        // Cargo sets it for the programs that it runs.
        let package = env::var("CARGO_PKG_NAME").unwrap_or_default();
        let test = thread::current().name().unwrap_or("a thread").replace(':', ".");
        let file = OpenOptions::new().create(true).append(true).open(list);
        let mut file = file.expect("the file that FOREBAY_SKIPPED names can be written");
        // A single write, so that lines of concurrent tests do not mix.
        let line = format!("{package} {test}: {why}\n");
        file.write_all(line.as_bytes()).expect("the list of skipped tests can be written");
    }
}

/// Whether tests that take long are to run: with `FOREBAY_TEST_ALL=1`. Otherwise the calling
/// test is [`skipped`].
pub fn runs_long_tests() -> bool {
    let runs = env::var("FOREBAY_TEST_ALL").as_deref() == Ok("1");
    if !runs {
        skipped("takes long; it runs with `make test-all`, or FOREBAY_TEST_ALL=1");
    }
    runs
}

/// Whether a program can be started; if not, the test is [`skipped`].
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

/// Whether this process runs as root; if not, the test is [`skipped`].
pub fn is_root(needs: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skipped(&format!("{needs} takes root"));
    }
    is_root
}
