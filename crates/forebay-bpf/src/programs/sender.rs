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

use crate::asm::Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9};
use crate::asm::{Alu, Assembler, Condition, Helper, Label, Size};
use crate::error::BpfError;
use crate::flow::{XDP_DATA, XDP_DATA_END};
use crate::map::{DeviceMap, ReadMemory, SharedMemory, processors};
use crate::program::{Action, Kind, Program};
use crate::programs::losses::{REFUSED, RedirectLosses};
use crate::programs::splitter::MAX_DEVICES;
use crate::sys::TestRun;

/// The longest frame: a page minus the kernel's reserve.
pub const MAX_FRAME: usize = 3392;

/// The longest MTU of a device to send to. A frame longer than the device accepts, with its
/// Ethernet header and a VLAN tag, must still fit: see [`Sender::probe`].
pub const MAX_MTU: usize = MAX_FRAME - OVER;
const _: () = assert!(MAX_MTU == 3373, "as the error of `Sender::probe` says");

/// Bytes by which a frame that is too long for a device exceeds its MTU.
pub(crate) const OVER: usize = 14 + 4 + 1;

/// The shortest frame: an Ethernet header.
pub const MIN_FRAME: usize = 14;

/// The most frames of a call.
const MOST: u32 = 4096;

/// Frames that the kernel sends before the other end of a veth pair can receive.
const BATCH: u32 = 64;

/// Bytes of memory for frames. The frames of a call should stay in the processor's cache.
const MEMORY: usize = 512 << 10;

/// Bytes before a frame, which contain its length. Frames are aligned to as many.
const PREFIX: usize = 8;

/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
pub(crate) const LIVE_FRAMES: u32 = 1 << 1;

/// Bytes that the program copies at once, while as many are left.
const BLOCK: i32 = 64;

/// The words that control the program, and its counters.
#[derive(Clone, Copy)]
#[repr(i16)]
enum Word {
    /// The position of the next frame's prefix.
    Position,
    /// The length of the frames that the kernel creates.
    Length,
    Runs,
    NoDevice,
    Failed,
    End,
}

impl Word {
    fn at(self) -> i16 {
        self as i16 * 8
    }
}

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
    control: SharedMemory,
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
        if count > MAX_DEVICES {
            return Err(BpfError::Setting {
                setting: "the number of senders",
                value: count.into(),
                expected: "1024 at most",
            });
        }
        let devices = DeviceMap::create("send_devices", MAX_DEVICES)?;
        let owners = SharedMemory::create("send_owners", processors()? as usize)?;
        let losses = RedirectLosses::watch_runs(&devices, interface, &owners)?;
        for slot in 0..count {
            devices.set(slot, interface)?;
        }
        let output = Arc::new(Output { devices, losses });
        (0..count).map(|slot| Self::new(&output, &owners, slot)).collect()
    }

    fn new(output: &Arc<Output>, owners: &SharedMemory, slot: u32) -> Result<Self, BpfError> {
        let memory = ReadMemory::create("send_frames", (MEMORY / 8) as u32)?;
        let control = SharedMemory::create("send_control", Word::End as usize)?;
        let asm = assemble(&memory, &control, owners, &output.devices, slot);
        let program = Program::load("forebay_send", Kind::Xdp { multi_buffer: false }, asm)?;
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
        if self.frames >= MOST || self.used + PREFIX + MAX_FRAME > MEMORY {
            return None;
        }
        self.memory.bytes_mut().get_mut(self.used + PREFIX..)?.get_mut(..MAX_FRAME)
    }

    /// Places the frame of this length that was written into the buffer. Returns false,
    /// without placing it, if it is shorter than [`MIN_FRAME`] or longer than
    /// [`MAX_FRAME`].
    pub fn place(&mut self, len: usize) -> bool {
        if !(MIN_FRAME..=MAX_FRAME).contains(&len) || self.room().is_none() {
            return false;
        }
        let prefix = self.memory.bytes_mut().get_mut(self.used..self.used + PREFIX);
        if let Some(prefix) = prefix {
            prefix.copy_from_slice(&(len as u64).to_le_bytes());
        }
        self.used += PREFIX + len.next_multiple_of(PREFIX);
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
        self.set(Word::Position, 0);
        self.set(Word::Length, longest as u64);
        let frame = [0; MAX_FRAME];
        while left > 0 {
            let before = self.get(Word::Runs);
            let run = TestRun {
                data_in: &frame[..longest],
                repeat: left,
                flags: LIVE_FRAMES,
                batch_size: BATCH,
                ..TestRun::default()
            };
            let outcome = self.program.test(run);
            let runs = self.get(Word::Runs) - before;
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
            self.add(Word::Failed, left);
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
        for word in [Word::Runs, Word::NoDevice, Word::Failed] {
            self.set(word, 0);
        }
        Ok(lost.iter().sum::<u64>() == 1 && lost[REFUSED as usize] == 0)
    }

    /// Returns the counts so far and resets them.
    pub fn settle(&mut self) -> Fate {
        let fate = self.fate();
        self.output.losses.take(self.slot);
        for word in [Word::Runs, Word::NoDevice, Word::Failed] {
            self.set(word, 0);
        }
        self.no_memory = 0;
        fate
    }

    /// Frames without a device.
    #[must_use]
    pub fn no_device(&self) -> u64 {
        self.get(Word::NoDevice)
    }

    /// Counts of frames by result.
    #[must_use]
    pub fn fate(&self) -> Fate {
        let (no_device, failed) = (self.no_device(), self.get(Word::Failed));
        let behind = self.output.losses.lost(self.slot);
        let before = BEFORE.into_iter().zip([self.no_memory, failed]);
        let losses: Vec<(&'static str, u64)> = behind.into_iter().chain(before).collect();
        let lost: u64 = losses.iter().map(|(_, frames)| frames).sum();
        let given = self.get(Word::Runs) + self.no_memory;
        Fate { sent: given.saturating_sub(no_device + lost), no_device, losses }
    }

    fn get(&self, word: Word) -> u64 {
        self.control.words()[word as usize].load(Relaxed)
    }

    fn set(&self, word: Word, value: u64) {
        self.control.words()[word as usize].store(value, Relaxed);
    }

    /// Counts frames for which the program did not run.
    fn add(&self, word: Word, frames: u32) {
        for word in [word, Word::Runs] {
            self.set(word, self.get(word) + u64::from(frames));
        }
    }
}

/// The code. R6 = the control words, R7 = the frame's length, R8 = the frame in the memory,
/// R9 = the context.
fn assemble(
    memory: &ReadMemory,
    control: &SharedMemory,
    owners: &SharedMemory,
    devices: &DeviceMap,
    slot: u32,
) -> Assembler {
    let mut asm = Assembler::new();
    let (wrong, sent) = (asm.label("wrong"), asm.label("sent"));
    asm.mov(R9, R1);
    asm.load_map_value(R6, control, 0);
    asm.increment(R6, Word::Runs.at(), R1);
    emit_next(&mut asm, memory, wrong);
    emit_length(&mut asm, wrong);
    emit_copy(&mut asm, wrong);

    asm.call(Helper::GetSmpProcessorId);
    asm.branch(Condition::GreaterOrEqual, R0, owners.words().len() as i32, wrong);
    asm.alu(Alu::Lsh, R0, 3);
    asm.load_map_value(R1, owners, 0);
    asm.alu(Alu::Add, R1, R0);
    asm.store(Size::Double, R1, 0, slot.cast_signed());
    asm.load_map(R1, devices);
    asm.mov(R2, slot.cast_signed());
    asm.mov(R3, Action::Drop as i32);
    asm.call(Helper::RedirectMap);
    asm.branch(Condition::Equal, R0, Action::Redirect as i32, sent);
    asm.increment(R6, Word::NoDevice.at(), R1);
    asm.bind(sent);
    asm.exit();
    asm.bind(wrong);
    asm.increment(R6, Word::Failed.at(), R1);
    asm.exit_with(Action::Drop as i32);
    asm
}

/// Loads the next frame's position and length, with bounds for the verifier.
fn emit_next(asm: &mut Assembler, memory: &ReadMemory, wrong: Label) {
    asm.load(Size::Double, R1, R6, Word::Position.at());
    asm.branch(Condition::Greater, R1, (MEMORY - PREFIX - MAX_FRAME) as i32, wrong);
    asm.load_map_value(R8, memory, 0);
    asm.alu(Alu::Add, R8, R1);
    asm.load(Size::Double, R7, R8, 0);
    asm.branch(Condition::Greater, R7, MAX_FRAME as i32, wrong);
    asm.branch(Condition::Less, R7, MIN_FRAME as i32, wrong);
    asm.alu(Alu::Add, R8, PREFIX as i32);
    asm.alu(Alu::Add, R1, R7);
    asm.alu(Alu::Add, R1, 2 * PREFIX as i32 - 1);
    asm.alu(Alu::And, R1, -(PREFIX as i32));
    asm.store(Size::Double, R6, Word::Position.at(), R1);
}

/// Shortens the frame of the context.
fn emit_length(asm: &mut Assembler, wrong: Label) {
    let whole = asm.label("whole");
    asm.load(Size::Double, R1, R6, Word::Length.at());
    asm.mov(R2, R7);
    asm.alu(Alu::Sub, R2, R1);
    asm.branch(Condition::Equal, R2, 0, whole);
    asm.mov(R1, R9);
    asm.call(Helper::XdpAdjustTail);
    asm.branch(Condition::NotEqual, R0, 0, wrong);
    asm.bind(whole);
}

/// Copies R7 bytes from R8 to the frame of the context: first blocks, then words, then the
/// rest in halves.
fn emit_copy(asm: &mut Assembler, wrong: Label) {
    asm.load(Size::Word, R1, R9, XDP_DATA);
    asm.load(Size::Word, R2, R9, XDP_DATA_END);
    for bytes in [BLOCK, 8] {
        let (again, done) = (asm.bind_new("again"), asm.label("done"));
        asm.branch(Condition::Less, R7, bytes, done);
        emit_piece(asm, bytes, Size::Double, wrong);
        asm.alu(Alu::Sub, R7, bytes);
        asm.jump(again);
        asm.bind(done);
    }
    for (bytes, size) in [(4, Size::Word), (2, Size::Half), (1, Size::Byte)] {
        let done = asm.label("done");
        asm.mov(R3, R7);
        asm.alu(Alu::And, R3, bytes);
        asm.branch(Condition::Equal, R3, 0, done);
        emit_piece(asm, bytes, size, wrong);
        asm.bind(done);
    }
}

/// Copies `bytes` bytes from R8 to R1, and advances both. R2 = the frame's end.
fn emit_piece(asm: &mut Assembler, bytes: i32, size: Size, wrong: Label) {
    asm.mov(R4, R1);
    asm.alu(Alu::Add, R4, bytes);
    asm.branch(Condition::Greater, R4, R2, wrong);
    for at in (0..bytes as i16).step_by(size.bytes() as usize) {
        asm.load(size, R5, R8, at);
        asm.store(size, R1, at, R5);
    }
    asm.alu(Alu::Add, R1, bytes);
    asm.alu(Alu::Add, R8, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::losses::REASONS;

    #[test]
    fn reasons_are_named_once() {
        let mut names: Vec<&str> = REASONS.into_iter().chain(BEFORE).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), REASONS.len() + BEFORE.len());
    }
}
