//! Receives from a device with a ring of blocks.
//!
//! The losses of a receiver are the drops that the kernel counts for its socket: packets
//! for which no block was free. That 32-bit counter is reset when it is read; it is
//! therefore read every so many packets, and with each report. Losses in the device before
//! the socket are counted separately, in three counters that overlap neither with each
//! other nor with ours; they include those of other users of the device.
//!
//! Some frames that the device counts as received are discarded by the kernel before packet
//! sockets, without a counter: those with the EtherType of a VLAN tag and an incomplete tag
//! ([`super::undelivered`]).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_packet::{BATCH, Batch, Clock, Interface, PacketMeta};

use super::block::{self, Notes, RESERVE};
use super::ring::{Block, BlockRing};
use super::sys::{self, Number, Version};
use super::undelivered::{Socket, Undelivered};
use crate::device::{DeviceError, Link, Links, RxLosses};
use crate::error::Error;
use crate::port::{Received, Rx, RxCounters};

/// Options of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxOptions {
    /// Bytes of a block, a multiple of 4096 and at least 128 KiB, so that the longest
    /// packet fits. Packets are received in portions of a block, unless the retire time
    /// expires.
    pub block_len: u32,
    /// Blocks of the ring.
    pub blocks: u32,
    /// Milliseconds after which a partly filled block is handed over.
    pub retire_ms: u32,
    /// Whether the device receives all frames, regardless of their destination.
    pub promiscuous: bool,
}

impl Default for RxOptions {
    /// 32 MiB for a receiver, in small blocks: at a low packet rate each block holds the
    /// packets of one retire time, so that the number of blocks limits how long a reader
    /// may pause.
    fn default() -> Self {
        Self { block_len: MIN_BLOCK, blocks: 256, retire_ms: 1, promiscuous: true }
    }
}

/// The least block: the longest packet from the stack, with its headers.
const MIN_BLOCK: u32 = 128 << 10;

/// The action in errors of reading counters.
const READ: &str = "read its counters";

/// Packets between two readings of the kernel's counters, so that they do not wrap.
const READ_COUNTERS_EVERY: u64 = 1 << 20;

/// Statistics of a receiver besides packets and losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxNotes {
    /// Packets whose VLAN tag was put back.
    pub tags_restored: u64,
    /// Packets whose checksum was completed.
    pub checksums_completed: u64,
    /// Packets coalesced from several by an offload; too long for most outputs.
    pub glued: u64,
    /// Times that the ring was full.
    pub freezes: u64,
}

/// Receives packets from a device.
pub struct PacketRx {
    device: String,
    index: u32,
    /// Milliseconds after which the kernel hands over a partly filled block.
    retire_ms: u32,
    ring: BlockRing,
    socket: Arc<Socket>,
    interfaces: Arc<Vec<Interface>>,
    links: Links,
    /// The current block, and its packets.
    block: Option<Arc<Block>>,
    packets: Vec<PacketMeta>,
    given: usize,
    counters: RxCounters,
    notes: Notes,
    uncounted: u64,
    /// The losses of the device since the receiver was opened: damaged, missed and dropped
    /// frames.
    before: RxLosses,
    /// Shared by all receivers of the device's frames.
    undelivered: Arc<Mutex<Undelivered>>,
    state: DeviceState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeviceState {
    Open,
    /// The device was down, and may come back or be deleted. Packets received before may
    /// still arrive, and do not change that.
    Down,
    /// The device is gone since then; a last block may still arrive.
    Gone(Instant),
    Ended,
}

/// How long to wait for the last block after a device is gone: the kernel hands a block
/// over after `retire_ms`, with or without the device.
const LAST_BLOCK: Duration = Duration::from_millis(20);

impl PacketRx {
    /// Starts receiving all packets of `device`.
    ///
    /// # Errors
    /// If there is no such device, its packets are no Ethernet frames, the options are
    /// invalid, or a system call fails.
    pub fn open(device: &str, options: &RxOptions) -> Result<Self, Error> {
        let mut rx = Self::prepare(device, options)?;
        Self::start(std::slice::from_mut(&mut rx))?;
        Ok(rx)
    }

    /// Opens `members` receivers that share the packets of `device`. The BPF program, a
    /// socket filter, runs for each packet; its result modulo their number selects the
    /// member.
    ///
    /// # Errors
    /// As [`PacketRx::open`].
    pub fn open_group(
        device: &str,
        options: &RxOptions,
        members: usize,
        program: BorrowedFd<'_>,
    ) -> Result<Vec<Self>, Error> {
        let refused = || DeviceError::system(device, "share its packets by a BPF program");
        let mut receivers = Vec::with_capacity(members);
        let mut group = None;
        // No member receives packets before all have joined, so there are no duplicates and
        // no gaps.
        for _ in 0..members {
            let rx = Self::prepare(device, options)?;
            match group {
                None => {
                    group = Some(sys::make_group(rx.socket.as_fd()).map_err(refused())?);
                    sys::set_group_program(rx.socket.as_fd(), program).map_err(refused())?;
                }
                Some(group) => sys::join_group(rx.socket.as_fd(), group).map_err(refused())?,
            }
            receivers.push(rx);
        }
        Self::start(&mut receivers)?;
        Ok(receivers)
    }

    /// A bound receiver that discards packets.
    fn prepare(device: &str, options: &RxOptions) -> Result<Self, DeviceError> {
        check(device, options)?;
        let mut links = Links::open(device)?;
        let link = links.named(device)?.ethernet()?;
        let socket = socket_of(&link, options)?;
        let ring =
            BlockRing::map(socket.as_fd(), options.block_len as usize, options.blocks as usize)
                .map_err(DeviceError::system(device, "map its receive ring"))?;
        let interface = Interface {
            snap_len: 0,
            clock: Clock::NANOS,
            name: Some(device.to_owned()),
            ..Interface::default()
        };
        Ok(Self {
            device: device.to_owned(),
            index: link.index,
            ring,
            socket: Arc::new(Socket::new(socket)),
            interfaces: Arc::new(vec![interface]),
            links,
            block: None,
            packets: Vec::new(),
            given: 0,
            counters: RxCounters::default(),
            notes: Notes::default(),
            uncounted: 0,
            before: RxLosses::from(&link.stats),
            undelivered: Arc::default(),
            retire_ms: options.retire_ms,
            state: DeviceState::Open,
        })
    }

    /// Starts delivery to receivers that share a device's packets.
    fn start(all: &mut [Self]) -> Result<(), DeviceError> {
        let begin = "begin to receive";
        for rx in &*all {
            sys::admit(rx.socket.as_fd()).map_err(rx.refused(begin))?;
        }
        let sockets: Vec<_> = all.iter().map(|rx| Arc::clone(&rx.socket)).collect();
        let Some(first) = all.first_mut() else { return Ok(()) };
        let of = Undelivered::of(&sockets, || first.links.numbered(first.index));
        let of = Arc::new(Mutex::new(of.map_err(first.refused(begin))?));
        all.iter_mut().for_each(|rx| rx.undelivered = Arc::clone(&of));
        Ok(())
    }

    fn refused(&self, action: &'static str) -> impl FnOnce(std::io::Error) -> DeviceError {
        DeviceError::system(&self.device, action)
    }

    /// The interface list of its batches.
    #[must_use]
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Statistics besides the counters.
    #[must_use]
    pub fn notes(&self) -> RxNotes {
        RxNotes {
            tags_restored: self.notes.tags_restored,
            checksums_completed: self.notes.checksums_completed,
            glued: self.notes.glued,
            freezes: self.socket.sums().freezes,
        }
    }

    /// Takes the next non-empty block; returns whether there is one.
    fn take_block(&mut self) -> bool {
        while let Some(mut block) = self.ring.take() {
            self.packets.clear();
            self.given = 0;
            let base = block.offset();
            let notes = block::read(block.bytes_mut(), base, &mut self.packets);
            self.notes.tags_restored += notes.tags_restored;
            self.notes.checksums_completed += notes.checksums_completed;
            self.notes.glued += notes.glued;
            if !self.packets.is_empty() {
                self.block = Some(Arc::new(block));
                return true;
            }
        }
        false
    }

    /// A batch of the next packets of the block.
    fn next_batch(&mut self, block: Arc<Block>) -> Batch {
        let rest = &self.packets[self.given..];
        let packets = &rest[..rest.len().min(BATCH)];
        self.given += packets.len();
        if self.given < self.packets.len() {
            self.block = Some(Arc::clone(&block));
        }
        let interfaces = Arc::clone(&self.interfaces);
        let batch = Batch::leased(block, interfaces, packets.iter().copied());
        self.counters.bytes += batch.wire_bytes();
        self.counters.packets += batch.len() as u64;
        self.uncounted += batch.len() as u64;
        batch
    }

    /// Adds the kernel's counters since the last reading.
    fn read_statistics(&mut self) -> Result<(), DeviceError> {
        self.socket.read().map_err(self.refused(READ))?;
        self.uncounted = 0;
        Ok(())
    }

    /// Checks whether the state of the device explains the lack of packets.
    fn look_at_device(&mut self) -> Result<Received, Error> {
        let look = "look after it";
        let error = sys::take_error(self.socket.as_fd()).map_err(self.refused(look))?;
        match error {
            0 if self.state == DeviceState::Open => return Ok(Received::Idle),
            0 | libc::ENETDOWN => self.state = DeviceState::Down,
            error => {
                self.state = DeviceState::Ended;
                let source = std::io::Error::from_raw_os_error(error);
                return Err(self.refused("receive from it")(source).into());
            }
        }
        if !sys::is_bound(self.socket.as_fd()).map_err(self.refused(look))? {
            self.state = DeviceState::Gone(Instant::now());
        }
        Ok(Received::Idle)
    }

    /// Waits for the last block of a device that had been gone for `gone_for` when no block
    /// was available.
    fn wind_up(&mut self, gone_for: Duration) -> Result<Received, Error> {
        if gone_for < LAST_BLOCK + Duration::from_millis(u64::from(self.retire_ms)) {
            return Ok(Received::Idle);
        }
        self.state = DeviceState::Ended;
        Err(DeviceError::Gone { device: self.device.clone() }.into())
    }
}

fn check(device: &str, options: &RxOptions) -> Result<(), DeviceError> {
    let RxOptions { block_len, blocks, .. } = *options;
    if block_len < MIN_BLOCK || !block_len.is_multiple_of(4096) {
        let what = format!(
            "a block of {block_len} bytes; expected a multiple of 4096 from {MIN_BLOCK} up"
        );
        return Err(DeviceError::options(device, what));
    }
    let total = u64::from(block_len) * u64::from(blocks);
    if blocks < 2 || total > u64::from(u32::MAX) {
        let what =
            format!("{blocks} blocks of {block_len} bytes; expected 2 or more, 4 GiB at the most");
        return Err(DeviceError::options(device, what));
    }
    Ok(())
}

/// A socket with a receive ring, bound, that discards packets.
fn socket_of(link: &Link, options: &RxOptions) -> Result<OwnedFd, DeviceError> {
    let device = &link.name;
    let refused = || DeviceError::system(device, "make a receive ring for it");
    let socket = sys::socket().map_err(DeviceError::system(device, "open a packet socket"))?;
    let fd = socket.as_fd();
    sys::refuse(fd).map_err(refused())?;
    sys::set_version(fd, Version::V3).map_err(refused())?;
    sys::set_number(fd, Number::Reserve, RESERVE as i32).map_err(refused())?;
    sys::set_number(fd, Number::OffloadHeader, 1).map_err(refused())?;
    sys::set_number(fd, Number::IgnoreOutgoing, 1).map_err(refused())?;
    sys::set_block_ring(fd, options.block_len, options.blocks, options.retire_ms.max(1))
        .map_err(refused())?;
    if options.promiscuous {
        sys::join_promiscuous(fd, link.index)
            .map_err(DeviceError::system(device, "have it receive all frames"))?;
    }
    sys::bind(fd, link.index, true).map_err(DeviceError::system(device, "bind to it"))?;
    Ok(socket)
}

impl Rx for PacketRx {
    fn receive(&mut self) -> Result<Received, Error> {
        if self.state == DeviceState::Ended {
            return Ok(Received::End);
        }
        // Measured before checking for a block, after which this thread may be preempted.
        let gone_for = match self.state {
            DeviceState::Gone(since) => Some(since.elapsed()),
            _ => None,
        };
        if self.block.is_none() && !self.take_block() {
            return match gone_for {
                Some(time) => self.wind_up(time),
                None => self.look_at_device(),
            };
        }
        let Some(block) = self.block.take() else { return Ok(Received::Idle) };
        let batch = self.next_batch(block);
        if self.uncounted >= READ_COUNTERS_EVERY {
            self.read_statistics()?;
        }
        Ok(Received::Batch(batch))
    }

    /// Also readable while the last block is held: a caller that keeps packets for long
    /// should copy them.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn refuse(&mut self) -> Result<(), Error> {
        if let Some(link) = self.links.numbered(self.index).map_err(self.refused(READ))? {
            let mut undelivered = self.undelivered.lock().unwrap_or_else(PoisonError::into_inner);
            undelivered.finish(&link.stats).map_err(self.refused(READ))?;
        }
        Ok(sys::refuse(self.socket.as_fd()).map_err(self.refused("receive no more"))?)
    }

    /// `ring_full` is the port's own loss. Before it, the device counts `device_errors`
    /// (damaged frames), `device_missed` (no buffer in the device) and `device_dropped`
    /// (dropped by driver or kernel), for all its users together. `undelivered` frames were
    /// received by the device, but not delivered to a packet socket.
    fn counters(&mut self) -> Result<RxCounters, Error> {
        let link = self.links.numbered(self.index).map_err(self.refused(READ))?;
        self.read_statistics()?;
        let mut undelivered = self.undelivered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = link {
            self.before.note(&link.stats);
            undelivered.note(&link.stats, &self.socket).map_err(self.refused(READ))?;
        }
        let mut before = self.before.of_device_and_kernel();
        before.push(("undelivered", undelivered.frames()));
        drop(undelivered);
        Ok(RxCounters {
            losses: vec![("ring_full", self.socket.sums().drops)],
            before,
            ..self.counters.clone()
        })
    }
}
