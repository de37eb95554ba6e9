//! libpcap: whole expressions and primitives, compiled by it.
//!
//! Forebay's verdict is specified as the result of libpcap's *optimised*
//! program, the one that `tcpdump -r` runs on a capture of that link type, with
//! snap length 262144 and netmask 0. For expressions that would take the
//! optimiser too long, it is the result of the unoptimised program, the one
//! that `tcpdump -O` runs (see [`crate::lists`]). libpcap treats saved captures
//! differently from live ones (it refuses `inbound`, for instance), so the
//! compiler gets an open capture file: an empty one in memory, whose header has
//! the link type. It is in the host's byte order, as are the captures for which
//! libpcap compares BSD null headers on this host.
//!
//! libpcap resolves names while it compiles: host names by DNS, which can take
//! long, port and protocol names from the system's tables. It recurses over the
//! expression's tests, which can need more stack than threads usually have. So
//! libpcap runs on its own thread with a large stack.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

use forebay_packet::LinkType;
use forebay_packet::cancel::{self, Cancel};
use pcap::{Capture, Offline};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::caret::point_at;
use crate::locate::{PROBE, locate};
use crate::program::Program;
use crate::program::instruction::Instruction;
use crate::program::text::{TextError, parse};
use crate::verify::{Profile, VerifyError};

/// The snap length of compiled programs, which is the verdict on packets that
/// they keep.
pub const SNAP_LEN: u32 = 262_144;

/// The longest expression passed to libpcap, in bytes.
pub const MAX_EXPRESSION: usize = 64 << 10;

/// The most primitives of an expression that libpcap compiles as a whole. They
/// take a second or two, during which the compilation cannot be cancelled.
pub const MAX_WHOLE_TERMS: usize = 1000;

/// Bytes of stack for libpcap for any expression, the usual stack of a thread.
const STACK: usize = 2 << 20;

/// Additional stack for each byte of an expression; measured: some tens of
/// bytes. Only touched pages take memory.
const STACK_PER_BYTE: usize = 1024;

/// Held while libpcap compiles: its name lookups use functions of the C library
/// that are not thread-safe on all systems.
static COMPILER: Mutex<()> = Mutex::new(());

/// Why an expression has no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The expression is too long.
    #[error("the filter expression has {length} bytes, and at most {limit} are allowed")]
    TooLong {
        /// Bytes given.
        length: usize,
        /// Bytes allowed: fewer if libpcap has to compile the whole expression.
        limit: usize,
    },
    /// libpcap has to compile the whole expression, and it has too many
    /// primitives for that.
    #[error(
        "the filter expression has some {terms} primitives, and at most {MAX_WHOLE_TERMS} are \
         allowed that libpcap compiles as one, such as those with `geneve`, `vxlan` or \
         `protochain`, with more than 16 of `vlan`, `mpls` and `pppoes`, or with more than 200 \
         brackets in one another"
    )]
    TooMany {
        /// Primitives, at most.
        terms: usize,
    },
    /// The expression contains a zero byte, which ends a string for libpcap.
    #[error("the filter expression has a NUL byte at byte {position}")]
    Nul {
        /// Its position, in bytes from 0.
        position: usize,
    },
    /// libpcap refuses the expression.
    #[error(transparent)]
    Expression(Box<ExpressionError>),
    /// libpcap supports no filters for this link type, not even the empty one.
    #[error("libpcap compiles no filters for link type {link}: {message}")]
    LinkType {
        /// The link type.
        link: LinkType,
        /// libpcap's message.
        message: String,
    },
    /// The empty capture for libpcap cannot be created or opened.
    #[error("cannot open an empty capture in memory to compile the filter for: {0}")]
    Handle(String),
    /// The thread for libpcap cannot be started.
    #[error("cannot start a thread to compile the filter on: {0}")]
    Thread(String),
    /// libpcap's program fails verification: a bug in libpcap.
    #[error("libpcap compiled the filter to a program that is not valid: {0}")]
    Program(#[from] VerifyError),
    /// libpcap's program cannot be parsed: a bug in its bindings.
    #[error("cannot parse libpcap's program: {0}")]
    Text(#[from] TextError),
}

/// An expression that libpcap refuses.
///
/// Displayed as libpcap's message. If the position is known, two more lines
/// follow: the expression and a caret under the position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// The whole expression.
    pub expression: String,
    /// The link type it was compiled for.
    pub link: LinkType,
    /// libpcap's message.
    pub message: String,
    /// The bytes of the expression that the message is about, if known; empty,
    /// at the end, if the expression ends too early.
    pub span: Option<Range<usize>>,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.span {
            Some(span) => write!(f, "\n{}", point_at(&self.expression, span)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ExpressionError {}

/// libpcap's message if its optimiser finds that an expression accepts no
/// packet of the link type.
const REJECTS_ALL: &str = "expression rejects all packets";

impl CompileError {
    /// Whether the expression is valid, but accepts no packet of the link type.
    #[must_use]
    pub fn rejects_all(&self) -> bool {
        matches!(self, Self::Expression(error) if error.message == REJECTS_ALL)
    }
}

impl ExpressionError {
    /// The refusal of an expression that accepts no packet.
    pub(crate) fn rejects_all(expression: &str, link: LinkType) -> Self {
        let (expression, message) = (expression.to_owned(), REJECTS_ALL.to_owned());
        Self { expression, link, message, span: None }
    }
}

/// libpcap's optimised program of the whole expression, however long that
/// takes.
///
/// # Errors
/// As [`compile()`](crate::compile).
pub fn compile_whole(expression: &str, link: LinkType) -> Result<Program, CompileError> {
    check_text(expression)?;
    let program = with_libpcap(link, expression.len(), |libpcap| libpcap.compile(expression))?;
    let rejects_all = || Box::new(ExpressionError::rejects_all(expression, link));
    program.ok_or_else(|| CompileError::Expression(rejects_all()))
}

/// libpcap's unoptimised program of the whole expression. Takes time quadratic
/// in the number of primitives.
///
/// # Errors
/// As [`compile()`](crate::compile), except that expressions that accept no packet are valid.
#[doc(hidden)]
pub fn compile_as_written(expression: &str, link: LinkType) -> Result<Program, CompileError> {
    check_text(expression)?;
    with_libpcap(link, expression.len(), |libpcap| libpcap.compile_as_written(expression))
}

/// Checks that libpcap accepts an expression, without generating a program.
pub(crate) fn check(expression: &str, link: LinkType) -> Result<(), CompileError> {
    check_text(expression)?;
    with_libpcap(link, expression.len(), |libpcap| match libpcap.refuses(expression) {
        Some(message) => Err(refusal(&libpcap.capture, expression, link, message)),
        None => Ok(()),
    })
}

/// Checks that an expression can be passed to libpcap.
fn check_text(expression: &str) -> Result<(), CompileError> {
    let (length, limit) = (expression.len(), MAX_EXPRESSION);
    if length > limit {
        return Err(CompileError::TooLong { length, limit });
    }
    expression.find('\0').map_or(Ok(()), |position| Err(CompileError::Nul { position }))
}

/// Calls `work` with libpcap's compiler for a link type, on a stack large
/// enough for expressions of `length` bytes.
pub(crate) fn with_libpcap<T: Send>(
    link: LinkType,
    length: usize,
    work: impl FnOnce(&Libpcap) -> Result<T, CompileError> + Send,
) -> Result<T, CompileError> {
    let shared = cancel::current();
    let on_deep_stack = || {
        // A panic in another thread leaves no inconsistent state.
        let _guard = COMPILER.lock().unwrap_or_else(PoisonError::into_inner);
        Cancel::share(shared, || work(&Libpcap { capture: empty_capture(link)?, link }))
    };
    let stack = STACK + STACK_PER_BYTE * length.min(MAX_EXPRESSION);
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("libpcap".to_owned()).stack_size(stack);
        let running = thread
            .spawn_scoped(scope, on_deep_stack)
            .map_err(|error| CompileError::Thread(error.to_string()))?;
        running.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// libpcap's compiler for one link type.
pub(crate) struct Libpcap {
    capture: Capture<Offline>,
    link: LinkType,
}

impl Libpcap {
    /// The program of an expression without zero bytes; `None` if the
    /// expression accepts no packet, which libpcap reports as an error.
    pub fn compile(&self, expression: &str) -> Result<Option<Program>, CompileError> {
        cancel::check();
        match self.capture.compile(expression, true).map_err(message) {
            Ok(program) => {
                let instructions = instructions(&program)?;
                Ok(Some(Program::verify(&instructions, Profile::Libpcap)?))
            }
            Err(message) if message == REJECTS_ALL => Ok(None),
            Err(message) => Err(refusal(&self.capture, expression, self.link, message)),
        }
    }

    /// libpcap's message if it refuses an expression without zero bytes. A
    /// number that libpcap refuses is appended, so that it does not go on to
    /// generate a program, which may take long.
    pub fn refuses(&self, expression: &str) -> Option<String> {
        cancel::check();
        let refused = |text: &str| self.capture.compile(text, false).err().map(message);
        let is_of_probe = |message: &String| message.contains(PROBE);
        let refusal = refused(&format!("{expression} or {PROBE}"))?;
        if !is_of_probe(&refusal) {
            return Some(refusal);
        }
        // Valid so far. If a bracket may be closed here, one is open.
        refused(&format!("{expression}) {PROBE}")).filter(is_of_probe)?;
        refused("(")
    }

    /// The unoptimised program of an expression without zero bytes.
    pub fn compile_as_written(&self, expression: &str) -> Result<Program, CompileError> {
        cancel::check();
        match self.capture.compile(expression, false).map_err(message) {
            Ok(program) => Ok(Program::verify(&instructions(&program)?, Profile::Libpcap)?),
            Err(message) => Err(refusal(&self.capture, expression, self.link, message)),
        }
    }
}

/// Opens an empty capture through libpcap.
fn empty_capture(link: LinkType) -> Result<Capture<Offline>, CompileError> {
    if link.0 > u32::from(u16::MAX) {
        let message = "link types of capture files have 16 bits".to_owned();
        return Err(CompileError::LinkType { link, message });
    }
    let file = capture_file(link).map_err(|error| CompileError::Handle(error.to_string()))?;
    // Opened by this name, the file is read from its beginning, by a descriptor
    // that libpcap owns.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Capture::from_file(path).map_err(|error| CompileError::Handle(message(error)))
}

/// A pcap file header (draft-ietf-opsawg-pcap, section 4) in memory.
fn capture_file(link: LinkType) -> io::Result<File> {
    let mut file = File::from(memfd_create("empty.pcap", MemfdFlags::CLOEXEC)?);
    let mut header = Vec::with_capacity(24);
    header.extend(0xa1b2_c3d4_u32.to_ne_bytes());
    header.extend(2_u16.to_ne_bytes());
    header.extend(4_u16.to_ne_bytes());
    header.extend([0; 8]);
    header.extend(SNAP_LEN.to_ne_bytes());
    header.extend(link.0.to_ne_bytes());
    file.write_all(&header)?;
    Ok(file)
}

/// The instructions of libpcap's program, which its bindings only format as
/// text.
fn instructions(program: &pcap::BpfProgram) -> Result<Vec<Instruction>, TextError> {
    let instructions = program.get_instructions();
    let mut text = format!("{}\n", instructions.len());
    for instruction in instructions {
        text += &format!("{instruction}\n");
    }
    parse(&text)
}

/// libpcap's message without the prefix of its bindings.
fn message(error: pcap::Error) -> String {
    match error {
        pcap::Error::PcapError(message) => message,
        other => other.to_string(),
    }
}

/// The error for an expression that `capture` refused with `message`.
fn refusal(
    capture: &Capture<Offline>,
    expression: &str,
    link: LinkType,
    message: String,
) -> CompileError {
    let trial = |text: &str| match capture.compile(text, false) {
        Ok(_) => Ok(()),
        Err(error) => Err(self::message(error)),
    };
    if let Err(message) = trial("") {
        return CompileError::LinkType { link, message };
    }
    let span = locate(expression, &message, trial);
    let expression = expression.to_owned();
    CompileError::Expression(Box::new(ExpressionError { expression, link, message, span }))
}
