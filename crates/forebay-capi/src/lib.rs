//! Compiled filters and rule lists for C programs: `libforebay`, as a shared and as a
//! static library.
//!
//! `include/forebay.h` declares and documents the functions; the module `ffi` defines them.
//! The rest of the crate is safe Rust. Nothing unwinds into C: a panic, which would be a
//! bug in the library, becomes a status.
#![deny(unsafe_code)]

mod error;
mod ffi;
mod last_error;
mod rules;

use forebay_filter::{Instruction, Profile, Program};
use forebay_jit::cpu::CpuError;
use forebay_jit::{Backend, Filter, Options};
use forebay_packet::LinkType;

use crate::error::Error;

fn options() -> Result<Options, CpuError> {
    Options::new(Backend::Auto, None)
}

fn compile_expression(expression: &[u8], linktype: u32) -> Result<Filter, Error> {
    let expression = std::str::from_utf8(expression).map_err(|_| Error::Encoding)?;
    let link = LinkType(linktype);
    let options = Options { name: format!("{expression} on {link}"), ..options()? };
    Ok(Filter::of_expression(expression, link, &options)?)
}

fn compile_program(instructions: &[Instruction]) -> Result<Filter, Error> {
    let program = Program::verify(instructions, Profile::Libpcap)?;
    Ok(Filter::compile(&program, &options()?)?)
}

/// The header's `FOREBAY_VERSION` for this version.
fn version() -> u32 {
    let parts = [
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
        env!("CARGO_PKG_VERSION_PATCH"),
    ];
    let parts = parts.into_iter().map(|part| part.parse().unwrap_or(0));
    parts.fold(0, |version, part: u32| version * 1000 + part)
}

#[cfg(test)]
mod tests {
    use forebay_rules::engine::NO_RULE;

    use super::*;
    use crate::error::Status;

    /// The value of a constant in the header.
    fn number(name: &str) -> u32 {
        let header = include_str!("../include/forebay.h");
        let mut lines = header.lines().map(|line| line.trim().trim_end_matches(','));
        let define = format!("#define {name} ");
        let member = format!("{name} = ");
        let value =
            lines.find_map(|line| line.strip_prefix(&define).or(line.strip_prefix(&member)));
        let hex = |value: &str| u32::from_str_radix(value.strip_prefix("0x")?, 16).ok();
        let number = |value: &str| hex(value.strip_suffix('u').unwrap_or(value));
        let value = value.and_then(|value| value.parse().ok().or_else(|| number(value)));
        value.unwrap_or_else(|| panic!("{name}"))
    }

    #[test]
    fn the_header_is_of_this_version() {
        let [major, minor, patch] =
            ["MAJOR", "MINOR", "PATCH"].map(|part| number(&format!("FOREBAY_VERSION_{part}")));
        assert_eq!(format!("{major}.{minor}.{patch}"), env!("CARGO_PKG_VERSION"));
        assert_eq!(version(), major * 1_000_000 + minor * 1000 + patch);
    }

    #[test]
    fn the_header_has_the_same_answers_of_no_rule() {
        assert_eq!(number("FOREBAY_NO_RULE"), NO_RULE);
        assert_eq!(number("FOREBAY_NOT_IP"), rules::NOT_IP);
    }

    #[test]
    fn the_header_has_the_same_statuses() {
        let numbers = [
            (Status::Ok, "FOREBAY_OK"),
            (Status::InvalidArgument, "FOREBAY_INVALID_ARGUMENT"),
            (Status::BadFilter, "FOREBAY_BAD_FILTER"),
            (Status::Unavailable, "FOREBAY_UNAVAILABLE"),
            (Status::Internal, "FOREBAY_INTERNAL"),
            (Status::BadRules, "FOREBAY_BAD_RULES"),
        ];
        for (status, name) in numbers {
            assert_eq!(status as u32, number(name), "{name}");
        }
    }
}
