//! The `forebay` command: a thin shell around the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    forebay::main()
}
