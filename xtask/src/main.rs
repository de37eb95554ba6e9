//! The command behind `cargo xtask`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use xtask::style;

const USAGE: &str = "usage: cargo xtask style    check the source against the house rules";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["style"] => run_style(),
        ["help" | "-h" | "--help"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run_style() -> ExitCode {
    match style::check(&xtask::workspace_root()) {
        Ok(findings) if findings.is_empty() => {
            println!("style: nothing to change");
            ExitCode::SUCCESS
        }
        Ok(findings) => {
            for finding in &findings {
                println!("{finding}");
            }
            eprintln!("style: {} finding(s)", findings.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("style: {error}");
            ExitCode::FAILURE
        }
    }
}
