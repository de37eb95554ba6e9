//! Compiled filters against the interpreter, which other tests hold against
//! libpcap: every back end at every level the machine has gives its verdicts.
//!
//! `FOREBAY_FULL=1` has more random programs, all expressions for each pair of
//! batch size and alignment, and all back ends on captures of all link types.

#[path = "../support/mod.rs"]
mod support;

mod computed;
mod corners;
mod corpus;
mod edges;
mod filters;
mod lines;
mod mirrored;
mod pairwise;
mod random;
mod scale;
