//! From instructions to bytes.

pub mod assembler;
pub mod instruction_form;
pub mod loops;
pub mod pool;
