//! Gives memory that was freed back to the system.
//!
//! The C library's allocator keeps what a thread has freed, for the next that allocates. After
//! a large computation that came to nothing, there may be none for a long time.
#![allow(unsafe_code, reason = "the C library's function, which has no safe form")]

/// Gives back what is free in the allocator.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the function takes no memory of ours, and locks what it reads.
    unsafe {
        libc::malloc_trim(0);
    }
}
