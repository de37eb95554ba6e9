//! What the tests that run code share: executable memory and packets.
#![allow(unsafe_code, reason = "compiled code is put in memory and called")]
#![allow(dead_code, reason = "each test uses its part")]

use std::ffi::c_void;
use std::ptr;

use forebay_codegen::code::{Code, Isa};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// A page, in bytes.
const PAGE: usize = 4096;

/// Code in memory that may be run.
pub struct Runnable {
    start: *mut c_void,
    size: usize,
    each: usize,
}

/// The table of arguments of batch code.
#[repr(C)]
struct Arguments {
    base: *const u8,
    offset: *const u32,
    cap_len: *const u32,
    wire_len: *const u32,
    verdict: *mut u32,
    count: usize,
    slow: *mut u32,
    scratch: *mut u8,
}

impl Runnable {
    pub fn new(code: &Code) -> Self {
        let size = code.bytes.len().next_multiple_of(PAGE);
        let flags = MapFlags::PRIVATE;
        // SAFETY: a new mapping at an address the kernel chooses, written
        // within its size and then made executable.
        let start = unsafe {
            let start =
                mmap_anonymous(ptr::null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, flags)
                    .expect("memory for code");
            ptr::copy_nonoverlapping(code.bytes.as_ptr(), start.cast::<u8>(), code.bytes.len());
            mprotect(start, size, MprotectFlags::READ | MprotectFlags::EXEC)
                .expect("executable memory");
            start
        };
        Self { start, size, each: code.each }
    }

    /// The verdicts of packets that lie in `memory` at the given offsets, by `list` code.
    pub fn run(&self, memory: &[u8], packets: &[Place]) -> Vec<u32> {
        // SAFETY: a type; `call` gives it the address of such a function.
        type List = unsafe extern "sysv64" fn(
            *const u8,
            *const u32,
            usize,
            *const u32,
            *const u32,
            *mut u32,
        );
        self.call(packets, |entry, Tables { offset, cap_len, wire_len, verdict, count }| {
            // SAFETY: `entry` is where the back end says that a function of this convention
            // starts; the tables have `count` elements.
            unsafe {
                let function: List = std::mem::transmute(entry);
                function(memory.as_ptr(), offset, count, wire_len, cap_len, verdict);
            }
        })
    }

    /// The same by batch code that needs no scratch memory and leaves no packets.
    pub fn run_batch(&self, memory: &[u8], packets: &[Place]) -> Vec<u32> {
        self.call(packets, |entry, Tables { offset, cap_len, wire_len, verdict, count }| {
            let arguments = Arguments {
                base: memory.as_ptr(),
                offset,
                cap_len,
                wire_len,
                verdict,
                count,
                slow: ptr::null_mut(),
                scratch: ptr::null_mut(),
            };
            // SAFETY: as in `run`.
            unsafe {
                // SAFETY: as above.
                let function: unsafe extern "sysv64" fn(*const Arguments) =
                    std::mem::transmute(entry);
                function(&raw const arguments);
            }
        })
    }

    fn call(&self, packets: &[Place], call: impl FnOnce(*const u8, Tables)) -> Vec<u32> {
        let offset: Vec<u32> = packets.iter().map(|packet| packet.offset).collect();
        let cap_len: Vec<u32> = packets.iter().map(|packet| packet.cap_len).collect();
        let wire_len: Vec<u32> = packets.iter().map(|packet| packet.wire_len).collect();
        let mut verdict = vec![0xdead_beef; packets.len()];
        let tables = Tables {
            offset: offset.as_ptr(),
            cap_len: cap_len.as_ptr(),
            wire_len: wire_len.as_ptr(),
            verdict: verdict.as_mut_ptr(),
            count: packets.len(),
        };
        // SAFETY: the entry is inside the code.
        call(unsafe { self.start.cast::<u8>().add(self.each) }, tables);
        verdict
    }
}

/// Tables of packets, with as many elements each as there are packets.
struct Tables {
    offset: *const u32,
    cap_len: *const u32,
    wire_len: *const u32,
    verdict: *mut u32,
    count: usize,
}

impl Drop for Runnable {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing refers to any more.
        unsafe {
            let _ = munmap(self.start, self.size);
        }
    }
}

/// Where a packet lies.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub offset: u32,
    pub cap_len: u32,
    pub wire_len: u32,
}

/// Memory whose end is followed by a page that may not be read.
pub struct Guarded {
    start: *mut c_void,
    size: usize,
}

impl Guarded {
    pub fn new(bytes: usize) -> Self {
        let size = bytes.next_multiple_of(PAGE) + PAGE;
        // SAFETY: a new mapping at an address the kernel chooses, of which the
        // last page is closed.
        let start = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let start = mmap_anonymous(ptr::null_mut(), size, access, MapFlags::PRIVATE)
                .expect("memory for packets");
            mprotect(start.cast::<u8>().add(size - PAGE).cast(), PAGE, MprotectFlags::empty())
                .expect("a closed page");
            start
        };
        Self { start, size }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping but for its last page, which lives as long.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.size - PAGE) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing refers to any more.
        unsafe {
            let _ = munmap(self.start, self.size);
        }
    }
}

/// The instruction-set levels of this machine.
pub fn levels() -> Vec<Isa> {
    let has = |isa: &Isa| match isa {
        Isa::Scalar => true,
        Isa::Avx2 => {
            std::arch::is_x86_feature_detected!("avx2")
                && std::arch::is_x86_feature_detected!("movbe")
        }
        Isa::Avx512Bw => {
            std::arch::is_x86_feature_detected!("avx512bw")
                && std::arch::is_x86_feature_detected!("avx512dq")
                && std::arch::is_x86_feature_detected!("avx512vl")
        }
        Isa::Avx512Vbmi => std::arch::is_x86_feature_detected!("avx512vbmi"),
    };
    Isa::ALL.into_iter().filter(has).collect()
}
