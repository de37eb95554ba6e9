//! Frames made in the kernel, at a rate: a program for a long test run of live frames.
//!
//! The kernel runs the program on frame after frame of memory that it recycles
//! (`BPF_F_TEST_XDP_LIVE_FRAMES`); what the program redirects is sent. The program
//! writes the beginning of a flow's frames, which are made in advance, and counts the
//! frames of each flow in the frame itself.
//!
//! It is paced inside. A run that comes before its time gives the frame back, so the
//! kernel spins, and what was sent goes out in small groups. There is no catching up: a
//! frame that is late for longer than the interval begins a new schedule, and what
//! should have been sent in between never is. Besides, it can be allowed so many frames
//! and no more: who watches where frames arrive keeps as many on the way as have room.
//!
//! A frame counts as sent when the device has taken it. Whether it has room for it
//! shows later, in the device's own counters.

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

/// The beginning of a frame that flows differ in.
pub const HEAD: usize = 56;

/// The shortest frame, without the check sequence.
pub const MIN_FRAME: usize = 60;

/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
const LIVE_FRAMES: u32 = 1 << 1;

/// A flow's words: its head, how many frames it had, and the bytes that their ends are
/// moved by.
const FLOW_WORDS: usize = HEAD / 8 + 2;
const CUT: usize = HEAD / 8 + 1;
const FLOW_BYTES: i32 = FLOW_WORDS as i32 * 8;

/// The words that steer the program, and those it counts in.
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

/// What is sent.
#[derive(Clone, Debug)]
pub struct Flows<'a> {
    /// The first bytes of each flow's frames.
    pub heads: &'a [[u8; HEAD]],
    /// Bytes that each flow's frames are shorter than the one given to
    /// [`Generator::run`]; none where all have its length.
    pub cuts: &'a [u16],
    /// Whose turn it is, frame by frame, over and over: a power of two of numbers of
    /// flows.
    pub order: &'a [u32],
    /// Where in the frame its number in its flow goes, 8 bytes in network order: within
    /// the first [`MIN_FRAME`] bytes.
    pub number_at: usize,
}

/// What was sent so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Sent {
    /// Frames given to the device.
    pub frames: u64,
    /// Frames for which there was no device.
    pub no_device: u64,
    /// Runs that came before a frame's time, or after the end.
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
    /// Makes and loads the program; it sends as fast as it can.
    ///
    /// # Errors
    /// No flows, an order that is none; the kernel's refusal.
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

    /// Sends a frame each `interval`, from now on; 0 for as fast as it can.
    pub fn set_interval(&self, interval: Duration) {
        self.set(Word::NextAt, 0);
        self.set(Word::Interval, u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Sends nothing from that time of the monotonic clock on, in nanoseconds; 0 for
    /// no end.
    pub fn stop_at(&self, time: u64) {
        self.set(Word::StopAt, time);
    }

    /// Sends no more once that many frames were sent since the program was loaded; at first
    /// there is no limit.
    pub fn allow(&self, frames: u64) {
        self.set(Word::Allowed, frames);
    }

    /// Runs the program so many times, and at most once a frame that is sent, by the
    /// interface of that number. Frames are as long as `frame`, whose bytes past the
    /// head they have. `batch` are run in a row before they are sent: 64 is what drivers
    /// do, 1 sends each at its time.
    ///
    /// A signal ends it; false where one did.
    ///
    /// # Errors
    /// A frame too short, or longer than a page has room for; no such interface; the
    /// kernel's refusal.
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

    /// What was sent so far.
    #[must_use]
    pub fn sent(&self) -> Sent {
        Sent {
            frames: self.get(Word::Sent),
            no_device: self.get(Word::NotSent),
            idle: self.get(Word::Early),
        }
    }

    /// Frames that a flow has had; 0 for a flow that there is none of.
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
    // R8 = the flow whose turn it is.
    asm.load(Size::Double, R1, R6, Word::Position.at());
    asm.mov(R2, R1);
    asm.alu(Alu::Add, R2, 1);
    asm.store(Size::Double, R6, Word::Position.at(), R2);
    asm.alu(Alu::And, R1, flows.order.len() as i32 - 1);
    asm.alu(Alu::Lsh, R1, 3);
    asm.load_map_value(R2, order, 0);
    asm.alu(Alu::Add, R2, R1);
    asm.load(Size::Double, R1, R2, 0);
    // Only flows that there are are in the order; the verifier is told so.
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

/// Leads to `due` where a frame is due, else to `idle`. The time is asked for only where
/// it decides.
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

/// Writes the head and the number of the flow at R8 into the frame of the context in
/// R9.
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

/// Cuts the end off the frame of the context in R9, as the flow at R8 says.
fn emit_cut(asm: &mut Assembler, idle: Label) {
    let whole = asm.label("whole");
    asm.load(Size::Double, R2, R8, CUT as i16 * 8);
    asm.branch(Condition::Equal, R2, 0, whole);
    asm.mov(R1, R9);
    asm.call(Helper::XdpAdjustTail);
    asm.branch(Condition::NotEqual, R0, 0, idle);
    asm.bind(whole);
}
