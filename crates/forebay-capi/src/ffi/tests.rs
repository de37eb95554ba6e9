//! The functions of the header as C calls them, from Rust.

use std::ffi::{CStr, c_char};
use std::{ptr, thread};

use forebay_jit::Filter;
use forebay_packet::LinkType;

use super::arguments::guarded;
use super::filters::*;
use super::forebay_last_error;
use crate::error::Status;

/// What the last failing call of this thread said.
fn last() -> String {
    // SAFETY: zero-terminated, and no call fails meanwhile.
    unsafe { CStr::from_ptr(forebay_last_error()) }.to_str().unwrap().to_owned()
}

/// A filter from the library, freed at the end.
struct Owned(*mut Filter);

// SAFETY: what the header promises, and the compiler confirms of `Filter`
// in `filters_are_for_all_threads`.
unsafe impl Sync for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: from the library, and freed here only.
        unsafe { forebay_free(self.0) };
    }
}

fn compiled(expression: &CStr) -> Owned {
    let mut filter = ptr::null_mut();
    // SAFETY: both pointers are of this function.
    let status = unsafe { forebay_compile(expression.as_ptr(), 1, &mut filter) };
    assert_eq!(status, Status::Ok, "{}", last());
    Owned(filter)
}

#[test]
fn a_panic_becomes_a_status() {
    assert_eq!(guarded(|| panic!("the {}", "reason")), Status::Internal);
    assert_eq!(last(), "a mistake in libforebay: the reason");
    assert_eq!(guarded(|| std::panic::panic_any(7)), Status::Internal);
    assert_eq!(last(), "a mistake in libforebay: it says no more");
    assert_eq!(guarded(|| Ok(())), Status::Ok);
}

#[test]
fn compile_errors_are_told() {
    let mut filter = ptr::NonNull::dangling().as_ptr();
    let mut compile = |text: *const c_char, linktype: u32| {
        // SAFETY: `filter` may be written and expressions are zero-terminated.
        unsafe { forebay_compile(text, linktype, &mut filter) }
    };
    assert_eq!(compile(ptr::null(), 1), Status::InvalidArgument);
    assert_eq!(last(), "expression is a null pointer");
    assert_eq!(compile(c"port nonsense".as_ptr(), 1), Status::BadFilter);
    assert!(last().contains("nonsense"), "{}", last());
    assert_eq!(compile(c"\xff".as_ptr(), 1), Status::BadFilter);
    assert_eq!(last(), "the expression is not in UTF-8");
    assert_eq!(compile(c"ip".as_ptr(), u32::MAX), Status::BadFilter);
    assert!(last().contains("link type"), "{}", last());
    assert!(filter.is_null());
    // SAFETY: a null pointer may be given.
    let status = unsafe { forebay_compile(c"ip".as_ptr(), 1, ptr::null_mut()) };
    assert_eq!(status, Status::InvalidArgument);
    assert_eq!(last(), "filter is a null pointer");
    // SAFETY: null may be freed.
    unsafe { forebay_free(ptr::null_mut()) };
}

#[test]
fn programs_are_checked() {
    let keep = CInstruction { code: 0x06, jt: 0, jf: 0, k: 9 };
    let jump = CInstruction { code: 0x05, ..keep };
    let mut filter = ptr::null_mut();
    let mut compile = |program: *const CInstruction, count: usize| {
        // SAFETY: a slice, or such that the call must refuse it without a
        // look.
        unsafe { forebay_compile_program(program, count, &mut filter) }
    };
    assert_eq!(compile(ptr::null(), 0), Status::BadFilter);
    assert_eq!(compile(ptr::null(), 1), Status::InvalidArgument);
    assert_eq!(last(), "program is a null pointer");
    assert_eq!(compile(&raw const keep, usize::MAX), Status::InvalidArgument);
    assert_eq!(compile([jump, keep].as_ptr(), 2), Status::BadFilter);
    assert!(last().contains("instruction 0"), "{}", last());
    assert_eq!(compile(&raw const keep, 1), Status::Ok);
    let filter = Owned(filter);
    let (tables, mut verdict) = ([0, 0], [1, 2]);
    let (table, to) = (tables.as_ptr(), verdict.as_mut_ptr());
    // SAFETY: two empty packets, two verdicts.
    let status =
        unsafe { forebay_filter_batch(filter.0, ptr::null(), 0, table, table, table, to, 2) };
    assert_eq!((status, verdict), (Status::Ok, [9, 9]));
}

#[test]
fn batches_are_checked() {
    let filter = compiled(c"ether[0] = 7");
    let memory = [7_u8; 20];
    let lens = [20_u32, 1];
    let run = |memory: &[u8], offset: *const u32, verdict: *mut u32, count: usize| {
        let (lens, base) = (lens.as_ptr(), memory.as_ptr().cast());
        // SAFETY: tables of two elements, or such that the call must refuse
        // them without a look.
        unsafe {
            let len = memory.len();
            forebay_filter_batch(filter.0, base, len, offset, lens, lens, verdict, count)
        }
    };
    let (offset, mut verdict) = ([0_u32, 19], [5; 2]);
    let (at, to) = (offset.as_ptr(), verdict.as_mut_ptr());
    assert_eq!(run(&memory, ptr::null(), ptr::null_mut(), 0), Status::Ok);
    assert_eq!(run(&memory, ptr::null(), to, 2), Status::InvalidArgument);
    assert_eq!(last(), "offset is a null pointer");
    assert_eq!(run(&memory, at, ptr::null_mut(), 2), Status::InvalidArgument);
    assert_eq!(last(), "verdict is a null pointer");
    assert_eq!(run(&memory, at.wrapping_byte_add(1), to, 2), Status::InvalidArgument);
    assert_eq!(last(), "offset is not aligned to the size of its elements");
    for count in [usize::MAX, usize::MAX / 4, usize::MAX / 8 + 1] {
        assert_eq!(run(&memory, at, to, count), Status::InvalidArgument);
        assert_eq!(last(), format!("offset has {count} elements, more than memory can hold"));
    }
    assert_eq!(run(&memory[1..], at, to, 2), Status::InvalidArgument);
    assert_eq!(last(), "packet 0 ends at byte 20, past the 19 bytes there are");
    assert_eq!(run(&memory, &raw const offset[1], to, 1), Status::InvalidArgument);
    assert_eq!(last(), "packet 0 ends at byte 39, past the 20 bytes there are");
    // SAFETY: a null pointer may be given.
    let status = unsafe { forebay_filter_batch(ptr::null(), to.cast(), 0, at, at, at, to, 2) };
    assert_eq!(status, Status::InvalidArgument);
    assert_eq!(last(), "filter is a null pointer");
    assert_eq!(verdict, [5; 2]);
    assert_eq!(run(&memory, at, verdict.as_mut_ptr(), 2), Status::Ok);
    assert_eq!(verdict, [262_144; 2]);
}

#[test]
fn verdicts_lie_in_memory_of_their_own() {
    let filter = compiled(c"ip");
    // Offsets, captured lengths, wire lengths, packets, verdicts.
    let mut words = [0_u32; 10];
    let word = words.as_mut_ptr();
    let run = |verdict: usize, count: usize| {
        let [offset, cap_len, wire_len, base, verdict] =
            [0, 2, 4, 6, verdict].map(|index| word.wrapping_add(index));
        // SAFETY: all inside `words`; where they overlap, the call must
        // refuse them without a look.
        unsafe {
            let base = base.cast_const().cast();
            forebay_filter_batch(filter.0, base, 8, offset, cap_len, wire_len, verdict, count)
        }
    };
    for (verdict, name) in
        [(0, "offset"), (1, "offset"), (3, "cap_len"), (5, "base"), (4, "wire_len"), (7, "base")]
    {
        assert_eq!(run(verdict, 2), Status::InvalidArgument, "{verdict}");
        assert_eq!(last(), format!("verdict shares memory with {name}"), "{verdict}");
        assert_eq!(run(verdict, 0), Status::Ok, "{verdict}");
    }
    assert_eq!(run(8, 2), Status::Ok);
}

/// Memory with packets of 20 bytes each, and their verdicts by the
/// interpreter.
fn packets(expression: &str, count: usize) -> (Vec<u8>, Vec<u32>) {
    let memory: Vec<u8> = (0..count * 20).map(|at| (at / 20 * 7 + at % 3) as u8).collect();
    let program = forebay_filter::compile(expression, LinkType::ETHERNET).unwrap();
    let truth = memory.chunks(20).map(|packet| program.run(packet, 60)).collect();
    (memory, truth)
}

#[test]
fn filters_are_for_all_threads() {
    fn shareable<T: Send + Sync>() {}
    shareable::<Filter>();
    let filter = &compiled(c"ether[0] > 100 and ether[13] & 1 = 0");
    let (memory, truth) = &packets("ether[0] > 100 and ether[13] & 1 = 0", 1000);
    let run = |count: usize| {
        let offset: Vec<u32> = (0..count as u32).map(|i| i * 20).collect();
        let [cap_len, wire_len] = [20, 60].map(|len| vec![len; count]);
        let mut verdict = vec![u32::MAX; count];
        let [offset, cap_len, wire_len] = [&offset, &cap_len, &wire_len].map(Vec::as_slice);
        // SAFETY: four tables of `count` elements, and memory that is as
        // long as said.
        let status = unsafe {
            forebay_filter_batch(
                filter.0,
                memory.as_ptr().cast(),
                memory.len(),
                offset.as_ptr(),
                cap_len.as_ptr(),
                wire_len.as_ptr(),
                verdict.as_mut_ptr(),
                count,
            )
        };
        assert_eq!(status, Status::Ok);
        assert_eq!(verdict, truth[..count]);
    };
    thread::scope(|scope| {
        for counts in [[1, 1000], [255, 256], [257, 513], [999, 2]] {
            scope.spawn(move || counts.map(run));
        }
    });
}
