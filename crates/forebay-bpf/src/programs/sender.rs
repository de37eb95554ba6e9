//! Sends frames of this process through a device without a socket.
//!
//! The kernel can run a program on its own memory as if a frame had just arrived
//! (`BPF_F_TEST_XDP_LIVE_FRAMES`, Documentation/bpf/bpf_prog_run.rst), and frames that the
//! program redirects are sent. So the sender writes frames one after another into memory
//! that the program can read, and one call runs the program for each: it copies the next
//! frame into the one it got, and redirects that to the device. There is no socket buffer,
//! and a program at the other end of a veth pair receives a frame as from a driver.
//!
//! A call takes some microseconds, as the kernel creates a pool of pages for it, and each
//! frame some 50 ns more: many frames should share a call. A program that is not attached
//! to any device costs milliseconds more, because the kernel then patches the code that
//! calls it at the beginning and end of the call; so the caller attaches
//! [`Sender::program`] to a device without traffic.
//!
//! Frames are sent in the order in which they were placed. Each is counted: the program
//! counts its runs, and [`super::losses`] counts redirected frames that the device does not
//! accept, before the call returns.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::error::BpfError;
use crate::map::{DeviceMap, ReadMemory, SharedMemory, processors};
use crate::object::{Loader, include_program};
use crate::program::{Kind, Program};
use crate::programs::losses::RedirectLosses;
use crate::sys::TestRun;
use crate::sys::layout::{MAX_DEVICES, Reason, SEND_MEMORY, SEND_PREFIX, SendControl};
pub use crate::sys::layout::{MAX_FRAME, MIN_FRAME};

/// The longest MTU of a device to send to. A frame longer than the device accepts, with its
/// Ethernet header and a VLAN tag, must still fit: see [`Sender::probe`].
pub const MAX_MTU: usize = MAX_FRAME - OVER;
const _: () = assert!(MAX_MTU == 3373, "as the error of `Sender::probe` says");

/// Bytes by which a frame that is too long for a device exceeds its MTU.
pub(crate) const OVER: usize = 14 + 4 + 1;

/// The most frames of a call.
const MOST: u32 = 4096;

/// Frames that the kernel sends before the other end of a veth pair can receive.
const BATCH: u32 = 64;

/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
pub(crate) const LIVE_FRAMES: u32 = 1 << 1;

/// State shared by all senders to a device.
#[derive(Debug)]
struct Output {
    devices: DeviceMap,
    losses: RedirectLosses,
}

/// Sends frames to a device.
#[derive(Debug)]
pub struct Sender {
    program: Program,
    output: Arc<Output>,
    /// Its slot in the device map.
    slot: u32,
    memory: ReadMemory,
    control: SharedMemory<SendControl>,
    /// The content of the memory: bytes, frames, and the longest frame.
    used: usize,
    frames: u32,
    longest: usize,
    /// Frames for which the kernel had no memory.
    no_memory: u64,
}

/// Counts of all frames given to [`Sender::send`], by result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Accepted by the device.
    pub sent: u64,
    /// Without a device.
    pub no_device: u64,
    /// Not accepted, by cause.
    pub losses: Vec<(&'static str, u64)>,
}

/// Causes of losses before the device.
const BEFORE: [&str; 2] = ["no_memory", "program_failed"];

impl Sender {
    /// Creates `count` senders to the device with this number in this thread's network
    /// namespace, each for a thread of its own.
    ///
    /// # Errors
    /// More than 1,024 senders; the kernel's, also about counting the device's losses.
    pub fn load(interface: u32, count: u32) -> Result<Vec<Self>, BpfError> {
        if count > MAX_DEVICES as u32 {
            return Err(BpfError::Setting {
                setting: "the number of senders",
                value: count.into(),
                expected: "1024 at most",
            });
        }
        let devices = DeviceMap::create("send_devices", MAX_DEVICES as u32)?;
        let owners = SharedMemory::create("send_owners", processors()? as usize)?;
        let losses = RedirectLosses::watch_runs(&devices, interface, &owners)?;
        for slot in 0..count {
            devices.set(slot, interface)?;
        }
        let output = Arc::new(Output { devices, losses });
        (0..count).map(|slot| Self::new(&output, &owners, slot)).collect()
    }

    fn new(output: &Arc<Output>, owners: &SharedMemory, slot: u32) -> Result<Self, BpfError> {
        let memory = ReadMemory::create("send_frames", (SEND_MEMORY / 8) as u32)?;
        let control = SharedMemory::create("send_control", 1)?;
        let program = Loader::new(include_program!("sender"))
            .set("slot", slot.into())
            .set("processors", owners.values().len() as u64)
            .map("control", &control)
            .map("frames", &memory)
            .map("owners", owners)
            .map("devices", &output.devices)
            .load("forebay_send", Kind::Xdp { multi_buffer: false })?;
        let output = Arc::clone(output);
        let (used, frames, longest, no_memory) = (0, 0, 0, 0);
        Ok(Self { program, output, slot, memory, control, used, frames, longest, no_memory })
    }

    /// The program, which should be attached to some device while this exists.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// A buffer for a frame of up to [`MAX_FRAME`] bytes; `None` if [`send`](Self::send)
    /// must be called first.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        if self.frames >= MOST || self.used + SEND_PREFIX + MAX_FRAME > SEND_MEMORY {
            return None;
        }
        self.memory.bytes_mut().get_mut(self.used + SEND_PREFIX..)?.get_mut(..MAX_FRAME)
    }

    /// Places the frame of this length that was written into the buffer. Returns false,
    /// without placing it, if it is shorter than [`MIN_FRAME`] or longer than
    /// [`MAX_FRAME`].
    pub fn place(&mut self, len: usize) -> bool {
        if !(MIN_FRAME..=MAX_FRAME).contains(&len) || self.room().is_none() {
            return false;
        }
        let prefix = self.memory.bytes_mut().get_mut(self.used..self.used + SEND_PREFIX);
        if let Some(prefix) = prefix {
            prefix.copy_from_slice(&(len as u64).to_le_bytes());
        }
        self.used += SEND_PREFIX + len.next_multiple_of(SEND_PREFIX);
        self.frames += 1;
        self.longest = self.longest.max(len);
        true
    }

    /// Frames placed and not yet sent.
    #[must_use]
    pub fn placed(&self) -> u32 {
        self.frames
    }

    /// Sends all frames that were placed.
    ///
    /// # Errors
    /// If the kernel refuses to run the program; the frames are lost, and counted.
    pub fn send(&mut self) -> Result<(), BpfError> {
        let mut left = std::mem::take(&mut self.frames);
        self.used = 0;
        let longest = std::mem::take(&mut self.longest);
        self.control().position.store(0, Relaxed);
        self.control().length.store(longest as u64, Relaxed);
        let frame = [0; MAX_FRAME];
        while left > 0 {
            let before = self.control().runs.load(Relaxed);
            let run = TestRun {
                data_in: &frame[..longest],
                repeat: left,
                flags: LIVE_FRAMES,
                batch_size: BATCH,
                ..TestRun::default()
            };
            let outcome = self.program.test(run);
            let runs = self.control().runs.load(Relaxed) - before;
            left = left.saturating_sub(u32::try_from(runs).unwrap_or(u32::MAX));
            let reason = match &outcome {
                Err(BpfError::Run { source, .. }) => Some(source.kind()),
                _ => None,
            };
            let no_memory = reason == Some(io::ErrorKind::OutOfMemory);
            // A signal: the next call continues with the next frame. No memory for a page:
            // retry the rest as long as some frames get memory.
            if reason == Some(io::ErrorKind::Interrupted)
                || (runs > 0 && (outcome.is_ok() || no_memory))
            {
                continue;
            }
            if no_memory {
                self.no_memory += u64::from(left);
                return Ok(());
            }
            for counter in [&self.control().failed, &self.control().runs] {
                counter.fetch_add(left.into(), Relaxed);
            }
            return outcome.map(|_| ());
        }
        Ok(())
    }

    /// Whether the device accepts redirected frames. Tested with a frame that is too long
    /// for its MTU, so that nothing is sent. The test is not counted, and resets the
    /// counts: see [`Sender::settle`].
    ///
    /// # Errors
    /// As [`Sender::send`], or if no frame is too long for that MTU.
    pub fn probe(&mut self, mtu: u32) -> Result<bool, BpfError> {
        let len = mtu as usize + OVER;
        if self.frames > 0 || mtu as usize > MAX_MTU {
            return Err(BpfError::Setting {
                setting: "the MTU of the device",
                value: mtu.into(),
                expected: "3373 at most, as a page has no room for longer frames",
            });
        }
        if let Some(room) = self.room() {
            room[..len].fill(0);
        }
        self.place(len);
        self.send()?;
        let lost = self.output.losses.take(self.slot);
        self.reset();
        Ok(lost.iter().sum::<u64>() == 1 && lost[Reason::Refused as usize] == 0)
    }

    /// Returns the counts so far and resets them.
    pub fn settle(&mut self) -> Fate {
        let fate = self.fate();
        self.output.losses.take(self.slot);
        self.reset();
        self.no_memory = 0;
        fate
    }

    fn control(&self) -> &SendControl {
        &self.control.values()[0]
    }

    fn reset(&self) {
        let control = self.control();
        for counter in [&control.runs, &control.no_device, &control.failed] {
            counter.store(0, Relaxed);
        }
    }

    /// Frames without a device.
    #[must_use]
    pub fn no_device(&self) -> u64 {
        self.control().no_device.load(Relaxed)
    }

    /// Counts of frames by result.
    #[must_use]
    pub fn fate(&self) -> Fate {
        let (no_device, failed) = (self.no_device(), self.control().failed.load(Relaxed));
        let behind = self.output.losses.lost(self.slot);
        let before = BEFORE.into_iter().zip([self.no_memory, failed]);
        let losses: Vec<(&'static str, u64)> = behind.into_iter().chain(before).collect();
        let lost: u64 = losses.iter().map(|(_, frames)| frames).sum();
        let given = self.control().runs.load(Relaxed) + self.no_memory;
        Fate { sent: given.saturating_sub(no_device + lost), no_device, losses }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::losses::NAMES;

    #[test]
    fn reasons_are_named_once() {
        let mut names: Vec<&str> = NAMES.into_iter().chain(BEFORE).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NAMES.len() + BEFORE.len());
    }
}
