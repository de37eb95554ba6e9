//! Chores of the repository, run as `cargo xtask` and from the test suite.
//!
//! What can be checked without running the product lives here: the house rules
//! on source text ([`style`]). They are a library so that `cargo test` enforces
//! what `cargo xtask style` reports.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

pub mod style;

/// The folder of the workspace's `Cargo.toml`.
#[must_use]
pub fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
