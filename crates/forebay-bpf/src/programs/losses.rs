//! Counts losses after a redirect: frames that a program redirected to a device, and that
//! the device did not accept.
//!
//! The redirecting program has ended by then and cannot count them, and few drivers do. The
//! kernel reports them at two tracepoints, which these programs count by slot of the device
//! map:
//!
//! | name | tracepoint | cause |
//! |---|---|---|
//! | `ring_full` | `xdp_devmap_xmit` | the transmit ring of the device was full |
//! | `refused` | both | the device does not accept the frame: no ring for it, or no such feature |
//! | `too_long` | `xdp_redirect_err` | the frame is longer than the device's MTU allows |
//! | `link_down` | `xdp_redirect_err` | the device was down |
//!
//! The first tracepoint passes devices only as kernel structures, and covers all network
//! namespaces, so the programs read the number and the namespace of the device from there.
//! It runs once for up to 16 frames, nearly always without a loss.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering::Relaxed;

use crate::asm::Register::{FP, R0, R1, R2, R3, R6, R7, R8, R9};
use crate::asm::{Alu, Assembler, Condition, Helper, Instruction, Label, Register, Size};
use crate::btf::Types;
use crate::error::BpfError;
use crate::link::TracepointLink;
use crate::map::{DeviceMap, HashMap, SharedMemory, WhenFull};
use crate::program::{Kind, Program};
use crate::programs::splitter::{MAX_DEVICES, State};

/// The causes of losses, in the order of their counters.
pub(crate) const REASONS: [&str; 4] = ["ring_full", "refused", "too_long", "link_down"];
const RING_FULL: i32 = 0;
pub(crate) const REFUSED: i32 = 1;
pub(crate) const TOO_LONG: i32 = 2;
const LINK_DOWN: i32 = 3;

/// Arguments of `xdp_devmap_xmit` and of `xdp_redirect_err` (include/trace/events/xdp.h of
/// the kernel), in words of 64 bits.
const FROM_DEVICE: i16 = 0;
const TO_DEVICE: i16 = 8;
const DROPS: i16 = 24;
const XMIT_ERROR: i16 = 32;
const ERROR: i16 = 24;
const MAP: i16 = 40;
const SLOT: i16 = 48;

/// The number of the loopback device of every network namespace.
const LOOPBACK: i32 = 1;

/// Kernel error numbers.
const MESSAGE_SIZE: i32 = 90;
const NETWORK_DOWN: i32 = 100;

/// Stack offset for copies of kernel memory.
const COPY: i16 = -8;

/// The network namespace of the current thread.
const NAMESPACE: &str = "/proc/thread-self/ns/net";

/// Counts losses after redirects through the device map of a splitter.
#[derive(Debug)]
pub struct RedirectLosses {
    /// By slot, then by reason.
    lost: SharedMemory,
    _links: [TracepointLink; 2],
}

impl RedirectLosses {
    /// Starts counting the losses of devices, each given as its slot in the map and its
    /// number in this thread's network namespace.
    ///
    /// # Errors
    /// The kernel's, or its type information is missing.
    pub fn watch(state: &State, devices: &[(u32, u32)]) -> Result<Self, BpfError> {
        let lost = SharedMemory::create("lost", MAX_DEVICES as usize * REASONS.len())?;
        let slots = HashMap::create("lost_slots", MAX_DEVICES, WhenFull::Refuse)?;
        for &(slot, interface) in devices {
            slots.set(&interface, &slot)?;
        }
        Self::attach(lost, &Given::ByAny(&slots), state.devices().id()?)
    }

    /// Starts counting the losses of a device for frames that test runs redirect to it
    /// through this map. `owners` has, for each processor, the slot of the program that ran
    /// last.
    pub(crate) fn watch_runs(
        devices: &DeviceMap,
        interface: u32,
        owners: &SharedMemory,
    ) -> Result<Self, BpfError> {
        let lost = SharedMemory::create("lost", MAX_DEVICES as usize * REASONS.len())?;
        Self::attach(lost, &Given::ByRuns { interface, owners }, devices.id()?)
    }

    fn attach(lost: SharedMemory, given: &Given<'_>, map: u32) -> Result<Self, BpfError> {
        let sent = after_sending(&lost, given)?;
        let refused = after_refusal(&lost, map)?;
        let links = [
            TracepointLink::attach(&sent, c"xdp_devmap_xmit")?,
            TracepointLink::attach(&refused, c"xdp_redirect_err")?,
        ];
        Ok(Self { lost, _links: links })
    }

    /// The losses of the device in a slot, by cause.
    #[must_use]
    pub fn lost(&self, slot: u32) -> [(&'static str, u64); REASONS.len()] {
        let first = slot as usize * REASONS.len();
        let words = self.lost.words();
        std::array::from_fn(|i| {
            (REASONS[i], words.get(first + i).map_or(0, |word| word.load(Relaxed)))
        })
    }

    /// The losses of a slot's device, by cause; resets them.
    pub(crate) fn take(&self, slot: u32) -> [u64; REASONS.len()] {
        let first = slot as usize * REASONS.len();
        let words = self.lost.words();
        std::array::from_fn(|i| words.get(first + i).map_or(0, |word| word.swap(0, Relaxed)))
    }
}

/// The source of frames for a device.
enum Given<'a> {
    /// Any source: slots by the device's number.
    ByAny(&'a HashMap<u32, u32>),
    /// Test runs, whose frames come from the loopback device. The processor's word has the
    /// slot, since the frames of a run are sent before another program runs there.
    ByRuns { interface: u32, owners: &'a SharedMemory },
}

/// The program for frames given to a device.
fn after_sending(lost: &SharedMemory, given: &Given<'_>) -> Result<Program, BpfError> {
    let types = Types::of_kernel()?;
    let number_at = types.offset("net_device", "ifindex")?;
    let network_at = types.offset("net_device", "nd_net")?;
    let namespace_at = types.offset("net", "ns")? + types.offset("ns_common", "inum")?;
    let namespace = fs::metadata(NAMESPACE).map(|file| file.ino());
    let namespace =
        namespace.map_err(|source| BpfError::Types { what: NAMESPACE.to_owned(), source })?;

    let mut asm = Assembler::new();
    let (out, full) = (asm.label("out"), asm.label("full"));
    asm.mov(R6, R1);
    asm.load(Size::Double, R7, R6, DROPS);
    asm.alu32(Alu::Mov, R7, R7);
    asm.branch(Condition::Equal, R7, 0, out);
    asm.load(Size::Double, R8, R6, TO_DEVICE);
    emit_copy(&mut asm, R8, network_at, 8, out);
    asm.load(Size::Double, R9, FP, COPY);
    emit_copy(&mut asm, R9, namespace_at, 4, out);
    asm.load(Size::Word, R1, FP, COPY);
    asm.constant(R2, namespace & u64::from(u32::MAX));
    asm.branch(Condition::NotEqual, R1, R2, out);
    emit_copy(&mut asm, R8, number_at, 4, out);
    match *given {
        Given::ByAny(slots) => {
            asm.load_map(R1, slots);
            asm.mov(R2, FP);
            asm.alu(Alu::Add, R2, i32::from(COPY));
            asm.call(Helper::MapLookupElem);
            asm.branch(Condition::Equal, R0, 0, out);
            asm.load(Size::Word, R8, R0, 0);
        }
        Given::ByRuns { interface, owners } => {
            asm.load(Size::Word, R1, FP, COPY);
            asm.branch32(Condition::NotEqual, R1, interface.cast_signed(), out);
            asm.load(Size::Double, R9, R6, FROM_DEVICE);
            emit_copy(&mut asm, R9, number_at, 4, out);
            asm.load(Size::Word, R1, FP, COPY);
            asm.branch32(Condition::NotEqual, R1, LOOPBACK, out);
            asm.call(Helper::GetSmpProcessorId);
            asm.branch(Condition::GreaterOrEqual, R0, owners.words().len() as i32, out);
            asm.alu(Alu::Lsh, R0, 3);
            asm.load_map_value(R1, owners, 0);
            asm.alu(Alu::Add, R1, R0);
            asm.load(Size::Double, R8, R1, 0);
        }
    }
    asm.load(Size::Double, R1, R6, XMIT_ERROR);
    asm.mov(R9, RING_FULL);
    asm.branch32(Condition::SignedGreaterOrEqual, R1, 0, full);
    asm.mov(R9, REFUSED);
    asm.bind(full);
    emit_count(&mut asm, lost, out);
    Program::load("forebay_sent", Kind::RawTracepoint, asm)
}

/// The program for frames refused before that.
fn after_refusal(lost: &SharedMemory, map: u32) -> Result<Program, BpfError> {
    let mut asm = Assembler::new();
    let (out, known) = (asm.label("out"), asm.label("known"));
    asm.mov(R6, R1);
    asm.load(Size::Double, R1, R6, MAP);
    asm.alu32(Alu::Mov, R1, R1);
    asm.constant(R2, map.into());
    asm.branch(Condition::NotEqual, R1, R2, out);
    asm.load(Size::Double, R8, R6, SLOT);
    asm.alu32(Alu::Mov, R8, R8);
    asm.load(Size::Double, R1, R6, ERROR);
    asm.mov(R7, 1);
    asm.mov(R9, TOO_LONG);
    asm.branch32(Condition::Equal, R1, -MESSAGE_SIZE, known);
    asm.mov(R9, LINK_DOWN);
    asm.branch32(Condition::Equal, R1, -NETWORK_DOWN, known);
    asm.mov(R9, REFUSED);
    asm.bind(known);
    emit_count(&mut asm, lost, out);
    Program::load("forebay_refused", Kind::RawTracepoint, asm)
}

/// Appends code that copies `bytes` bytes of kernel memory at `base` + `offset`, or jumps
/// to `out`. Clobbers R0 to R5.
fn emit_copy(asm: &mut Assembler, base: Register, offset: i32, bytes: i32, out: Label) {
    asm.mov(R1, FP);
    asm.alu(Alu::Add, R1, i32::from(COPY));
    asm.mov(R2, bytes);
    asm.mov(R3, base);
    asm.alu(Alu::Add, R3, offset);
    asm.call(Helper::ProbeReadKernel);
    asm.branch(Condition::NotEqual, R0, 0, out);
}

/// Appends the end of a program: counts R7 frames of the slot in R8 as lost for the cause
/// in R9.
fn emit_count(asm: &mut Assembler, lost: &SharedMemory, out: Label) {
    asm.branch(Condition::GreaterOrEqual, R8, MAX_DEVICES.cast_signed(), out);
    asm.alu(Alu::Mul, R8, REASONS.len() as i32);
    asm.alu(Alu::Add, R8, R9);
    asm.alu(Alu::Lsh, R8, 3);
    asm.load_map_value(R1, lost, 0);
    asm.alu(Alu::Add, R1, R8);
    asm.emit(Instruction::AtomicAdd { base: R1, offset: 0, src: R7 });
    asm.bind(out);
    asm.exit_with(0);
}
