//! The functions of `include/forebay.h`.
//!
//! Each checks its arguments as far as possible, converts them to references and slices,
//! and calls safe code, with a guard that turns errors and panics into a status. The header
//! documents the caller's obligations that cannot be checked: that pointers are valid as
//! declared, and that the memory is not written by others during the call.
//!
//! The functions for filters are in `filters`, those for rules in `rules`.
#![allow(unsafe_code, reason = "takes pointers from C")]

mod arguments;
mod filters;
mod rules;

use std::ffi::c_char;

use crate::last_error;

/// `forebay_version`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_version() -> u32 {
    let parts = [
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
        env!("CARGO_PKG_VERSION_PATCH"),
    ];
    let parts = parts.into_iter().map(|part| part.parse().unwrap_or(0));
    parts.fold(0, |version, part: u32| version * 1000 + part)
}

/// `forebay_last_error`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_last_error() -> *const c_char {
    last_error::get()
}

#[cfg(test)]
mod tests;
