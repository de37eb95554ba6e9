//! pcap filter expressions, compiled by libpcap.
//!
//! A verdict of Forebay is specified as what libpcap's *optimised* program
//! returns, the one that `tcpdump -r` would run on a capture of that link
//! type, with snap length 262144 and netmask 0; of expressions that would take
//! its optimiser too long, what its program returns without it, the one that
//! `tcpdump -O` would run (see [`crate::lists`]). libpcap treats saved captures
//! unlike live ones (`inbound` is refused, for instance), so the compiler is
//! handed an open capture file: one of no packets, kept in memory, whose
//! header carries the link type. It is in the host's byte order, as are the
//! captures for which libpcap compares BSD null headers on this host.
//!
//! libpcap resolves names while it compiles: host names by DNS, which may
//! take its time, port and protocol names from the system's tables. It recurses
//! over the expression's tests, which may need more stack than threads usually
//! have: libpcap runs on a thread of its own with a deep one.

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
use crate::lists::{MAX_WHOLE_TERMS, compile_program};
use crate::locate::{PROBE, locate};
use crate::program::Program;
use crate::program::instruction::Instruction;
use crate::program::text::{TextError, parse};
use crate::verify::{Profile, VerifyError};

/// The snap length that programs are compiled with: what they return for a
/// packet they keep.
pub const SNAP_LEN: u32 = 262_144;

/// The longest expression that libpcap is given, in bytes.
pub const MAX_EXPRESSION: usize = 64 << 10;

/// Bytes of stack that libpcap is given for any expression, as threads usually
/// have them.
const STACK: usize = 2 << 20;

/// Bytes of stack on top for each byte of an expression, where it was seen to
/// take some tens. Only what is used takes memory.
const STACK_PER_BYTE: usize = 1024;

/// Held while libpcap compiles: its look-ups of names use functions of the C
/// library that not all systems make safe for threads.
static COMPILER: Mutex<()> = Mutex::new(());

/// Why an expression has no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The expression is too long.
    #[error("the filter expression has {length} bytes, and at most {limit} are allowed")]
    TooLong {
        /// Bytes given.
        length: usize,
        /// Bytes allowed: fewer where libpcap has to compile the whole.
        limit: usize,
    },
    /// libpcap has to compile the whole of the expression, which has too many
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
    /// The expression contains a zero byte, which ends text for libpcap.
    #[error("the filter expression has a NUL byte at byte {position}")]
    Nul {
        /// Where, in bytes from 0.
        position: usize,
    },
    /// libpcap refuses the expression.
    #[error(transparent)]
    Expression(Box<ExpressionError>),
    /// libpcap compiles no filter for this link type, not even the empty one.
    #[error("libpcap compiles no filters for link type {link}: {message}")]
    LinkType {
        /// The link type.
        link: LinkType,
        /// libpcap's message.
        message: String,
    },
    /// The empty capture that libpcap compiles for cannot be made or opened.
    #[error("cannot open an empty capture in memory to compile the filter for: {0}")]
    Handle(String),
    /// The thread that libpcap would run on cannot be started.
    #[error("cannot start a thread to compile the filter on: {0}")]
    Thread(String),
    /// libpcap's program does not verify: a fault in libpcap.
    #[error("libpcap compiled the filter to a program that is not valid: {0}")]
    Program(#[from] VerifyError),
    /// libpcap's program does not read: a fault in its bindings.
    #[error("libpcap's program does not read: {0}")]
    Text(#[from] TextError),
}

/// libpcap's refusal of an expression.
///
/// Displayed as libpcap's message, then, where the place is known, two more
/// lines: the expression and a caret under the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// The whole expression.
    pub expression: String,
    /// The link type it was compiled for.
    pub link: LinkType,
    /// libpcap's message.
    pub message: String,
    /// The bytes of the expression that the message is about, where that can
    /// be known; empty, at the end, where the expression ends too early.
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

/// libpcap's message when its optimiser finds out that an expression accepts
/// no packet of the link type.
const REJECTS_ALL: &str = "expression rejects all packets";

impl CompileError {
    /// Whether libpcap finds that the expression, which is right, accepts no
    /// packet of the link type.
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

/// Compiles `expression` for saved packets of link type `link`. The empty
/// expression accepts every packet.
///
/// # Errors
/// libpcap's refusal of the expression or the link type, or what keeps
/// libpcap from being asked.
pub fn compile(expression: &str, link: LinkType) -> Result<Program, CompileError> {
    compile_program(expression, link)
}

/// The program that libpcap makes of the whole expression, optimised, however long
/// that takes.
///
/// # Errors
/// As [`compile()`].
pub fn compile_whole(expression: &str, link: LinkType) -> Result<Program, CompileError> {
    check_text(expression)?;
    let program = with_libpcap(link, expression.len(), |libpcap| libpcap.compile(expression))?;
    let rejects_all = || Box::new(ExpressionError::rejects_all(expression, link));
    program.ok_or_else(|| CompileError::Expression(rejects_all()))
}

/// The program that libpcap makes of the whole expression and its optimiser does
/// not see. It takes time that grows with the square of the number of primitives.
///
/// # Errors
/// As [`compile()`], but for expressions that accept no packet, which are right.
#[doc(hidden)]
pub fn compile_as_written(expression: &str, link: LinkType) -> Result<Program, CompileError> {
    check_text(expression)?;
    with_libpcap(link, expression.len(), |libpcap| libpcap.compile_as_written(expression))
}

/// Whether libpcap refuses an expression, of which no program is made.
pub(crate) fn check(expression: &str, link: LinkType) -> Result<(), CompileError> {
    check_text(expression)?;
    with_libpcap(link, expression.len(), |libpcap| match libpcap.refuses(expression) {
        Some(message) => Err(refusal(&libpcap.capture, expression, link, message)),
        None => Ok(()),
    })
}

/// Whether libpcap can be given an expression.
fn check_text(expression: &str) -> Result<(), CompileError> {
    let (length, limit) = (expression.len(), MAX_EXPRESSION);
    if length > limit {
        return Err(CompileError::TooLong { length, limit });
    }
    expression.find('\0').map_or(Ok(()), |position| Err(CompileError::Nul { position }))
}

/// Calls `work` with libpcap's compiler for a link type, on a stack that is
/// deep enough for expressions of `length` bytes.
pub(crate) fn with_libpcap<T: Send>(
    link: LinkType,
    length: usize,
    work: impl FnOnce(&Libpcap) -> Result<T, CompileError> + Send,
) -> Result<T, CompileError> {
    let shared = cancel::current();
    let on_deep_stack = || {
        // Nothing is left half-done by a panic in another thread.
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
    /// The program of an expression without zero bytes; nothing if the
    /// expression accepts no packet, which libpcap calls an error.
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

    /// libpcap's message, if it refuses an expression without zero bytes. A
    /// number that it refuses stands behind, so that no program is made, which
    /// may take long.
    pub fn refuses(&self, expression: &str) -> Option<String> {
        cancel::check();
        let refused = |text: &str| self.capture.compile(text, false).err().map(message);
        let is_of_probe = |message: &String| message.contains(PROBE);
        let refusal = refused(&format!("{expression} or {PROBE}"))?;
        if !is_of_probe(&refusal) {
            return Some(refusal);
        }
        // Right so far. Where a bracket may close here, one is open.
        refused(&format!("{expression}) {PROBE}")).filter(is_of_probe)?;
        refused("(")
    }

    /// The program of an expression without zero bytes that libpcap's optimiser
    /// does not see.
    pub fn compile_as_written(&self, expression: &str) -> Result<Program, CompileError> {
        cancel::check();
        match self.capture.compile(expression, false).map_err(message) {
            Ok(program) => Ok(Program::verify(&instructions(&program)?, Profile::Libpcap)?),
            Err(message) => Err(refusal(&self.capture, expression, self.link, message)),
        }
    }
}

/// Opens a capture of no packets through libpcap.
fn empty_capture(link: LinkType) -> Result<Capture<Offline>, CompileError> {
    if link.0 > u32::from(u16::MAX) {
        let message = "link types of capture files have 16 bits".to_owned();
        return Err(CompileError::LinkType { link, message });
    }
    let file = capture_file(link).map_err(|error| CompileError::Handle(error.to_string()))?;
    // Opened by its name, the file is read from its beginning, by a descriptor
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

/// The instructions of libpcap's program, which its bindings show as text.
fn instructions(program: &pcap::BpfProgram) -> Result<Vec<Instruction>, TextError> {
    let instructions = program.get_instructions();
    let mut text = format!("{}\n", instructions.len());
    for instruction in instructions {
        text += &format!("{instruction}\n");
    }
    parse(&text)
}

/// libpcap's message without what its bindings put before it.
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
