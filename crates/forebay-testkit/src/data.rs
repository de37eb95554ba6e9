//! Test data: captures, expressions, rule sets.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Whether `FOREBAY_DATA` names a folder of larger test data.
fn is_external() -> bool {
    env::var_os("FOREBAY_DATA").is_some_and(|value| !value.is_empty())
}

/// The folder of test data: what `FOREBAY_DATA` names, or else this project's own corpus
/// ([`corpus`](crate::corpus)), with files of the same names.
///
/// # Panics
/// If `FOREBAY_DATA` names no folder.
pub fn folder() -> PathBuf {
    let path = match env::var_os("FOREBAY_DATA") {
        Some(path) if is_external() => PathBuf::from(path),
        _ => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/corpus")),
    };
    // Cargo starts tests in the folder of their crate, and so a relative path would fail there.
    assert!(path.is_dir(), "FOREBAY_DATA={}: not an absolute path of a folder", path.display());
    path
}

/// The folder of test data, for a test that the own corpus does not serve; without
/// `FOREBAY_DATA` the test is [`skipped`](crate::skipped).
pub fn external() -> Option<PathBuf> {
    if !is_external() {
        crate::skipped("takes the larger test data; FOREBAY_DATA is not set");
        return None;
    }
    Some(folder())
}

/// How many of something a test must find, so that it has compared anything: `external` of it
/// in the larger test data, `own` in the own corpus.
pub fn at_least(external: usize, own: usize) -> usize {
    if is_external() { external } else { own }
}

/// The lines of a file, without empty lines and comments.
///
/// # Panics
/// If it cannot be read.
pub fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("a file of the test data");
    let content = |line: &&str| !line.is_empty() && !line.starts_with('#');
    text.lines().filter(content).map(str::to_owned).collect()
}

/// The pcap expressions that compile for Ethernet.
///
/// # Panics
/// If they cannot be read.
pub fn expressions(data: &Path) -> Vec<String> {
    lines(&data.join("filters/expressions.txt"))
}

/// The expressions that libpcap refuses, each with the beginning of its message.
///
/// # Panics
/// If they cannot be read.
pub fn refused(data: &Path) -> Vec<(String, String)> {
    let split = |line: String| {
        let (expression, message) = line.split_once('\t').expect("two columns");
        (expression.to_owned(), message.to_owned())
    };
    lines(&data.join("filters/refused.txt")).into_iter().map(split).collect()
}

/// One line of the index of captures.
#[derive(Clone, Debug)]
pub struct Indexed {
    /// The capture.
    pub path: PathBuf,
    /// Its link types by name or number, joined by `+`; empty if unknown.
    pub link: String,
}

/// All captures of the test data, in the order of the index.
///
/// # Panics
/// If the index cannot be read.
pub fn indexed(data: &Path) -> Vec<Indexed> {
    let folder = data.join("captures");
    let index = fs::read_to_string(folder.join("INDEX.tsv")).expect("the index of captures");
    let entry = |line: &str| {
        let mut columns = line.split('\t');
        let path = folder.join(columns.next().expect("a path"));
        let link = columns.nth(5).unwrap_or_default().to_owned();
        Indexed { path, link }
    };
    index.lines().skip(1).map(entry).collect()
}

/// The paths of all captures, in the order of the index.
///
/// # Panics
/// If the index cannot be read.
pub fn captures(data: &Path) -> Vec<PathBuf> {
    indexed(data).into_iter().map(|entry| entry.path).collect()
}
