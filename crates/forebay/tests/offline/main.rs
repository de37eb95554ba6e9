//! The command over files, in one program, so that it is linked once. `peaks` is one of its
//! own, because the kernel counts what a process held before execve(2).

#[path = "../support"]
mod support {
    pub mod command;
    pub mod data;
    pub mod libpcap;
    pub mod scratch;
}

mod accelerator;
mod bad_input;
mod captures;
mod endings;
mod filter;
mod flow_policies;
mod flows;
mod gateway;
mod memory;
mod outputs;
mod rules;
mod scan;
mod scan_rules;
mod split;
mod verdicts;
