//! The command line.

mod broker;
mod filter;
mod flows;
mod rules;
mod sensor_hello;
mod split;
mod traffic;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use broker::*;
pub use filter::*;
pub use flows::*;
pub use rules::*;
pub use sensor_hello::*;
pub use split::*;
pub use traffic::*;

/// The heading of the options of all verbs.
const GLOBAL: &str = "Options of all verbs";

/// The heading of options that force what is otherwise chosen for the machine and the input.
const STUDY: &str = "For study";

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

/// The selection of packets.
#[derive(Debug, Args)]
pub struct Selection {
    /// Read the expression from a file
    #[arg(short = 'F', value_name = "FILE", conflicts_with_all = ["program", "expression"])]
    pub expression_file: Option<PathBuf>,
    /// Run a classic BPF program, in the form that `tcpdump -ddd` prints
    #[arg(long, value_name = "FILE", conflicts_with = "expression")]
    pub program: Option<PathBuf>,
    /// The back end that runs the filter
    #[arg(long, help_heading = STUDY, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
    /// The pcap expression, its words joined by blanks; without one every packet is
    /// selected
    #[arg(value_name = "EXPR")]
    pub expression: Vec<String>,
}

/// Back ends for filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// The fastest by a cost model
    Auto,
    /// The reference interpreter
    Interp,
    /// Machine code that processes one packet after another
    List,
    /// Machine code without branches, software-pipelined over the packets of a batch
    Pe,
    /// Machine code with branches, software-pipelined: enhanced modulo scheduling
    Ems,
}

impl From<Backend> for forebay_jit::Backend {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Auto => Self::Auto,
            Backend::Interp => Self::Interp,
            Backend::List => Self::List,
            Backend::Pe => Self::Pe,
            Backend::Ems => Self::Ems,
        }
    }
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

/// Limits of reading a capture.
#[derive(Debug, Args)]
pub struct ReadLimits {
    /// Read zstd with a window of up to that many MiB, rounded down to a power of two;
    /// takes as much memory. `zstd --long` and `--ultra` use large windows
    #[arg(long, value_name = "MIB", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=2048))]
    pub zstd_window: u16,
    /// Read records of up to that many MiB; takes twice as much memory. Only packets of
    /// D-Bus are ever that long
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=129))]
    pub longest_record: u16,
}

/// The definition of a flow.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// VLAN identifiers distinguish flows
    #[arg(long)]
    pub vlan_in_key: bool,
    /// Tunnel identifiers (VNI, TEID, GRE key, session, label) distinguish flows
    #[arg(long)]
    pub tunnel_in_key: bool,
    /// Depth of tunnels to decode; 0 uses the outermost addresses
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub tunnel_depth: u8,
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

fn parse_duration(text: &str) -> Result<Duration, String> {
    forebay_pipeline::units::duration(text).map_err(|error| error.to_string())
}

/// An interval between repetitions; a number without a unit is seconds.
fn parse_interval(text: &str) -> Result<Duration, String> {
    let is_plain = text.parse::<f64>().is_ok();
    let interval = parse_duration(&if is_plain { format!("{text}s") } else { text.to_owned() })?;
    if (Duration::from_millis(10)..=Duration::from_secs(3600)).contains(&interval) {
        return Ok(interval);
    }
    Err("expected 10ms to 1h".to_owned())
}

/// A name that fits into a hello.
fn parse_name(text: &str) -> Result<String, String> {
    let most = forebay_broker::hello::MAX_NAME;
    if text.len() <= most { Ok(text.to_owned()) } else { Err(format!("expected {most} bytes")) }
}

fn parse_hash_key(text: &str) -> Result<forebay_packet::HashKey, String> {
    let expected = "expected 32 hexadecimal digits";
    if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(expected.to_owned());
    }
    let half = |part: &str| u64::from_str_radix(part, 16).map_err(|_| expected.to_owned());
    Ok(forebay_packet::HashKey([half(&text[..16])?, half(&text[16..])?]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_interval_is_in_seconds_unless_it_says_otherwise() {
        for (text, millis) in [("200ms", 200), ("0.5", 500), ("2", 2_000), ("1m", 60_000)] {
            assert_eq!(parse_interval(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "0", "9ms", "2h", "-1", "NaN", "inf", "1e999", "soon"] {
            assert!(parse_interval(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_hash_key_has_32_digits() {
        let key = parse_hash_key("000000000000000100000000000000ff");
        assert_eq!(key, Ok(forebay_packet::HashKey([1, 255])));
        for bad in ["", "1", "+00000000000000100000000000000ff", "gggggggggggggggggggggggggggggggg"]
        {
            assert!(parse_hash_key(bad).is_err());
        }
    }
}
