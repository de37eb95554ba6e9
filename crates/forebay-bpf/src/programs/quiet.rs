//! Keeps the host's own stack from hearing what a tap receives.
//!
//! A tap's frames are not for this host, and it must not answer them: no ARP, no ICMP. The
//! program hangs where frames enter the stack (tcx, Linux 6.6), behind the place where
//! packet sockets get theirs, and drops all.

use std::os::fd::{AsFd, OwnedFd};

use crate::asm::Assembler;
use crate::error::BpfError;
use crate::program::{Kind, Program};
use crate::sys;

/// `BPF_TCX_INGRESS` of `enum bpf_attach_type`.
const ATTACH_TCX_INGRESS: u32 = 46;

/// `TCX_DROP` of `enum tcx_action_base`.
const DROP: i32 = 2;

/// An interface of whose frames the host hears nothing, until this value is dropped or the
/// process ends in whatever way.
#[derive(Debug)]
pub struct Quiet(#[expect(dead_code, reason = "its being open is what it is for")] OwnedFd);

impl Quiet {
    /// Drops what the interface of that number receives, once packet sockets have it.
    ///
    /// # Errors
    /// The kernel's: no such interface, or a kernel older than 6.6.
    pub fn attach(interface: u32) -> Result<Self, BpfError> {
        let mut asm = Assembler::new();
        asm.exit_with(DROP);
        let program = Program::load("forebay_quiet", Kind::Classifier, asm)?;
        let link = sys::link_create(program.as_fd(), interface, ATTACH_TCX_INGRESS, 0);
        let failed = |source| BpfError::Attach { program: program.name(), interface, source };
        link.map(Self).map_err(failed)
    }
}
