//! What the tests of this crate share.

#![allow(dead_code, reason = "each test binary uses its own part of it")]

pub mod build;
pub mod table;

#[allow(unused_imports, reason = "each test uses its part")]
pub use forebay_testkit::data::folder as data;
