//! Keeps a tap's frames from the host's network stack.
//!
//! A tap's frames are not for this host, and the host must not respond to them: no ARP, no
//! ICMP. The program is attached where frames enter the stack (tcx, Linux 6.6), after
//! packet sockets for all types of frames, and drops all but frames of one type. Sockets
//! for a single type come after it, and receive only that type.

use std::os::fd::{AsFd, OwnedFd};

use crate::asm::Register::{R1, R2};
use crate::asm::{Assembler, Condition, Size};
use crate::error::BpfError;
use crate::program::{Kind, Program};
use crate::sys;

/// `BPF_TCX_INGRESS` of `enum bpf_attach_type`.
const ATTACH_TCX_INGRESS: u32 = 46;

/// `TCX_DROP` and `TCX_NEXT` of `enum tcx_action_base`.
const DROP: i32 = 2;
const NEXT: i32 = -1;

/// `protocol` of `struct __sk_buff`, in network order.
const PROTOCOL: i16 = 16;

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
        let mut asm = Assembler::new();
        let passes = asm.label("passes");
        asm.load(Size::Word, R2, R1, PROTOCOL);
        asm.branch(Condition::Equal, R2, i32::from(heard.to_be()), passes);
        asm.exit_with(DROP);
        asm.bind(passes);
        asm.exit_with(NEXT);
        let program = Program::load("forebay_quiet", Kind::Classifier, asm)?;
        let link = sys::link_create(program.as_fd(), interface, ATTACH_TCX_INGRESS, 0);
        let failed = |source| BpfError::Attach { program: program.name(), interface, source };
        link.map(Self).map_err(failed)
    }
}
