//! Packets of every kind that the decoder knows, built from the inside out.
#![allow(missing_docs, reason = "the names are those of the protocols' fields")]

pub mod build;
pub mod table;
