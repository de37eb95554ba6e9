//! `forebay-bench SUITE`: measures forebay beside its alternatives.
//!
//! Every suite asserts the answers it times, and runs its peers in the same run, in
//! alternation ([`rounds`]). A ratio is the median over pairs of neighbouring runs. See
//! METHOD.md in `bench/`.
#![deny(unsafe_code)]

mod bar;
mod clock;
mod cores;
mod failure;
mod named;
mod options;
mod peers;
mod record;
mod rounds;
mod stats;
mod suites;
mod svg;
mod table;

use std::process::ExitCode;

use clap::Parser as _;

use failure::{Failure, Result};
use options::{Options, Suite};

fn main() -> ExitCode {
    match measure(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(why)) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Result<()> {
    if let Some(hosts) = options.compile_hosts {
        return suites::filters::probe(hosts);
    }
    if let Some(what) = &options.build_acl {
        return suites::rules::probe(what, &options.data);
    }
    if let Some(what) = &options.shape {
        return suites::shapes::probe(what);
    }
    if let Some(what) = &options.replay {
        return suites::cache::replay(what);
    }
    let run = match options.suite {
        Suite::Accelerator => suites::accelerator::run,
        Suite::Cache => suites::cache::run,
        Suite::Filters => suites::filters::run,
        Suite::Flows => suites::flows::run,
        Suite::Gateway => suites::gateway::run,
        Suite::Pipeline => suites::pipeline::run,
        Suite::Rules => suites::rules::run,
        Suite::Scan => suites::scan::run,
        Suite::Shapes => suites::shapes::run,
        Suite::Shed => suites::shed::run,
        Suite::Split => suites::split::run,
        Suite::Forward => suites::forward::run,
    };
    run(options)?.publish(options.json.as_deref())
}
