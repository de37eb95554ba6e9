//! Redirects every frame to an AF_XDP socket: the program of an `af_xdp` port.
//!
//! A frame can only be given to a socket that is bound to the queue it arrived on. So slots
//! of the socket map are numbered queue by queue, with as many slots to a queue as there
//! are sockets: one, or several that share the queue's memory. Of several, the hash of the
//! address pair selects one, as in [`super::fanout`], and frames without addresses go to
//! the first.
//!
//! [`NoSocket`] decides about a frame whose slot is empty.

use forebay_packet::HashKey;

use crate::asm::Register::{R0, R1, R2, R3, R6, R9};
use crate::asm::{Alu, Assembler, Helper, Size};
use crate::error::BpfError;
use crate::flow::{self, XDP_RX_QUEUE};
use crate::map::SocketMap;
use crate::program::{Action, Kind, Program};
use crate::programs::fanout::{MAX_WORKERS, emit_worker};

/// The action for frames without a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSocket {
    /// Drop them. Only the interface counts them.
    Drop,
    /// Pass them to the host's network stack.
    Pass,
}

/// Generates and loads the program: slot = queue × `sockets_per_queue` + worker.
///
/// # Errors
/// If the number of sockets to a queue is 0 or exceeds the limit of workers, or the kernel
/// refuses the program.
pub fn load(
    sockets: &SocketMap,
    sockets_per_queue: u32,
    hash_key: &HashKey,
    no_socket: NoSocket,
    multi_buffer: bool,
) -> Result<Program, BpfError> {
    if sockets_per_queue == 0 || sockets_per_queue > MAX_WORKERS {
        return Err(BpfError::Setting {
            setting: "the number of sockets to a queue",
            value: u64::from(sockets_per_queue),
            expected: "1 to 65536",
        });
    }
    let mut asm = Assembler::new();
    asm.mov(R6, R1);
    emit_slot(&mut asm, sockets_per_queue, hash_key);
    let otherwise = match no_socket {
        NoSocket::Drop => Action::Drop,
        NoSocket::Pass => Action::Pass,
    };
    asm.load_map(R1, sockets);
    asm.mov(R3, otherwise as i32);
    asm.call(Helper::RedirectMap);
    asm.exit();
    Program::load("forebay_redirect", Kind::Xdp { multi_buffer }, asm)
}

/// Appends code for R2 = the slot of a frame's socket. In: R6 is the context, which is
/// kept; clobbers all other registers.
pub(crate) fn emit_slot(asm: &mut Assembler, sockets_per_queue: u32, hash_key: &HashKey) {
    if sockets_per_queue == 1 {
        asm.load(Size::Word, R2, R6, XDP_RX_QUEUE);
        return;
    }
    let (hashed, first) = (asm.label("hashed"), asm.label("no_pair"));
    flow::emit_pair_hash(asm, hash_key, first);
    asm.mov(R0, R9);
    emit_worker(asm, sockets_per_queue);
    asm.jump(hashed);
    asm.bind(first);
    asm.mov(R0, 0);
    asm.bind(hashed);
    asm.load(Size::Word, R2, R6, XDP_RX_QUEUE);
    asm.alu(Alu::Mul, R2, sockets_per_queue.cast_signed());
    asm.alu(Alu::Add, R2, R0);
}
