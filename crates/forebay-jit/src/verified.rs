//! Functions that may be compiled to machine code.
//!
//! Compiled code performs the loads and the checks of its filter. A filter that
//! loads without testing the captured length would read outside its packet. A
//! [`Verified`] therefore only contains a function that passed [`verify`],
//! whatever its origin: the safety of compiled code does not depend on the
//! front end.

use forebay_filter::ir::Function;
use forebay_filter::ir::verify::{IrError, verify};
use forebay_filter::{Program, lists};
use forebay_packet::LinkType;

use crate::error::{JitError, SetError};

/// A function of the intermediate representation that passed [`verify`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified(Function);

impl Verified {
    /// Verifies a function.
    ///
    /// # Errors
    /// The rule that it violates.
    pub fn new(function: Function) -> Result<Self, IrError> {
        verify(&function)?;
        Ok(Self(function))
    }

    /// The verified function of a program.
    ///
    /// # Errors
    /// The rule that the front end's function violates: a bug in the front end,
    /// or a program with thousands of indices that the verifier rejects.
    pub fn of_program(program: &Program) -> Result<Self, IrError> {
        Self::new(lists::of_program(program))
    }

    /// The verified function of an expression for packets of link type `link`.
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
