//! Programs in this kernel, on frames of test data and of the tests' own. They take
//! root, and skip without.

#[path = "../support/mod.rs"]
mod support;

mod fanout;
mod filters;
mod flows;
mod live;
mod shunted;
mod splitter;
mod userspace;
