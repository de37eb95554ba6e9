//! Arguments from C: checked, and converted to references and slices; and the status of a call.
#![allow(unsafe_code, reason = "takes pointers from C")]

use std::any::Any;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{iter, ptr, slice};

use crate::error::{Error, Status};
use crate::last_error;

/// Writes the address of the value made by `make`, or null, to `place`.
///
/// # Safety
/// `place` is null or may be written.
pub(super) unsafe fn give<T>(
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
pub(super) unsafe fn table<'a, T>(
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
pub(super) unsafe fn places<'a>(start: *mut u32, count: usize) -> &'a mut [MaybeUninit<u32>] {
    if count == 0 {
        return &mut [];
    }
    // SAFETY: as the caller says; without a value, they need none here.
    unsafe { slice::from_raw_parts_mut(start.cast(), count) }
}

/// Checks that `count` elements can exist at `start`.
pub(super) fn check<T>(name: &'static str, start: *const T, count: usize) -> Result<(), Error> {
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
pub(super) fn check_apart(
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

/// Initialises all elements to `value`.
pub(super) fn filled(elements: &mut [MaybeUninit<u32>], value: u32) -> &mut [u32] {
    elements.fill(MaybeUninit::new(value));
    // SAFETY: of the same size and alignment, the borrow goes over to the
    // result, and each was just given a value.
    unsafe { slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), elements.len()) }
}

/// Runs `call` such that nothing unwinds into C, and records the error.
pub(super) fn guarded(call: impl FnOnce() -> Result<(), Error>) -> Status {
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
