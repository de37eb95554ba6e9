//! Where test data from outside the project lies.

use std::path::PathBuf;

/// The folder that `FOREBAY_DATA` names, or `shared/data` beside the project.
pub fn folder() -> PathBuf {
    std::env::var_os("FOREBAY_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    )
}
