//! The suites, one file each.

pub mod filters;
pub mod pipeline;
pub mod rules;
pub mod split;
