//! A list that grows without moving what it has.

use crate::table::memory::advise_huge_pages;

/// Bytes of a chunk. Of its eight huge pages, seven at least lie in it whole.
const CHUNK: usize = 16 << 20;

/// Values by number, in chunks of memory that is touched only as they come.
#[derive(Debug)]
pub(super) struct Chunks<T> {
    chunks: Vec<Vec<T>>,
    huge_pages: bool,
}

impl<T> Chunks<T> {
    /// Values of a chunk.
    const EACH: usize = CHUNK / size_of::<T>();

    /// Empty; on huge pages if that is wanted and the system has them.
    pub(super) fn new(huge_pages: bool) -> Self {
        Self { chunks: Vec::new(), huge_pages }
    }

    pub(super) fn len(&self) -> usize {
        let last = self.chunks.last().map_or(0, Vec::len);
        self.chunks.len().saturating_sub(1) * Self::EACH + last
    }

    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&T> {
        self.chunks.get(number / Self::EACH)?.get(number % Self::EACH)
    }

    pub(super) fn push(&mut self, value: T) {
        match self.chunks.last_mut().filter(|chunk| chunk.len() < Self::EACH) {
            Some(chunk) => chunk.push(value),
            None => {
                let mut chunk = Vec::with_capacity(Self::EACH);
                if self.huge_pages {
                    advise_huge_pages(chunk.spare_capacity_mut());
                }
                chunk.push(value);
                self.chunks.push(chunk);
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }
}

impl<T> std::ops::Index<usize> for Chunks<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: usize) -> &T {
        &self.chunks[number / Self::EACH][number % Self::EACH]
    }
}

impl<T> std::ops::IndexMut<usize> for Chunks<T> {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut T {
        &mut self.chunks[number / Self::EACH][number % Self::EACH]
    }
}
