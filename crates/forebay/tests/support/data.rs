//! Test data, programs beside ours, and what a test skips without them.

#[allow(unused_imports, reason = "each test uses its part")]
pub use forebay_testkit::data::{
    Indexed, at_least, expressions, external, folder, indexed as captures, lines, refused,
};
#[allow(unused_imports, reason = "each test uses its part")]
pub use forebay_testkit::{has_program, skipped};
