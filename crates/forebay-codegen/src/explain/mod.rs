//! What the compiler made, as text for people.

pub mod asm;
pub mod predicate;
