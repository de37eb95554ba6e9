//! The crate against libpcap and the kernel.

#[path = "../support/mod.rs"]
mod support;

mod compile;
mod expressions;
mod ir;
mod profiles;
mod random;
mod refused;
mod text;
mod traps;
