//! Sinks: an XDP program that counts and drops frames, or the host's stack, which drops frames
//! for other stations.

use std::sync::atomic::Ordering::Relaxed;

use forebay_bpf::asm::Register::{R0, R1, R2};
use forebay_bpf::asm::{Alu, Assembler, Condition, Helper, Size};
use forebay_bpf::map::{SharedMemory, processors};
use forebay_bpf::{Action, BpfError, Kind, Program, XdpLink, XdpMode};

use super::network;
use crate::failure::Result;
use crate::named::named;

/// Words from one processor's counter to the next: two lines of the cache.
const STRIDE: usize = 16;

named! {
    pub enum SinkKind {
        Xdp = "xdp",
        Stack = "stack",
    }
}

impl SinkKind {
    /// The end of the engine's name in rows of this sink.
    pub fn suffix(self) -> &'static str {
        if self == Self::Xdp { "" } else { "-skb" }
    }
}

/// Counts frames that arrive at an interface.
pub enum Sink {
    /// A program, which is attached as long as this lives.
    Xdp { _link: XdpLink, counters: SharedMemory },
    /// The interface's own counter.
    Stack { interface: String },
}

impl Sink {
    pub fn open(kind: SinkKind, interface: &str) -> Result<Self> {
        if kind == SinkKind::Stack {
            return Ok(Self::Stack { interface: interface.to_owned() });
        }
        let (program, counters) = counting_program()?;
        let link = XdpLink::attach(&program, network::link(interface)?.index, XdpMode::Any)?;
        Ok(Self::Xdp { _link: link, counters })
    }

    /// Frames so far, from an arbitrary start.
    pub fn frames(&self) -> Result<u64> {
        match self {
            Self::Xdp { counters, .. } => {
                let words = counters.values().iter().step_by(STRIDE);
                Ok(words.map(|word| word.load(Relaxed)).sum())
            }
            Self::Stack { interface } => Ok(network::link(interface)?.stats.rx_packets),
        }
    }
}

/// A program that counts and drops each frame, and its counters.
pub fn counting_program() -> Result<(Program, SharedMemory), BpfError> {
    let processors = processors()?;
    let counters = SharedMemory::create("arrived", processors as usize * STRIDE)?;
    let mut asm = Assembler::new();
    let drop = asm.label("drop");
    asm.call(Helper::GetSmpProcessorId);
    // Never taken: it gives the verifier the bound of the index.
    asm.branch(Condition::GreaterOrEqual, R0, processors as i32, drop);
    asm.alu(Alu::Mul, R0, STRIDE as i32 * 8);
    asm.load_map_value(R1, &counters, 0);
    asm.alu(Alu::Add, R1, R0);
    asm.load(Size::Double, R2, R1, 0);
    asm.alu(Alu::Add, R2, 1);
    asm.store(Size::Double, R1, 0, R2);
    asm.bind(drop);
    asm.exit_with(Action::Drop as i32);
    let program = Program::load("bench_arrived", Kind::Xdp { multi_buffer: false }, asm)?;
    Ok((program, counters))
}
