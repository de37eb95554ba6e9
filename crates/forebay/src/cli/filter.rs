//! The command line of `forebay filter` and `forebay compile`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::capture::ReadLimits;
use super::selection::Selection;

/// `forebay filter`.
#[derive(Debug, Args)]
pub struct FilterArgs {
    /// The capture; `-` is standard input
    #[arg(short, long, value_name = "FILE", required_unless_present = "interface")]
    pub read: Option<PathBuf>,
    /// Capture the packets that this device receives and sends, until a signal or -c ends
    /// it
    #[arg(short, long, value_name = "DEVICE", conflicts_with = "read")]
    pub interface: Option<String>,
    /// Write the packets to a capture; `-` is standard output
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["count", "verdicts"])]
    pub write: Option<PathBuf>,
    /// Print only the number of selected packets
    #[arg(long, conflicts_with = "verdicts")]
    pub count: bool,
    /// Print the program's result for each packet, a number a line
    #[arg(long)]
    pub verdicts: bool,
    /// With --json, list the selected packets too, not only totals
    #[arg(long, conflicts_with_all = ["write", "count", "verdicts"])]
    pub packets: bool,
    /// Stop after that many packets
    #[arg(short = 'c', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Keep at most that many bytes of each packet; 0 keeps all
    #[arg(short = 's', long = "snapshot-length", value_name = "BYTES")]
    pub snap_len: Option<u32>,
    /// Write every packet as soon as it was selected
    #[arg(short = 'U', long, requires = "write")]
    pub packet_buffered: bool,
    /// Begin a new file when one exceeds that many millions of bytes
    #[arg(short = 'C', value_name = "MB", requires = "write", value_parser = clap::value_parser!(u64).range(1..))]
    pub file_size: Option<u64>,
    /// Begin a new file after that many seconds; the name may hold %Y %m %d %H %M %S %s
    #[arg(short = 'G', value_name = "SECONDS", requires = "write", value_parser = clap::value_parser!(u64).range(1..))]
    pub rotate_seconds: Option<u64>,
    /// With -C: use that many files in turn; with -G alone: end after that many files
    #[arg(short = 'W', value_name = "N", requires = "write", value_parser = clap::value_parser!(u64).range(1..))]
    pub file_count: Option<u64>,
    /// Limits of reading
    #[command(flatten)]
    pub limits: ReadLimits,
    /// The selection
    #[command(flatten)]
    pub selection: Selection,
}

/// `forebay compile`.
#[derive(Debug, Args)]
pub struct CompileArgs {
    /// Link type of the packets: a LINKTYPE_ name or number
    #[arg(long, value_name = "LINK", default_value = "EN10MB")]
    pub linktype: String,
    /// The form to print
    #[arg(long, value_enum, default_value_t = Emit::Cbpf)]
    pub emit: Emit,
    /// The rules that the program must satisfy
    #[arg(long, value_enum, default_value_t = RuleSet::Libpcap)]
    pub rules: RuleSet,
    /// The expression
    #[command(flatten)]
    pub selection: Selection,
}

/// Forms of a compiled expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Emit {
    /// Classic BPF, one instruction a line, readable
    Cbpf,
    /// Classic BPF in decimal, for --program
    Ddd,
    /// The compiler's intermediate representation
    Ir,
    /// A C program with a label for each block
    C,
    /// A C program of nested ifs
    CStructured,
    /// The schedules of the back end's loops
    Schedule,
    /// The machine code, disassembled
    Asm,
}

/// The verifier that a program must pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RuleSet {
    /// libpcap in user space
    Libpcap,
    /// The Linux kernel's socket filters
    Kernel,
}
