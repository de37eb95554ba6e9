//! From instructions to bytes.

pub mod assembler;
pub mod form;
pub mod loops;
pub mod pool;
