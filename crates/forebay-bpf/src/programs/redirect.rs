//! Every frame to an AF_XDP socket: the program under an `af_xdp` port.
//!
//! A frame can be given only to a socket that is bound to the queue the frame came in
//! by. So slots of the socket map are numbered queue by queue, as many to a queue as
//! there are sockets: one, or several that share the queue's memory. Of several the
//! hash of the address pair picks one, as in [`super::fanout`], and frames without
//! addresses go to the first.
//!
//! A frame whose slot is empty goes the way that [`NoSocket`] says.

use forebay_packet::HashKey;

use crate::asm::Register::{R0, R1, R2, R3, R6, R9};
use crate::asm::{Alu, Assembler, Helper, Size};
use crate::error::BpfError;
use crate::flow::{self, XDP_RX_QUEUE};
use crate::map::SocketMap;
use crate::program::{Action, Kind, Program};
use crate::programs::fanout::{MAX_WORKERS, emit_worker};

/// What becomes of frames that there is no socket for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSocket {
    /// They are dropped. Only the interface counts them.
    Drop,
    /// They go on to the host's network stack.
    Pass,
}

/// Makes and loads the program: slot = queue × `sockets_per_queue` + worker.
///
/// # Errors
/// No sockets to a queue, or more than workers can be; the kernel's refusal.
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

/// Appends code for R2 = the slot of a frame's socket. In: R6 is the context, which stays;
/// all else is destroyed.
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
