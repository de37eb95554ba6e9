//! The command behind `cargo xtask`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use xtask::{bpf, style};

const USAGE: &str = "\
usage: cargo xtask style          check the source against the house rules
       cargo xtask bpf            compile the kernel programs
       cargo xtask bpf --check    compare their objects with the source";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["style"] => run_style(),
        ["bpf"] => run_bpf(bpf::compile(&xtask::workspace_root())),
        ["bpf", "--check"] => match bpf::check(&xtask::workspace_root()) {
            Err(error @ bpf::BpfError::OtherClang(_)) => {
                eprintln!("bpf: NOT COMPARED: {error}");
                ExitCode::SUCCESS
            }
            outcome => run_bpf(outcome),
        },
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

fn run_bpf(outcome: Result<(), bpf::BpfError>) -> ExitCode {
    match outcome {
        Ok(()) => {
            println!("bpf: the objects are those of the source");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bpf: {error}");
            ExitCode::FAILURE
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
