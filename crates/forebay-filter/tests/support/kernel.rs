//! The running kernel's verifier, as an oracle: a program is attached to a
//! socket and the socket closed again.

use std::ffi::{c_int, c_uint, c_ushort, c_void};
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use forebay_filter::Instruction;

/// `struct sock_filter` of `<linux/filter.h>`.
#[repr(C)]
struct SockFilter {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
}

/// `struct sock_fprog` of `<linux/filter.h>`.
#[repr(C)]
struct SockFprog {
    len: c_ushort,
    filter: *const SockFilter,
}

const SOL_SOCKET: c_int = 1;
const SO_ATTACH_FILTER: c_int = 26;

// SAFETY: the declaration is that of setsockopt(2), socklen_t being unsigned.
unsafe extern "C" {
    fn setsockopt(
        socket: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        length: c_uint,
    ) -> c_int;
}

/// Whether the kernel attaches the program to a socket. Nothing when it cannot
/// be asked: no socket to be had, or a refusal that is not about the program.
pub fn attaches(program: &[Instruction]) -> Option<bool> {
    let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
    let stored: Vec<SockFilter> = program
        .iter()
        .map(|&Instruction { code, jt, jf, k }| SockFilter { code, jt, jf, k })
        .collect();
    let program = SockFprog { len: stored.len().try_into().ok()?, filter: stored.as_ptr() };
    // SAFETY: the kernel reads the structure and the instructions it points
    // to, both alive here, and keeps copies.
    let result = unsafe {
        setsockopt(
            socket.as_raw_fd(),
            SOL_SOCKET,
            SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<SockFprog>() as c_uint,
        )
    };
    if result == 0 {
        return Some(true);
    }
    let refused = std::io::Error::last_os_error().kind() == ErrorKind::InvalidInput;
    refused.then_some(false)
}
