//! Compiled code as text.

pub mod asm;
pub mod predicate;
