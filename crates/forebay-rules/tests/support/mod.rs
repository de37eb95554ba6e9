//! What the tests share: where the test data lies.

use std::env;
use std::path::{Path, PathBuf};

/// The folder of test data, or nothing where there is none. Under `CI=true`
/// it must be there.
pub fn data() -> Option<PathBuf> {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = env::var_os("FOREBAY_DATA").map_or_else(default, PathBuf::from);
    if path.is_dir() {
        return Some(path);
    }
    assert!(env::var("CI").as_deref() != Ok("true"), "no test data at {}", path.display());
    eprintln!("skipped: no test data at {}; set FOREBAY_DATA", path.display());
    None
}
