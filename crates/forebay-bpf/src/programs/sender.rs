//! Frames of this process, sent by a device without a socket.
//!
//! The kernel can run a program on memory of its own as if a frame had just come
//! (`BPF_F_TEST_XDP_LIVE_FRAMES`, Documentation/bpf/bpf_prog_run.rst), and what the program
//! redirects is sent. So frames are written one after another into memory that the program
//! can read, and one call has it run for each: it copies the next frame into the one it was
//! given, and redirects that to the device. There is no socket buffer, and a program at the
//! other end of a veth pair finds a frame as a driver would give it.
//!
//! A call takes some microseconds, as the kernel makes a pool of pages for it, and a frame
//! after that some 50 ns: many frames should share a call. A program that is on no device
//! costs milliseconds more, because the kernel then rewrites the code that leads to it at
//! the call's beginning and end; so the caller attaches [`Sender::program`] to a device that
//! carries nothing.
//!
//! Frames go out in the order in which they were placed. What becomes of each is counted: a
//! run of the program is counted by the program, and what the device does not take of the
//! redirected frames by [`super::losses`], before the call returns.

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

/// The longest frame: what a page has room for, besides what the kernel keeps there.
pub const MAX_FRAME: usize = 3392;

/// The longest MTU of a device that frames can be sent to. One frame more than it takes, with
/// its Ethernet header and a VLAN tag, still has to fit: see [`Sender::probe`].
pub const MAX_MTU: usize = MAX_FRAME - OVER;
const _: () = assert!(MAX_MTU == 3373, "as the error of `Sender::probe` says");

/// By how many bytes a frame that is too long for a device exceeds its MTU.
pub(crate) const OVER: usize = 14 + 4 + 1;

/// The shortest: an Ethernet header.
pub const MIN_FRAME: usize = 14;

/// Frames of a call at the most.
const MOST: u32 = 4096;

/// Frames that the kernel sends before it lets the other end of a veth pair receive.
const BATCH: u32 = 64;

/// Bytes of the memory for frames. Those of a call should stay in the processor's cache.
const MEMORY: usize = 512 << 10;

/// Bytes before a frame, which have its length. Frames begin at multiples of as many.
const PREFIX: usize = 8;

/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
pub(crate) const LIVE_FRAMES: u32 = 1 << 1;

/// What the program copies at once, in bytes, as long as there is as much.
const BLOCK: i32 = 64;

/// The words that steer the program, and those it counts in.
#[derive(Clone, Copy)]
#[repr(i16)]
enum Word {
    /// Where the next frame's prefix is.
    Position,
    /// The length of the frames that the kernel makes.
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

/// What all senders to a device share.
#[derive(Debug)]
struct Output {
    devices: DeviceMap,
    losses: RedirectLosses,
}

/// Sends to a device.
#[derive(Debug)]
pub struct Sender {
    program: Program,
    output: Arc<Output>,
    /// Its slot in the map of devices.
    slot: u32,
    memory: ReadMemory,
    control: SharedMemory,
    /// What the memory has: bytes, frames, and the longest frame.
    used: usize,
    frames: u32,
    longest: usize,
    /// Frames for which the kernel had no memory.
    no_memory: u64,
}

/// What became of all frames that were given to [`Sender::send`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Taken by the device.
    pub sent: u64,
    /// For which there was no device any more.
    pub no_device: u64,
    /// Not taken, by reason.
    pub losses: Vec<(&'static str, u64)>,
}

/// Why frames are lost before they get to the device.
const BEFORE: [&str; 2] = ["no_memory", "program_failed"];

impl Sender {
    /// Makes so many senders to the device of that number in this thread's network
    /// namespace, each for a thread of its own.
    ///
    /// # Errors
    /// More senders than 1,024; the kernel's refusal, also to tell what the device loses.
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

    /// The program, which should be on some device while this lives.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Room for a frame of up to [`MAX_FRAME`] bytes; nothing where it is time to
    /// [`send`](Self::send).
    pub fn room(&mut self) -> Option<&mut [u8]> {
        if self.frames >= MOST || self.used + PREFIX + MAX_FRAME > MEMORY {
            return None;
        }
        self.memory.bytes_mut().get_mut(self.used + PREFIX..)?.get_mut(..MAX_FRAME)
    }

    /// Places the frame of that length that was written into the room. False, and there is
    /// none, where it is shorter than [`MIN_FRAME`] or longer than [`MAX_FRAME`].
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
    /// The kernel refuses to run the program at all; the frames are lost, and counted.
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
            // A signal: the next call goes on with the next frame. No memory for a page: the
            // rest is tried again as long as some get theirs.
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

    /// Whether the device takes redirected frames: tried with one that is too long for its
    /// MTU, so that nothing is sent. It is not counted, and what was is forgotten: see
    /// [`Sender::settle`].
    ///
    /// # Errors
    /// As [`Sender::send`], or that no frame is too long for that MTU.
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

    /// What became of the frames until now, which begins anew.
    pub fn settle(&mut self) -> Fate {
        let fate = self.fate();
        self.output.losses.take(self.slot);
        for word in [Word::Runs, Word::NoDevice, Word::Failed] {
            self.set(word, 0);
        }
        self.no_memory = 0;
        fate
    }

    /// Frames for which there was no device any more.
    #[must_use]
    pub fn no_device(&self) -> u64 {
        self.get(Word::NoDevice)
    }

    /// What became of the frames.
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

    /// Counts frames that the program did not run for.
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

/// Takes the next frame. The verifier is told what lengths and places there are.
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

/// Cuts the end off the frame of the context.
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
/// rest by halves.
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

/// Copies so many bytes from R8 to R1, and leaves both past them. R2 = the frame's end.
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
