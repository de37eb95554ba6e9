//! A port that sends redirected frames.

use forebay_bpf::programs::sender::{Fate, MAX_FRAME, MAX_MTU, MIN_FRAME, Sender};
use forebay_packet::{Batch, LiveMask, Rewrites};

use std::time::{Duration, Instant};

use super::home::Home;
use crate::af_packet::{PacketTx, TxOptions};
use crate::device::{DeviceError, Link, Links, at_other_end};
use crate::error::Error;
use crate::frame::{FrameRewrite, rewrite_of, write_frame};
use crate::port::{Losses, Tx, TxCounters};

/// The wait before the first retry of a device that refused frames, the longest wait, and
/// how long frames must have been accepted for the next refusal to count as the first.
const FIRST_TRIAL: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);
const LASTING: Duration = Duration::from_secs(60);

/// Sends packets to a device.
pub struct RedirectTx {
    device: String,
    index: u32,
    links: Links,
    sender: Sender,
    _home: Home,
    /// The longest frame that the device accepts.
    max_len: usize,
    /// Bytes of the frames placed and not yet passed to the device, and of those that it
    /// accepted.
    placed: u64,
    bytes: u64,
    /// Frames that it accepted and refused since the last retry.
    sent: u64,
    refused: u64,
    /// Counts of frames before the last retry.
    past: Fate,
    /// Sends while the device refuses redirected frames.
    ring: PacketTx,
    way: Way,
    too_long: u64,
    too_short: u64,
    /// Frames not placed because the device or the sender had failed.
    unplaced: u64,
    gone: bool,
}

/// The path of packets.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// The time of the next retry; `None` while frames are redirected.
    trial: Option<Instant>,
    interval: Duration,
    /// When redirection was resumed.
    since: Option<Instant>,
}

impl Way {
    /// The device has refused frames. Counts once until the next retry.
    fn leave(&mut self, now: Instant) {
        if self.trial.is_some() {
            return;
        }
        let lasted = self.since.is_none_or(|since| now - since >= LASTING);
        self.interval = if lasted { FIRST_TRIAL } else { (2 * self.interval).min(LONGEST) };
        self.trial = Some(now + self.interval);
    }
}

impl RedirectTx {
    /// Opens `count` senders to `device`, each for a thread of its own.
    ///
    /// # Errors
    /// If there is no such device, its packets are no Ethernet frames, it does not accept
    /// redirected frames, its MTU exceeds the longest frame, or a system call fails:
    /// loading programs and creating namespaces takes privileges.
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
                let cure = at_other_end(device, "gro on");
                let cure = cure.map_or_else(String::new, |command| format!(": run `{command}`"));
                let what = format!("a driver that accepts no redirected frames{cure}");
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
            refused: 0,
            past: Fate::default(),
            ring: PacketTx::open(device, &TxOptions::default())?,
            way: Way { trial: None, interval: FIRST_TRIAL, since: None },
            too_long: 0,
            too_short: 0,
            unplaced: 0,
            gone: false,
        })
    }

    /// Places a packet to be sent, for which there is room.
    fn place(&mut self, packet: &[u8], rewrite: FrameRewrite<'_>) {
        let len = rewrite.len_of(packet);
        if len < MIN_FRAME {
            self.too_short += 1;
            return;
        }
        if len > self.max_len {
            self.too_long += 1;
            return;
        }
        let written = self.sender.room().and_then(|room| write_frame(rewrite, packet, room));
        match written {
            Some(len) if self.sender.place(len) => self.placed += len as u64,
            _ => self.too_long += 1,
        }
    }

    /// Passes the placed frames to the device.
    fn give(&mut self) -> Result<(), Error> {
        if self.sender.placed() == 0 {
            return Ok(());
        }
        let (before, frames) = (self.sender.no_device(), self.sender.placed());
        let sent = self.sender.send();
        self.follow(frames);
        // The kernel empties its slot when a device is deleted.
        if self.sender.no_device() > before {
            self.gone = true;
            return Err(self.is_gone());
        }
        let failed = DeviceError::system(&self.device, "send to it");
        sent.map_err(|error| failed(std::io::Error::other(error)).into())
    }

    /// Whether the ring sends. Retries the device first if that is due.
    fn is_by_ring(&mut self) -> Result<bool, Error> {
        let Some(trial) = self.way.trial else { return Ok(false) };
        let now = Instant::now();
        // Packets still in the ring would be overtaken.
        if now < trial || self.ring.counters()?.held > 0 {
            return Ok(true);
        }
        let fate = self.sender.settle();
        self.past.sent += fate.sent;
        self.past.no_device += fate.no_device;
        add_all(&mut self.past.losses, fate.losses);
        (self.sent, self.refused) = (0, 0);
        let mtu = self.links.numbered(self.index).ok().flatten().map_or(0, |link| link.mtu);
        if self.sender.probe(mtu).unwrap_or(false) {
            (self.way.trial, self.way.since) = (None, Some(now));
        } else {
            self.way.trial = Some(now + self.way.interval);
        }
        Ok(self.way.trial.is_some())
    }

    /// Switches to the ring if the device refused any of `frames` frames, and counts the
    /// bytes that it accepted. The kernel reports the number of refused frames, not which:
    /// they count with the mean length of the call's frames.
    fn follow(&mut self, frames: u32) {
        let fate = self.sender.fate();
        let sent = fate.sent.saturating_sub(std::mem::replace(&mut self.sent, fate.sent));
        let refused = refused(&fate);
        if refused > std::mem::replace(&mut self.refused, refused) {
            self.way.leave(Instant::now());
        }
        let placed = std::mem::take(&mut self.placed);
        let bytes = u128::from(placed) * u128::from(sent) / u128::from(frames.max(1));
        self.bytes += u64::try_from(bytes).unwrap_or(u64::MAX).min(placed);
    }

    fn is_gone(&self) -> Error {
        DeviceError::Gone { device: self.device.clone() }.into()
    }
}

impl Tx for RedirectTx {
    fn send(&mut self, batch: &Batch, which: &LiveMask, rewrites: &Rewrites) -> Result<(), Error> {
        let mut packets = batch.live().and(which).iter();
        if self.gone {
            self.unplaced += packets.count() as u64;
            return Err(self.is_gone());
        }
        if self.is_by_ring()? {
            return self.ring.send(batch, which, rewrites);
        }
        while let Some(i) = packets.next() {
            if self.sender.room().is_none() {
                let given = self.give();
                if given.is_err() || self.way.trial.is_some() {
                    let mut rest = LiveMask::default();
                    std::iter::once(i).chain(packets).for_each(|i| rest.insert(i));
                    self.unplaced += if given.is_err() { rest.count() as u64 } else { 0 };
                    return given.and_then(|()| self.ring.send(batch, &rest, rewrites));
                }
            }
            self.place(batch.packet(i), rewrite_of(batch, i, rewrites));
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.gone {
            return Err(self.is_gone());
        }
        self.give()?;
        self.ring.flush()
    }

    /// Losses: `too_long` for the device or a page, and `too_short` for an Ethernet header;
    /// `ring_full`, `refused` and `link_down` after the redirect; `no_memory` of the
    /// kernel; `program_failed`; and `device_failed`, when sending ended in an error.
    fn counters(&mut self) -> Result<TxCounters, Error> {
        if let Ok(Some(link)) = self.links.numbered(self.index) {
            self.max_len = link.max_frame().min(MAX_FRAME);
        }
        let fate = self.sender.fate();
        let mut losses = fate.losses;
        add_all(&mut losses, self.past.losses.clone());
        for (name, frames) in &mut losses {
            *frames += if *name == "too_long" { self.too_long } else { 0 };
        }
        losses.push(("too_short", self.too_short));
        let no_device = fate.no_device + self.past.no_device;
        losses.push(("device_failed", no_device + self.unplaced));
        let ring = self.ring.counters()?;
        add_all(&mut losses, ring.losses);
        Ok(TxCounters {
            packets: fate.sent + self.past.sent + ring.packets,
            bytes: self.bytes + ring.bytes,
            losses,
            held: u64::from(self.sender.placed()) + ring.held,
            ..TxCounters::default()
        })
    }
}

/// Frames that the device refused.
fn refused(fate: &Fate) -> u64 {
    fate.losses.iter().find(|(name, _)| *name == "refused").map_or(0, |one| one.1)
}

/// Adds losses by name.
fn add_all(ours: &mut Losses, theirs: Losses) {
    for (name, packets) in theirs {
        match ours.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += packets,
            None => ours.push((name, packets)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_that_does_not_last_doubles_the_interval_once() {
        let start = Instant::now();
        let mut way = Way { trial: None, interval: FIRST_TRIAL, since: None };
        let mut expected = FIRST_TRIAL;
        let mut now = start;
        for _ in 0..12 {
            // Every call is refused until the next test of the device.
            for later in [0, 1, 20] {
                way.leave(now + Duration::from_millis(later));
            }
            assert_eq!((way.interval, way.trial), (expected, Some(now + expected)));
            now += expected;
            (way.trial, way.since) = (None, Some(now));
            now += LASTING / 2;
            expected = (2 * expected).min(LONGEST);
        }
        assert_eq!(way.interval, LONGEST);
        way.leave(now + LASTING);
        assert_eq!(way.interval, FIRST_TRIAL);
    }
}
