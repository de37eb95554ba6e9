//! The programs, each generated for its settings when it is loaded.

pub mod fanout;
pub mod generator;
pub mod losses;
pub mod probe;
pub mod quiet;
pub mod redirect;
pub mod replay;
pub mod sender;
pub mod splitter;
pub mod trial;
