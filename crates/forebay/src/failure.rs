//! Failures of verbs, and their exit statuses.

use std::io;
use std::process::ExitCode;

use forebay_balance::AssignmentError;
use forebay_filter::CompileError;
use forebay_gen::ConfigError;
use forebay_jit::{FilterError, JitError};
use forebay_pipeline::{RunError, StageError};
use forebay_rules::language::load::{FileError, LoadError};

/// A verb's failure.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Invalid command line.
    #[error("{0}")]
    Usage(String),
    /// The filter expression does not compile.
    #[error("{0}")]
    Expression(#[from] CompileError),
    /// The filter expression does not compile for an interface with packets in the input.
    #[error("{0}")]
    Filter(#[from] FilterError),
    /// The filter expression compiles neither for the interfaces nor for Ethernet.
    #[error("{0}")]
    WrongFilter(FilterError),
    /// The filter cannot be compiled to machine code.
    #[error("{0}")]
    Code(#[from] JitError),
    /// The sensors' weights or number are invalid.
    #[error("{0}")]
    Sensors(#[from] AssignmentError),
    /// The traffic cannot be generated.
    #[error("{0}")]
    Traffic(#[from] ConfigError),
    /// A capture cannot be read or written.
    #[error("{}{}", .0, cure(.0))]
    Capture(#[from] forebay_io::Error),
    /// A rule list cannot be loaded.
    #[error("{0}")]
    Rules(FileError),
    /// A file of literals cannot be used.
    #[error("{file}: {source}")]
    Literals {
        /// The file.
        file: String,
        /// The reason.
        source: forebay_scan::LiteralError,
    },
    /// The literals cannot be compiled.
    #[error("{0}")]
    Scan(#[from] forebay_scan::ScanError),
    /// A device does not run.
    #[error(transparent)]
    Device(#[from] forebay_scan::accelerator::DeviceError),
    /// Rules that can never apply.
    #[error("{file}: {errors} error{}", if *errors == 1 { "" } else { "s" })]
    Findings {
        /// The file.
        file: String,
        /// The number of such rules.
        errors: usize,
    },
    /// A stage of the pipeline failed.
    #[error("{0}")]
    Stage(StageError),
    /// A configuration of the broker is wrong.
    #[error("{0}")]
    Config(#[from] forebay_broker::config::ConfigError),
    /// A resource named by a configuration cannot be used.
    #[error("{0}")]
    ConfigCompile(#[from] forebay_broker::compiled::ConfigCompileError),
    /// The broker does not start.
    #[error("{0}")]
    Broker(#[from] forebay_broker::BrokerError),
    /// A running broker does not answer, or refuses.
    #[error("{0}")]
    Ask(#[from] forebay_broker::control::AskError),
    /// A failure while the broker ran.
    #[error("{0}")]
    Live(String),
    /// Another file cannot be read or written.
    #[error("cannot {doing} {file}: {source}")]
    File {
        /// The action: "read", "write", "create".
        doing: &'static str,
        /// The file.
        file: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A file that is read whole cannot be read.
    #[error("cannot read {file}: {source}")]
    Text {
        /// The file.
        file: String,
        /// The reason.
        source: forebay_io::text::TextError,
    },
    /// Standard output cannot be written.
    #[error("cannot write to standard output: {0}")]
    Stdout(io::Error),
    /// Signal handlers cannot be set.
    #[error("cannot watch for signals: {0}")]
    Signals(io::Error),
    /// A worker thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// A signal ended the run.
    #[error("interrupted")]
    Interrupted,
    /// The output folder has the sensors' files of an earlier run.
    #[error("{folder} already holds {file}: choose another folder, or replace it with --force")]
    Occupied {
        /// The folder.
        folder: String,
        /// The first such file.
        file: String,
    },
    /// An output would replace the input capture.
    #[error("{file} is the input, and would be replaced: choose another output")]
    ReplacesInput {
        /// The output.
        file: String,
    },
    /// The requested amount was written: no failure.
    #[error("enough was written")]
    Enough,
    /// A failure that cannot be reported, as standard error is closed.
    #[error("cannot write to standard error")]
    Untold,
    /// A failure, to be printed before the ledger so far.
    #[error("{failure}")]
    WithLedger {
        /// The failure.
        failure: Box<Self>,
        /// The ledger, as a table.
        table: String,
    },
    /// Packets are unaccounted for: a bug in this program.
    #[error("the ledger does not close; this is a defect, please report it with the ledger above")]
    Ledger,
}

impl Failure {
    /// 2 for an invalid command line, 1 for everything else.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::WithLedger { failure, .. } => failure.exit_code(),
            Self::Usage(_)
            | Self::Expression(_)
            | Self::WrongFilter(_)
            | Self::Sensors(_)
            | Self::Traffic(_)
            | Self::Config(_)
            | Self::ConfigCompile(_) => ExitCode::from(2),
            Self::Rules(refused) if matches!(*refused.error, LoadError::Choice(_)) => {
                ExitCode::from(2)
            }
            Self::Untold => ExitCode::from(1),
            _ if self.is_silent() => ExitCode::SUCCESS,
            _ => ExitCode::from(1),
        }
    }

    /// Whether the input is damaged, so that the results before the damage are valid.
    #[must_use]
    pub fn is_damaged_input(&self) -> bool {
        use forebay_io::Error;
        matches!(
            self,
            Self::Capture(
                Error::CutOff { .. }
                    | Error::BadRecord { .. }
                    | Error::UndefinedInterface { .. }
                    | Error::TooManyInterfaces { .. }
                    | Error::TooMuchDescribed { .. }
                    | Error::RecordTooLong { .. }
                    | Error::WindowTooLarge { .. }
                    | Error::Decompress { .. }
                    | Error::Read { .. }
            )
        )
    }

    /// Whether nothing is to be printed: the reader of standard output closed it, which is
    /// permitted, or standard error is closed.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        match self {
            Self::WithLedger { failure, .. } => failure.is_silent(),
            Self::Untold => true,
            Self::Stdout(source) | Self::Capture(forebay_io::Error::Write { source, .. }) => {
                source.kind() == io::ErrorKind::BrokenPipe
            }
            _ => false,
        }
    }
}

/// The option that raises a limit.
fn cure(error: &forebay_io::Error) -> &'static str {
    use forebay_io::Error;
    match error {
        Error::WindowTooLarge { .. } => "; allow it with --zstd-window",
        Error::RecordTooLong { .. } => "; allow more with --longest-record",
        _ => "",
    }
}

impl From<StageError> for Failure {
    fn from(error: StageError) -> Self {
        match error {
            StageError::Filter(error) => Self::Filter(error),
            error => Self::Stage(error),
        }
    }
}

impl From<RunError<Self, Self>> for Failure {
    fn from(error: RunError<Self, Self>) -> Self {
        match error {
            RunError::Receive(failure) | RunError::Deliver(failure) => failure,
            RunError::Stage(error) => error.into(),
            RunError::Thread(error) => Self::Thread(error),
        }
    }
}
