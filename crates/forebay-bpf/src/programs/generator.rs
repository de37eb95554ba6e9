//! Generates frames in the kernel at a given rate, with a program for a long test run of
//! live frames.
//!
//! The kernel runs the program repeatedly on frames of memory that it recycles
//! (`BPF_F_TEST_XDP_LIVE_FRAMES`); frames that the program redirects are sent. The program
//! writes the beginning of a flow's frames, which user space prepares, and numbers the
//! frames of each flow in the frame itself.
//!
//! The program paces itself. A run before its time returns the frame, so the kernel spins,
//! and frames are sent in small groups. There is no catching up: a frame that is late by
//! more than the interval begins a new schedule, and the frames missed are never sent. In
//! addition, the total number of frames can be limited: a caller that observes the
//! receiving end can keep no more frames in flight than there is room for.
//!
//! A frame counts as sent when it is given to the device. Losses in the device show later,
//! in its own counters.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::asm::Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9};
use crate::asm::{Alu, Assembler, Condition, Helper, Label, Size};
use crate::error::BpfError;
use crate::flow::{XDP_DATA, XDP_DATA_END};
use crate::map::{DeviceMap, SharedMemory};
use crate::program::{Action, Kind, Program};
use crate::sys::TestRun;

/// The beginning of a frame that differs between flows.
pub const HEAD: usize = 56;

/// The shortest frame, without the check sequence.
pub const MIN_FRAME: usize = 60;

/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
const LIVE_FRAMES: u32 = 1 << 1;

/// A flow's words: its head, its number of frames, and the bytes by which their ends are
/// moved.
const FLOW_WORDS: usize = HEAD / 8 + 2;
const CUT: usize = HEAD / 8 + 1;
const FLOW_BYTES: i32 = FLOW_WORDS as i32 * 8;

/// The words that control the program, and its counters.
#[derive(Clone, Copy)]
#[repr(i16)]
enum Word {
    NextAt,
    Interval,
    StopAt,
    Allowed,
    Position,
    Sent,
    NotSent,
    Early,
    End,
}

impl Word {
    fn at(self) -> i16 {
        self as i16 * 8
    }
}

/// The flows to send.
#[derive(Clone, Debug)]
pub struct Flows<'a> {
    /// The first bytes of each flow's frames.
    pub heads: &'a [[u8; HEAD]],
    /// Bytes by which each flow's frames are shorter than the one given to
    /// [`Generator::run`]; empty if all have its length.
    pub cuts: &'a [u16],
    /// The sequence of flow numbers, one for each frame, repeated; its length is a power of
    /// two.
    pub order: &'a [u32],
    /// The offset of a frame's number within its flow, 8 bytes in network order: within the
    /// first [`MIN_FRAME`] bytes.
    pub number_at: usize,
}

/// Counts so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Sent {
    /// Frames given to the device.
    pub frames: u64,
    /// Frames without a device.
    pub no_device: u64,
    /// Runs before a frame's time, or after the end.
    pub idle: u64,
}

/// A generator of frames.
#[derive(Debug)]
pub struct Generator {
    program: Program,
    flows: SharedMemory,
    control: SharedMemory,
    devices: DeviceMap,
    /// The shortest frame that the program can be run with.
    shortest: usize,
}

impl Generator {
    /// Generates and loads the program; it sends as fast as possible.
    ///
    /// # Errors
    /// If there are no flows, the order is invalid, or the kernel refuses the program.
    pub fn load(flows: &Flows<'_>) -> Result<Self, BpfError> {
        check(flows)?;
        let memory = SharedMemory::create("gen_flows", flows.heads.len() * FLOW_WORDS)?;
        let entries = memory.words().chunks_exact(FLOW_WORDS);
        for (words, head) in entries.clone().zip(flows.heads) {
            for (word, bytes) in words.iter().zip(head.as_chunks().0) {
                word.store(u64::from_ne_bytes(*bytes), Relaxed);
            }
        }
        for (words, &cut) in entries.zip(flows.cuts) {
            words[CUT].store((-i64::from(cut)).cast_unsigned(), Relaxed);
        }
        let order = SharedMemory::create("gen_order", flows.order.len())?;
        for (word, &flow) in order.words().iter().zip(flows.order) {
            word.store(flow.into(), Relaxed);
        }
        let control = SharedMemory::create("gen_control", Word::End as usize)?;
        control.words()[Word::Allowed as usize].store(u64::MAX, Relaxed);
        let devices = DeviceMap::create("gen_devices", 1)?;
        let asm = assemble(flows, &memory, &order, &control, &devices);
        let program = Program::load("forebay_gen", Kind::Xdp { multi_buffer: false }, asm)?;
        let cut = flows.cuts.iter().copied().max().unwrap_or_default();
        let shortest = MIN_FRAME + usize::from(cut);
        Ok(Self { program, flows: memory, control, devices, shortest })
    }

    fn set(&self, word: Word, value: u64) {
        self.control.words()[word as usize].store(value, Relaxed);
    }

    fn get(&self, word: Word) -> u64 {
        self.control.words()[word as usize].load(Relaxed)
    }

    /// Sends a frame every `interval`, from now on; 0 for as fast as possible.
    pub fn set_interval(&self, interval: Duration) {
        self.set(Word::NextAt, 0);
        self.set(Word::Interval, u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Sends nothing from this time of the monotonic clock on, in nanoseconds; 0 for no
    /// end.
    pub fn stop_at(&self, time: u64) {
        self.set(Word::StopAt, time);
    }

    /// Limits the number of frames sent since the program was loaded; initially unlimited.
    pub fn allow(&self, frames: u64) {
        self.set(Word::Allowed, frames);
    }

    /// Runs the program `times` times; each run sends at most one frame, through the
    /// interface with this number. Frames have the length of `frame`, and its bytes after
    /// the head. `batch` runs come before their frames are sent: 64 as drivers do, 1 to
    /// send each frame at its time.
    ///
    /// Returns false if a signal interrupts it.
    ///
    /// # Errors
    /// If the frame is too short, or longer than a page holds, there is no such interface,
    /// or the kernel refuses the run.
    pub fn run(
        &self,
        frame: &[u8],
        interface: u32,
        times: u32,
        batch: u32,
    ) -> Result<bool, BpfError> {
        if frame.len() < self.shortest {
            return Err(BpfError::Setting {
                setting: "the length of a frame",
                value: frame.len() as u64,
                expected: "60 or more, and what flows have cut off",
            });
        }
        self.devices.set(0, interface)?;
        let run = TestRun {
            data_in: frame,
            repeat: times,
            flags: LIVE_FRAMES,
            batch_size: batch,
            ..TestRun::default()
        };
        match self.program.test(run) {
            Ok(_) => Ok(true),
            Err(BpfError::Run { source, .. }) if source.kind() == io::ErrorKind::Interrupted => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Counts so far.
    #[must_use]
    pub fn sent(&self) -> Sent {
        Sent {
            frames: self.get(Word::Sent),
            no_device: self.get(Word::NotSent),
            idle: self.get(Word::Early),
        }
    }

    /// Frames of a flow; 0 for an unknown flow.
    #[must_use]
    pub fn frames_of(&self, flow: usize) -> u64 {
        let word = self.flows.words().get(flow * FLOW_WORDS + HEAD / 8);
        word.map_or(0, |word| word.load(Relaxed))
    }
}

fn check(flows: &Flows<'_>) -> Result<(), BpfError> {
    let wrong = |setting, value: usize, expected| {
        Err(BpfError::Setting { setting, value: value as u64, expected })
    };
    let count = flows.heads.len();
    if count == 0 || count > 1 << 22 {
        return wrong("the number of flows", count, "1 to 4194304");
    }
    if !flows.order.len().is_power_of_two() || flows.order.len() > 1 << 24 {
        return wrong(
            "the length of the flows' order",
            flows.order.len(),
            "a power of two to 2^24",
        );
    }
    if let Some(&flow) = flows.order.iter().find(|&&flow| flow as usize >= count) {
        return wrong("a number in the flows' order", flow as usize, "a flow's");
    }
    if !flows.cuts.is_empty() && flows.cuts.len() != count {
        return wrong("the number of flows' cuts", flows.cuts.len(), "one a flow, or none");
    }
    if flows.number_at > MIN_FRAME - 8 {
        return wrong("the place of a frame's number", flows.number_at, "0 to 52");
    }
    Ok(())
}

/// The code. R6 = the control words, R7 = the time, then the frame, R8 = the flow.
fn assemble(
    flows: &Flows<'_>,
    memory: &SharedMemory,
    order: &SharedMemory,
    control: &SharedMemory,
    devices: &DeviceMap,
) -> Assembler {
    let mut asm = Assembler::new();
    let (idle, due) = (asm.label("idle"), asm.label("due"));
    asm.mov(R9, R1);
    asm.load_map_value(R6, control, 0);
    emit_schedule(&mut asm, idle, due);

    asm.bind(due);
    // R8 = the flow of this frame.
    asm.load(Size::Double, R1, R6, Word::Position.at());
    asm.mov(R2, R1);
    asm.alu(Alu::Add, R2, 1);
    asm.store(Size::Double, R6, Word::Position.at(), R2);
    asm.alu(Alu::And, R1, flows.order.len() as i32 - 1);
    asm.alu(Alu::Lsh, R1, 3);
    asm.load_map_value(R2, order, 0);
    asm.alu(Alu::Add, R2, R1);
    asm.load(Size::Double, R1, R2, 0);
    // The order has only valid flows; the check is for the verifier.
    asm.branch(Condition::GreaterOrEqual, R1, flows.heads.len() as i32, idle);
    asm.alu(Alu::Mul, R1, FLOW_BYTES);
    asm.load_map_value(R8, memory, 0);
    asm.alu(Alu::Add, R8, R1);
    emit_frame(&mut asm, flows.number_at as i16, idle);
    if !flows.cuts.is_empty() {
        emit_cut(&mut asm, idle);
    }

    let sent = asm.label("sent");
    asm.load_map(R1, devices);
    asm.mov(R2, 0);
    asm.mov(R3, Action::Drop as i32);
    asm.call(Helper::RedirectMap);
    asm.branch(Condition::Equal, R0, Action::Redirect as i32, sent);
    asm.increment(R6, Word::NotSent.at(), R1);
    asm.exit();
    asm.bind(sent);
    asm.increment(R6, Word::Sent.at(), R1);
    asm.exit();
    asm.bind(idle);
    asm.increment(R6, Word::Early.at(), R1);
    asm.exit_with(Action::Drop as i32);
    asm
}

/// Jumps to `due` if a frame is due, else to `idle`. Reads the clock only if needed.
fn emit_schedule(asm: &mut Assembler, idle: Label, due: Label) {
    let (timed, no_end, late) = (asm.label("timed"), asm.label("no_end"), asm.label("late"));
    asm.load(Size::Double, R1, R6, Word::Sent.at());
    asm.load(Size::Double, R2, R6, Word::Allowed.at());
    asm.branch(Condition::GreaterOrEqual, R1, R2, idle);
    asm.load(Size::Double, R1, R6, Word::StopAt.at());
    asm.load(Size::Double, R2, R6, Word::Interval.at());
    asm.alu(Alu::Or, R1, R2);
    asm.branch(Condition::NotEqual, R1, 0, timed);
    asm.jump(due);
    asm.bind(timed);
    asm.call(Helper::KtimeGetNs);
    asm.mov(R7, R0);
    asm.load(Size::Double, R1, R6, Word::StopAt.at());
    asm.branch(Condition::Equal, R1, 0, no_end);
    asm.branch(Condition::GreaterOrEqual, R7, R1, idle);
    asm.bind(no_end);
    asm.load(Size::Double, R2, R6, Word::Interval.at());
    asm.branch(Condition::Equal, R2, 0, due);
    asm.load(Size::Double, R1, R6, Word::NextAt.at());
    asm.branch(Condition::Less, R7, R1, idle);
    asm.alu(Alu::Add, R1, R2);
    asm.branch(Condition::Less, R1, R7, late);
    asm.store(Size::Double, R6, Word::NextAt.at(), R1);
    asm.jump(due);
    asm.bind(late);
    asm.alu(Alu::Add, R2, R7);
    asm.store(Size::Double, R6, Word::NextAt.at(), R2);
}

/// Writes the head and the number of the flow at R8 into the frame of the context in R9.
fn emit_frame(asm: &mut Assembler, number_at: i16, idle: Label) {
    asm.load(Size::Word, R7, R9, XDP_DATA);
    asm.load(Size::Word, R2, R9, XDP_DATA_END);
    asm.mov(R3, R7);
    asm.alu(Alu::Add, R3, MIN_FRAME as i32);
    asm.branch(Condition::Greater, R3, R2, idle);
    for word in (0..HEAD as i16).step_by(8) {
        asm.load(Size::Double, R4, R8, word);
        asm.store(Size::Double, R7, word, R4);
    }
    asm.load(Size::Double, R4, R8, HEAD as i16);
    asm.mov(R5, R4);
    asm.alu(Alu::Add, R5, 1);
    asm.store(Size::Double, R8, HEAD as i16, R5);
    asm.from_big_endian(Size::Double, R4);
    asm.store(Size::Double, R7, number_at, R4);
}

/// Shortens the frame of the context in R9 as the flow at R8 specifies.
fn emit_cut(asm: &mut Assembler, idle: Label) {
    let whole = asm.label("whole");
    asm.load(Size::Double, R2, R8, CUT as i16 * 8);
    asm.branch(Condition::Equal, R2, 0, whole);
    asm.mov(R1, R9);
    asm.call(Helper::XdpAdjustTail);
    asm.branch(Condition::NotEqual, R0, 0, idle);
    asm.bind(whole);
}
