//! The suites, one file each.

pub mod split;
