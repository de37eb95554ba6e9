//! Compiled filters and rule lists for C programs: `libforebay`, as a shared and as a
//! static library.
//!
//! `include/forebay.h` declares and documents the functions; the module `ffi` defines them.
//! The rest of the crate is safe Rust. Nothing unwinds into C: a panic, which would be a
//! bug in the library, becomes a status.
#![deny(unsafe_code)]

mod error;
mod ffi;
mod filters;
mod last_error;
mod rules;

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
        assert_eq!(ffi::forebay_version(), major * 1_000_000 + minor * 1000 + patch);
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
