//! Executable memory.
//!
//! An [`Executable`] is one mapping: an inaccessible page, the code with its
//! constants, an inaccessible page. It is created in four steps, three of them
//! system calls: mapped without any access, made writable between the guards,
//! filled, and made executable and read-only at once. No byte is ever writable
//! and executable at the same time, and executable code is never written, so
//! the code that was checked is the code that runs. The guards stop code that
//! runs off either end, and accesses to constants slightly out of bounds.
//!
//! Invariants: `bytes` bytes from `start` are readable and executable, hold the
//! given code, and stay so until the drop; `start` is a multiple of the page
//! size, and so of 64.
#![allow(unsafe_code, reason = "maps memory and changes its protection")]

use std::ptr::{self, NonNull};
use std::{fmt, slice};

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// The size of a page, and of each guard, in bytes: x86-64's smallest.
const PAGE: usize = 4096;

/// Why memory for code cannot be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// There is no code.
    #[error("there is no code to make executable")]
    Empty,
    /// The mapping failed.
    #[error("no memory for {bytes} bytes of code: {error}")]
    Map {
        /// Bytes of code and constants.
        bytes: usize,
        /// The system's reason.
        error: Errno,
    },
    /// The mapping cannot be made writable.
    #[error("memory for code cannot be made writable: {error}")]
    Write {
        /// The system's reason.
        error: Errno,
    },
    /// The mapping cannot be made executable.
    #[error(
        "memory for code cannot be made executable: {error}; a security policy of the system \
         (execmem in SELinux, MemoryDenyWriteExecute in systemd) may forbid it, and then the \
         back end 'interp' still works"
    )]
    Execute {
        /// The system's reason.
        error: Errno,
    },
}

/// Code and constants, executable and immutable.
pub struct Executable {
    map: NonNull<u8>,
    mapped: usize,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an Executable owns its mapping alone and nothing can write to it, so
// any thread may read it, run it or unmap it.
unsafe impl Send for Executable {}
// SAFETY: as above; shared access is reading and running only.
unsafe impl Sync for Executable {}

impl Executable {
    /// Copies `code` into executable memory.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn new(code: &[u8]) -> Result<Self, MemoryError> {
        let bytes = code.len();
        if bytes == 0 {
            return Err(MemoryError::Empty);
        }
        let sizes = bytes
            .checked_next_multiple_of(PAGE)
            .and_then(|inner| Some((inner, inner.checked_add(2 * PAGE)?)));
        let Some((inner, mapped)) = sizes else {
            return Err(MemoryError::Map { bytes, error: Errno::NOMEM });
        };
        // SAFETY: a new private anonymous mapping at an address of the
        // kernel's choosing aliases nothing.
        let map = unsafe {
            mmap_anonymous(ptr::null_mut(), mapped, ProtFlags::empty(), MapFlags::PRIVATE)
        };
        let map = map.map_err(|error| MemoryError::Map { bytes, error })?.cast::<u8>();
        let no_address = MemoryError::Map { bytes, error: Errno::FAULT };
        let map = NonNull::new(map).ok_or(no_address)?;
        // SAFETY: the mapping is at least two pages long.
        let start = unsafe { map.add(PAGE) };
        // From here on the drop unmaps, on errors too.
        let executable = Self { map, mapped, start, bytes };
        let at = start.as_ptr();
        // SAFETY: the inner pages belong to the mapping made above, and nothing
        // refers to them yet.
        unsafe { mprotect(at.cast(), inner, MprotectFlags::READ | MprotectFlags::WRITE) }
            .map_err(|error| MemoryError::Write { error })?;
        // SAFETY: at least `bytes` bytes from `at` are writable now, and new
        // memory overlaps no slice.
        unsafe { ptr::copy_nonoverlapping(code.as_ptr(), at, bytes) };
        // SAFETY: as for the first change of protection; x86-64 keeps its
        // instruction caches coherent with stores by itself.
        unsafe { mprotect(at.cast(), inner, MprotectFlags::READ | MprotectFlags::EXEC) }
            .map_err(|error| MemoryError::Execute { error })?;
        Ok(executable)
    }

    /// The address of byte `offset` of the code, if there is one.
    #[must_use]
    pub fn address(&self, offset: usize) -> Option<NonNull<u8>> {
        // SAFETY: the sum stays inside the mapping.
        (offset < self.bytes).then(|| unsafe { self.start.add(offset) })
    }

    /// The code and its constants.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: readable, initialised from the code given, and never written
        // while the mapping exists.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, unmapped only here; nothing
        // borrowed from it can outlive `self`.
        let _ = unsafe { munmap(self.map.as_ptr().cast(), self.mapped) };
    }
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executable")
            .field("start", &self.start)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The protection of the mapping that contains `address`, as the kernel
    /// reports it.
    fn protection(address: usize) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let start = usize::from_str_radix(start, 16).ok()?;
            let end = usize::from_str_radix(end, 16).ok()?;
            (start..end).contains(&address).then(|| rest[..4].to_owned())
        })
    }

    #[test]
    fn code_is_executable_not_writable_and_guarded() {
        let code = vec![0xc3; PAGE + 1];
        let executable = Executable::new(&code).unwrap();
        assert_eq!(executable.bytes(), code);
        let start = executable.address(0).unwrap().as_ptr() as usize;
        assert_eq!(start % PAGE, 0);
        for inside in [0, PAGE, 2 * PAGE - 1] {
            assert_eq!(protection(start + inside).unwrap(), "r-xp", "{inside}");
        }
        assert_eq!(protection(start - 1).unwrap(), "---p");
        assert_eq!(protection(start - PAGE).unwrap(), "---p");
        assert_eq!(protection(start + 2 * PAGE).unwrap(), "---p");
        assert_eq!(protection(start + 3 * PAGE - 1).unwrap(), "---p");
    }

    #[test]
    fn addresses_end_with_the_code() {
        let executable = Executable::new(&[0xc3; 3]).unwrap();
        let start = executable.address(0).unwrap();
        assert_eq!(executable.address(2).unwrap().as_ptr() as usize, start.as_ptr() as usize + 2);
        assert_eq!(executable.address(3), None);
        assert_eq!(Executable::new(&[]).unwrap_err(), MemoryError::Empty);
    }

    #[test]
    fn the_drop_unmaps() {
        // Other tests may map the same address again, so use a size that is
        // rarely mapped.
        let executable = Executable::new(&vec![0xc3; 64 << 20]).unwrap();
        let middle = executable.address(32 << 20).unwrap().as_ptr() as usize;
        assert_eq!(protection(middle).unwrap(), "r-xp");
        drop(executable);
        assert_ne!(protection(middle).as_deref(), Some("r-xp"));
    }
}
