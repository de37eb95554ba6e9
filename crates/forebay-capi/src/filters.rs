//! Filters: compiled for this machine.

use forebay_filter::{Instruction, Profile, Program};
use forebay_jit::cpu::CpuError;
use forebay_jit::{Backend, Filter, Options};
use forebay_packet::LinkType;

use crate::error::Error;

fn options() -> Result<Options, CpuError> {
    Options::new(Backend::Auto, None)
}

/// The filter of an expression.
pub(crate) fn compile_expression(expression: &[u8], linktype: u32) -> Result<Filter, Error> {
    let expression = std::str::from_utf8(expression).map_err(|_| Error::Encoding)?;
    let link = LinkType(linktype);
    let options = Options { name: format!("{expression} on {link}"), ..options()? };
    finished(Filter::of_expression(expression, link, &options)?)
}

/// The filter of a program.
pub(crate) fn compile_program(instructions: &[Instruction]) -> Result<Filter, Error> {
    let program = Program::verify(instructions, Profile::Libpcap)?;
    finished(Filter::compile(&program, &options()?)?)
}

/// `filter` with all its code: the header promises that a call with packets
/// allocates nothing that the loader does not.
fn finished(filter: Filter) -> Result<Filter, Error> {
    filter.finish()?;
    Ok(filter)
}
