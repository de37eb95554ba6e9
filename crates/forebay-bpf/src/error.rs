//! Errors of assembling, loading and attaching programs.

use std::error::Error;
use std::{fmt, io};

use crate::asm::AssembleError;
use crate::translate::TranslateError;

/// Bytes of the verifier's log that an error includes, from its end, where the log has the
/// refused instruction and the reason.
const LOG_SHOWN: usize = 4096;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// A map cannot be created or used.
    #[error("cannot {action} the BPF map `{map}`: {}", Hinted(source))]
    Map {
        /// The map's name.
        map: &'static str,
        /// The operation.
        action: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A program cannot be assembled.
    #[error("the BPF program `{program}` cannot be assembled: {source}")]
    Assemble {
        /// The program's name.
        program: &'static str,
        /// The reason.
        source: AssembleError,
    },
    /// A classic filter cannot be translated to BPF.
    #[error(transparent)]
    Translate(#[from] TranslateError),
    /// The kernel refuses a program.
    #[error("the kernel refuses the BPF program `{program}`: {}{refusal}", Hinted(source))]
    Refused {
        /// The program's name.
        program: &'static str,
        /// The kernel's error.
        source: io::Error,
        /// The verifier's message.
        refusal: Box<Refusal>,
    },
    /// A test run of a program fails.
    #[error("cannot run the BPF program `{program}`: {}", Hinted(source))]
    Run {
        /// The program's name.
        program: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A program cannot be attached to an interface, or replaced there.
    #[error(
        "cannot attach the BPF program `{program}` to interface {interface}: {}",
        Hinted(source)
    )]
    Attach {
        /// The program's name.
        program: &'static str,
        /// The interface's number.
        interface: u32,
        /// The kernel's error.
        source: io::Error,
    },
    /// A program cannot be attached to a tracepoint.
    #[error(
        "cannot attach the BPF program `{program}` to the tracepoint {}: {}",
        tracepoint.to_string_lossy(), Hinted(source)
    )]
    Trace {
        /// The program's name.
        program: &'static str,
        /// The tracepoint's name.
        tracepoint: &'static std::ffi::CStr,
        /// The kernel's error.
        source: io::Error,
    },
    /// A compiled program cannot be linked with the process's maps or the kernel's types.
    #[error("cannot link the BPF program `{program}`: {}", Chain(source.as_ref()))]
    Compiled {
        /// The program's name.
        program: &'static str,
        /// The reason.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The network namespace of this thread cannot be determined.
    #[error("cannot read {0}: {1}")]
    Namespace(&'static str, io::Error),
    /// A setting is out of range.
    #[error("{setting} is {value}, and must be {expected}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: u64,
        /// The range.
        expected: &'static str,
    },
    /// Waiting for running programs to end fails.
    #[error(
        "cannot wait for BPF programs that run (not possible on a kernel with `nohz_full`): {0}"
    )]
    Quiesce(io::Error),
    /// The number of processors cannot be determined.
    #[error("cannot determine the number of possible processors: {0}")]
    Processors(io::Error),
}

/// The verifier's message about a program.
#[derive(Debug)]
pub struct Refusal {
    /// The end of its log; empty if the program was refused earlier.
    pub log: String,
    /// The program's listing.
    pub listing: String,
}

impl Refusal {
    /// The refusal of the program with this listing; `log` ends at its first NUL.
    pub(crate) fn new(log: &[u8], listing: String) -> Self {
        let end = log.iter().position(|&b| b == 0).unwrap_or(log.len());
        let log = String::from_utf8_lossy(&log[end.saturating_sub(LOG_SHOWN)..end]);
        Self { log: log.trim_end().to_owned(), listing }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.log.is_empty() { Ok(()) } else { write!(f, "\n{}", self.log) }
    }
}

/// An error with its causes, which its own text does not have.
struct Chain<'a>(&'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        self.0.source().map_or(Ok(()), |cause| write!(f, ": {}", Chain(cause)))
    }
}

/// A system error with a hint for its remedy.
struct Hinted<'a>(&'a io::Error);

impl fmt::Display for Hinted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        if self.0.kind() == io::ErrorKind::PermissionDenied {
            f.write_str(" (it takes root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)")?;
        }
        Ok(())
    }
}
