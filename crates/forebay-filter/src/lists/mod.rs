//! Functions of filter expressions, and a way around libpcap for long lists.
//!
//! [`compile_function`] is the front end of the compiler: an expression, by way
//! of libpcap's program, becomes a simplified [`Function`].
//!
//! libpcap's optimiser needs time that grows faster than the square of the
//! number of tests, minutes for a list of a few thousand hosts. A pure list,
//! `or` between terms of `host`, `net`, `port` and `portrange` and nothing
//! else, is therefore taken apart when it is longer than [`MAX_LIBPCAP_TERMS`]:
//! each term is compiled by libpcap alone, and the function is the disjunction
//! of their programs. Programs that differ in one constant only become one that
//! looks the constant up in a set. A term that accepts no packet of the link
//! type, an IPv6 host among IPv4 packets say, adds nothing; libpcap refuses it
//! when it stands alone, and so it does a list of nothing else.
//!
//! The two ways can differ for a packet that was cut short. A load beyond the
//! captured bytes rejects the packet there and then. In libpcap's program for a
//! whole list that may be before a term that would have accepted it; in the
//! disjunction it ends the one term. Up to the limit a list means what libpcap
//! makes of it, beyond it the disjunction of its terms. What is not understood
//! as a pure list is libpcap's in any case.
//!
//! | module | does |
//! |---|---|
//! | `split` | the terms of a list, with the qualifiers that they have or inherit |
//! | `group` | programs that differ in one constant → one function with a set |

mod group;
mod split;

use forebay_packet::LinkType;

use crate::compile::{CompileError, ExpressionError, MAX_EXPRESSION, compile, with_libpcap};
use crate::ir::Function;
use crate::ir::build::build;
use crate::ir::simplify::simplify;
use crate::ir::union::union;
use crate::program::Program;
use split::{Term, split};

/// The longest list whose terms libpcap compiles together.
pub const MAX_LIBPCAP_TERMS: usize = 200;

/// The longest expression that is looked at as a list, in bytes.
pub const MAX_LIST: usize = 1 << 20;

/// Compiles `expression` for saved packets of link type `link` to a function.
///
/// It returns for every packet what the program of
/// [`compile()`](crate::compile::compile) returns, unless the expression is a
/// pure list of more than [`MAX_LIBPCAP_TERMS`] terms of `host`, `net`, `port`
/// or `portrange`. Then it returns what the first of the programs of the terms
/// alone returns that accepts the packet.
///
/// # Errors
/// As [`compile()`](crate::compile::compile). Expressions longer than
/// [`MAX_EXPRESSION`] must be such lists, and not longer than [`MAX_LIST`].
pub fn compile_function(expression: &str, link: LinkType) -> Result<Function, CompileError> {
    let is_long = |terms: &Vec<Term>| terms.len() > MAX_LIBPCAP_TERMS;
    if expression.len() <= MAX_LIST
        && let Some(terms) = split(expression).filter(is_long)
    {
        match list(&terms, link) {
            Ok(Some(function)) => return Ok(function),
            Ok(None) => {
                let error = ExpressionError::rejects_all(expression, link);
                return Err(CompileError::Expression(Box::new(error)));
            }
            // libpcap's message about the whole is better than one about a
            // term, if it can be had.
            Err(CompileError::Expression(_)) if expression.len() <= MAX_EXPRESSION => {}
            Err(error) => return Err(error),
        }
    }
    Ok(of_program(&compile(expression, link)?))
}

/// The simplified function of a program.
#[must_use]
pub fn of_program(program: &Program) -> Function {
    let mut function = build(program);
    simplify(&mut function);
    function
}

/// The disjunction of terms; nothing if none of them accepts any packet.
fn list(terms: &[Term], link: LinkType) -> Result<Option<Function>, CompileError> {
    let programs: Vec<Option<Program>> = with_libpcap(link, |libpcap| {
        terms.iter().map(|term| libpcap.compile(&term.expression())).collect()
    })?;
    let qualifiers = terms.iter().map(|term| term.qualifiers);
    let programs: Vec<_> = qualifiers
        .zip(programs)
        .filter_map(|(qualifiers, program)| Some((qualifiers, program?)))
        .collect();
    Ok((!programs.is_empty()).then(|| union(&group::functions(programs))))
}
