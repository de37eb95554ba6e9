//! The programs and libraries that forebay is measured beside.

pub mod process;
