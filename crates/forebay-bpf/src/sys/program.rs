//! Programs: loading, runs for a test, links.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use super::call::{Command, address, address_mut, bpf, bpf_fd, kernel_name, length};

/// Attempts at loading a program while signals interrupt it (`EAGAIN`).
const LOAD_ATTEMPTS: usize = 5;

/// The properties of a program to load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramLayout<'a> {
    /// `enum bpf_prog_type`.
    pub kind: u32,
    /// `enum bpf_attach_type`.
    pub attach: u32,
    /// `BPF_F_*`.
    pub flags: u32,
    /// The name in listings of programs.
    pub name: &'a str,
    /// The license; some helpers require the GPL.
    pub license: &'a CStr,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    slots: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

/// Loads a program; the verifier writes its log to `log` unless that is empty.
pub(crate) fn program_load(
    layout: ProgramLayout<'_>,
    code: &[[u8; 8]],
    log: &mut [u8],
) -> io::Result<OwnedFd> {
    let mut attributes = ProgramLoad {
        kind: layout.kind,
        slots: length(code.len())?,
        code: address(code),
        license: layout.license.as_ptr().expose_provenance() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: length(log.len())?,
        log: if log.is_empty() { 0 } else { address_mut(log) },
        kernel_version: 0,
        flags: layout.flags,
        name: kernel_name(layout.name),
        interface: 0,
        attach: layout.attach,
    };
    let mut attempts = 0;
    loop {
        // SAFETY: the kernel reads `slots` instructions and a terminated license,
        // and writes at most `log_size` bytes of log, all alive; it proves the
        // program safe before it returns a descriptor.
        let result = unsafe { bpf_fd(Command::ProgramLoad, &mut attributes) };
        attempts += 1;
        match result {
            Err(error)
                if error.raw_os_error() == Some(libc::EAGAIN) && attempts < LOAD_ATTEMPTS => {}
            result => return result,
        }
    }
}

/// A test run of a program.
#[derive(Debug, Default)]
pub(crate) struct TestRun<'a> {
    /// The packet.
    pub data_in: &'a [u8],
    /// Receives the resulting packet; empty for none.
    pub data_out: &'a mut [u8],
    /// The initial context; empty for the default.
    pub context_in: &'a [u8],
    /// The number of runs; 0 is once.
    pub repeat: u32,
    /// `BPF_F_TEST_*`.
    pub flags: u32,
    /// Frames in a batch, for live frames; 0 for the kernel's default.
    pub batch_size: u32,
}

/// The result of a test run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestResult {
    /// The program's result.
    pub result: u32,
    /// Length of the resulting packet.
    pub length: u32,
    /// Average duration of a run in nanoseconds.
    pub nanoseconds: u32,
}

#[repr(C)]
struct ProgramTest {
    program: RawFd,
    result: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    /// The kernel checks that the bytes after the last field are 0.
    padding: u32,
}

/// Runs a program on a packet.
pub(crate) fn test_run(program: BorrowedFd<'_>, run: TestRun<'_>) -> io::Result<TestResult> {
    let optional = |bytes: &[u8]| if bytes.is_empty() { 0 } else { address(bytes) };
    let mut attributes = ProgramTest {
        program: program.as_raw_fd(),
        result: 0,
        data_size_in: length(run.data_in.len())?,
        data_size_out: length(run.data_out.len())?,
        data_in: address(run.data_in),
        data_out: if run.data_out.is_empty() { 0 } else { address_mut(run.data_out) },
        repeat: run.repeat,
        duration: 0,
        context_size_in: length(run.context_in.len())?,
        context_size_out: 0,
        context_in: optional(run.context_in),
        context_out: 0,
        flags: run.flags,
        cpu: 0,
        batch_size: run.batch_size,
        padding: 0,
    };
    // SAFETY: the kernel reads the packet and the context and writes at most
    // `data_size_out` bytes of packet, all alive and as long as stated.
    unsafe { bpf(Command::TestRun, &mut attributes) }?;
    Ok(TestResult {
        result: attributes.result,
        length: attributes.data_size_out,
        nanoseconds: attributes.duration,
    })
}

#[repr(C)]
struct LinkCreate {
    program: RawFd,
    interface: u32,
    attach: u32,
    flags: u32,
}

/// Attaches a program to an interface until the descriptor is closed.
pub(crate) fn link_create(
    program: BorrowedFd<'_>,
    interface: u32,
    attach: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    let mut attributes = LinkCreate { program: program.as_raw_fd(), interface, attach, flags };
    // SAFETY: no field is a pointer, and the command makes a descriptor.
    unsafe { bpf_fd(Command::LinkCreate, &mut attributes) }
}

#[repr(C)]
struct RawTracepointOpen {
    name: u64,
    program: RawFd,
    padding: u32,
}

/// Attaches a program to a tracepoint until the descriptor is closed.
pub(crate) fn raw_tracepoint_open(name: &CStr, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut attributes = RawTracepointOpen {
        name: name.as_ptr().expose_provenance() as u64,
        program: program.as_raw_fd(),
        padding: 0,
    };
    // SAFETY: the kernel reads the terminated name, and the command makes a descriptor.
    unsafe { bpf_fd(Command::RawTracepointOpen, &mut attributes) }
}

#[repr(C)]
struct LinkUpdate {
    link: RawFd,
    program: RawFd,
    flags: u32,
    old_program: u32,
}

/// Replaces the program of a link.
pub(crate) fn link_update(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let (link, program) = (link.as_raw_fd(), program.as_raw_fd());
    let mut attributes = LinkUpdate { link, program, flags: 0, old_program: 0 };
    // SAFETY: no field is a pointer.
    unsafe { bpf(Command::LinkUpdate, &mut attributes) }.map(drop)
}
