//! The options that select packets.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::headings::STUDY;

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
