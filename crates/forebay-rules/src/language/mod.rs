//! The languages that rule lists are written in.
//!
//! [`yamaha`] is Forebay's own: what the others are imported into, and the one
//! that can be printed. A line that cannot be carried over exactly is an error
//! that names it; no line is ever left out in silence.

mod catalogue;
mod chains;
mod cisco;
pub mod classbench;
mod conjunction;
mod error;
mod format;
mod iptables;
pub mod load;
mod making;
pub mod masks;
pub(crate) mod names;
mod nftables;
pub(crate) mod words;
pub mod yamaha;

pub use catalogue::{
    Applied, Catalogue, Direction, Imported, Listed, NamedList, Options, Unsupported, Untested,
};
pub use error::ParseError;
pub use format::{Format, open};
