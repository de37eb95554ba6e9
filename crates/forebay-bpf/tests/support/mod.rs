//! What the tests share: whether they can run, test data, frames.

mod captures;
pub mod frames;

pub use captures::captured_frames;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use forebay_bpf::map::{HashMap, WhenFull};

/// Whether BPF programs can be loaded here: by root, as a rule. Under `CI=true` they
/// must be.
pub fn bpf() -> bool {
    match HashMap::<u32, u32>::create("test_probe", 1, WhenFull::Refuse) {
        Ok(_) => true,
        Err(error) => {
            assert!(env::var("CI").as_deref() != Ok("true"), "no BPF here: {error}");
            eprintln!("skipped: {error}");
            false
        }
    }
}

/// The folder of test data, or nothing where there is none or no BPF to try it on.
/// Under `CI=true` both must be there.
pub fn data() -> Option<PathBuf> {
    if !bpf() {
        return None;
    }
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = env::var_os("FOREBAY_DATA").map_or_else(default, PathBuf::from);
    if path.is_dir() {
        return Some(path);
    }
    assert!(env::var("CI").as_deref() != Ok("true"), "no test data at {}", path.display());
    eprintln!("skipped: no test data at {}; set FOREBAY_DATA", path.display());
    None
}

/// The expressions that compile for Ethernet.
pub fn expressions(data: &Path) -> Vec<String> {
    let text = fs::read_to_string(data.join("filters/expressions.txt")).unwrap();
    let content = |line: &&str| !line.is_empty() && !line.starts_with('#');
    text.lines().filter(content).map(str::to_owned).collect()
}

/// All captures of the test data, in order of their paths.
pub fn captures(data: &Path) -> Vec<PathBuf> {
    let index = fs::read_to_string(data.join("captures/INDEX.tsv")).unwrap();
    let file = |line: &str| data.join("captures").join(line.split('\t').next().unwrap());
    index.lines().skip(1).map(file).collect()
}
