//! The stages there are. A new one is a file here and a line below.

mod balance;
mod classify;
mod filter;
mod fragments;
mod limit;
mod rules;

pub use balance::Balance;
pub use classify::Classify;
pub use filter::Filter;
pub use fragments::{Fragments, Window};
pub use limit::Limit;
pub use rules::{NOT_IP, Rules, Ruling};
