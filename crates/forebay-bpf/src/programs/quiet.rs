//! Keeps a tap's frames from the host's network stack.
//!
//! A tap's frames are not for this host, and the host must not respond to them: no ARP, no
//! ICMP. The program is attached where frames enter the stack (tcx, Linux 6.6), after
//! packet sockets for all types of frames, and drops all but frames of one type. Sockets
//! for a single type come after it, and receive only that type.

use std::os::fd::{AsFd, OwnedFd};

use crate::error::BpfError;
use crate::object::{Loader, include_program};
use crate::program::Kind;
use crate::sys;

/// `BPF_TCX_INGRESS` of `enum bpf_attach_type`.
const ATTACH_TCX_INGRESS: u32 = 46;

/// An interface whose frames the host does not process, until this value is dropped or the
/// process ends in any way.
#[derive(Debug)]
pub struct Quiet(#[expect(dead_code, reason = "its being open is what it is for")] OwnedFd);

impl Quiet {
    /// Drops frames received by the interface with this number, after packet sockets have
    /// received them; except frames of the EtherType `heard`.
    ///
    /// # Errors
    /// The kernel's: no such interface, or a kernel older than 6.6.
    pub fn attach(interface: u32, heard: u16) -> Result<Self, BpfError> {
        let program = Loader::new(include_program!("quiet"))
            .set("heard", heard.to_be().into())
            .load("forebay_quiet", Kind::Classifier)?;
        let link = sys::link_create(program.as_fd(), interface, ATTACH_TCX_INGRESS, 0);
        let failed = |source| BpfError::Attach { program: program.name(), interface, source };
        link.map(Self).map_err(failed)
    }
}
