//! libpcap's own compiler and interpreter, as the oracle of verdicts.

#![allow(dead_code, reason = "each test that includes this module uses its own part of it")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;

/// `struct bpf_program` of `<pcap/bpf.h>`.
#[repr(C)]
struct BpfProgram {
    length: c_uint,
    instructions: *mut c_void,
}

// SAFETY: the declarations are those of `<pcap/pcap.h>` and `<pcap/bpf.h>`.
#[link(name = "pcap")]
unsafe extern "C" {
    fn pcap_open_dead(link: c_int, snap_len: c_int) -> *mut c_void;
    fn pcap_close(handle: *mut c_void);
    fn pcap_geterr(handle: *mut c_void) -> *const c_char;
    fn pcap_compile(
        handle: *mut c_void,
        program: *mut BpfProgram,
        expression: *const c_char,
        optimize: c_int,
        netmask: c_uint,
    ) -> c_int;
    fn pcap_freecode(program: *mut BpfProgram);
    fn bpf_filter(code: *const c_void, packet: *const u8, wire: c_uint, len: c_uint) -> c_uint;
}

/// An expression as libpcap compiles it: optimised, snapshot length 262,144, netmask 0.
pub struct Oracle(BpfProgram);

impl Oracle {
    /// Compiles for a link type (a DLT_ number), or returns libpcap's message. Not for
    /// several threads at a time: old versions keep the parser's state in statics.
    pub fn compile(expression: &str, link: i32) -> Result<Self, String> {
        let text = CString::new(expression).unwrap();
        let mut program = BpfProgram { length: 0, instructions: ptr::null_mut() };
        // SAFETY: the handle is used between opening and closing only, the text is
        // terminated, and the message is copied before the handle goes.
        unsafe {
            let handle = pcap_open_dead(link, 262_144);
            assert!(!handle.is_null());
            let outcome = match pcap_compile(handle, &raw mut program, text.as_ptr(), 1, 0) {
                0 => Ok(()),
                _ => Err(CStr::from_ptr(pcap_geterr(handle)).to_string_lossy().into_owned()),
            };
            pcap_close(handle);
            outcome.map(|()| Self(program))
        }
    }

    /// The verdict on a packet.
    pub fn run(&self, packet: &[u8], wire_len: u32) -> u32 {
        let length = c_uint::try_from(packet.len()).unwrap();
        // SAFETY: libpcap made the program; it reads the packet within `length` only.
        unsafe { bpf_filter(self.0.instructions, packet.as_ptr(), wire_len, length) }
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // SAFETY: `pcap_compile` filled the program in, and this is its only owner.
        unsafe { pcap_freecode(&raw mut self.0) }
    }
}
