//! Memory that two processes share, as 64-bit words that are accessed by atomic loads and stores
//! alone: whatever the other process writes, and whenever, is a value and never undefined.
//!
//! The memory is a file without a name (`memfd_create(2)`) that can neither shrink nor grow
//! (`F_ADD_SEALS`), so the other process cannot take pages away. Private memory has the same type,
//! for devices that are simulated.
#![allow(unsafe_code, reason = "maps memory that another process writes, too")]

use std::io;
use std::ops::{Deref, Range};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The seals that keep the size.
const FIXED_SIZE: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// A mapping of shared words.
#[derive(Debug)]
struct Mapping {
    base: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping is owned by this value and has no other effect on a thread than memory has.
unsafe impl Send for Mapping {}
// SAFETY: its words are accessed as atomics alone.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: BorrowedFd<'_>, words: usize) -> io::Result<Self> {
        let len = words * size_of::<AtomicU64>();
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choosing overlaps nothing.
        let base = unsafe { mmap(ptr::null_mut(), len, both, flags, file, 0)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, words })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: so many words are mapped, aligned to a page, for as long as this exists; both
        // processes access them, this one as atomics alone.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this length, and no reference to it is left.
        // A failure leaves it mapped.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.words * size_of::<AtomicU64>()) };
    }
}

#[derive(Debug)]
enum Memory {
    Shared(Mapping),
    Private(Box<[AtomicU64]>),
}

/// Words of memory that is shared with another process.
#[derive(Debug)]
pub(super) struct Words(Memory);

impl Words {
    /// Creates zeroed memory, and returns its file too.
    pub(super) fn create(words: usize) -> io::Result<(Self, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("forebay-accelerator", flags)?;
        ftruncate(&file, (words * size_of::<AtomicU64>()) as u64)?;
        fcntl_add_seals(&file, FIXED_SIZE | SealFlags::SEAL)?;
        let mapping = Mapping::new(file.as_fd(), words)?;
        Ok((Self(Memory::Shared(mapping)), file))
    }

    /// Maps the memory of a file of another process.
    pub(super) fn open(file: BorrowedFd<'_>, words: usize) -> io::Result<Self> {
        let seals = fcntl_get_seals(file)?;
        if !seals.contains(FIXED_SIZE) {
            return Err(io::Error::other("expected a file sealed against shrinking and growing"));
        }
        let expected = (words * size_of::<AtomicU64>()) as u64;
        let found = fstat(file)?.st_size as u64;
        if found != expected {
            let what = format!("expected a file of {expected} bytes, found {found}");
            return Err(io::Error::other(what));
        }
        Ok(Self(Memory::Shared(Mapping::new(file, words)?)))
    }

    /// Memory of this process.
    pub(super) fn private(words: usize) -> Self {
        Self(Memory::Private((0..words).map(|_| AtomicU64::new(0)).collect()))
    }

    /// Reads a word.
    pub(super) fn read(&self, at: usize) -> u64 {
        u64::from_le(self[at].load(Ordering::Relaxed))
    }

    /// Writes a word.
    pub(super) fn write(&self, at: usize, word: u64) {
        self[at].store(word.to_le(), Ordering::Relaxed);
    }

    /// Reads a word; what the other side wrote before it wrote the word can be read then.
    pub(super) fn acquire(&self, at: usize) -> u64 {
        u64::from_le(self[at].load(Ordering::Acquire))
    }

    /// Writes a word after everything else.
    pub(super) fn release(&self, at: usize, word: u64) {
        self[at].store(word.to_le(), Ordering::Release);
    }

    /// Writes a text, which is the parts one after the other, and fills its last word with zeros.
    pub(super) fn write_text(&self, mut at: usize, parts: &[&[u8]]) {
        let mut put = |bytes: [u8; 8]| {
            self[at].store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
            at += 1;
        };
        let (mut word, mut filled) = ([0; 8], 0);
        for part in parts {
            // What completes the word that the part before began.
            let missing = if filled == 0 { 0 } else { part.len().min(8 - filled) };
            let (start, rest) = part.split_at(missing);
            word[filled..filled + missing].copy_from_slice(start);
            filled += missing;
            if filled == 8 {
                put(word);
                filled = 0;
            }
            let (words, end) = rest.as_chunks();
            words.iter().for_each(|&bytes| put(bytes));
            word[filled..filled + end.len()].copy_from_slice(end);
            filled += end.len();
        }
        if filled > 0 {
            word[filled..].fill(0);
            put(word);
        }
    }

    /// Replaces `bytes` by a copy of some words.
    pub(super) fn copy_to(&self, words: Range<usize>, bytes: &mut Vec<u8>) {
        bytes.resize(words.len() * 8, 0);
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(&self[words]) {
            *place = word.load(Ordering::Relaxed).to_ne_bytes();
        }
    }

    /// Reads `N` words.
    pub(super) fn read_array<const N: usize>(&self, at: usize) -> [u64; N] {
        std::array::from_fn(|i| self.read(at + i))
    }

    /// Writes `N` words.
    pub(super) fn write_array<const N: usize>(&self, at: usize, words: [u64; N]) {
        words.into_iter().enumerate().for_each(|(i, word)| self.write(at + i, word));
    }
}

impl Deref for Words {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        match &self.0 {
            Memory::Shared(mapping) => mapping.words(),
            Memory::Private(words) => words,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_any_parts_are_joined() {
        let bytes: Vec<u8> = (1..=40).collect();
        for len in 0..=bytes.len() {
            for first in 0..=len {
                for second in first..=len {
                    let words = Words::private(6);
                    words.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
                    let parts = [&bytes[..first], &bytes[first..second], &bytes[second..len]];
                    words.write_text(0, &parts);
                    let mut copy = Vec::new();
                    words.copy_to(0..6, &mut copy);
                    assert_eq!(copy[..len], bytes[..len]);
                    assert!(copy[len..len.next_multiple_of(8)].iter().all(|&byte| byte == 0));
                    assert!(copy[len.next_multiple_of(8)..].iter().all(|&byte| byte == 0xff));
                }
            }
        }
    }

    #[test]
    fn both_mappings_have_the_same_words_and_the_size_is_fixed() {
        let (words, file) = Words::create(16).unwrap();
        let other = Words::open(file.as_fd(), 16).unwrap();
        words.release(3, 7);
        assert_eq!(other.acquire(3), 7);
        assert!(ftruncate(&file, 0).is_err());
        assert!(Words::open(file.as_fd(), 17).is_err());
        let unsealed = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&unsealed, 128).unwrap();
        assert!(Words::open(unsealed.as_fd(), 16).is_err());
    }
}
