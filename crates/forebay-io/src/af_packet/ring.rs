//! Memory that packet sockets share with the kernel: a receive ring of blocks, and a
//! transmit ring of slots (Documentation/networking/packet_mmap.rst).
//!
//! A status word has the owner of a block or slot. Kernel and user space store it after all
//! their other writes; loads of it acquire and stores release, so each side sees the memory
//! as the other left it.
//!
//! A block from the kernel is a [`Block`], of which there is one at a time for each number:
//! while it lives the kernel does not write to the block, and only its owner may. Dropping
//! it returns the block. A slot belongs to us unless its status is "to be sent" or
//! "sending"; between two system calls the kernel only completes sending.
#![allow(unsafe_code, reason = "memory that the kernel writes to by turns with us")]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use forebay_packet::{Lease, Region, TAIL_GUARD};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

const PAGE: usize = 4096;

/// The mapping of a socket's ring and one page after it.
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: what threads may do with the memory is up to the types that own a mapping; the
// mapping itself is never changed until it is dropped.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a socket's whole ring, `len` bytes in whole pages. The mapping keeps the socket
    /// alive.
    fn new(socket: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        const _: () = assert!(TAIL_GUARD <= PAGE);
        if len == 0 || !len.is_multiple_of(PAGE) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let private = MapFlags::PRIVATE;
        // SAFETY: a new mapping at an address of the kernel's choosing.
        let base =
            unsafe { mmap_anonymous(ptr::null_mut(), len + PAGE, ProtFlags::READ, private)? };
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: replaces the first `len` bytes of the mapping just made, which nothing
        // refers to, and leaves its last page behind them.
        let ring = unsafe { mmap(base, len, both, MapFlags::SHARED | MapFlags::FIXED, socket, 0) };
        let mapped = NonNull::new(base.cast()).map(|base| Self { base, len });
        // Dropped, and so unmapped, if mapping the ring failed.
        ring?;
        mapped.ok_or_else(|| io::Error::other("the system mapped memory at address zero"))
    }

    /// The word at byte `at`, which must be a multiple of four.
    fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.len, "a status outside of the ring");
        // SAFETY: in the mapping and aligned, as checked; it is accessed by atomic loads
        // and stores alone while it is borrowed.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at).cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, unmapped only here; what points into it
        // keeps the owner.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len + PAGE) };
    }
}

/// Offset of a block's status word, and its bit for "owned by user space".
const BLOCK_STATUS: usize = 8;
const USER: u32 = 1;
const KERNEL: u32 = 0;

/// State shared by a ring and its blocks.
struct Blocks {
    mapping: Mapping,
    block_len: usize,
    /// Which blocks are in use.
    out: Box<[AtomicBool]>,
}

/// A receive ring.
pub(super) struct BlockRing {
    blocks: Arc<Blocks>,
    region: Arc<Region>,
    next: usize,
}

/// A block from the kernel.
pub(super) struct Block {
    blocks: Arc<Blocks>,
    region: Arc<Region>,
    index: usize,
}

impl BlockRing {
    /// Maps the receive ring of a socket that has one of this size, and no other ring.
    pub(super) fn map(socket: BorrowedFd<'_>, block_len: usize, count: usize) -> io::Result<Self> {
        let mapping = Mapping::new(socket, block_len * count)?;
        let (base, len) = (mapping.base, mapping.len);
        let out = (0..count).map(|_| AtomicBool::new(false)).collect();
        let blocks = Arc::new(Blocks { mapping, block_len, out });
        // SAFETY: `len` bytes and the page behind them are mapped while `blocks` lives.
        let region = Arc::new(unsafe { Region::shared(base, len, Box::new(Arc::clone(&blocks))) });
        Ok(Self { blocks, region, next: 0 })
    }

    /// The next block, if the kernel has handed it over.
    pub(super) fn take(&mut self) -> Option<Block> {
        let blocks = &self.blocks;
        let index = self.next;
        if blocks.out[index].load(Ordering::Acquire) {
            return None;
        }
        let status = blocks.mapping.word(index * blocks.block_len + BLOCK_STATUS);
        if status.load(Ordering::Acquire) & USER == 0 {
            return None;
        }
        blocks.out[index].store(true, Ordering::Relaxed);
        self.next = if index + 1 == blocks.out.len() { 0 } else { index + 1 };
        Some(Block { blocks: Arc::clone(blocks), region: Arc::clone(&self.region), index })
    }
}

impl Block {
    /// The offset of the block in the region.
    pub(super) fn offset(&self) -> usize {
        self.index * self.blocks.block_len
    }

    /// The block's bytes. A shared block is not mutable.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: a block within the mapping. It is ours by its status, there is no other
        // `Block` of this number by `out`, and batches over it share this one.
        unsafe {
            let start = self.blocks.mapping.base.as_ptr().add(self.offset());
            slice::from_raw_parts_mut(start, self.blocks.block_len)
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let status = self.blocks.mapping.word(self.offset() + BLOCK_STATUS);
        status.store(KERNEL, Ordering::Release);
        self.blocks.out[self.index].store(false, Ordering::Release);
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block").field("index", &self.index).finish_non_exhaustive()
    }
}

// SAFETY: the kernel writes to no block that it has handed over, until its `Block` gives it
// back; we write by `bytes_mut` alone, which needs the `Block` for itself.
unsafe impl Lease for Block {
    fn region(&self) -> &Arc<Region> {
        &self.region
    }

    #[inline]
    fn holds(&self, _: usize, start: usize, len: usize) -> bool {
        let at = start.checked_sub(self.offset());
        at.and_then(|at| at.checked_add(len)).is_some_and(|end| end <= self.blocks.block_len)
    }
}

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    /// Owned by user space, empty or sent.
    Free,
    /// Filled, to be sent by the next system call.
    Waiting,
    /// In use by the kernel.
    Sending,
    /// Filled, refused by the kernel.
    Refused,
}

/// Bits of a slot's status (linux/if_packet.h).
const SEND_REQUEST: u32 = 1;
const SENDING: u32 = 2;
const WRONG_FORMAT: u32 = 4;

/// Offset in a slot of the `virtio_net_hdr` before its packet, after `tpacket2_hdr`,
/// aligned.
const OFFLOAD_AT: usize = 32;

/// Bytes of a `virtio_net_hdr`.
const OFFLOAD: usize = 10;

/// Bytes from a slot's start to its packet.
pub(super) const SLOT_HEADER: usize = OFFLOAD_AT + OFFLOAD;

/// Packets up to this length are copied by the kernel. Of longer ones it sends the slot's
/// pages, which a virtual device copies anyway, page by page.
const MOST_COPIED: usize = 2048;

/// Offset in a slot of the packet's length.
const SLOT_LEN: usize = 4;

/// A transmit ring. Slots are identified by their numbers.
pub(super) struct SlotRing {
    mapping: Mapping,
    block_len: usize,
    slot_len: usize,
    slots: usize,
}

impl SlotRing {
    /// Maps the transmit ring of a socket that has one of this size, and no other ring,
    /// with a `virtio_net_hdr` before each packet.
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        block_len: usize,
        blocks: usize,
        slot_len: usize,
    ) -> io::Result<Self> {
        if slot_len <= SLOT_HEADER || !slot_len.is_multiple_of(16) || slot_len > block_len {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mapping = Mapping::new(socket, block_len * blocks)?;
        Ok(Self { mapping, block_len, slot_len, slots: block_len / slot_len * blocks })
    }

    /// The number of slots.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// The offset of a slot. Slots do not cross block boundaries.
    fn at(&self, slot: usize) -> usize {
        let in_a_block = self.block_len / self.slot_len;
        slot / in_a_block * self.block_len + slot % in_a_block * self.slot_len
    }

    /// The state of the slot.
    pub(super) fn state(&self, slot: usize) -> SlotState {
        let status = self.mapping.word(self.at(slot)).load(Ordering::Acquire);
        match status {
            _ if status & SENDING != 0 => SlotState::Sending,
            _ if status & WRONG_FORMAT != 0 => SlotState::Refused,
            _ if status & SEND_REQUEST != 0 => SlotState::Waiting,
            _ => SlotState::Free,
        }
    }

    /// The slot's buffer for a packet.
    ///
    /// # Panics
    /// If the kernel uses the slot.
    pub(super) fn packet_mut(&mut self, slot: usize) -> &mut [u8] {
        assert_ne!(self.state(slot), SlotState::Sending, "a slot that is being sent");
        let at = self.at(slot) + SLOT_HEADER;
        assert!(at + self.slot_len - SLOT_HEADER <= self.mapping.len, "no such slot");
        // SAFETY: within the mapping, as checked. The kernel reads a slot during a system
        // call of ours, or after it while its status says so, and never writes a packet.
        unsafe {
            let start = self.mapping.base.as_ptr().add(at);
            slice::from_raw_parts_mut(start, self.slot_len - SLOT_HEADER)
        }
    }

    /// The length of the slot's packet.
    pub(super) fn len(&self, slot: usize) -> usize {
        let len = self.mapping.word(self.at(slot) + SLOT_LEN).load(Ordering::Relaxed) as usize;
        len.saturating_sub(OFFLOAD)
    }

    /// Marks the slot's packet to be sent by the next system call.
    pub(super) fn submit(&mut self, slot: usize, len: usize) {
        let at = self.at(slot);
        // Flags and kind of segmentation: none; then the length of the headers, which is
        // how much the kernel copies. The bytes after it stay 0.
        let copied = if len <= MOST_COPIED { len as u16 } else { 0 };
        let [low, high] = copied.to_ne_bytes();
        let offload = u32::from_ne_bytes([0, 0, low, high]);
        self.mapping.word(at + OFFLOAD_AT).store(offload, Ordering::Relaxed);
        self.mapping.word(at + SLOT_LEN).store((len + OFFLOAD) as u32, Ordering::Relaxed);
        self.mapping.word(at).store(SEND_REQUEST, Ordering::Release);
    }

    /// Withdraws a slot that was not sent.
    ///
    /// # Panics
    /// If the kernel uses the slot.
    pub(super) fn withdraw(&mut self, slot: usize) {
        assert_ne!(self.state(slot), SlotState::Sending, "a slot that is being sent");
        self.mapping.word(self.at(slot)).store(KERNEL, Ordering::Release);
    }
}
