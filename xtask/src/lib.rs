//! Repository checks, run as `cargo xtask` and from the test suite.
//!
//! These are the checks that do not run the product: the house rules on source text
//! ([`style`]), and the objects of kernel programs ([`bpf`]). They are a library so that
//! `cargo test` enforces what `cargo xtask style` reports.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

pub mod bpf;
pub mod style;

/// The folder of the workspace's `Cargo.toml`.
#[must_use]
pub fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
