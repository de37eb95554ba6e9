//! Keys as the bytes that they are.
#![allow(unsafe_code, reason = "views numbers as their bytes")]

use crate::packed::Key4;

/// The bytes of `keys`.
pub(crate) fn bytes_of(keys: &[Key4]) -> &[u8] {
    const { assert!(size_of::<Key4>() == 16) };
    // SAFETY: a key is 16 bytes of numbers without padding, and any byte is a
    // `u8`.
    unsafe { std::slice::from_raw_parts(keys.as_ptr().cast(), size_of_val(keys)) }
}
