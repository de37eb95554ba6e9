//! System calls that create a TAP device from an open `/dev/net/tun`, and a network
//! namespace for it.
#![allow(unsafe_code, reason = "ioctls that take a structure, and numbers, by address")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes of an `ifreq`.
const REQUEST: usize = 40;

/// Makes the open file a queue of the TAP device `name`, which is created if there is none;
/// the kernel replaces `%d` in the name by a number. Returns the device's name.
pub(super) fn attach(fd: BorrowedFd<'_>, name: &str, multi_queue: bool) -> io::Result<String> {
    let mut request = [0_u8; REQUEST];
    let place = request.get_mut(..name.len()).filter(|place| place.len() < libc::IFNAMSIZ);
    place.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(name.as_bytes());
    let queues = if multi_queue { libc::IFF_MULTI_QUEUE } else { 0 };
    let flags = (libc::IFF_TAP | libc::IFF_NO_PI | queues) as u16;
    request[libc::IFNAMSIZ..libc::IFNAMSIZ + 2].copy_from_slice(&flags.to_ne_bytes());
    // SAFETY: the request has the size of an `ifreq`, whose name ends in zeros; the kernel
    // reads and writes no more than that.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF as _, request.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let name = request[..libc::IFNAMSIZ].split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Keeps the device when its last file is closed.
pub(super) fn set_persistent(fd: BorrowedFd<'_>) -> io::Result<()> {
    let persistent: libc::c_ulong = 1;
    // SAFETY: the argument is a number, not an address.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETPERSIST as _, persistent) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Moves this thread into a new network namespace, with only its own loopback device.
pub(crate) fn enter_new_network() -> io::Result<()> {
    // SAFETY: concerns what network this thread sees, and no memory.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets a BPF program, a socket filter, that selects the queue of each frame from the host.
pub(super) fn set_steering(fd: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let program = program.as_raw_fd();
    // SAFETY: the kernel reads one `int` at the address.
    let result =
        unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETSTEERINGEBPF as _, &raw const program) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
