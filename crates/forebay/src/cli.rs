//! The command line.

mod rules;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use forebay_packet::MacAddress;

pub use rules::*;

use crate::verbs::run::Check;
use crate::verbs::sensor_hello::StatsSource;

/// A packet broker: filters captures, finds their flows, and splits them over
/// sensors so that each gets whole flows.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Exit status: 0 done, 1 failed, 2 used wrongly.")]
pub struct Cli {
    /// Write results to standard output as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Show no progress and no remarks
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Tell more on standard error; twice for still more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Filters, rules and packets' headers use no instructions above this level; the highest the
    /// machine has if not given. The environment variable FOREBAY_ISA does the same
    #[arg(long, global = true, value_enum, value_name = "LEVEL")]
    pub isa: Option<Isa>,
    /// What to do
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Keep the packets of a capture that a pcap expression selects
    Filter(FilterArgs),
    /// Show what a pcap expression is compiled to
    Compile(CompileArgs),
    /// Split a capture over sensors, whole flows to each
    Split(SplitArgs),
    /// List the flows of a capture
    Flows(FlowsArgs),
    /// Check ordered rule lists, match packets against them, explain and import them
    Rules(RulesArgs),
    /// Make a capture of synthetic traffic
    Gen(GenArgs),
    /// Receive what `forebay gen -i` sends, and tell what is lost, doubled, late or torn
    Sink(SinkArgs),
    /// Split live traffic over sensors, as a configuration says
    Run(RunArgs),
    /// Ask a running broker how it is, or tell it what to do
    Ctl(CtlArgs),
    /// Watch a running broker: rates, losses, sensors, moves
    Top(TopArgs),
    /// Run beside a sensor: tell the broker that it is there, and what it drops
    SensorHello(SensorHelloArgs),
    /// Write the manual pages
    #[command(hide = true)]
    Man(ManArgs),
    /// Print completions for a shell
    Completions(CompletionArgs),
}

/// How packets are selected.
#[derive(Debug, Args)]
pub struct Selection {
    /// Read the expression from a file
    #[arg(short = 'F', value_name = "FILE", conflicts_with_all = ["program", "expression"])]
    pub expression_file: Option<PathBuf>,
    /// Run a classic BPF program, in the form that `tcpdump -ddd` prints
    #[arg(long, value_name = "FILE", conflicts_with = "expression")]
    pub program: Option<PathBuf>,
    /// What runs the filter
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
    /// The pcap expression; several words are joined by blanks, none keep every packet
    #[arg(value_name = "EXPR")]
    pub expression: Vec<String>,
}

/// Back ends for filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// What a cost model takes for the fastest
    Auto,
    /// The reference interpreter
    Interp,
    /// Machine code for a packet after another
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
    /// The same and AVX-512 VBMI
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

/// What reading a capture may take.
#[derive(Debug, Args)]
pub struct ReadLimits {
    /// Read zstd whose window is up to that many MiB, rounded down to a power of two; takes as
    /// much memory. `zstd --long` and `--ultra` make large ones
    #[arg(long, value_name = "MIB", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=2048))]
    pub zstd_window: u16,
    /// Read records of up to that many MiB; takes twice as much memory. Only packets of D-Bus
    /// are ever so long
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=129))]
    pub longest_record: u16,
}

/// `forebay filter`.
#[derive(Debug, Args)]
pub struct FilterArgs {
    /// The capture; `-` is standard input
    #[arg(short, long, value_name = "FILE", required_unless_present = "interface")]
    pub read: Option<PathBuf>,
    /// Capture what this device receives and sends, until a signal or -c ends it
    #[arg(short, long, value_name = "DEVICE", conflicts_with = "read")]
    pub interface: Option<String>,
    /// Write the packets to a capture; `-` is standard output
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["count", "verdicts"])]
    pub write: Option<PathBuf>,
    /// Print only how many packets were selected
    #[arg(long, conflicts_with = "verdicts")]
    pub count: bool,
    /// Print what the program returned for each packet, a number a line
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
    /// Write every packet out as soon as it was selected
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
    /// What reading may take
    #[command(flatten)]
    pub limits: ReadLimits,
    /// What is kept
    #[command(flatten)]
    pub selection: Selection,
}

/// `forebay compile`.
#[derive(Debug, Args)]
pub struct CompileArgs {
    /// Link type the packets will have: a LINKTYPE_ name or number
    #[arg(long, value_name = "LINK", default_value = "EN10MB")]
    pub linktype: String,
    /// What to show
    #[arg(long, value_enum, default_value_t = Emit::Cbpf)]
    pub emit: Emit,
    /// Which rules the program must satisfy
    #[arg(long, value_enum, default_value_t = RuleSet::Libpcap)]
    pub rules: RuleSet,
    /// The expression
    #[command(flatten)]
    pub selection: Selection,
}

/// Forms of a compiled expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Emit {
    /// Classic BPF, one instruction a line, for people
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

/// Who has to accept a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RuleSet {
    /// libpcap in user space
    Libpcap,
    /// The Linux kernel's socket filters
    Kernel,
}

/// What a flow is.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// VLAN identifiers tell flows apart
    #[arg(long)]
    pub vlan_in_key: bool,
    /// Tunnel identifiers (VNI, TEID, GRE key, session, label) tell flows apart
    #[arg(long)]
    pub tunnel_in_key: bool,
    /// How many tunnels to look into; 0 takes the outermost addresses
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub tunnel_depth: u8,
}

/// `forebay split`.
#[derive(Debug, Args)]
pub struct SplitArgs {
    /// The capture; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    pub read: PathBuf,
    /// Number of sensors
    #[arg(short = 'n', long, value_name = "N", required_unless_present = "weights")]
    pub sensors: Option<usize>,
    /// Folder for sensor-0.pcap, sensor-1.pcap …; made if it does not exist
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Each sensor's share of the load, in whole numbers
    #[arg(long, value_name = "W,W,…", value_delimiter = ',')]
    pub weights: Option<Vec<u32>>,
    /// Split only what this pcap expression selects
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// What runs the filter
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
    /// Split only what these rules pass, and what is not IP
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// The list of the rules' file, as interface and direction: lan1:in
    #[arg(long, value_name = "NAME", requires = "rules")]
    pub list: Option<String>,
    /// What must stay together
    #[arg(long, value_enum, default_value_t = SplitKey::FiveTuple)]
    pub key: SplitKey,
    /// Control connections that take the data flows they announce with them: ftp, sip, with a
    /// port if it is not 21 or 5060, like sip:5061
    #[arg(long, value_name = "PROTOCOL,…", value_delimiter = ',')]
    pub follow: Vec<String>,
    /// What a flow is
    #[command(flatten)]
    pub flow: KeyArgs,
    /// Secret key of the hash, 32 hexadecimal digits; the same key splits the same way
    #[arg(long, value_name = "HEX", value_parser = parse_hash_key)]
    pub hash_key: Option<forebay_packet::HashKey>,
    /// What reading may take
    #[command(flatten)]
    pub limits: ReadLimits,
    /// Write a page with the load of each sensor, the largest flows and the ledger
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Replace the sensors' files of an earlier run in the folder
    #[arg(long)]
    pub force: bool,
    /// Worker threads; as many as there are processors if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,
}

/// What packets of a split must stay together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SplitKey {
    /// Those of one transport connection
    #[value(name = "5tuple")]
    FiveTuple,
    /// All between two addresses
    IpPair,
    /// All from one address: the two directions of a connection are apart
    Src,
    /// All to one address: likewise
    Dst,
}

/// `forebay flows`.
#[derive(Debug, Args)]
pub struct FlowsArgs {
    /// The capture; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    pub read: PathBuf,
    /// What reading may take
    #[command(flatten)]
    pub limits: ReadLimits,
    /// How to print the flows
    #[arg(long, value_enum, default_value_t = FlowFormat::Table)]
    pub format: FlowFormat,
    /// List only the N flows of most bytes
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Seed of the Community IDs
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u16,
    /// What a flow is
    #[command(flatten)]
    pub flow: KeyArgs,
}

/// How flows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FlowFormat {
    /// For people
    Table,
    /// Comma-separated values with a header line (RFC 4180)
    Csv,
    /// As with the global --json
    Json,
}

/// `forebay gen`.
#[derive(Debug, Args)]
pub struct GenArgs {
    /// The capture to make; `-` is standard output
    #[arg(
        short,
        long,
        value_name = "FILE",
        required_unless_present = "interface",
        conflicts_with = "interface"
    )]
    pub write: Option<PathBuf>,
    /// The network device to send on: frames that carry their numbers, for `forebay sink`
    #[arg(short, long, value_name = "IFACE", conflicts_with = "profile")]
    pub interface: Option<String>,
    /// Number of flows; with -i, of those alive at any time
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub flows: u64,
    /// Number of packets; 100,000 if not given, with -i no end
    #[arg(long, value_name = "N")]
    pub packets: Option<u64>,
    /// The same seed makes the same traffic
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// What traffic: mix, uniform, paper
    #[arg(long, value_name = "NAME", default_value = "mix")]
    pub profile: String,
    /// Size of the packets, or of the largest, on the wire without checksum
    #[arg(long, value_name = "BYTES")]
    pub size: Option<u32>,
    /// Mean rate in packets a second, for the time stamps; with -i, the rate
    #[arg(long, value_name = "PPS", default_value_t = 100_000)]
    pub rate: u64,
    /// How long to send, like 10s
    #[arg(long, value_name = "TIME", requires = "interface", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// How long flows live on average, like 1s; as long as the traffic if not given
    #[arg(long, value_name = "TIME", requires = "interface", value_parser = parse_duration)]
    pub life: Option<Duration>,
    /// All flows have as many packets, instead of some many and most few
    #[arg(long, requires = "interface")]
    pub even: bool,
    /// The station that frames are for
    #[arg(long, value_name = "MAC", requires = "interface")]
    pub to: Option<MacAddress>,
    /// The station that frames are from
    #[arg(long, value_name = "MAC", requires = "interface")]
    pub from: Option<MacAddress>,
}

impl GenArgs {
    /// Packets of a capture.
    #[must_use]
    pub fn capture_packets(&self) -> u64 {
        self.packets.unwrap_or(100_000)
    }

    /// The most packets to send.
    #[must_use]
    pub fn live_packets(&self) -> u64 {
        self.packets.unwrap_or(u64::MAX)
    }
}

/// `forebay sink`.
#[derive(Debug, Args)]
pub struct SinkArgs {
    /// A network device to receive on; with several, each is a sensor, and a flow seen by two
    /// of them is torn
    #[arg(short, long, value_name = "IFACE", required = true)]
    pub interface: Vec<String>,
    /// How long to receive, like 10s; until a signal if not given
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// End when no probe has come for so long, like 2s, after the first
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub quiet_after: Option<Duration>,
    /// A flow that pauses longer may go on at another sensor
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub idle_timeout: Duration,
}

/// `forebay run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The configuration
    #[arg(short, long, value_name = "FILE", required_unless_present = "example")]
    pub config: Option<PathBuf>,
    /// Check the configuration, its filters and its rules, then what a start would meet on this
    /// machine, and do nothing else; with `=file` only the former
    #[arg(
        long, value_enum, value_name = "WHAT", num_args = 0..=1, require_equals = true,
        default_missing_value = "all"
    )]
    pub check: Option<Check>,
    /// Print an annotated configuration; one that has every key, if no other is named
    #[arg(
        long,
        value_enum,
        value_name = "WHICH",
        num_args = 0..=1,
        default_missing_value = "all",
        conflicts_with_all = ["config", "check"]
    )]
    pub example: Option<Example>,
}

/// Examples of configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Example {
    /// Every key there is
    All,
    /// One input, three sensors at outputs of their own
    Minimal,
    /// Sensors behind a switch, by their addresses
    Switch,
    /// Packets stay in the kernel
    Xdp,
    /// A recorder beside a sensor
    Recorder,
}

impl Example {
    /// The configuration.
    #[must_use]
    pub fn text(self) -> &'static str {
        let [minimal, switch, xdp, recorder] = forebay_broker::config::EXAMPLES;
        match self {
            Self::All => forebay_broker::config::EXAMPLE,
            Self::Minimal => minimal.1,
            Self::Switch => switch.1,
            Self::Xdp => xdp.1,
            Self::Recorder => recorder.1,
        }
    }
}

/// `forebay ctl`.
#[derive(Debug, Args)]
pub struct CtlArgs {
    /// The control socket of the broker
    #[arg(
        short,
        long,
        global = true,
        value_name = "SOCKET",
        default_value = "/run/forebay/control.sock"
    )]
    pub socket: PathBuf,
    /// What to ask
    #[command(subcommand)]
    pub ask: CtlVerb,
}

/// What a running broker can be asked and told.
#[derive(Debug, Subcommand)]
pub enum CtlVerb {
    /// How it is: ports, rates, losses
    Status,
    /// The sensors, their states and loads
    Sensors,
    /// Which sensor has which buckets, and how much traffic they carry
    Buckets {
        /// The group; the first if not given
        #[arg(long, value_name = "NAME")]
        group: Option<String>,
    },
    /// Where every packet went
    Ledger,
    /// What the broker told last: losses, links, sensors, moves
    Events,
    /// Read the configuration again
    Reload,
    /// Pass on what is there, and end
    Drain,
    /// Set the state of a sensor
    Sensor {
        /// Its name
        name: String,
        /// What is to become of it
        #[arg(value_enum)]
        action: SensorAction,
        /// Its group, where several have a sensor of that name
        #[arg(long, value_name = "NAME")]
        group: Option<String>,
    },
}

/// What can be done to a sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SensorAction {
    /// It takes part, whatever is known of it
    Up,
    /// Its flows go to others at once
    Down,
    /// It gets no new flows
    Drain,
    /// What is observed of it decides again
    Auto,
}

/// `forebay top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// The control socket of the broker
    #[arg(short, long, value_name = "SOCKET", default_value = "/run/forebay/control.sock")]
    pub socket: PathBuf,
    /// Between two looks, like 500ms or 2s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub interval: Duration,
    /// Show one interval, and end
    #[arg(long)]
    pub once: bool,
}

/// `forebay sensor-hello`.
#[derive(Debug, Args)]
pub struct SensorHelloArgs {
    /// The sensor's network device
    #[arg(short, long, value_name = "IFACE")]
    pub interface: String,
    /// Between two hellos, like 200ms; a number alone is seconds
    #[arg(long, value_name = "S", default_value = "200ms", value_parser = parse_interval)]
    pub interval: Duration,
    /// The sensor's name in the broker's configuration; its address is enough where it has one
    #[arg(long, value_name = "NAME", default_value = "", value_parser = parse_name)]
    pub name: String,
    /// The group it is in, where not all that have a sensor of that name are meant
    #[arg(long, value_name = "NAME", default_value = "", value_parser = parse_name)]
    pub group: String,
    /// The station that hellos are for; all stations if not given
    #[arg(long, value_name = "MAC")]
    pub to: Option<MacAddress>,
    /// The sensor's address, `mac` in the broker's configuration; the device's if not given
    #[arg(long, value_name = "MAC")]
    pub from: Option<MacAddress>,
    /// Add the packets that the sensor's program says it drops: the last number in this file
    #[arg(long, value_name = "FILE")]
    pub drops: Option<PathBuf>,
    /// Take the last number of the last line of that file that has this text in it
    #[arg(long, value_name = "TEXT", requires = "drops")]
    pub drops_key: Option<String>,
    /// Take the packets dropped from the program's own statistics: suricata:SOCKET (its command
    /// socket), eve:FILE (Suricata's events), zeek:FILE (Zeek's stats.log)
    #[arg(long, value_name = "KIND:PATH", conflicts_with = "drops")]
    pub stats: Option<StatsSource>,
    /// Say hello only as long as this process lives, and end with it
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<i32>,
    /// The sensor's program, to be started and to end with
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
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
    forebay_broker::config::units::duration(text).map_err(|error| error.to_string())
}

/// A time between two repetitions; a number without a unit is seconds.
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
