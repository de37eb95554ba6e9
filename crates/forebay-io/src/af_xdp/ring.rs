//! The memory that an `AF_XDP` socket shares with the kernel: its frames, and the four
//! rings that say whose they are (Documentation/networking/af_xdp.rst, "Concepts").
//!
//! A ring is an array of a power of two of entries and two positions that never wrap but
//! at 32 bits. The producer writes entries from its position on and then stores the
//! position (release); the consumer loads it (acquire), reads the entries, and stores its
//! own position (release), which the producer loads (acquire) before it writes there
//! again. Each side writes its own position only.
//!
//! A [`Frame`] is the right to use one frame's memory. There is one for each frame, made
//! with the memory; it cannot be copied. Putting it into a ring gives it to the kernel,
//! and the frame that comes out of a ring is made of the address the kernel gave back.
#![allow(unsafe_code, reason = "memory that the kernel reads and writes by turns with us")]

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use forebay_packet::{Lease, Region};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::sockopt::set_xdp_umem_reg;
use rustix::net::xdp::{XdpRingOffset, XdpUmemReg, XdpUmemRegFlags};

/// The right to use one frame, which goes with this value.
#[derive(Debug)]
pub(super) struct Frame(u32);

impl Frame {
    /// Its number.
    pub(super) fn number(&self) -> u32 {
        self.0
    }
}

/// The frames of a socket, as memory.
pub(super) struct Umem {
    base: NonNull<u8>,
    region: Arc<Region>,
    frame_len: u32,
    frames: u32,
}

// SAFETY: the memory is reached by packets of leased batches, which are not written, and
// by `Umem::bytes_mut`, which takes the one `Frame` that there is of what it gives.
unsafe impl Send for Umem {}
// SAFETY: as above.
unsafe impl Sync for Umem {}

impl Umem {
    /// Memory for so many frames, a power of two of bytes each, and the right to each.
    pub(super) fn new(frame_len: u32, frames: u32) -> io::Result<(Arc<Self>, Vec<Frame>)> {
        let len = u64::from(frame_len) * u64::from(frames);
        if !frame_len.is_power_of_two() || u32::try_from(len).is_err() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut memory = Region::new(len as usize)?;
        let base = NonNull::from(memory.bytes_mut()).cast::<u8>();
        // SAFETY: `memory` maps that many bytes and the guard while it is kept, here as
        // the owner.
        let region = Arc::new(unsafe { Region::shared(base, len as usize, Box::new(memory)) });
        let umem = Self { base, region, frame_len, frames };
        Ok((Arc::new(umem), (0..frames).map(Frame).collect()))
    }

    /// Has a socket use this memory. The kernel keeps the pages as long as it needs them.
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

    /// What a piece of a packet holds.
    fn piece<'a>(&'a self, piece: &'a mut Piece) -> &'a [u8] {
        let start = piece.offset as usize % self.frame_len as usize;
        &self.bytes_mut(&mut piece.frame)[start..][..piece.len as usize]
    }

    /// The frame's memory.
    pub(super) fn bytes_mut<'a>(&'a self, frame: &'a mut Frame) -> &'a mut [u8] {
        let at = frame.0 as usize * self.frame_len as usize;
        // SAFETY: within the memory, as all frames are; who has the one `Frame` of it has
        // it alone, for it is in no ring and in no lease.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr().add(at), self.frame_len as usize) }
    }

    /// Where a frame begins.
    fn address(&self, frame: Frame) -> u64 {
        u64::from(frame.0) * u64::from(self.frame_len)
    }

    /// The frame that holds an address which the kernel gave back.
    fn frame_at(&self, address: u64) -> Option<Frame> {
        let number = address / u64::from(self.frame_len);
        u32::try_from(number).ok().filter(|&number| number < self.frames).map(Frame)
    }
}

/// A descriptor of a packet (`xdp_desc` in linux/if_xdp.h).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Descriptor {
    address: u64,
    len: u32,
    options: u32,
}

/// The packet goes on in the next descriptor.
const CONTINUED: u32 = 1;

/// The kernel sleeps until it is called.
const NEED_WAKEUP: u32 = 1;

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
    /// Maps the ring of `size` entries that the socket has at `page_offset`. The mapping
    /// keeps the socket alive.
    fn map(
        socket: BorrowedFd<'_>,
        umem: &Arc<Umem>,
        offset: XdpRingOffset,
        size: u32,
        page_offset: u64,
    ) -> io::Result<Self> {
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

    /// The place of the entry at a position.
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

    /// Writes the entry at a position that is free.
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

/// A place of a ring within its socket, and what it is mapped with.
pub(super) struct Place<'a> {
    pub(super) socket: BorrowedFd<'a>,
    pub(super) umem: &'a Arc<Umem>,
    pub(super) offset: XdpRingOffset,
    pub(super) size: u32,
    pub(super) page_offset: u64,
}

impl Place<'_> {
    fn map<T: Copy>(&self) -> io::Result<Ring<T>> {
        Ring::map(self.socket, self.umem, self.offset, self.size, self.page_offset)
    }
}

/// Empty frames on their way to the kernel.
pub(super) struct FillRing {
    ring: Ring<u64>,
    produced: u32,
}

impl FillRing {
    /// Maps it. It must have a place for each frame that will ever be put into it.
    pub(super) fn map(place: &Place<'_>) -> io::Result<Self> {
        Ok(Self { ring: place.map()?, produced: 0 })
    }

    /// Gives frames to the kernel.
    pub(super) fn put(&mut self, frames: impl Iterator<Item = Frame>) {
        for frame in frames {
            let address = self.ring.umem.address(frame);
            self.ring.write(self.produced, address);
            self.produced = self.produced.wrapping_add(1);
        }
        self.ring.producer().store(self.produced, Ordering::Release);
    }

    /// Whether the driver waits to be told of new frames.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// A piece of a received packet.
#[derive(Debug)]
pub(super) struct Piece {
    /// The frame it is in.
    frame: Frame,
    /// Where it begins in the region of all frames.
    offset: u32,
    /// Its length.
    pub(super) len: u32,
    /// Whether the packet goes on in the next piece.
    pub(super) continued: bool,
}

/// Pieces of packets in their frames, which go back to the fill ring when this is dropped.
pub(super) struct Leased {
    umem: Arc<Umem>,
    fill: Arc<Mutex<FillRing>>,
    pieces: Vec<Piece>,
}

impl Leased {
    /// Pieces in frames of `umem`, which `fill` is for as well.
    pub(super) fn new(umem: Arc<Umem>, fill: Arc<Mutex<FillRing>>, pieces: Vec<Piece>) -> Self {
        Self { umem, fill, pieces }
    }

    /// Each piece's place in the region of all frames, and its length.
    pub(super) fn places(&self) -> impl ExactSizeIterator<Item = (u32, u32)> + '_ {
        self.pieces.iter().map(|piece| (piece.offset, piece.len))
    }

    /// What each piece holds.
    pub(super) fn contents(&mut self) -> impl Iterator<Item = &[u8]> {
        let Self { umem, pieces, .. } = self;
        pieces.iter_mut().map(|piece| umem.piece(piece))
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
            let at = start.checked_sub(piece.frame.0 as usize * frame_len);
            at.and_then(|at| at.checked_add(len)).is_some_and(|end| end <= frame_len)
        };
        self.pieces.get(i).is_some_and(of_frame)
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        // Whoever panicked with the lock left the ring whole: positions are stored last.
        let mut fill = self.fill.lock().unwrap_or_else(PoisonError::into_inner);
        fill.put(self.pieces.drain(..).map(|piece| piece.frame));
    }
}

impl std::fmt::Debug for Leased {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leased").field("pieces", &self.pieces).finish_non_exhaustive()
    }
}

/// Received packets on their way to us.
pub(super) struct ReceiveRing {
    ring: Ring<Descriptor>,
    consumed: u32,
}

impl ReceiveRing {
    /// Maps it.
    pub(super) fn map(place: &Place<'_>) -> io::Result<Self> {
        Ok(Self { ring: place.map()?, consumed: 0 })
    }

    /// Takes what is there, `most` pieces at the most, and has the beginning of each
    /// fetched: another processor wrote it last.
    pub(super) fn take(&mut self, most: usize, pieces: &mut VecDeque<Piece>) {
        let produced = self.ring.producer().load(Ordering::Acquire);
        let ready = produced.wrapping_sub(self.consumed).min(most as u32);
        for _ in 0..ready {
            let Descriptor { address, len, options } = self.ring.read(self.consumed);
            self.consumed = self.consumed.wrapping_add(1);
            let umem = &self.ring.umem;
            let place = address % u64::from(umem.frame_len);
            let is_inside = place + u64::from(len) <= u64::from(umem.frame_len);
            if let Some(frame) = umem.frame_at(address).filter(|_| is_inside) {
                let continued = options & CONTINUED != 0;
                umem.region.fetch(address as usize);
                pieces.push_back(Piece { frame, offset: address as u32, len, continued });
            }
        }
        self.ring.consumer().store(self.consumed, Ordering::Release);
    }
}

/// Packets on their way to the kernel.
pub(super) struct TransmitRing {
    ring: Ring<Descriptor>,
    produced: u32,
}

impl TransmitRing {
    /// Maps it. It must have a place for each frame that will ever be put into it.
    pub(super) fn map(place: &Place<'_>) -> io::Result<Self> {
        Ok(Self { ring: place.map()?, produced: 0 })
    }

    /// Writes the packet at the start of a frame. The kernel sees it after
    /// [`Self::publish`].
    pub(super) fn put(&mut self, frame: Frame, len: u32) {
        let address = self.ring.umem.address(frame);
        self.ring.write(self.produced, Descriptor { address, len, options: 0 });
        self.produced = self.produced.wrapping_add(1);
    }

    /// Lets the kernel have what was put.
    pub(super) fn publish(&mut self) {
        self.ring.producer().store(self.produced, Ordering::Release);
    }

    /// Packets that the kernel did not take yet.
    pub(super) fn waiting(&self) -> u32 {
        self.produced.wrapping_sub(self.ring.consumer().load(Ordering::Acquire))
    }

    /// Whether the kernel sends only when it is called.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// Frames on their way back after they were sent.
pub(super) struct CompletionRing {
    ring: Ring<u64>,
    consumed: u32,
}

impl CompletionRing {
    /// Maps it.
    pub(super) fn map(place: &Place<'_>) -> io::Result<Self> {
        Ok(Self { ring: place.map()?, consumed: 0 })
    }

    /// Takes back the frames that are through.
    pub(super) fn take(&mut self, frames: &mut Vec<Frame>) {
        let produced = self.ring.producer().load(Ordering::Acquire);
        let ready = produced.wrapping_sub(self.consumed);
        for _ in 0..ready {
            let address = self.ring.read(self.consumed);
            self.consumed = self.consumed.wrapping_add(1);
            frames.extend(self.ring.umem.frame_at(address));
        }
        self.ring.consumer().store(self.consumed, Ordering::Release);
    }
}
