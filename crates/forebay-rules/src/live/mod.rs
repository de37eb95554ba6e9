//! A list that is changed while packets are matched against it.
//!
//! Readers never wait: they take the version in force, match a batch of keys, and drop it. A
//! version never changes. A change, or a batch of changes, is made on a copy of the parts that it
//! touches (`tree/generation.rs`). It takes effect as a whole when the copy becomes the next version: each
//! packet is matched against the list before all of the changes or after all of them.
//!
//! If there is no room for a change, a thread builds a new list that contains it; the old version
//! stays in force until then. The thread also builds a new list when room becomes short or leaves
//! have grown, applies the changes made meanwhile, and replaces the old list with it. It is started
//! when there is such work for the first time, or if it broke down, and ends with the list.

mod edits;
mod error;
mod list;
mod listing;
mod names;
mod reading;
mod work;
mod writers;

pub use edits::{Difference, Edit, Place};
pub use error::LiveError;
pub use list::Live;
pub use listing::View;
pub use names::{Named, RuleId};
pub use reading::{LiveReader, Reading};
pub use writers::InForce;
