//! Linear engines: every rule is tried, or could be, in the order of the list.
//!
//! They are the paper's subject (Yamashita and Tsuru, "Implementation and
//! Evaluation of Fast Packet Filters", 2008): the time of a packet is
//! T_O + N·T_P for N rules, and T_P is what its code generators bring down.
//!
//! | engine | rules are | packets are |
//! |---|---|---|
//! | [`naive`] | rows of a table, a branch a field | one by one |
//! | [`compiled`]: `list` | code, a branch a field | one by one |
//! | [`compiled`]: `ems` | code, a branch a field | several in flight |
//! | [`generic`]: `pe-1` | lanes of vectors | one by one |
//! | [`generic`]: `pe-generic` | rows of a table | lanes of vectors |
//! | [`pe`] | code without branches | bits of vectors, hundreds at once |
//!
//! Each gives the answer of [`crate::matching`], for every key that a packet can
//! have.

pub mod compiled;
pub mod error;
mod function;
pub mod generic;
mod kernel;
pub mod naive;
pub mod pe;
mod predicates;
mod table;

pub use compiled::Compiled;
pub use error::LinearError;
pub use generic::Generic;
pub use kernel::rows::LaneContent;
pub use naive::Naive;
pub use pe::Pe;
