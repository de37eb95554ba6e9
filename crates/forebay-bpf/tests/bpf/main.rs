//! Programs in this kernel, on frames of test data and of the tests' own. They take
//! root, and skip without.

#[path = "../support/mod.rs"]
mod support;

#[path = "../../../forebay-packet/tests/support/build.rs"]
#[allow(dead_code, reason = "only the table needs it")]
mod build;
#[path = "../../../forebay-packet/tests/support/table.rs"]
#[allow(dead_code, reason = "the tests of packets need more of it")]
mod table;

mod fanout;
mod filters;
mod flows;
mod live;
mod splitter;
mod userspace;
