//! Sends to a device with a ring of slots.
//!
//! Positions count packets since the beginning; a slot is a position modulo the number of
//! slots.
//!
//! ```text
//!   done ........ head ........ tail
//!   sent, or      to be         free
//!   being sent    sent
//! ```
//!
//! Filling a slot advances `tail`. One system call makes the kernel take the waiting
//! packets, in order, as far as it can; `head` follows it, and `done` follows completion by
//! the device. The ring runs without `PACKET_LOSS`, so the kernel never skips a packet
//! silently: one that it does not take stays in place, and is retried for a bounded time,
//! or removed and counted. A full queue, of a device or at the other end of a veth pair,
//! thus becomes waiting; the device may count each attempt as a drop.
//!
//! Each packet has a `virtio_net_hdr` before it which declares all of it as headers: the
//! kernel then copies it, instead of sending the ring's pages themselves. For a packet of
//! less than a page that is faster, especially if a virtual device has to copy the pages:
//! 455 ns instead of 620 for 60 bytes into a veth pair, 515 instead of 710 for 1,496. With
//! that header the kernel does not check packets against the MTU; this code does, and
//! follows changes of the MTU.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use forebay_packet::{Batch, LiveMask, Rewrites};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::ring::{SLOT_HEADER, SlotRing, SlotState};
use super::sys::{self, Number, Version};
use crate::device::{Change, DeviceError, Link, Links, Watch};
use crate::error::Error;
use crate::frame::{FrameRewrite, rewrite_of, write_frame};
use crate::port::{Tx, TxCounters};

/// Options of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxOptions {
    /// Minimum number of packets in the ring.
    pub slots: u32,
    /// Whether packets go to the driver without queueing. With a queueing discipline in
    /// between, its drops do not count as losses of the port, and a lost carrier is not
    /// noticed.
    pub qdisc_bypass: bool,
    /// How long a batch waits for room in the ring before its packets are dropped.
    pub patience: Duration,
}

impl Default for TxOptions {
    fn default() -> Self {
        Self { slots: 1024, qdisc_bypass: true, patience: Duration::from_millis(1) }
    }
}

/// Bytes of an Ethernet header, and of a VLAN tag.
const HEADER: usize = 14;
const TAG: usize = 4;
const TAG_PROTOCOL: [u8; 2] = [0x81, 0x00];

/// The most waiting packets before a system call sends them.
const KICK: u64 = 64;

/// Pause between attempts while a device takes no packets.
const PAUSE: Duration = Duration::from_micros(20);

/// How long the result of a carrier check is cached.
const LINK_ANSWER: Duration = Duration::from_millis(100);

/// Packets lost, by cause.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    ring_full: u64,
    too_long: u64,
    too_short: u64,
    link_down: u64,
    refused: u64,
    device_failed: u64,
}

/// Sends packets to a device.
pub struct PacketTx {
    device: String,
    index: u32,
    ring: SlotRing,
    socket: OwnedFd,
    links: Links,
    watch: Watch,
    patience: Duration,
    /// The longest frame that the device accepts, and whether a VLAN tag is allowed in
    /// addition.
    max_len: usize,
    tag_on_top: bool,
    done: u64,
    head: u64,
    tail: u64,
    packets: u64,
    bytes: u64,
    lost: Lost,
    /// When the present batch stops waiting; `None` before it has to wait.
    patience_ends: Option<Instant>,
    /// Since when the device has taken no packets.
    stuck_since: Option<Instant>,
    /// When the device was last checked, and whether it could send.
    link_seen: Option<(Instant, bool)>,
    gone: bool,
}

/// The result of a system call that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kicked {
    /// No packet is waiting.
    All,
    /// The device takes no more at the moment.
    Stuck,
}

impl PacketTx {
    /// Opens a sender to `device`.
    ///
    /// # Errors
    /// If there is no such device, its packets are no Ethernet frames, the options are
    /// invalid, or a system call fails.
    pub fn open(device: &str, options: &TxOptions) -> Result<Self, Error> {
        // First, so that no change is missed.
        let watch = Watch::open().map_err(DeviceError::system(device, "watch it"))?;
        let mut links = Links::open(device)?;
        let link = links.named(device)?.ethernet()?;
        let (socket, ring) = socket_of(&link, options)?;
        let mut tx = Self {
            device: device.to_owned(),
            index: link.index,
            ring,
            socket,
            links,
            watch,
            patience: options.patience,
            max_len: 0,
            tag_on_top: false,
            done: 0,
            head: 0,
            tail: 0,
            packets: 0,
            bytes: 0,
            lost: Lost::default(),
            patience_ends: None,
            stuck_since: None,
            link_seen: None,
            gone: false,
        };
        tx.set_limit(&link);
        Ok(tx)
    }

    /// Updates the limits of the device.
    fn set_limit(&mut self, link: &Link) {
        self.max_len = link.mtu as usize + HEADER;
        // The stack allows the tag on Ethernet hardware only, not on loopback.
        self.tag_on_top = link.hardware == 1;
    }

    /// Applies changes of the device.
    fn follow_device(&mut self) -> Result<(), Error> {
        let changes = self.watch.changes();
        for change in changes.map_err(DeviceError::system(&self.device, "watch it"))? {
            match change {
                Change::Is(link) if link.index == self.index => self.set_limit(&link),
                Change::Is(_) | Change::Gone(_) => {}
                Change::Missed => {
                    let link = self.links.numbered(self.index);
                    if let Some(link) =
                        link.map_err(DeviceError::system(&self.device, "read its MTU"))?
                    {
                        self.set_limit(&link);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the device accepts a frame of this length.
    fn fits(&self, len: usize, is_tagged: bool) -> bool {
        len <= self.max_len + if is_tagged && self.tag_on_top { TAG } else { 0 }
    }

    fn slot(&self, position: u64) -> usize {
        (position % self.ring.slots() as u64) as usize
    }

    fn is_full(&self) -> bool {
        self.tail - self.done == self.ring.slots() as u64
    }

    /// Copies packet `i` into the ring.
    fn put(&mut self, batch: &Batch, i: usize, rewrite: FrameRewrite<'_>) -> Result<(), Error> {
        let packet = batch.packet(i);
        let len = rewrite.len_of(packet);
        if len < HEADER {
            self.lost.too_short += 1;
            return Ok(());
        }
        let keeps_tag = !rewrite.strip.vlan && packet[12..14] == TAG_PROTOCOL;
        let is_tagged = rewrite.push_vlan.is_some() || keeps_tag;
        if !self.fits(len, is_tagged) {
            self.lost.too_long += 1;
            return Ok(());
        }
        if self.is_full() {
            let has_room = self.make_room();
            self.lost.device_failed += u64::from(has_room.is_err());
            if !has_room? {
                return Ok(());
            }
        }
        let slot = self.slot(self.tail);
        match write_frame(rewrite, packet, self.ring.packet_mut(slot)) {
            Some(len) => {
                self.ring.submit(slot, len);
                self.tail += 1;
            }
            // The MTU was raised after the ring was created.
            None => self.lost.too_long += 1,
        }
        if (self.tail - self.head).is_multiple_of(KICK) {
            self.kick()?;
        }
        Ok(())
    }

    /// Waits until a slot is free, as long as the batch's patience lasts; then counts the
    /// present packet as lost.
    fn make_room(&mut self) -> Result<bool, Error> {
        let patience = self.patience;
        let end = *self.patience_ends.get_or_insert_with(|| Instant::now() + patience);
        loop {
            let kicked = self.kick()?;
            self.reap();
            if !self.is_full() {
                return Ok(true);
            }
            let is_over = Instant::now() >= end;
            let may_be_down = is_over || self.was_down();
            if kicked == Kicked::Stuck && may_be_down && self.is_down()? {
                self.withdraw(|lost| &mut lost.link_down);
                self.lost.link_down += 1;
                return Ok(false);
            }
            if is_over {
                self.lost.ring_full += 1;
                return Ok(false);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Counts completed packets.
    fn reap(&mut self) {
        while self.done < self.head {
            let slot = self.slot(self.done);
            if self.ring.state(slot) != SlotState::Free {
                break;
            }
            self.packets += 1;
            self.bytes += self.ring.len(slot) as u64;
            self.done += 1;
        }
    }

    /// Advances `head` and `done` to the kernel's progress.
    fn follow(&mut self) {
        let before = self.head;
        while self.head < self.tail {
            match self.ring.state(self.slot(self.head)) {
                SlotState::Free | SlotState::Sending => self.head += 1,
                SlotState::Waiting | SlotState::Refused => break,
            }
        }
        if self.head != before {
            self.stuck_since = None;
            if self.was_down() {
                self.link_seen = None;
            }
        }
    }

    /// Makes the kernel send waiting packets, as far as the device takes them.
    fn kick(&mut self) -> Result<Kicked, Error> {
        let mut was_down = false;
        while self.head < self.tail {
            let before = self.head;
            let result = send(&self.socket, &[], SendFlags::DONTWAIT);
            self.follow();
            // A refused packet blocks the ring, whatever the result of the call: remove
            // it first.
            let waits = self.head < self.tail;
            if waits && self.ring.state(self.slot(self.head)) == SlotState::Refused {
                self.take_out_refused()?;
                continue;
            }
            match result {
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => {}
                // A socket reports a device that was down once more after it is up.
                Err(Errno::NETDOWN) if !was_down => {
                    was_down = true;
                    continue;
                }
                Err(Errno::NETDOWN) => {
                    self.withdraw(|lost| &mut lost.link_down);
                    return Ok(Kicked::All);
                }
                Err(Errno::NXIO | Errno::NODEV) => return Err(self.go()),
                Err(error) => {
                    return Err(DeviceError::system(&self.device, "send to it")(error).into());
                }
            }
            if self.head == before {
                return Ok(Kicked::Stuck);
            }
        }
        Ok(Kicked::All)
    }

    /// Counts all waiting packets as lost, and removes them from the ring.
    fn withdraw(&mut self, counter: impl Fn(&mut Lost) -> &mut u64) {
        for position in self.head..self.tail {
            self.ring.withdraw(self.slot(position));
            *counter(&mut self.lost) += 1;
        }
        self.tail = self.head;
    }

    /// Removes the packet that the kernel refuses, and all that exceed the present MTU.
    /// Those behind move up, as the kernel goes through the slots one by one.
    fn take_out_refused(&mut self) -> Result<(), Error> {
        let link = self.links.numbered(self.index);
        match link.map_err(DeviceError::system(&self.device, "read its MTU"))? {
            Some(link) => self.set_limit(&link),
            None => return Err(self.go()),
        }
        let mut to = self.head;
        let mut frame = Vec::new();
        for from in self.head..self.tail {
            let slot = self.slot(from);
            let len = self.ring.len(slot);
            frame.clear();
            frame.extend_from_slice(&self.ring.packet_mut(slot)[..len]);
            let is_refused = self.ring.state(slot) == SlotState::Refused;
            self.ring.withdraw(slot);
            if !self.fits(len, frame[12..14] == TAG_PROTOCOL) {
                self.lost.too_long += 1;
            } else if is_refused {
                self.lost.refused += 1;
            } else {
                let slot = self.slot(to);
                self.ring.packet_mut(slot)[..len].copy_from_slice(&frame);
                self.ring.submit(slot, len);
                to += 1;
            }
        }
        self.tail = to;
        Ok(())
    }

    /// The device is gone, with all waiting packets.
    fn go(&mut self) -> Error {
        self.gone = true;
        self.reap();
        self.withdraw(|lost| &mut lost.device_failed);
        DeviceError::Gone { device: self.device.clone() }.into()
    }

    /// Whether the device could not send at the last check.
    fn was_down(&self) -> bool {
        self.link_seen.is_some_and(|(_, works)| !works)
    }

    /// Whether the device cannot send at all, so that waiting is pointless.
    fn is_down(&mut self) -> Result<bool, Error> {
        if let Some((when, works)) = self.link_seen
            && when.elapsed() < LINK_ANSWER
        {
            return Ok(!works);
        }
        let link = self.links.numbered(self.index);
        match link.map_err(DeviceError::system(&self.device, "read its state"))? {
            Some(link) => self.link_seen = Some((Instant::now(), link.works())),
            None => return Err(self.go()),
        }
        Ok(self.was_down())
    }

    /// Records that the device takes no packets, and drops the waiting ones if it is down.
    fn be_stuck(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        let since = *self.stuck_since.get_or_insert(now);
        if now - since >= self.patience && self.is_down()? {
            self.withdraw(|lost| &mut lost.link_down);
        }
        Ok(())
    }
}

/// A socket with a transmit ring, bound to the device, and the ring.
fn socket_of(link: &Link, options: &TxOptions) -> Result<(OwnedFd, SlotRing), DeviceError> {
    /// Enough for the longest frame.
    const BLOCK: usize = 128 << 10;
    /// Upper bound of the kernel's overhead for a packet being sent.
    const BESIDE: usize = 1024;
    let device = &link.name;
    let refused = || DeviceError::system(device, "make a transmit ring for it");
    let frame = link.mtu as usize + HEADER + TAG + SLOT_HEADER;
    // An odd number of cache lines, so that packet headers do not share a few cache sets.
    let slot_len = (frame.div_ceil(64) | 1) * 64;
    if slot_len > BLOCK || options.slots == 0 {
        let what = format!("{} slots for frames of {frame} bytes", options.slots);
        return Err(DeviceError::options(device, what));
    }
    let blocks = (options.slots as usize).div_ceil(BLOCK / slot_len);
    let total = blocks * BLOCK;
    if u32::try_from(total).is_err() {
        let what = format!("{} slots take {total} bytes; 4 GiB at the most", options.slots);
        return Err(DeviceError::options(device, what));
    }
    let socket = sys::socket().map_err(DeviceError::system(device, "open a packet socket"))?;
    let fd = socket.as_fd();
    sys::set_version(fd, Version::V2).map_err(refused())?;
    sys::set_number(fd, Number::OffloadHeader, 1).map_err(refused())?;
    sys::set_slot_ring(fd, BLOCK as u32, blocks as u32, slot_len as u32).map_err(refused())?;
    sys::set_number(fd, Number::QdiscBypass, i32::from(options.qdisc_bypass)).map_err(refused())?;
    let in_flight = BLOCK / slot_len * blocks * (slot_len + BESIDE);
    sys::set_send_buffer(fd, in_flight).map_err(refused())?;
    sys::bind(fd, link.index, false).map_err(DeviceError::system(device, "bind to it"))?;
    let ring = SlotRing::map(fd, BLOCK, blocks, slot_len).map_err(refused())?;
    Ok((socket, ring))
}

impl Tx for PacketTx {
    fn send(&mut self, batch: &Batch, which: &LiveMask, rewrites: &Rewrites) -> Result<(), Error> {
        let mut packets = batch.live().and(which).iter();
        if self.gone {
            self.lost.device_failed += packets.count() as u64;
            return Err(DeviceError::Gone { device: self.device.clone() }.into());
        }
        self.patience_ends = None;
        if let Err(error) = self.follow_device() {
            self.lost.device_failed += packets.count() as u64;
            return Err(error);
        }
        self.reap();
        for i in packets.by_ref() {
            if let Err(error) = self.put(batch, i, rewrite_of(batch, i, rewrites)) {
                self.lost.device_failed += packets.count() as u64;
                return Err(error);
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.gone {
            return Err(DeviceError::Gone { device: self.device.clone() }.into());
        }
        if self.kick()? == Kicked::Stuck {
            self.be_stuck()?;
        }
        self.reap();
        Ok(())
    }

    /// Losses: `ring_full`; `too_long` for the device's MTU, and `too_short` for an
    /// Ethernet header; `link_down`; `refused` by the kernel for another reason; and
    /// `device_failed`, when sending ended in an error.
    fn counters(&mut self) -> Result<TxCounters, Error> {
        self.reap();
        if let Ok(Some(link)) = self.links.numbered(self.index) {
            self.set_limit(&link);
        }
        let lost = &self.lost;
        Ok(TxCounters {
            packets: self.packets,
            bytes: self.bytes,
            losses: vec![
                ("ring_full", lost.ring_full),
                ("too_long", lost.too_long),
                ("too_short", lost.too_short),
                ("link_down", lost.link_down),
                ("refused", lost.refused),
                ("device_failed", lost.device_failed),
            ],
            held: self.tail - self.done,
            ..TxCounters::default()
        })
    }
}
