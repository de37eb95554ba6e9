//! The command line.

mod accelerator;
mod broker;
mod capture;
mod filter;
mod flow_policy;
mod flows;
mod gateway;
mod headings;
mod rules;
mod scan;
mod selection;
mod sensor_hello;
mod split;
mod traffic;
mod values;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use accelerator::*;
pub use broker::*;
pub use capture::*;
pub use filter::*;
pub use flow_policy::*;
pub use flows::*;
pub use gateway::*;
use headings::{GLOBAL, STUDY};
pub use rules::*;
pub use scan::*;
pub use selection::*;
pub use sensor_hello::*;
pub use split::*;
pub use traffic::*;

/// A packet broker: filters captures, finds their flows, and splits them over
/// sensors so that each gets whole flows.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Exit status: 0 done, 1 failed, 2 used wrongly.")]
pub struct Cli {
    /// Write results to standard output as JSON
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
    /// Show no progress and no remarks
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    pub quiet: bool,
    /// Print more to standard error; twice for still more
    #[arg(short, long, global = true, help_heading = GLOBAL, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Use no vector instructions above this level; by default the highest level of the
    /// machine. The environment variable FOREBAY_ISA does the same
    #[arg(long, global = true, help_heading = STUDY, value_enum, value_name = "LEVEL")]
    pub isa: Option<Isa>,
    /// What to do
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Keep the packets of a capture or a device that a pcap expression selects
    Filter(FilterArgs),
    /// Show the code that a pcap expression compiles to
    Compile(CompileArgs),
    /// Split a capture over sensors, whole flows to each
    Split(SplitArgs),
    /// List the flows of a capture
    Flows(FlowsArgs),
    /// Check ordered rule lists, match packets against them, explain and import them
    Rules(RulesArgs),
    /// Find literals in the payloads of a capture
    Scan(ScanArgs),
    /// Withhold flows that can raise no alert from a sensor, live or in a capture
    Gateway(GatewayArgs),
    /// Scan payloads for other processes, over shared memory
    Accelerator(AcceleratorArgs),
    /// Generate synthetic traffic: a capture, or numbered frames on a device
    Gen(GenArgs),
    /// Receive the frames of `forebay gen -i`, and count those lost, duplicated, late or
    /// torn
    Sink(SinkArgs),
    /// Split live traffic over sensors, according to a configuration
    Run(RunArgs),
    /// Show the state of a running broker, or change it
    Ctl(CtlArgs),
    /// Watch a running broker: rates, losses, sensors, moves
    Top(TopArgs),
    /// Run beside a sensor: send hellos to the broker, with the packets that the sensor
    /// drops
    SensorHello(SensorHelloArgs),
    /// Write the manual pages
    #[command(hide = true)]
    Man(ManArgs),
    /// Print completions for a shell
    Completions(CompletionArgs),
}

/// Instruction-set levels, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Isa {
    /// Plain x86-64
    Scalar,
    /// AVX2
    Avx2,
    /// AVX-512 F, BW, DQ and VL
    Avx512bw,
    /// As avx512bw, and AVX-512 VBMI
    Avx512vbmi,
}

impl From<Isa> for forebay_jit::Isa {
    fn from(isa: Isa) -> Self {
        match isa {
            Isa::Scalar => Self::Scalar,
            Isa::Avx2 => Self::Avx2,
            Isa::Avx512bw => Self::Avx512Bw,
            Isa::Avx512vbmi => Self::Avx512Vbmi,
        }
    }
}

/// `forebay man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Folder for the pages
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// `forebay completions`.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
