//! The kinds of traffic: each builds one packet after another in a frame.

pub mod mix;
pub mod paper;
mod source;
pub mod uniform;

pub use source::Source;
