//! The suites, one file each.

pub mod accelerator;
pub mod cache;
pub mod filters;
pub mod flows;
pub mod forward;
pub mod gateway;
pub mod pipeline;
pub mod rules;
pub mod scan;
pub mod shapes;
pub mod shed;
pub mod split;
