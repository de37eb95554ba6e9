//! NetBSD's compiler of classic BPF, `bpfjit`, as the crate `bpfjit-sys` builds it.
//!
//! The crate's own wrapper gives the captured length as the length on the wire, so its
//! C functions are called here.
#![allow(unsafe_code, reason = "calls bpfjit and the code it makes")]

use std::ffi::{c_uint, c_void};
use std::ptr;

use bpfjit_sys as _;
use forebay_filter::Program;
use forebay_jit::Packets;

use super::libpcap::{BpfInsn, instructions};
use crate::failure::Result;
use crate::suites::filters::packets::Engine;

/// `bpf_ctx_t` of bpfjit's `bpf-compat.h`.
#[repr(C)]
struct Context {
    copfuncs: *const c_void,
    nfuncs: usize,
    extwords: usize,
    preinited: u32,
}

/// `bpf_args_t` of bpfjit's `bpf-compat.h`.
#[repr(C)]
struct Arguments {
    packet: *const u8,
    wire_len: usize,
    cap_len: usize,
    memory: *mut u32,
    argument: *mut c_void,
}

// SAFETY: a type, that of the code that bpfjit generates.
type Code = unsafe extern "C" fn(context: *const Context, arguments: *mut Arguments) -> c_uint;

// SAFETY: the declarations are those of bpfjit's `bpfjit.h`.
unsafe extern "C" {
    fn bpfjit_generate_code(
        context: *const Context,
        program: *const BpfInsn,
        length: usize,
    ) -> Option<Code>;
    fn bpfjit_free_code(code: Code);
}

/// Neither functions nor memory words besides the program's own.
const PLAIN: Context = Context { copfuncs: ptr::null(), nfuncs: 0, extwords: 0, preinited: 0 };

#[derive(Debug)]
pub struct Bpfjit(Code);

impl Bpfjit {
    pub fn new(program: &Program) -> Result<Self> {
        let instructions = instructions(program);
        // SAFETY: the context and that many instructions are there to be read; the
        // program was verified, and the code refers to neither later.
        let code =
            unsafe { bpfjit_generate_code(&PLAIN, instructions.as_ptr(), instructions.len()) };
        code.map(Self).ok_or_else(|| "bpfjit does not compile the program".into())
    }
}

impl Engine for Bpfjit {
    fn run(&mut self, packets: &Packets<'_>, _first: usize, verdict: &mut [u32]) {
        let base = packets.base();
        let [offset, cap_len, wire_len] = packets.tables();
        let descriptors = offset.iter().zip(cap_len).zip(wire_len);
        for (((&offset, &cap_len), &wire_len), verdict) in descriptors.zip(verdict) {
            // SAFETY: the code is alive, and reads the packet within `cap_len` bytes,
            // all of which are in the memory; programs without extensions use neither
            // memory words nor the argument of the caller.
            *verdict = unsafe {
                let mut arguments = Arguments {
                    packet: base.add(offset as usize),
                    wire_len: wire_len as usize,
                    cap_len: cap_len as usize,
                    memory: ptr::null_mut(),
                    argument: ptr::null_mut(),
                };
                (self.0)(&PLAIN, &mut arguments)
            };
        }
    }
}

impl Drop for Bpfjit {
    fn drop(&mut self) {
        // SAFETY: `new` made the code, and nothing else frees it.
        unsafe { bpfjit_free_code(self.0) };
    }
}
