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
mod tests;
