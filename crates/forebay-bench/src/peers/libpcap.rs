//! libpcap's interpreter, `bpf_filter`: the peer that every ratio is against, and the
//! judge of all answers.
#![allow(unsafe_code, reason = "calls libpcap")]

use std::ffi::{c_int, c_uint};

use forebay_filter::Program;
use forebay_jit::Packets;

use crate::failure::Result;
use crate::suites::filters::packets::Engine;

/// `struct bpf_insn` of `<pcap/bpf.h>`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BpfInsn {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
}

// SAFETY: the declarations are those of `<pcap/bpf.h>`.
#[link(name = "pcap")]
unsafe extern "C" {
    fn bpf_filter(program: *const BpfInsn, packet: *const u8, wire: c_uint, len: c_uint) -> c_uint;
    fn bpf_validate(program: *const BpfInsn, length: c_int) -> c_int;
}

/// The instructions of `program` in C's form.
pub fn instructions(program: &Program) -> Vec<BpfInsn> {
    let stored = program.instructions().iter();
    stored.map(|i| BpfInsn { code: i.code, jt: i.jt, jf: i.jf, k: i.k }).collect()
}

/// A program for `bpf_filter`.
#[derive(Debug)]
pub struct Libpcap(Vec<BpfInsn>);

impl Libpcap {
    /// Takes what libpcap's own validator accepts.
    pub fn new(program: &Program) -> Result<Self> {
        let instructions = instructions(program);
        let length = c_int::try_from(instructions.len())?;
        // SAFETY: `bpf_validate` reads `length` instructions and nothing else.
        match unsafe { bpf_validate(instructions.as_ptr(), length) } {
            0 => Err("bpf_validate refuses the program".into()),
            _ => Ok(Self(instructions)),
        }
    }
}

impl Engine for Libpcap {
    fn run(&mut self, packets: &Packets<'_>, _first: usize, verdict: &mut [u32]) {
        let base = packets.base();
        let [offset, cap_len, wire_len] = packets.tables();
        let descriptors = offset.iter().zip(cap_len).zip(wire_len);
        for (((&offset, &cap_len), &wire_len), verdict) in descriptors.zip(verdict) {
            // SAFETY: the program passed libpcap's validator, so that `bpf_filter`
            // stays inside it and its memory cells; it reads the packet within
            // `cap_len` bytes, all of which are in the memory.
            *verdict = unsafe {
                bpf_filter(self.0.as_ptr(), base.add(offset as usize), wire_len, cap_len)
            };
        }
    }
}
