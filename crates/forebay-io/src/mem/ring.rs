//! A bounded ring of packet slots between one writer and one reader.
//!
//! Positions count slots since the beginning and never wrap; a slot is a position modulo
//! the number of slots, a power of two. The writer owns the positions from `tail` up to
//! `free_until`, and publishes by storing `tail` (release). The reader takes runs of
//! positions in order and leases them out. Dropping a run's lease, on any thread and in any
//! order, stores the run's length (release) at the number of its first slot. When the
//! writer has used up its positions, it finds the next returned run there, as runs follow
//! one another without gaps. So neither side waits for the other, there are no locks, and a
//! run that is held long blocks only the slots behind it.
//!
//! A reader without packets marks itself asleep, checks again, and waits on an event
//! descriptor; a writer that publishes checks whether it must wake the reader. The fences
//! between store and load on each side ensure that at least one of them sees the other.
#![allow(unsafe_code, reason = "memory that two threads use by turns, as positions say")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use forebay_packet::{Lease, Region, fetch_value};
use rustix::event::{EventfdFlags, eventfd};

const LINE: usize = 64;

/// Offset of a packet within its slot: its EtherType starts a line.
const LEAD: usize = LINE - 12;

/// A value that no other value shares a cache line with.
#[repr(align(128))]
struct Apart<T>(T);

/// State shared by both ends.
struct Ring {
    /// The start of the slots, for writing.
    base: NonNull<u8>,
    region: Arc<Region>,
    stride: usize,
    slots: usize,
    tail: Apart<AtomicU64>,
    /// Lengths of returned runs, by first slot; 0 for none.
    returned: Box<[AtomicU32]>,
    asleep: Apart<AtomicBool>,
    event: OwnedFd,
    writer_gone: AtomicBool,
    reader_gone: AtomicBool,
}

// SAFETY: the memory behind `base` is written by the one `Writer` alone, only at positions
// that it owns as described above; everything else is atomic, or `Send` and `Sync` itself.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

/// The description of the packet in a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) cap_len: u32,
    pub(crate) wire_len: u32,
    pub(crate) ticks: u64,
}

/// Bytes of a [`Meta`], at the start of a slot.
const META: usize = 16;

/// The end that fills slots.
pub(crate) struct Writer {
    ring: Arc<Ring>,
    tail: u64,
    free_until: u64,
}

/// The end that takes runs of filled slots.
pub(crate) struct Reader {
    ring: Arc<Ring>,
    head: u64,
    slept: bool,
}

/// A run of slots taken by the reader.
pub(crate) struct Run {
    ring: Arc<Ring>,
    first: u64,
    len: u32,
}

/// A ring of `slots` slots, a power of two, for packets of up to `max_len` bytes.
pub(crate) fn new(slots: usize, max_len: usize) -> io::Result<(Writer, Reader)> {
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
    if !slots.is_power_of_two() {
        return Err(invalid("a ring has a power of two of slots"));
    }
    let too_big = || invalid("the ring is larger than 4 GiB");
    // An odd number of cache lines, so that packet headers do not share a few cache sets.
    let lines = max_len.checked_add(LEAD).ok_or_else(too_big)?.div_ceil(LINE) | 1;
    let len = lines.checked_mul(LINE).and_then(|stride| stride.checked_mul(slots));
    let len = len.filter(|&len| u32::try_from(len).is_ok()).ok_or_else(too_big)?;
    let mut memory = Region::new(len)?;
    let base = NonNull::from(memory.bytes_mut()).cast::<u8>();
    // SAFETY: `memory` maps `len` bytes and the guard for as long as it is kept, here as
    // the owner.
    let region = Arc::new(unsafe { Region::shared(base, len, Box::new(memory)) });
    let ring = Arc::new(Ring {
        base,
        region,
        stride: lines * LINE,
        slots,
        tail: Apart(AtomicU64::new(0)),
        returned: (0..slots).map(|_| AtomicU32::new(0)).collect(),
        asleep: Apart(AtomicBool::new(false)),
        event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        writer_gone: AtomicBool::new(false),
        reader_gone: AtomicBool::new(false),
    });
    let writer = Writer { ring: Arc::clone(&ring), tail: 0, free_until: slots as u64 };
    Ok((writer, Reader { ring, head: 0, slept: false }))
}

impl Ring {
    /// The number of the slot at a position.
    fn slot(&self, position: u64) -> usize {
        position as usize & (self.slots - 1)
    }

    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.0.load(Ordering::Relaxed) && self.asleep.0.swap(false, Ordering::Relaxed) {
            // It fails only if the descriptor is readable already.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }
}

impl Writer {
    /// The buffer of the next slot; `None` while all slots are in use.
    #[inline]
    pub(crate) fn slot(&mut self) -> Option<&mut [u8]> {
        if self.tail == self.free_until && !self.reclaim() {
            return None;
        }
        let ring = &*self.ring;
        let at = ring.slot(self.tail) * ring.stride;
        // SAFETY: a slot within the memory, at a position that the writer owns; what is
        // borrowed is given back before `fill` gives the position away.
        Some(unsafe {
            slice::from_raw_parts_mut(ring.base.as_ptr().add(at + LEAD), ring.stride - LEAD)
        })
    }

    /// Takes back the slots of dropped runs. Returns false if there are none.
    fn reclaim(&mut self) -> bool {
        let ring = &*self.ring;
        let before = self.free_until;
        while self.free_until - before < ring.slots as u64 {
            let returned = &ring.returned[ring.slot(self.free_until)];
            let len = returned.load(Ordering::Acquire);
            if len == 0 {
                break;
            }
            returned.store(0, Ordering::Relaxed);
            self.free_until += u64::from(len);
        }
        self.free_until != before
    }

    /// Describes the packet written to the slot returned by [`Self::slot`], and advances.
    ///
    /// # Panics
    /// If all slots are in use.
    #[inline]
    pub(crate) fn fill(&mut self, meta: Meta) {
        assert!(self.tail < self.free_until, "no slot was given");
        let ring = &*self.ring;
        let at = ring.slot(self.tail) * ring.stride;
        // SAFETY: the start of a slot at a position that the writer owns, aligned to a
        // line; a slot has room for it before `LEAD`.
        unsafe { ring.base.as_ptr().add(at).cast::<[u8; META]>().write(meta.to_bytes()) };
        self.tail += 1;
    }

    /// Publishes the filled slots.
    #[inline]
    pub(crate) fn publish(&mut self) {
        self.ring.tail.0.store(self.tail, Ordering::Release);
        self.ring.wake();
    }

    /// Filled slots that have not returned, as of the last check.
    pub(crate) fn held(&mut self) -> u64 {
        self.reclaim();
        self.tail + self.ring.slots as u64 - self.free_until
    }

    /// Whether the reader was dropped.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.ring.reader_gone.load(Ordering::Relaxed)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.ring.writer_gone.store(true, Ordering::Release);
        self.ring.wake();
    }
}

impl Reader {
    /// Up to `most` filled slots; `None` if there are none.
    pub(crate) fn take(&mut self, most: usize) -> Option<Run> {
        let ready = self.ready();
        if ready == 0 {
            return None;
        }
        let len = ready.min(most as u64).min(u64::from(u32::MAX)) as u32;
        let run = Run { ring: Arc::clone(&self.ring), first: self.head, len };
        self.head += u64::from(len);
        Some(run)
    }

    /// Filled slots that were not taken. Marks the reader asleep if there are none.
    fn ready(&mut self) -> u64 {
        let filled = |reader: &Self| reader.ring.tail.0.load(Ordering::Acquire) - reader.head;
        let ready = filled(self);
        if ready != 0 {
            if self.slept {
                self.slept = false;
                if !self.ring.asleep.0.swap(false, Ordering::Relaxed) {
                    self.clear_event();
                }
            }
            return ready;
        }
        if self.slept {
            // The wake-up may have been for packets that were taken already.
            self.clear_event();
        }
        self.slept = true;
        self.ring.asleep.0.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        filled(self)
    }

    fn clear_event(&self) {
        // It fails only if there was no event.
        let _ = rustix::io::read(&self.ring.event, &mut [0_u8; 8]);
    }

    /// Whether no packets will arrive except those in the ring.
    pub(crate) fn is_ending(&self) -> bool {
        self.ring.writer_gone.load(Ordering::Acquire)
    }

    /// Becomes readable when a sleeping reader has packets.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.ring.event.as_fd()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.ring.reader_gone.store(true, Ordering::Relaxed);
    }
}

impl Run {
    /// The offset in the region and the description of each packet.
    pub(crate) fn packets(&self) -> impl ExactSizeIterator<Item = (u32, Meta)> + '_ {
        (0..self.len).map(|i| {
            let at = self.ring.slot(self.first + u64::from(i)) * self.ring.stride;
            // SAFETY: the start of a slot that was filled before `tail` was read, and that
            // the writer does not get back while `self` lives.
            let meta = unsafe { self.ring.base.as_ptr().add(at).cast::<[u8; META]>().read() };
            // All offsets in the region fit 32 bits, as `new` checked.
            ((at + LEAD) as u32, Meta::from_bytes(meta))
        })
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let ring = &*self.ring;
        ring.returned[ring.slot(self.first)].store(self.len, Ordering::Release);
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("first", &self.first).field("len", &self.len).finish()
    }
}

// SAFETY: the writer writes to slots at positions that it owns, and the run's are not its
// until the run is dropped. A packet is in its own slot, behind what describes it.
unsafe impl Lease for Run {
    fn region(&self) -> &Arc<Region> {
        &self.ring.region
    }

    #[inline]
    fn holds(&self, i: usize, start: usize, len: usize) -> bool {
        let Ring { stride, .. } = *self.ring;
        let at = self.ring.slot(self.first + i as u64) * stride + LEAD;
        i < self.len as usize && start == at && len <= stride - LEAD
    }
}

impl Meta {
    fn to_bytes(self) -> [u8; META] {
        let mut bytes = [0; META];
        bytes[..4].copy_from_slice(&self.cap_len.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.wire_len.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.ticks.to_ne_bytes());
        bytes
    }

    fn from_bytes([a, b, c, d, e, f, g, h, ticks @ ..]: [u8; META]) -> Self {
        Self {
            cap_len: u32::from_ne_bytes([a, b, c, d]),
            wire_len: u32::from_ne_bytes([e, f, g, h]),
            ticks: u64::from_ne_bytes(ticks),
        }
    }
}

/// Prefetches the cache line of the first byte and, of at most 128 bytes, that of the last.
#[inline]
pub(crate) fn prefetch(bytes: &[u8]) {
    bytes.first().into_iter().for_each(fetch_value);
    prefetch_end(bytes);
}

/// Prefetches only that of the last.
#[inline]
pub(crate) fn prefetch_end(bytes: &[u8]) {
    bytes[..bytes.len().min(2 * LINE)].last().into_iter().for_each(fetch_value);
}
