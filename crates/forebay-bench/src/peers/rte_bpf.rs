//! DPDK's compiler of BPF, `librte_bpf`, where it is installed.
//!
//! Its converter of classic BPF takes memory from DPDK's heap, so that DPDK's environment
//! is started first ([`super::dpdk`]).
//!
//! Compiled code takes a message buffer for each packet. A receive queue would have
//! filled them in, so they are prepared outside of what is timed, one after another in
//! the order of the packets. The buffers' packet length is the captured length: code
//! that loads beyond the first segment would follow a chain of segments that is not
//! there.
#![allow(unsafe_code, reason = "loads DPDK, and calls it and the code it makes")]

use std::ffi::{c_int, c_uint, c_void};

use forebay_filter::{Instruction, Program};
use forebay_jit::Packets;

use super::dpdk::functions;
use super::libpcap::{BpfInsn, instructions};
use crate::failure::Result;
use crate::suites::filters::packets::Engine;

/// `struct bpf_program` of `<pcap/bpf.h>`.
#[repr(C)]
struct BpfProgram {
    length: c_uint,
    instructions: *const BpfInsn,
}

/// `struct rte_bpf_jit` of `<rte_bpf.h>`.
#[repr(C)]
struct Jit {
    code: Option<Code>,
    size: usize,
}

/// `struct rte_mbuf` of `<rte_mbuf_core.h>`: two lines, of which code for packets in
/// one segment reads these fields.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Mbuf {
    buf_addr: *const u8,
    buf_iova: u64,
    data_off: u16,
    refcnt: u16,
    nb_segs: u16,
    port: u16,
    ol_flags: u64,
    packet_type: u32,
    pkt_len: u32,
    data_len: u16,
    rest: [u8; 86],
}

const _: () = assert!(size_of::<Mbuf>() == 128 && std::mem::offset_of!(Mbuf, data_len) == 40);

// SAFETY: a type, that of the code that DPDK generates.
type Code = unsafe extern "C" fn(context: *mut c_void) -> u64;

// The types are those of `rte_bpf.h` and `rte_malloc.h`.
functions! { Dpdk of "bpf" {
    convert(*const BpfProgram) -> *mut c_void = c"rte_bpf_convert",
    load(*const c_void) -> *mut c_void = c"rte_bpf_load",
    get_jit(*const c_void, *mut Jit) -> c_int = c"rte_bpf_get_jit",
    destroy(*mut c_void) = c"rte_bpf_destroy",
    free(*mut c_void) = c"rte_free" eal,
} }

/// Whether the instruction is `jset` with a constant of one byte. `emit_tst_imm` of
/// DPDK's `lib/bpf/bpf_jit_x86.c` gives `test` a constant of one byte then, where the
/// processor takes four: running into the code behind it crashes. (Seen with 22.11.11.)
fn breaks_the_compiler(instruction: &Instruction) -> bool {
    const JSET_K: u16 = 0x45;
    instruction.code == JSET_K && i8::try_from(instruction.k.cast_signed()).is_ok()
}

/// A compiled program, and message buffers for the packets it is given.
#[derive(Debug)]
pub struct RteBpf {
    dpdk: &'static Dpdk,
    bpf: *mut c_void,
    code: Code,
    /// For the packets that were prepared.
    buffers: Vec<Mbuf>,
}

impl RteBpf {
    /// Compiles, if DPDK is there and can.
    pub fn new(program: &Program) -> Result<Self> {
        let dpdk = Dpdk::get()?;
        if program.instructions().iter().any(breaks_the_compiler) {
            return Err("librte_bpf encodes a test of bits below 128 wrongly".into());
        }
        let instructions = instructions(program);
        let length = c_uint::try_from(instructions.len())?;
        let classic = BpfProgram { length, instructions: instructions.as_ptr() };
        // SAFETY: the program is there while it is converted, its parameters while
        // they are loaded; nothing refers to either later.
        unsafe {
            let parameters = (dpdk.convert)(&classic);
            if parameters.is_null() {
                return Err("rte_bpf_convert refuses the program".into());
            }
            let bpf = (dpdk.load)(parameters);
            (dpdk.free)(parameters);
            if bpf.is_null() {
                return Err("rte_bpf_load refuses the program".into());
            }
            let mut jit = Jit { code: None, size: 0 };
            let outcome = (dpdk.get_jit)(bpf, &mut jit);
            match jit.code {
                Some(code) if outcome == 0 => Ok(Self { dpdk, bpf, code, buffers: Vec::new() }),
                _ => {
                    (dpdk.destroy)(bpf);
                    Err("rte_bpf does not compile the program".into())
                }
            }
        }
    }
}

impl Engine for RteBpf {
    fn prepare(&mut self, packets: &Packets<'_>) {
        let buffer = |i: usize| {
            let bytes = packets.packet(i);
            Mbuf {
                buf_addr: bytes.as_ptr(),
                buf_iova: 0,
                data_off: 0,
                refcnt: 1,
                nb_segs: 1,
                port: 0,
                ol_flags: 0,
                packet_type: 0,
                pkt_len: bytes.len() as u32,
                data_len: bytes.len().min(usize::from(u16::MAX)) as u16,
                rest: [0; 86],
            }
        };
        self.buffers.clear();
        self.buffers.extend((0..packets.len()).map(buffer));
    }

    fn run(&mut self, packets: &Packets<'_>, first: usize, verdict: &mut [u32]) {
        let buffers = &mut self.buffers[first..first + packets.len()];
        for (buffer, verdict) in buffers.iter_mut().zip(verdict) {
            let buffer: *mut Mbuf = buffer;
            // SAFETY: the code is alive and was checked by DPDK to read the buffer and
            // its packet only; `prepare` has just described the packet, whose memory
            // the caller holds.
            *verdict = unsafe { (self.code)(buffer.cast()) } as u32;
        }
    }
}

impl Drop for RteBpf {
    fn drop(&mut self) {
        // SAFETY: `new` loaded it, and nothing else destroys it.
        unsafe { (self.dpdk.destroy)(self.bpf) };
    }
}
