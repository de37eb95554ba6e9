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
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::error::BpfError;
use crate::map::{DeviceMap, SharedMemory};
use crate::object::{Loader, include_program};
use crate::program::{Kind, Program};
use crate::programs::replay::ReplayedFrames;
use crate::programs::sender::LIVE_FRAMES;
use crate::sys::TestRun;
pub use crate::sys::layout::GENERATOR_MIN_FRAME as MIN_FRAME;
use crate::sys::layout::{GeneratorControl, GeneratorFlow, HEAD_WORDS};

/// The beginning of a frame that differs between flows.
pub const HEAD: usize = HEAD_WORDS * 8;

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
    /// None of a replay.
    flows: Option<SharedMemory<GeneratorFlow>>,
    control: SharedMemory<GeneratorControl>,
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
        let memory = SharedMemory::<GeneratorFlow>::create("gen_flows", flows.heads.len())?;
        for (flow, head) in memory.values().iter().zip(flows.heads) {
            for (word, bytes) in flow.head.iter().zip(head.as_chunks().0) {
                word.store(u64::from_ne_bytes(*bytes), Relaxed);
            }
        }
        for (flow, &cut) in memory.values().iter().zip(flows.cuts) {
            flow.cut.store((-i64::from(cut)).cast_unsigned(), Relaxed);
        }
        let order = SharedMemory::<AtomicU64>::create("gen_order", flows.order.len())?;
        for (word, &flow) in order.values().iter().zip(flows.order) {
            word.store(flow.into(), Relaxed);
        }
        let control = SharedMemory::<GeneratorControl>::create("gen_control", 1)?;
        control.values()[0].allowed.store(u64::MAX, Relaxed);
        let devices = DeviceMap::create("gen_devices", 1)?;
        let program = Loader::new(include_program!("generator"))
            .set("flow_count", flows.heads.len() as u64)
            .set("order_mask", flows.order.len() as u64 - 1)
            .set("number_at", flows.number_at as u64)
            .set("cuts", (!flows.cuts.is_empty()).into())
            .map("control", &control)
            .map("flows", &memory)
            .map("order", &order)
            .map("devices", &devices)
            .load("forebay_gen", Kind::Xdp { multi_buffer: false })?;
        let cut = flows.cuts.iter().copied().max().unwrap_or_default();
        let shortest = MIN_FRAME + usize::from(cut);
        Ok(Self { program, flows: Some(memory), control, devices, shortest })
    }

    /// Loads the program that sends given frames, in their order, again and again. With `timed` it
    /// notes the time of each.
    ///
    /// # Errors
    /// The kernel's.
    pub fn replay(frames: &ReplayedFrames, timed: bool) -> Result<Self, BpfError> {
        let control = SharedMemory::<GeneratorControl>::create("gen_control", 1)?;
        control.values()[0].allowed.store(u64::MAX, Relaxed);
        let devices = DeviceMap::create("gen_devices", 1)?;
        let loader = frames.loader(timed).map("control", &control).map("devices", &devices);
        let program = loader.load("forebay_replay", Kind::Xdp { multi_buffer: false })?;
        Ok(Self { program, flows: None, control, devices, shortest: frames.longest() })
    }

    fn control(&self) -> &GeneratorControl {
        &self.control.values()[0]
    }

    /// Sends a frame every `interval`, from now on; 0 for as fast as possible.
    pub fn set_interval(&self, interval: Duration) {
        let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        self.control().next_at.store(0, Relaxed);
        self.control().interval.store(interval, Relaxed);
    }

    /// Sends nothing from this time of the monotonic clock on, in nanoseconds; 0 for no
    /// end.
    pub fn stop_at(&self, time: u64) {
        self.control().stop_at.store(time, Relaxed);
    }

    /// Limits the number of frames sent since the program was loaded; initially unlimited.
    pub fn allow(&self, frames: u64) {
        self.control().allowed.store(frames, Relaxed);
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
            frames: self.control().sent.load(Relaxed),
            no_device: self.control().not_sent.load(Relaxed),
            idle: self.control().early.load(Relaxed),
        }
    }

    /// Frames of a flow; 0 for an unknown flow, and of a replay.
    #[must_use]
    pub fn frames_of(&self, flow: usize) -> u64 {
        let flow = self.flows.as_ref().and_then(|flows| flows.values().get(flow));
        flow.map_or(0, |flow| flow.frames.load(Relaxed))
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
