//! What the tests share: whether they can run, test data, frames.

mod captures;
pub mod frames;

pub use captures::captured_frames;

use std::path::PathBuf;

use forebay_bpf::map::{HashMap, WhenFull};
pub use forebay_testkit::data::{captures, expressions};

/// Whether BPF programs can be loaded here: by root, as a rule. The test is
/// skipped where not.
pub fn bpf() -> bool {
    match HashMap::<u32, u32>::create("test_probe", 1, WhenFull::Refuse) {
        Ok(_) => true,
        Err(error) => {
            forebay_testkit::skipped(&format!("no BPF here: {error}"));
            false
        }
    }
}

/// The folder of test data, or nothing where there is none or no BPF to try it on.
pub fn data() -> Option<PathBuf> {
    bpf().then(forebay_testkit::data::folder)
}
