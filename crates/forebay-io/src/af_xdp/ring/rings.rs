//! The four rings of a socket, and packets in frames taken from one.
#![allow(unsafe_code, reason = "memory that the kernel reads and writes by turns with us")]

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use forebay_packet::{Lease, Region};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::sockopt::{
    set_xdp_rx_ring_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size,
    set_xdp_umem_fill_ring_size, xdp_mmap_offsets,
};
use rustix::net::xdp::{
    XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING,
    XdpMmapOffsets, XdpRingOffset,
};

use super::umem::{Frame, Frames, Umem};

/// A descriptor of a packet (`xdp_desc` in linux/if_xdp.h).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Descriptor {
    address: u64,
    len: u32,
    options: u32,
}

/// The packet continues in the next descriptor.
const CONTINUED: u32 = 1;

/// The kernel sleeps until a system call wakes it.
const NEED_WAKEUP: u32 = 1;

/// One of the four kinds of rings: the option that sets its size, which the kernel allows
/// once, and its location.
struct Kind {
    set_size: fn(BorrowedFd<'_>, u32) -> rustix::io::Result<()>,
    offset: fn(XdpMmapOffsets) -> XdpRingOffset,
    page_offset: u64,
}

const FILL: Kind = Kind {
    set_size: |fd, size| set_xdp_umem_fill_ring_size(fd, size),
    offset: |at| at.fr,
    page_offset: XDP_UMEM_PGOFF_FILL_RING,
};
const COMPLETION: Kind = Kind {
    set_size: |fd, size| set_xdp_umem_completion_ring_size(fd, size),
    offset: |at| at.cr,
    page_offset: XDP_UMEM_PGOFF_COMPLETION_RING,
};
const RECEIVE: Kind = Kind {
    set_size: |fd, size| set_xdp_rx_ring_size(fd, size),
    offset: |at| at.rx,
    page_offset: XDP_PGOFF_RX_RING,
};
const TRANSMIT: Kind = Kind {
    set_size: |fd, size| set_xdp_tx_ring_size(fd, size),
    offset: |at| at.tx,
    page_offset: XDP_PGOFF_TX_RING,
};

/// A ring of entries `T`, mapped.
struct Ring<T> {
    base: NonNull<u8>,
    mapped: usize,
    offset: XdpRingOffset,
    size: u32,
    umem: Arc<Umem>,
    entries: PhantomData<T>,
}

// SAFETY: each ring has one owner on our side, which alone moves our position and reads or
// writes entries that are ours by the two positions; the positions are atomic.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Creates a ring of `size` entries, which must be a power of two, and maps it. The
    /// mapping keeps the socket alive.
    fn map(socket: BorrowedFd<'_>, umem: &Arc<Umem>, kind: &Kind, size: u32) -> io::Result<Self> {
        (kind.set_size)(socket, size)?;
        let (offset, page_offset) = ((kind.offset)(xdp_mmap_offsets(socket)?), kind.page_offset);
        let mapped = offset.desc as usize + size as usize * size_of::<T>();
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choosing.
        let base = unsafe { mmap(ptr::null_mut(), mapped, both, flags, socket, page_offset)? };
        let base = NonNull::new(base.cast())
            .ok_or_else(|| io::Error::other("the system mapped memory at address zero"))?;
        Ok(Self { base, mapped, offset, size, umem: Arc::clone(umem), entries: PhantomData })
    }

    fn word(&self, at: u64) -> &AtomicU32 {
        // SAFETY: a position or the flags, where the kernel said they are in the ring that
        // was mapped; they are aligned, and accessed by atomic loads and stores alone.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at as usize).cast()) }
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.offset.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.offset.consumer)
    }

    /// The address of the entry at a position.
    fn entry(&self, position: u32) -> *mut T {
        let index = (position & (self.size - 1)) as usize;
        // SAFETY: `size` entries were mapped from there on, and the index is below it.
        unsafe { self.base.as_ptr().add(self.offset.desc as usize).cast::<T>().add(index) }
    }

    /// The entry at a position between consumer and producer.
    fn read(&self, position: u32) -> T {
        // SAFETY: written before the producer's position was stored, and not written again
        // before ours is.
        unsafe { self.entry(position).read() }
    }

    /// Writes the entry at a free position.
    fn write(&mut self, position: u32, entry: T) {
        // SAFETY: the kernel reads it only after our position was stored, and is through
        // with what was there before, as its position said.
        unsafe { self.entry(position).write(entry) };
    }

    fn needs_wakeup(&self) -> bool {
        let flags = self.offset.flags.map(|flags| self.word(flags).load(Ordering::Relaxed));
        flags.is_none_or(|flags| flags & NEED_WAKEUP != 0)
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`, unmapped only here.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

/// Empty frames passed to the kernel.
pub(crate) struct FillRing {
    ring: Ring<u64>,
    /// The frames that may be put into it: no more than its entries.
    own: Frames,
    produced: u32,
}

impl FillRing {
    /// Creates the ring of a socket, for frames of `umem`, and puts them into it.
    pub(super) fn new(fd: BorrowedFd<'_>, umem: &Arc<Umem>, own: Frames) -> io::Result<Self> {
        let ring = Ring::map(fd, umem, &FILL, own.count.max(1))?;
        let mut fill = Self { ring, own, produced: 0 };
        fill.put(own.all());
        Ok(fill)
    }

    /// Passes frames to the kernel.
    ///
    /// # Panics
    /// If one was not created for this ring.
    pub(super) fn put(&mut self, frames: impl Iterator<Item = Frame>) {
        for frame in frames {
            let address = self.ring.umem.address_of_one(self.own, &frame);
            self.ring.write(self.produced, address);
            self.produced = self.produced.wrapping_add(1);
        }
        self.ring.producer().store(self.produced, Ordering::Release);
    }

    /// Whether the driver must be woken for new frames.
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// A fragment of a received packet.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Its frame.
    frame: Frame,
    /// Its offset in the region of all frames.
    offset: u32,
    /// Its length.
    pub(crate) len: u32,
    /// Whether the packet continues in the next fragment.
    pub(crate) continued: bool,
}

/// Fragments of packets in their frames, which return to the fill ring when this is
/// dropped.
pub(crate) struct Leased {
    umem: Arc<Umem>,
    fill: Arc<Mutex<FillRing>>,
    pieces: Vec<Piece>,
}

impl Leased {
    /// Fragments in frames of `umem`, which `fill` belongs to as well.
    pub(crate) fn new(umem: Arc<Umem>, fill: Arc<Mutex<FillRing>>, pieces: Vec<Piece>) -> Self {
        Self { umem, fill, pieces }
    }

    /// The offset in the region and the length of each fragment.
    pub(crate) fn places(&self) -> impl ExactSizeIterator<Item = (u32, u32)> + '_ {
        self.pieces.iter().map(|piece| (piece.offset, piece.len))
    }

    /// The content of each fragment.
    pub(crate) fn contents(&mut self) -> impl Iterator<Item = &[u8]> {
        let Self { umem, pieces, .. } = self;
        pieces.iter_mut().map(|piece| {
            let start = piece.offset as usize % umem.frame_len as usize;
            &umem.bytes_mut(&mut piece.frame)[start..][..piece.len as usize]
        })
    }
}

// SAFETY: a frame is in no ring while its `Frame` is here: neither the kernel writes to it
// nor, without the `Frame`, do we.
unsafe impl Lease for Leased {
    fn region(&self) -> &Arc<Region> {
        &self.umem.region
    }

    #[inline]
    fn holds(&self, i: usize, start: usize, len: usize) -> bool {
        let frame_len = self.umem.frame_len as usize;
        let of_frame = |piece: &Piece| {
            let at = start.checked_sub(self.umem.address(&piece.frame) as usize);
            at.and_then(|at| at.checked_add(len)).is_some_and(|end| end <= frame_len)
        };
        self.pieces.get(i).is_some_and(of_frame)
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        // The ring is consistent even after a panic with the lock held: positions are
        // stored last.
        let mut fill = self.fill.lock().unwrap_or_else(PoisonError::into_inner);
        fill.put(self.pieces.drain(..).map(|piece| piece.frame));
    }
}

impl std::fmt::Debug for Leased {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leased").field("pieces", &self.pieces).finish_non_exhaustive()
    }
}

/// Received packets from the kernel.
pub(crate) struct ReceiveRing {
    ring: Ring<Descriptor>,
    consumed: u32,
}

impl ReceiveRing {
    /// Creates the ring of a socket.
    pub(super) fn new(fd: BorrowedFd<'_>, umem: &Arc<Umem>, size: u32) -> io::Result<Self> {
        Ok(Self { ring: Ring::map(fd, umem, &RECEIVE, size)?, consumed: 0 })
    }

    /// Takes up to `most` fragments and prefetches the beginning of each: another processor
    /// wrote it last.
    pub(crate) fn take(&mut self, most: usize, pieces: &mut VecDeque<Piece>) {
        let produced = self.ring.producer().load(Ordering::Acquire);
        let ready = produced.wrapping_sub(self.consumed).min(most as u32);
        for _ in 0..ready {
            let Descriptor { address, len, options } = self.ring.read(self.consumed);
            self.consumed = self.consumed.wrapping_add(1);
            let umem = &self.ring.umem;
            let place = address % u64::from(umem.frame_len);
            let is_inside = place + u64::from(len) <= u64::from(umem.frame_len);
            if let Some((_, frame)) = umem.frame_at(address).filter(|_| is_inside) {
                let continued = options & CONTINUED != 0;
                umem.region.fetch(address as usize);
                pieces.push_back(Piece { frame, offset: address as u32, len, continued });
            }
        }
        self.ring.consumer().store(self.consumed, Ordering::Release);
    }
}

/// Packets passed to the kernel.
pub(crate) struct TransmitRing {
    ring: Ring<Descriptor>,
    /// The frames that may be put into it: no more than its entries.
    own: Frames,
    produced: u32,
}

impl TransmitRing {
    /// Creates the ring of a socket, for frames of `umem`.
    pub(super) fn new(fd: BorrowedFd<'_>, umem: &Arc<Umem>, own: Frames) -> io::Result<Self> {
        Ok(Self { ring: Ring::map(fd, umem, &TRANSMIT, own.count)?, own, produced: 0 })
    }

    /// Writes the descriptor of the packet at the start of a frame. The kernel sees it
    /// after [`Self::publish`], and refuses one longer than a frame.
    ///
    /// # Panics
    /// If the frame was not created for this ring.
    pub(crate) fn put(&mut self, frame: Frame, len: u32) {
        let address = self.ring.umem.address_of_one(self.own, &frame);
        self.ring.write(self.produced, Descriptor { address, len, options: 0 });
        self.produced = self.produced.wrapping_add(1);
    }

    /// Publishes the descriptors.
    pub(crate) fn publish(&mut self) {
        self.ring.producer().store(self.produced, Ordering::Release);
    }

    /// Packets that the kernel has not taken yet.
    pub(crate) fn waiting(&self) -> u32 {
        self.produced.wrapping_sub(self.ring.consumer().load(Ordering::Acquire))
    }

    /// Whether the kernel sends only during a system call.
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// Frames returned after they were sent.
pub(crate) struct CompletionRing {
    ring: Ring<u64>,
    consumed: u32,
}

impl CompletionRing {
    /// Creates the ring of a socket.
    pub(super) fn new(fd: BorrowedFd<'_>, umem: &Arc<Umem>, size: u32) -> io::Result<Self> {
        Ok(Self { ring: Ring::map(fd, umem, &COMPLETION, size)?, consumed: 0 })
    }

    /// Takes the completed frames, and calls `give` for each with its number in the memory.
    pub(crate) fn take(&mut self, mut give: impl FnMut(u32, Frame)) {
        let produced = self.ring.producer().load(Ordering::Acquire);
        let ready = produced.wrapping_sub(self.consumed);
        for _ in 0..ready {
            let address = self.ring.read(self.consumed);
            self.consumed = self.consumed.wrapping_add(1);
            if let Some((number, frame)) = self.ring.umem.frame_at(address) {
                give(number, frame);
            }
        }
        self.ring.consumer().store(self.consumed, Ordering::Release);
    }
}
