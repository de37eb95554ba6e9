//! The system call itself, and what its commands have in common.

use std::io::{self, ErrorKind};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// `MEMBARRIER_CMD_GLOBAL`.
const MEMBARRIER_GLOBAL: i32 = 1;

/// Commands of `bpf(2)`.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(super) enum Command {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    ProgramLoad = 5,
    TestRun = 10,
    ObjectInfo = 15,
    RawTracepointOpen = 17,
    MapFreeze = 22,
    MapLookupBatch = 24,
    MapUpdateBatch = 26,
    MapDeleteBatch = 27,
    LinkCreate = 28,
    LinkUpdate = 29,
}

/// Calls `bpf(2)`.
///
/// # Safety
/// `attributes` is what the kernel expects for `command`: plain integers, of which those
/// that are pointers lead to memory that the kernel may use for the command.
pub(super) unsafe fn bpf<T>(command: Command, attributes: &mut T) -> io::Result<i32> {
    let pointer: *mut T = attributes;
    // SAFETY: the pointer and the size are those of a live structure; what its
    // fields point to is the caller's promise.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command as i32, pointer, size_of::<T>()) };
    i32::try_from(result).ok().filter(|&result| result >= 0).ok_or_else(io::Error::last_os_error)
}

/// As [`bpf`], for a command that returns a descriptor.
///
/// # Safety
/// As for [`bpf`], and `command` returns a new descriptor.
pub(super) unsafe fn bpf_fd<T>(command: Command, attributes: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let fd: RawFd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the kernel has just made this descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(super) fn address<T>(slice: &[T]) -> u64 {
    slice.as_ptr().expose_provenance() as u64
}

pub(super) fn address_mut<T>(slice: &mut [T]) -> u64 {
    slice.as_mut_ptr().expose_provenance() as u64
}

pub(super) fn length(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidInput, "buffer too long"))
}

/// A name in the kernel's format: at most 15 letters, digits, `_` and `.`.
pub(super) fn kernel_name(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    let fits = name.bytes().map(|b| if b.is_ascii_alphanumeric() { b } else { b'_' });
    bytes.iter_mut().take(15).zip(fits).for_each(|(to, from)| *to = from);
    bytes
}

/// Waits until every run of a BPF program that has begun by now has ended.
///
/// membarrier(2) over all processors waits for an RCU grace period of the kernel, and runs
/// of programs are RCU read-side sections.
pub(crate) fn wait_for_programs() -> io::Result<()> {
    // SAFETY: the call has no pointers.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_GLOBAL, 0, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
