//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::failure::Result;
use crate::suites::filters::sets::Set;

/// Measures forebay beside its peers.
#[derive(Debug, Parser)]
#[command(name = "forebay-bench", version)]
pub struct Options {
    /// What to measure
    #[arg(value_enum)]
    pub suite: Suite,
    /// Write the rows to a file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// End within two minutes: smaller input, fewer runs
    #[arg(long)]
    pub quick: bool,
    /// The forebay command to measure; the one beside this program if not given
    #[arg(long, value_name = "FILE")]
    pub forebay: Option<PathBuf>,
    /// Folder for captures, best in memory
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub folder: PathBuf,
    /// Build the tries of DPDK's classifier for a list: what the suite runs for long ones
    #[arg(long, hide = true, value_name = "LIST")]
    pub build_acl: Option<String>,
    /// Measure one list that is hard on classifiers: what the suite runs for each
    #[arg(long, hide = true, value_name = "LIST")]
    pub shape: Option<String>,
    /// Compile a list of hosts, and print time and memory: what the suite runs for each
    #[arg(long, hide = true, value_name = "NUMBER")]
    pub compile_hosts: Option<usize>,
    /// Look flows up: what the suite runs under valgrind
    #[arg(long, hide = true, value_name = "ENGINE:RUNS")]
    pub replay: Option<String>,
    /// Folder of captures and rule lists from outside the project
    #[arg(long, hide = true, value_name = "DIR", env = "FOREBAY_DATA", default_value = DATA)]
    pub data: PathBuf,
    /// Only cases whose expression or name contains this; accelerator, rules, flows, scan, shed,
    /// forward and gateway: or one of several texts with commas between them; cases of forward are like
    /// 64/capacity, those of gateway like 1500/tap/forebay and consumers
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Filters: only on this set; can be repeated
    #[arg(long = "set", value_name = "NAME")]
    pub sets: Vec<Set>,
    /// Filters: only this engine beside libpcap and touch; rules, flows, scan, shed, forward and
    /// gateway: only this one; can be repeated
    #[arg(long = "engine", value_name = "NAME")]
    pub engines: Vec<String>,
    /// Filters: our back ends with other load latencies and prefetch distances
    #[arg(long)]
    pub sweep: bool,
    /// Accelerator, cache, filters, rules, flows, scan, forward and gateway: rounds on every set
    #[arg(long, value_name = "NUMBER")]
    pub rounds: Option<usize>,
    /// Cache, filters, rules and forward: write the figures to this folder, as SVG
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
}

impl Options {
    /// Whether `--only`, with several texts, selects a part of a suite.
    pub fn names(&self, part: &str) -> bool {
        let only = self.only.as_deref();
        only.is_none_or(|texts| texts.split(',').any(|text| part.contains(text)))
    }

    /// Whether `--engine` selects an engine.
    pub fn has_engine(&self, name: &str) -> bool {
        self.engines.is_empty() || self.engines.iter().any(|engine| engine == name)
    }

    /// The `forebay` to measure.
    pub fn forebay(&self) -> Result<PathBuf> {
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
pub enum Suite {
    /// Batches of payloads scanned inline, on a thread, and in another process
    Accelerator,
    /// Look-ups of flows in simulated caches, and their time beside it
    Cache,
    /// Compiled filters beside libpcap, other compilers, and compiled C
    Filters,
    /// A worker of the broker from memory to memory, stage by stage
    Pipeline,
    /// The table of flows beside DPDK's and hashbrown, and the rows of shed
    Flows,
    /// A gateway before an application, live, beside a bridge, forwarding alone and scanning alone
    Gateway,
    /// Rule lists beside DPDK's classifier and the paper's C
    Rules,
    /// Literals in payloads beside Vectorscan and automata
    Scan,
    /// Rule lists that are hard on classifiers, with the instructions of every level
    Shapes,
    /// Flows that reach an overloaded sensor whole, by policy
    Shed,
    /// `forebay filter` beside tcpdump, and `forebay split`, on a capture
    Split,
    /// `forebay run` by each type of port, beside the kernel's bridge and nftables
    Forward,
}
