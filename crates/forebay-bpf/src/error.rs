//! What can go wrong between a program's idea and its place in the kernel.

use std::{fmt, io};

use crate::asm::AssembleError;
use crate::translate::TranslateError;

/// The end of the verifier's log that an error carries, in bytes. The log ends with
/// the instruction it refuses and why.
const LOG_SHOWN: usize = 4096;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// A map cannot be made or used.
    #[error("cannot {action} the BPF map `{map}`: {}", Hinted(source))]
    Map {
        /// The map's name.
        map: &'static str,
        /// What was tried.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A program's instructions are not code.
    #[error("the BPF program `{program}` cannot be assembled: {source}")]
    Assemble {
        /// The program's name.
        program: &'static str,
        /// What is wrong.
        source: AssembleError,
    },
    /// A classic filter cannot be a BPF program.
    #[error(transparent)]
    Translate(#[from] TranslateError),
    /// The kernel does not take a program.
    #[error("the kernel refuses the BPF program `{program}`: {}{refusal}", Hinted(source))]
    Refused {
        /// The program's name.
        program: &'static str,
        /// The kernel's answer.
        source: io::Error,
        /// What its verifier says.
        refusal: Box<Refusal>,
    },
    /// A program cannot be run on a packet of our own.
    #[error("cannot run the BPF program `{program}`: {}", Hinted(source))]
    Run {
        /// The program's name.
        program: &'static str,
        /// The kernel's answer.
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
        /// The kernel's answer.
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
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel does not tell how its own structures are laid out.
    #[error("cannot find {what} in /sys/kernel/btf/vmlinux: {source}")]
    Types {
        /// What was looked for.
        what: String,
        /// Why it is not there.
        source: io::Error,
    },
    /// A setting is outside what a program can do.
    #[error("{setting} is {value}, and must be {expected}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        expected: &'static str,
    },
    /// Runs of programs cannot be waited for.
    #[error(
        "cannot wait for BPF programs that run (not possible on a kernel with `nohz_full`): {0}"
    )]
    Quiesce(io::Error),
    /// The number of processors is not to be found.
    #[error("cannot tell how many processors there can be: {0}")]
    Processors(io::Error),
}

/// The verifier's word on a program.
#[derive(Debug)]
pub struct Refusal {
    /// The end of its log; empty where it never looked at the program.
    pub log: String,
    /// The program.
    pub listing: String,
}

impl Refusal {
    /// The refusal of the program with that listing; `log` ends at its first NUL.
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

/// A system error, and what would help.
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
