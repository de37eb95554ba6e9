//! Functions that may become machine code.
//!
//! Compiled code loads what its filter loads, and checks what the filter
//! checks. A filter that loads without asking for the captured length would
//! read outside its packet. [`Verified`] therefore has functions that [`verify`]
//! accepted and no others, wherever they come from: the safety of compiled code
//! does not rest on the front end.

use forebay_filter::ir::Function;
use forebay_filter::ir::verify::{IrError, verify};
use forebay_filter::{Program, lists};
use forebay_packet::LinkType;

use crate::error::JitError;
use crate::set::SetError;

/// A filter in intermediate form that [`verify`] accepted.
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
    ///
    /// # Errors
    /// The rule that the function breaks which the front end made: a fault of
    /// the front end, or a program of thousands of indices that the verifier
    /// does not follow.
    pub fn of_program(program: &Program) -> Result<Self, IrError> {
        Self::new(lists::of_program(program))
    }

    /// What an expression comes to for packets of link type `link`.
    ///
    /// # Errors
    /// As [`lists::compile_function`], and as [`Verified::of_program`].
    pub fn of_expression(expression: &str, link: LinkType) -> Result<Self, SetError> {
        let function = lists::compile_function(expression, link)?;
        Ok(Self::new(function).map_err(JitError::from)?)
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
    fn what_breaks_a_rule_is_not_verified() {
        let broken = [
            "v0 = word[4]\nb0: return v0",
            "v0 = word[4]\nb0: if captured >= 7 then b1 else b2\nb1: return v0\nb2: return 0",
            "v0 = byte[0]\nv1 = byte[v0]\nb0: if captured >= 255 then b1 else b2\n\
             b1: return v1\nb2: return 0",
            "v0 = length\nv1 = 1 / v0\nb0: return v1",
            "b0: if 1 == 5 then b1(6) else b2\nb1(v0): jump b2\nb2: return v0",
            "b0: jump b1\nb1(v0): return v0",
            "v0 = length\ns0 = { 2, 1 }\nb0: if v0 in s0 then b1 else b1\nb1: return 0",
        ];
        for text in broken {
            let function = parse(text).unwrap();
            let error = verify(&function).unwrap_err();
            assert_eq!(Verified::new(function), Err(error), "{text}");
        }
    }
}
