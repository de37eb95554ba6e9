//! Blocks that readers follow while a writer adds more.
#![allow(unsafe_code, reason = "cells that are written once and read only afterwards")]

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A list of fixed capacity that only grows. What is in it does not change and
/// does not move, so that readers need no lock.
pub(crate) struct Arena<T> {
    cells: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// How many cells, from the first, have been written.
    len: AtomicUsize,
    writer: Mutex<()>,
}

// SAFETY: a cell is written once, under the lock and before `len` passes it, and
// only read afterwards; so between threads there are shared references and
// values that are moved in, as in a vector behind a lock.
unsafe impl<T: Send + Sync> Sync for Arena<T> {}

/// There is no room for a change: the list has to be built anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl<T: Copy> Arena<T> {
    /// `items`, and room for so many more.
    pub fn new(items: Vec<T>, spare: usize) -> Self {
        let len = items.len();
        let written = items.into_iter().map(|item| UnsafeCell::new(MaybeUninit::new(item)));
        let empty = std::iter::repeat_with(|| UnsafeCell::new(MaybeUninit::uninit())).take(spare);
        Self {
            cells: written.chain(empty).collect(),
            len: AtomicUsize::new(len),
            writer: Mutex::new(()),
        }
    }

    /// Adds `item`, and returns its place.
    ///
    /// # Errors
    /// If there is no room.
    pub fn push(&self, item: T) -> Result<u32, Full> {
        // A panic under the lock leaves nothing half done.
        let _writer = self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let at = self.len.load(Ordering::Relaxed);
        let cell = self.cells.get(at).ok_or(Full)?;
        // SAFETY: no thread reads a cell at or behind `len`, and the lock keeps
        // other writers out.
        unsafe { (*cell.get()).write(item) };
        self.len.store(at + 1, Ordering::Release);
        Ok(at as u32)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// How many more fit.
    pub fn spare(&self) -> usize {
        self.cells.len() - self.len()
    }

    /// Bytes of all cells, also of those that are free.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.cells[..])
    }

    /// The one at `at`.
    ///
    /// # Panics
    /// If there is none.
    pub fn get(&self, at: u32) -> &T {
        assert!((at as usize) < self.len(), "a block there is");
        // SAFETY: below `len` all cells are written and never written again.
        unsafe { self.cells().get_unchecked(at) }
    }

    /// The cells, for many look-ups.
    #[inline]
    pub fn cells(&self) -> Cells<'_, T> {
        Cells(&self.cells)
    }
}

/// The cells of an [`Arena`].
#[derive(Clone, Copy)]
pub(crate) struct Cells<'a, T>(&'a [UnsafeCell<MaybeUninit<T>>]);

impl<'a, T: Copy> Cells<'a, T> {
    /// What is at `at`.
    ///
    /// # Safety
    /// `at` was given by [`Arena::push`], or is below the number of items that
    /// the arena was made of, and came to this thread by synchronisation.
    #[inline]
    pub unsafe fn get_unchecked(self, at: u32) -> &'a T {
        // SAFETY: such a cell is written and never written again.
        unsafe { (*self.0.get_unchecked(at as usize).get()).assume_init_ref() }
    }
}
