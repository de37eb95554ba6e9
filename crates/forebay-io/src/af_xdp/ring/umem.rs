//! Frames, their ownership and their memory.
#![allow(unsafe_code, reason = "memory that the kernel reads and writes by turns with us")]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_packet::Region;
use rustix::net::sockopt::set_xdp_umem_reg;
use rustix::net::xdp::{XdpUmemReg, XdpUmemRegFlags};

/// The right to use one frame, as a unique value: the frame's number in this process.
#[derive(Debug)]
pub(crate) struct Frame(u64);

/// Frames with consecutive numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frames {
    pub(super) first: u64,
    pub(super) count: u32,
}

impl Frames {
    /// A frame's number within these.
    ///
    /// # Panics
    /// If it is not one of these.
    #[inline]
    fn number_of(self, frame: &Frame) -> u32 {
        let number = frame.0.wrapping_sub(self.first);
        assert!(number < u64::from(self.count), "a frame of another ring or memory");
        number as u32
    }

    /// All frames, to be called once.
    pub(super) fn all(self) -> impl Iterator<Item = Frame> {
        (self.first..self.first + u64::from(self.count)).map(Frame)
    }
}

/// The number of the next frame to be created.
static NEXT_FRAME: AtomicU64 = AtomicU64::new(0);

/// The frames of a socket, as memory.
pub(crate) struct Umem {
    base: NonNull<u8>,
    pub(super) region: Arc<Region>,
    pub(super) frame_len: u32,
    pub(super) frames: Frames,
}

// SAFETY: the memory is reached by packets of leased batches, which are not written, and
// by `Umem::bytes_mut`, which takes the one `Frame` that there is of what it gives.
unsafe impl Send for Umem {}
// SAFETY: as above.
unsafe impl Sync for Umem {}

impl Umem {
    /// Memory for `frames` frames, each a power of two of bytes.
    pub(super) fn new(frame_len: u32, frames: u32) -> io::Result<Self> {
        let len = u64::from(frame_len) * u64::from(frames);
        if !frame_len.is_power_of_two() || u32::try_from(len).is_err() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut memory = Region::new(len as usize)?;
        let base = NonNull::from(memory.bytes_mut()).cast::<u8>();
        // SAFETY: `memory` maps that many bytes and the guard while it is kept, here as
        // the owner.
        let region = Arc::new(unsafe { Region::shared(base, len as usize, Box::new(memory)) });
        let first = NEXT_FRAME.fetch_add(u64::from(frames), Ordering::Relaxed);
        Ok(Self { base, region, frame_len, frames: Frames { first, count: frames } })
    }

    /// Registers this memory with a socket. The kernel keeps the pages as long as it needs
    /// them.
    pub(super) fn register(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let registration = XdpUmemReg {
            addr: self.base.as_ptr() as u64,
            len: self.region.len() as u64,
            chunk_size: self.frame_len,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        Ok(set_xdp_umem_reg(socket, registration)?)
    }

    /// The frame's memory.
    ///
    /// # Panics
    /// If the frame belongs to another memory.
    pub(crate) fn bytes_mut<'a>(&'a self, frame: &'a mut Frame) -> &'a mut [u8] {
        let at = self.address(frame) as usize;
        // SAFETY: within the memory, as all its frames are. There is one `Frame` for each, and
        // it is borrowed here, so the frame is in no ring and in no lease.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr().add(at), self.frame_len as usize) }
    }

    /// The offset of a frame.
    #[inline]
    pub(super) fn address(&self, frame: &Frame) -> u64 {
        self.address_of_one(self.frames, frame)
    }

    /// The offset of one of some frames of this memory.
    #[inline]
    pub(super) fn address_of_one(&self, of: Frames, frame: &Frame) -> u64 {
        let number = of.first - self.frames.first + u64::from(of.number_of(frame));
        number * u64::from(self.frame_len)
    }

    /// The frame that contains an address returned by the kernel, and its number here.
    pub(super) fn frame_at(&self, address: u64) -> Option<(u32, Frame)> {
        let number = address / u64::from(self.frame_len);
        let is_here = number < u64::from(self.frames.count);
        is_here.then(|| (number as u32, Frame(self.frames.first + number)))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn panics<T>(what: impl FnOnce() -> T) -> bool {
        catch_unwind(AssertUnwindSafe(|| drop(what()))).is_err()
    }

    #[test]
    fn a_frame_is_of_one_memory() {
        let (first, second) = (Umem::new(2048, 4).unwrap(), Umem::new(2048, 4).unwrap());
        for mut frame in second.frames.all() {
            assert_eq!(second.bytes_mut(&mut frame).len(), 2048);
            assert!(panics(|| first.bytes_mut(&mut frame).len()));
        }
        let (number, frame) = first.frame_at(3 * 2048 + 256).unwrap();
        assert_eq!((number, first.address(&frame)), (3, 3 * 2048));
        assert!(first.frame_at(4 * 2048).is_none());
    }
}
