//! Links: programs in their places on interfaces, for as long as this process lives.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use crate::error::BpfError;
use crate::program::{ATTACH_XDP, Program};
use crate::sys;

/// How an XDP program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum XdpMode {
    /// By the driver where it can, else generically.
    #[default]
    Any,
    /// By the driver, on frames not yet wrapped for the network stack.
    Driver,
    /// By the network stack, for any interface, and slower (`XDP_FLAGS_SKB_MODE`).
    Generic,
}

impl XdpMode {
    /// `XDP_FLAGS_*` of `<linux/if_link.h>`.
    fn flags(self) -> u32 {
        match self {
            Self::Any => 0,
            Self::Generic => 1 << 1,
            Self::Driver => 1 << 2,
        }
    }
}

/// An XDP program on an interface. It is taken off when this value is dropped, and
/// by the kernel when the process ends in whatever way.
#[derive(Debug)]
pub struct XdpLink {
    fd: OwnedFd,
    interface: u32,
}

impl XdpLink {
    /// Attaches `program` to the interface of that number in this process's network
    /// namespace.
    ///
    /// # Errors
    /// The kernel's: no such interface, a program there already (`EBUSY`), a driver
    /// that cannot run it.
    pub fn attach(program: &Program, interface: u32, mode: XdpMode) -> Result<Self, BpfError> {
        let fd = sys::link_create(program.as_fd(), interface, ATTACH_XDP, mode.flags())
            .map_err(|source| BpfError::Attach { program: program.name(), interface, source })?;
        Ok(Self { fd, interface })
    }

    /// Puts `program` in the place of the one attached, between two frames. False where the
    /// interface is gone, and its place for programs with it.
    ///
    /// # Errors
    /// The kernel's: the driver cannot run the program.
    pub fn replace(&self, program: &Program) -> Result<bool, BpfError> {
        match sys::link_update(self.fd.as_fd(), program.as_fd()) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ENOLINK) => Ok(false),
            Err(source) => {
                Err(BpfError::Attach { program: program.name(), interface: self.interface, source })
            }
        }
    }

    /// The interface's number.
    #[must_use]
    pub fn interface(&self) -> u32 {
        self.interface
    }
}

/// A program on a tracepoint of the kernel, of all its network namespaces. It is taken off
/// as an [`XdpLink`] is.
#[derive(Debug)]
pub struct TracepointLink(
    #[expect(dead_code, reason = "its being open is what it is for")] OwnedFd,
);

impl TracepointLink {
    /// Attaches `program` to the tracepoint of that name.
    ///
    /// # Errors
    /// The kernel's: no such tracepoint, or one with fewer arguments than the program reads.
    pub fn attach(program: &Program, tracepoint: &'static CStr) -> Result<Self, BpfError> {
        let fd = sys::raw_tracepoint_open(tracepoint, program.as_fd());
        let failed = |source| BpfError::Trace { program: program.name(), tracepoint, source };
        fd.map(Self).map_err(failed)
    }
}
