//! Functions that may become machine code.
//!
//! Compiled code loads what its filter loads, and checks what the filter
//! checks. So a filter that loads without asking for the captured length would
//! read outside its packet. [`Verified`] has the ones that do not: those that
//! [`verify`] accepts, and those that the front end makes of
//! programs and expressions, which break no rule either. Tests and the fuzzer
//! hold the front end to that; verifying each would add a tenth to what its
//! compilation takes.

use forebay_filter::ir::Function;
use forebay_filter::ir::verify::{IrError, verify};
use forebay_filter::{CompileError, Program, lists};
use forebay_packet::LinkType;

/// A filter in intermediate form that breaks no rule of
/// [`forebay_filter::ir::verify`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified(Function);

impl Verified {
    /// Verifies a function.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn new(function: Function) -> Result<Self, IrError> {
        verify(&function)?;
        Ok(Self(function))
    }

    /// What a program comes to.
    #[must_use]
    pub fn of_program(program: &Program) -> Self {
        Self(lists::of_program(program))
    }

    /// What an expression comes to for packets of link type `link`.
    ///
    /// # Errors
    /// As [`lists::compile_function`].
    pub fn of_expression(expression: &str, link: LinkType) -> Result<Self, CompileError> {
        lists::compile_function(expression, link).map(Self)
    }

    /// The function.
    #[must_use]
    pub fn function(&self) -> &Function {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use forebay_filter::ir::text::parse;

    use super::*;

    #[test]
    fn a_load_that_nothing_guards_is_refused() {
        let function = parse("v0 = word[4]\nb0: return v0").unwrap();
        assert!(matches!(Verified::new(function), Err(IrError::Unguarded { .. })));
    }
}
