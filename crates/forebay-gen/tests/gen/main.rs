//! Synthetic traffic, parsed again.

#[path = "../common/mod.rs"]
mod common;

mod mix;
mod profiles;
