//! libpcap's own interpreter, validator and printer, as oracles.

use std::ffi::{CStr, c_char, c_int, c_uint};

use forebay_filter::Instruction;
use forebay_filter::verify::{Profile, verify};

/// `struct bpf_insn` of `<pcap/bpf.h>`.
#[repr(C)]
struct BpfInsn {
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
    fn bpf_image(instruction: *const BpfInsn, index: c_int) -> *mut c_char;
}

fn stored(instruction: &Instruction) -> BpfInsn {
    let Instruction { code, jt, jf, k } = *instruction;
    BpfInsn { code, jt, jf, k }
}

/// A program in libpcap's own form.
pub struct Oracle(Vec<BpfInsn>);

impl Oracle {
    /// The oracle for a program that the verifier accepts.
    pub fn new(program: &[Instruction]) -> Self {
        verify(program, Profile::Libpcap).unwrap();
        Self(program.iter().map(stored).collect())
    }

    /// What `bpf_filter` returns.
    pub fn run(&self, packet: &[u8], wire_len: u32) -> u32 {
        let length = c_uint::try_from(packet.len()).unwrap();
        // SAFETY: the program verifies, so that `bpf_filter` stays inside it
        // and its memory cells; it reads the packet within `length` only.
        unsafe { bpf_filter(self.0.as_ptr(), packet.as_ptr(), wire_len, length) }
    }
}

/// Whether `bpf_validate` accepts the program.
pub fn validates(program: &[Instruction]) -> bool {
    let program: Vec<BpfInsn> = program.iter().map(stored).collect();
    let length = c_int::try_from(program.len()).unwrap();
    // SAFETY: `bpf_validate` reads `length` instructions and nothing else.
    unsafe { bpf_validate(program.as_ptr(), length) != 0 }
}

/// The instruction as `bpf_image` prints it. For one thread at a time: older
/// libpcap prints to a static buffer.
pub fn image(instruction: &Instruction, index: usize) -> String {
    let index = c_int::try_from(index).unwrap();
    // SAFETY: `bpf_image` reads one instruction and returns a terminated
    // string that stays until the next call.
    let text = unsafe { CStr::from_ptr(bpf_image(&stored(instruction), index)) };
    text.to_str().unwrap().to_owned()
}
