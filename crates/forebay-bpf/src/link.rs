//! Links: programs attached to interfaces and tracepoints, at most for the life of this
//! process.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use crate::error::BpfError;
use crate::program::{ATTACH_XDP, Program};
use crate::sys;

/// The mode of an XDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum XdpMode {
    /// In the driver if it supports XDP, else generic.
    #[default]
    Any,
    /// In the driver, before frames are wrapped for the network stack.
    Driver,
    /// In the network stack: any interface, but slower (`XDP_FLAGS_SKB_MODE`).
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

/// An XDP program attached to an interface. It is detached when this value is dropped, and
/// by the kernel when the process ends in any way.
#[derive(Debug)]
pub struct XdpLink {
    fd: OwnedFd,
    interface: u32,
}

impl XdpLink {
    /// Attaches `program` to the interface with this number in this process's network
    /// namespace.
    ///
    /// # Errors
    /// The kernel's: no such interface, another program is attached (`EBUSY`), or the
    /// driver cannot run it.
    pub fn attach(program: &Program, interface: u32, mode: XdpMode) -> Result<Self, BpfError> {
        let fd = sys::link_create(program.as_fd(), interface, ATTACH_XDP, mode.flags())
            .map_err(|source| BpfError::Attach { program: program.name(), interface, source })?;
        Ok(Self { fd, interface })
    }

    /// Replaces the attached program by `program`, atomically between two frames. Returns
    /// false if the interface, and with it the attachment, is gone.
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

/// A program attached to a kernel tracepoint, which covers all network namespaces. It is
/// detached as an [`XdpLink`] is.
#[derive(Debug)]
pub struct TracepointLink(
    #[expect(dead_code, reason = "its being open is what it is for")] OwnedFd,
);

impl TracepointLink {
    /// Attaches `program` to the tracepoint with this name.
    ///
    /// # Errors
    /// The kernel's: no such tracepoint, or one with fewer arguments than the program
    /// reads.
    pub fn attach(program: &Program, tracepoint: &'static CStr) -> Result<Self, BpfError> {
        let fd = sys::raw_tracepoint_open(tracepoint, program.as_fd());
        let failed = |source| BpfError::Trace { program: program.name(), tracepoint, source };
        fd.map(Self).map_err(failed)
    }
}
