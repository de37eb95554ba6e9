//! The intermediate representation against the interpreter of programs, which
//! the other tests hold against libpcap.

mod differential;
mod lists;
mod long;
mod scale;
mod simplify;
mod text;
mod verify;

use forebay_filter::Program;
use forebay_filter::ir::Function;
use forebay_filter::ir::build::build;
use forebay_filter::ir::simplify::simplify;

/// The function of a program as built, and simplified.
pub fn functions(program: &Program) -> [Function; 2] {
    let built = build(program);
    let mut simplified = built.clone();
    simplify(&mut simplified);
    [built, simplified]
}
