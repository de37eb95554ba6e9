//! What the tests share.
#![allow(dead_code, reason = "no test program uses all of it")]

pub mod corpus;
pub mod guarded;
