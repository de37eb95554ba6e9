//! The functions of `include/forebay.h`.
//!
//! Each checks its arguments as far as possible, converts them to references and slices,
//! and calls safe code, with a guard that turns errors and panics into a status. The header
//! documents the caller's obligations that cannot be checked: that pointers are valid as
//! declared, and that the memory is not written by others during the call.
//!
//! A filter is passed to C as the address of a [`Filter`] in its own box, and so are rules.
#![allow(unsafe_code, reason = "takes pointers from C")]

mod rules;

use std::any::Any;
use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{iter, ptr, slice};

use forebay_filter::Instruction;
use forebay_jit::{Filter, Packets};
use forebay_packet::BATCH;

use crate::error::{Error, Status};
use crate::{compile_expression, compile_program, last_error};

/// An instruction in C's layout.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CInstruction {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
}

impl From<CInstruction> for Instruction {
    fn from(CInstruction { code, jt, jf, k }: CInstruction) -> Self {
        Self { code, jt, jf, k }
    }
}

/// `forebay_version`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_version() -> u32 {
    crate::version()
}

/// `forebay_compile`.
///
/// # Safety
/// `expression` is null or zero-terminated; `filter` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_compile(
    expression: *const c_char,
    linktype: u32,
    filter: *mut *mut Filter,
) -> Status {
    let compile = || {
        if expression.is_null() {
            return Err(Error::Null("expression"));
        }
        // SAFETY: not null, so zero-terminated as the caller promises.
        let expression = unsafe { CStr::from_ptr(expression) };
        compile_expression(expression.to_bytes(), linktype)
    };
    // SAFETY: null or may be written, as the caller promises.
    guarded(|| unsafe { give("filter", filter, compile) })
}

/// `forebay_compile_program`.
///
/// # Safety
/// `program` is null or `count` instructions; `filter` is null or may be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_compile_program(
    program: *const CInstruction,
    count: usize,
    filter: *mut *mut Filter,
) -> Status {
    let compile = || {
        // SAFETY: null or as many instructions, as the caller promises.
        let program = unsafe { table("program", program, count) }?;
        let program: Vec<Instruction> = program.iter().map(|&one| one.into()).collect();
        compile_program(&program)
    };
    // SAFETY: null or may be written, as the caller promises.
    guarded(|| unsafe { give("filter", filter, compile) })
}

/// `forebay_filter_batch`.
///
/// # Safety
/// `filter` is null or came from this library and was not freed; `base` is
/// null or `readable_len` bytes may be read there; each table is null or has
/// `count` elements, and those of `verdict` may be written. None of it is
/// written by others during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_filter_batch(
    filter: *const Filter,
    base: *const c_void,
    readable_len: usize,
    offset: *const u32,
    cap_len: *const u32,
    wire_len: *const u32,
    verdict: *mut u32,
    count: usize,
) -> Status {
    guarded(|| {
        // SAFETY: null or a filter of ours, as the caller promises.
        let filter = unsafe { filter.as_ref() }.ok_or(Error::Null("filter"))?;
        // SAFETY: null or as long as said, as the caller promises; the same
        // goes for the tables.
        let memory = unsafe { table("base", base.cast::<u8>(), readable_len) }?;
        // SAFETY: as above.
        let offset = unsafe { table("offset", offset, count) }?;
        // SAFETY: as above.
        let cap_len = unsafe { table("cap_len", cap_len, count) }?;
        // SAFETY: as above.
        let wire_len = unsafe { table("wire_len", wire_len, count) }?;
        check("verdict", verdict, count)?;
        let tables = [("offset", offset), ("cap_len", cap_len), ("wire_len", wire_len)];
        check_apart("verdict", verdict, memory, &tables)?;
        // SAFETY: passed `check` and `check_apart`, and may be written, as the
        // caller promises.
        let verdict = unsafe { places(verdict, count) };
        run(filter, memory, [offset, cap_len, wire_len], verdict)
    })
}

/// `forebay_free`.
///
/// # Safety
/// `filter` is null or came from this library, was not freed before, and is
/// not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_free(filter: *mut Filter) {
    if !filter.is_null() {
        guarded(|| {
            // SAFETY: made by `give`, and given back only once, as the caller
            // promises.
            drop(unsafe { Box::from_raw(filter) });
            Ok(())
        });
    }
}

/// `forebay_last_error`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_last_error() -> *const c_char {
    last_error::get()
}

/// Writes the address of the value made by `make`, or null, to `place`.
///
/// # Safety
/// `place` is null or may be written.
unsafe fn give<T>(
    name: &'static str,
    place: *mut *mut T,
    make: impl FnOnce() -> Result<T, Error>,
) -> Result<(), Error> {
    check(name, place, 1)?;
    // SAFETY: not null and aligned, so it may be written.
    unsafe { place.write(ptr::null_mut()) };
    let made = Box::into_raw(Box::new(make()?));
    // SAFETY: as above.
    unsafe { place.write(made) };
    Ok(())
}

/// The `count` elements at `start`.
///
/// # Safety
/// `start` is null or has as many, which are not written while the slice exists.
unsafe fn table<'a, T>(
    name: &'static str,
    start: *const T,
    count: usize,
) -> Result<&'a [T], Error> {
    check(name, start, count)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: not null, aligned, not longer than memory can be, and as long as
    // the caller says.
    Ok(unsafe { slice::from_raw_parts(start, count) })
}

/// The `count` elements at `start`, to be written. They may be uninitialised.
///
/// # Safety
/// They passed [`check`], nothing borrows them, and they may be written while the slice
/// exists.
unsafe fn places<'a>(start: *mut u32, count: usize) -> &'a mut [MaybeUninit<u32>] {
    if count == 0 {
        return &mut [];
    }
    // SAFETY: as the caller says; without a value, they need none here.
    unsafe { slice::from_raw_parts_mut(start.cast(), count) }
}

/// Checks that `count` elements can exist at `start`.
fn check<T>(name: &'static str, start: *const T, count: usize) -> Result<(), Error> {
    if count == 0 {
        return Ok(());
    }
    if start.is_null() {
        return Err(Error::Null(name));
    }
    if !start.is_aligned() {
        return Err(Error::Unaligned(name));
    }
    // No object has more bytes than `isize::MAX`, nor extends past the last address.
    let bytes = count.checked_mul(size_of::<T>()).filter(|&bytes| isize::try_from(bytes).is_ok());
    match bytes.and_then(|bytes| start.addr().checked_add(bytes)) {
        Some(_) => Ok(()),
        None => Err(Error::TooMany(name, count)),
    }
}

/// Checks that the answers, as many as each table has elements, do not overlap the other
/// tables.
fn check_apart(
    name: &'static str,
    answers: *const u32,
    memory: &[u8],
    tables: &[(&'static str, &[u32])],
) -> Result<(), Error> {
    let count = tables.first().map_or(0, |(_, table)| table.len());
    let answers = span(answers, count);
    let tables = tables.iter().map(|(name, table)| (*name, span(table.as_ptr(), table.len())));
    let mut others = iter::once(("base", span(memory.as_ptr(), memory.len()))).chain(tables);
    let shared = |other: &Range<usize>| answers.start < other.end && other.start < answers.end;
    match others.find(|(_, other)| shared(other)) {
        Some((other, _)) => Err(Error::Overlap(name, other)),
        None => Ok(()),
    }
}

/// The addresses of `count` elements, which passed [`check`]: an empty range for no
/// elements.
fn span<T>(start: *const T, count: usize) -> Range<usize> {
    if count == 0 { 0..0 } else { start.addr()..start.addr() + count * size_of::<T>() }
}

/// Writes a value to each element of `verdict`, or none on errors.
#[inline]
fn run(
    filter: &Filter,
    memory: &[u8],
    [offset, cap_len, wire_len]: [&[u32]; 3],
    verdict: &mut [MaybeUninit<u32>],
) -> Result<(), Error> {
    // For one packet, the general checks cost more than its filter.
    if let ([at], [len], [wire_len], [verdict]) = (offset, cap_len, wire_len, &mut *verdict) {
        let start = *at as usize;
        if let Some(packet) = memory.get(start..start + *len as usize) {
            verdict.write(filter.run(packet, *wire_len));
            return Ok(());
        }
    }
    // By reference: a copy would wait for the stores just made.
    match &Packets::new(memory, offset, cap_len, wire_len) {
        // In portions of compiled code, so that the verdicts written by `filled` are in the
        // cache when the code overwrites them.
        Ok(packets) => {
            for (start, verdict) in (0..).step_by(BATCH).zip(verdict.chunks_mut(BATCH)) {
                filter.run_batch(&packets.slice(start..start + verdict.len()), filled(verdict, 0));
            }
            Ok(())
        }
        Err(error) => Err(Error::Packets(*error)),
    }
}

/// Initialises all elements to `value`.
fn filled(elements: &mut [MaybeUninit<u32>], value: u32) -> &mut [u32] {
    elements.fill(MaybeUninit::new(value));
    // SAFETY: of the same size and alignment, the borrow goes over to the
    // result, and each was just given a value.
    unsafe { slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), elements.len()) }
}

/// Runs `call` such that nothing unwinds into C, and records the error.
fn guarded(call: impl FnOnce() -> Result<(), Error>) -> Status {
    // State is not used after a panic: a failed compilation is dropped, filters and rules
    // are immutable, and verdicts are undefined according to the header.
    let outcome = catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Err(Error::Panic(message(&*panic))));
    match outcome {
        Ok(()) => Status::Ok,
        Err(error) => {
            last_error::set(&error.to_string());
            error.status()
        }
    }
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "it says no more".to_owned())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use forebay_packet::LinkType;

    use super::*;

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
        for (verdict, name) in [
            (0, "offset"),
            (1, "offset"),
            (3, "cap_len"),
            (5, "base"),
            (4, "wire_len"),
            (7, "base"),
        ] {
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
}
