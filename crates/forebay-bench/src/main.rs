//! `forebay-bench SUITE`: measures forebay beside its alternatives.
//!
//! Every suite asserts the answers it times, and runs its peers in the same run, in
//! alternation ([`rounds`]). A ratio is the median over pairs of neighbouring runs. See
//! METHOD.md in `bench/`.
#![deny(unsafe_code)]

mod bar;
mod clock;
mod cores;
mod peers;
mod record;
mod rounds;
mod stats;
mod suites;
mod svg;
mod table;

use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

/// Measures forebay beside its peers.
#[derive(Debug, Parser)]
#[command(name = "forebay-bench", version)]
struct Options {
    /// What to measure
    #[arg(value_enum)]
    suite: Suite,
    /// Write the rows to a file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// End within two minutes: smaller input, fewer runs
    #[arg(long)]
    quick: bool,
    /// The forebay command to measure; the one beside this program if not given
    #[arg(long, value_name = "FILE")]
    forebay: Option<PathBuf>,
    /// Folder for captures, best in memory
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    folder: PathBuf,
    /// Build the tries of DPDK's classifier for a list: what the suite runs for long ones
    #[arg(long, hide = true, value_name = "LIST")]
    build_acl: Option<String>,
    /// Measure one list that is hard on classifiers: what the suite runs for each
    #[arg(long, hide = true, value_name = "LIST")]
    shape: Option<String>,
    /// Compile a list of hosts, and print time and memory: what the suite runs for each
    #[arg(long, hide = true, value_name = "NUMBER")]
    compile_hosts: Option<usize>,
    /// Folder of captures and rule lists from outside the project
    #[arg(long, hide = true, value_name = "DIR", env = "FOREBAY_DATA", default_value = DATA)]
    data: PathBuf,
    /// Only cases whose expression or name contains this; rules and forward: or one of several
    /// texts with commas between them; cases of forward are like 64/capacity
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Filters: only on this set; can be repeated
    #[arg(long = "set", value_name = "NAME")]
    sets: Vec<suites::filters::sets::Set>,
    /// Filters: only this engine beside libpcap and touch; rules and forward: only this one; can
    /// be repeated
    #[arg(long = "engine", value_name = "NAME")]
    engines: Vec<String>,
    /// Filters: our back ends with other load latencies and prefetch distances
    #[arg(long)]
    sweep: bool,
    /// Filters, rules and forward: rounds on every set
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<usize>,
    /// Filters, rules and forward: write the figures to this folder, as SVG
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

impl Options {
    /// Whether `--only`, with several texts, selects a part of a suite.
    fn names(&self, part: &str) -> bool {
        let only = self.only.as_deref();
        only.is_none_or(|texts| texts.split(',').any(|text| part.contains(text)))
    }

    /// The `forebay` to measure.
    fn forebay(&self) -> Result<PathBuf> {
        let path = match &self.forebay {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("forebay"),
        };
        if path.is_file() {
            return Ok(path);
        }
        let hint = "there is no such program; build it, or name it with --forebay";
        Err(format!("{}: {hint}", path.display()).into())
    }
}

/// Where data from outside the project is unless `FOREBAY_DATA` names a folder.
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Suite {
    /// Compiled filters beside libpcap, other compilers, and compiled C
    Filters,
    /// A worker of the broker from memory to memory, stage by stage
    Pipeline,
    /// Rule lists beside DPDK's classifier and the paper's C
    Rules,
    /// Rule lists that are hard on classifiers, with the instructions of every level
    Shapes,
    /// `forebay filter` beside tcpdump, and `forebay split`, on a capture
    Split,
    /// `forebay run` by each type of port, beside the kernel's bridge and nftables
    Forward,
}

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
    let run = match options.suite {
        Suite::Filters => suites::filters::run,
        Suite::Pipeline => suites::pipeline::run,
        Suite::Rules => suites::rules::run,
        Suite::Shapes => suites::shapes::run,
        Suite::Split => suites::split::run,
        Suite::Forward => suites::forward::run,
    };
    run(options)?.publish(options.json.as_deref())
}

/// Why a benchmark could not be run, or is not valid, as the program ends with it.
#[derive(Clone, Debug)]
struct Failure(String);

type Result<T, E = Failure> = std::result::Result<T, E>;

impl<E: Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Names what was being done before an error.
trait During<T> {
    fn during(self, doing: impl Display) -> Result<T>;
}

impl<T, E: Display> During<T> for Result<T, E> {
    fn during(self, doing: impl Display) -> Result<T> {
        self.map_err(|error| Failure(format!("{doing}: {error}")))
    }
}

/// Fails with a wrong answer unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err(format!("wrong answer: {}", format_args!($($what)+)).into());
        }
    };
}
use ensure;

/// Declares an enumeration whose values have names in the rows.
macro_rules! named {
    (
        $(#[$about:meta])*
        pub enum $name:ident { $($(#[$more:meta])* $value:ident = $text:literal,)* }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$more])* $value,)*
        }

        impl $name {
            #[allow(dead_code, reason = "not every suite goes through all values")]
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$value),*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
use named;
