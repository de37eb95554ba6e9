//! Compiled filters against the interpreter, which other tests hold against
//! libpcap: every back end at every level the machine has gives its verdicts.
//!
//! By default the products are sampled; `FOREBAY_FULL=1` has all of them.

#[path = "../support/mod.rs"]
mod support;

mod corpus;
mod edges;
mod filters;
mod pairwise;
mod random;
