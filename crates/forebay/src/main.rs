//! The `forebay` command: a wrapper around the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    forebay::main()
}
