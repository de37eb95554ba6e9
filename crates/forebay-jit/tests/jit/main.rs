//! The wrapper around compiled code, with code assembled for the purpose.

#[path = "../support/mod.rs"]
mod support;

mod blobs;
mod calls;
mod loops;
mod planes;
mod set;
