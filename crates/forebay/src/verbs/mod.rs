//! The verbs. Each file reads its options, runs a pipeline, and prints the result.

mod accelerator;
mod compile;
mod ctl;
mod filter;
mod flow_policy;
mod flows;
mod gateway;
mod gen_live;
mod gen_traffic;
mod manual;
mod rules;
mod run;
mod scan;
mod sensor_hello;
mod sink;
mod split;
mod top;

use crate::cli::{Cli, Verb};
use crate::failure::Failure;

/// Runs the verb of the command line.
///
/// # Errors
/// The verb's failure.
pub fn dispatch(cli: &Cli) -> Result<(), Failure> {
    match &cli.verb {
        Verb::Filter(args) => filter::run(cli, args),
        Verb::Compile(args) => compile::run(cli, args),
        Verb::Split(args) => split::run(cli, args),
        Verb::Flows(args) => flows::run(cli, args),
        Verb::Rules(args) => rules::run(cli, args),
        Verb::Scan(args) => scan::run(cli, args),
        Verb::Gateway(args) => gateway::run(cli, args),
        Verb::Accelerator(args) => accelerator::run(cli, args),
        Verb::Gen(args) => gen_traffic::run(cli, args),
        Verb::Sink(args) => sink::run(cli, args),
        Verb::Run(args) => run::run(cli, args),
        Verb::Ctl(args) => ctl::run(cli, args),
        Verb::Top(args) => top::run(cli, args),
        Verb::SensorHello(args) => sensor_hello::run(cli, args),
        Verb::Man(args) => manual::write_pages(&args.out),
        Verb::Completions(args) => manual::print_completions(args.shell),
    }
}
