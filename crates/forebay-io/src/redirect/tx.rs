//! A sender of redirected frames as a port.

use forebay_bpf::programs::sender::{MAX_FRAME, MAX_MTU, MIN_FRAME, Sender};
use forebay_packet::{Batch, LiveMask, Rewrite};

use super::home::Home;
use crate::device::{DeviceError, Link, Links};
use crate::error::Error;
use crate::frame::{rewrite_of, write_frame};
use crate::port::{Tx, TxCounters};

/// Sends to a device.
pub struct RedirectTx {
    device: String,
    index: u32,
    links: Links,
    sender: Sender,
    _home: Home,
    /// The longest frame that the device takes.
    max_len: usize,
    /// Bytes of the frames that were placed and not yet given to the device, and of those that
    /// it took.
    placed: u64,
    bytes: u64,
    /// Frames that it took.
    sent: u64,
    too_long: u64,
    too_short: u64,
    /// Frames that were not placed because the device or the sender had failed.
    unplaced: u64,
    gone: bool,
}

impl RedirectTx {
    /// So many senders to `device`, each for a thread of its own.
    ///
    /// # Errors
    /// That there is no such device, that its packets are no Ethernet frames, that it does
    /// not take redirected frames, that its MTU is for frames too long to be sent so, or
    /// what the system refuses: it takes privileges to make programs and namespaces.
    pub fn open(device: &str, count: u32) -> Result<Vec<Self>, Error> {
        let failed = |action| {
            move |source| DeviceError::system(device, action)(std::io::Error::other(source))
        };
        let link = Links::open(device)?.named(device)?.ethernet()?;
        if link.mtu as usize > MAX_MTU {
            let what = format!(
                "an MTU of {}; expected {MAX_MTU} at most to redirect frames to it",
                link.mtu,
            );
            return Err(DeviceError::options(device, what).into());
        }
        let senders = Sender::load(link.index, count);
        let mut senders = senders.map_err(failed("make programs that send to it"))?;
        let homes = Home::open(&senders)?;
        for sender in &mut senders {
            let takes = sender.probe(link.mtu).map_err(failed("try to redirect to it"))?;
            if !takes {
                let what = "a driver that takes no redirected frames (at the other end of a \
                            veth pair: `ethtool -K PEER gro on`)";
                return Err(DeviceError::options(device, what).into());
            }
        }
        let each = senders.into_iter().zip(homes);
        each.map(|(sender, home)| Self::new(device, &link, sender, home)).collect()
    }

    fn new(device: &str, link: &Link, sender: Sender, home: Home) -> Result<Self, Error> {
        Ok(Self {
            device: device.to_owned(),
            index: link.index,
            links: Links::open(device)?,
            sender,
            _home: home,
            max_len: link.max_frame(),
            placed: 0,
            bytes: 0,
            sent: 0,
            too_long: 0,
            too_short: 0,
            unplaced: 0,
            gone: false,
        })
    }

    /// Places a packet to be sent.
    fn place(&mut self, packet: &[u8], rewrite: &Rewrite) -> Result<(), Error> {
        let len = rewrite.len_of(packet);
        if len < MIN_FRAME {
            self.too_short += 1;
            return Ok(());
        }
        if len > self.max_len {
            self.too_long += 1;
            return Ok(());
        }
        if self.sender.room().is_none() {
            let sent = self.give();
            self.unplaced += u64::from(sent.is_err());
            sent?;
        }
        let written = self.sender.room().and_then(|room| write_frame(rewrite, packet, room));
        match written {
            Some(len) if self.sender.place(len) => self.placed += len as u64,
            _ => self.too_long += 1,
        }
        Ok(())
    }

    /// Has the device have what was placed.
    fn give(&mut self) -> Result<(), Error> {
        if self.sender.placed() == 0 {
            return Ok(());
        }
        let (before, frames) = (self.sender.no_device(), self.sender.placed());
        let sent = self.sender.send();
        self.note_bytes(frames);
        // Its slot is emptied when a device is deleted.
        if self.sender.no_device() > before {
            self.gone = true;
            return Err(self.is_gone());
        }
        let failed = DeviceError::system(&self.device, "send to it");
        sent.map_err(|error| failed(std::io::Error::other(error)).into())
    }

    /// Counts the bytes that the device took of so many frames. The kernel tells how many it did
    /// not take, and not which: these count as long as the mean of the call's frames.
    fn note_bytes(&mut self, frames: u32) {
        let all = self.sender.fate().sent;
        let sent = all.saturating_sub(std::mem::replace(&mut self.sent, all));
        let placed = std::mem::take(&mut self.placed);
        let bytes = u128::from(placed) * u128::from(sent) / u128::from(frames.max(1));
        self.bytes += u64::try_from(bytes).unwrap_or(u64::MAX).min(placed);
    }

    fn is_gone(&self) -> Error {
        DeviceError::Gone { device: self.device.clone() }.into()
    }
}

impl Tx for RedirectTx {
    fn send(&mut self, batch: &Batch, which: &LiveMask, rewrites: &[Rewrite]) -> Result<(), Error> {
        let mut packets = batch.live().and(which).iter();
        if self.gone {
            self.unplaced += packets.count() as u64;
            return Err(self.is_gone());
        }
        for i in packets.by_ref() {
            if let Err(error) = self.place(batch.packet(i), rewrite_of(batch, i, rewrites)) {
                self.unplaced += packets.count() as u64;
                return Err(error);
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.gone { Err(self.is_gone()) } else { self.give() }
    }

    /// Losses: `too_long` for the device or a page, and `too_short` for an Ethernet header;
    /// `ring_full`, `refused` and `link_down` behind the redirect; `no_memory` of the
    /// kernel; `program_failed`; and `device_failed`, when sending ended in an error.
    fn counters(&mut self) -> Result<TxCounters, Error> {
        if let Ok(Some(link)) = self.links.numbered(self.index) {
            self.max_len = link.max_frame().min(MAX_FRAME);
        }
        let fate = self.sender.fate();
        let mut losses = fate.losses;
        for (name, frames) in &mut losses {
            *frames += if *name == "too_long" { self.too_long } else { 0 };
        }
        losses.push(("too_short", self.too_short));
        losses.push(("device_failed", fate.no_device + self.unplaced));
        let held = u64::from(self.sender.placed());
        Ok(TxCounters { packets: fate.sent, bytes: self.bytes, losses, held })
    }
}
