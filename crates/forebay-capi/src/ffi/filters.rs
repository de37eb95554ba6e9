//! The functions of `include/forebay.h` for filters.
//!
//! A filter is passed to C as the address of a [`Filter`] in its own box.
#![allow(unsafe_code, reason = "takes pointers from C")]

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;

use forebay_filter::Instruction;
use forebay_jit::{Filter, Packets};
use forebay_packet::BATCH;

use super::arguments::{check, check_apart, filled, give, guarded, places, table};
use crate::error::{Error, Status};
use crate::filters::{compile_expression, compile_program};

/// An instruction in C's layout.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CInstruction {
    pub(super) code: u16,
    pub(super) jt: u8,
    pub(super) jf: u8,
    pub(super) k: u32,
}

impl From<CInstruction> for Instruction {
    fn from(CInstruction { code, jt, jf, k }: CInstruction) -> Self {
        Self { code, jt, jf, k }
    }
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
