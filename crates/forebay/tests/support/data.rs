//! Where test data and peers are found, and what happens where they are not.
//!
//! What is missing skips a test with a message, except under `CI=true`, where it fails it.

#![allow(dead_code, reason = "each test that includes this module uses its own part of it")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder of test data, or nothing where there is none.
pub fn folder() -> Option<PathBuf> {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = env::var_os("FOREBAY_DATA").map_or_else(default, PathBuf::from);
    if path.is_dir() {
        return Some(path);
    }
    skipped(&format!("no test data at {}; set FOREBAY_DATA", path.display()));
    None
}

/// Says that something cannot be tested here.
///
/// # Panics
/// Under `CI=true`: there everything has to be tested.
pub fn skipped(why: &str) {
    assert!(env::var("CI").as_deref() != Ok("true"), "{why}");
    eprintln!("skipped: {why}");
}

/// Whether a program can be started; says so where not.
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

/// One line of the index of captures.
#[derive(Clone, Debug)]
pub struct Indexed {
    /// The capture.
    pub path: PathBuf,
    /// Its link types by name or number, joined by `+`; empty where unknown.
    pub link: String,
}

/// All captures of the test data, in the order of the index.
pub fn captures(data: &Path) -> Vec<Indexed> {
    let folder = data.join("captures");
    let index = fs::read_to_string(folder.join("INDEX.tsv")).unwrap();
    let indexed = |line: &str| {
        let mut columns = line.split('\t');
        let path = folder.join(columns.next().unwrap());
        let link = columns.nth(5).unwrap_or_default().to_owned();
        Indexed { path, link }
    };
    index.lines().skip(1).map(indexed).collect()
}

/// The lines of a file of test data that are neither empty nor comments.
pub fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let content = |line: &&str| !line.is_empty() && !line.starts_with('#');
    text.lines().filter(content).map(str::to_owned).collect()
}

/// The pcap expressions that compile for Ethernet.
pub fn expressions(data: &Path) -> Vec<String> {
    lines(&data.join("filters/expressions.txt"))
}

/// The expressions that libpcap refuses, each with the beginning of its message.
pub fn refused(data: &Path) -> Vec<(String, String)> {
    let split = |line: String| {
        let (expression, message) = line.split_once('\t').unwrap();
        (expression.to_owned(), message.to_owned())
    };
    lines(&data.join("filters/refused.txt")).into_iter().map(split).collect()
}
