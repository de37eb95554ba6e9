//! What the tests of this crate share.

#![allow(dead_code, reason = "each test binary uses its own part of it")]

pub mod build;
pub mod table;

use std::path::PathBuf;

/// The folder of test data from outside the project, or `None` after saying that the test skips.
///
/// # Panics
/// Under `CI=true` when the data is not there: CI runs every test.
pub fn data() -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let folder = PathBuf::from(std::env::var("FOREBAY_DATA").unwrap_or_else(|_| default.into()));
    if folder.join("captures").is_dir() {
        return Some(folder);
    }
    let missing = format!("{}: no test data (set FOREBAY_DATA)", folder.display());
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{missing}");
    eprintln!("skipped: {missing}");
    None
}
