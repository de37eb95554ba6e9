//! Predicates of many packets at once, a bit each.
//!
//! The paper's predicate registers hold one bit (Yamashita and Tsuru, "Software
//! Pipelining for Packet Filters", section 4): its code tests one packet, and a
//! predicated compare sets the predicate of the next. Here a vector register
//! holds 512 predicates, one for each of as many packets. Their keys are
//! transposed into *bit planes* first: plane `n` has bit `n` of every key. A
//! test of two bits of a key then is one `vpternlog` with the predicate it
//! extends: it decides for 512 packets at once, two such instructions are
//! issued a cycle, and constants are part of the instruction, not operands.
//! This is bit slicing, as in Biham's block ciphers ("A fast new DES
//! implementation in software", FSE 1997).
//!
//! Common parts of the predicates are shared as they are built ([`network`]),
//! and parts that no predicate needs have no code. A network is compiled as a
//! loop over groups of packets by the same scheduler and register allocator as
//! filters. Iterations are list-scheduled and do not overlap: one iteration
//! takes all registers, and hundreds of packets have enough parallelism. A
//! network that is too large for registers stays in its order, and spills to
//! memory (`lower`).
//!
//! | module | does |
//! |---|---|
//! | [`network`] | nodes of two or three inputs, shared by structure |
//! | `predicate` | comparisons of numbers with constants |
//! | `lower` | instructions, registers and spill slots |
//! | `vectors` | instructions by width of vector |

mod lower;
pub mod network;
mod predicate;
mod vectors;

use crate::code::Scheduling;
use crate::emit::assembler::{Assembler, EncodeError};
use crate::emit::loops::{Prefetches, emit_batch_function};
use crate::regalloc::RegisterPressure;
use crate::sched::{Options, schedule_loop};
use lower::{Frame, INPUT_SCALE, Lowered, RESULT_SCALE, lower};
use network::{Network, Signal};
pub use vectors::Width;

/// The most outputs of a network.
pub const MAX_OUTPUTS: usize = 16;

/// The most inputs of a network.
pub const MAX_INPUTS: u32 = 4096;

/// Load latency that the scheduler assumes, in cycles.
const LOAD_LATENCY: u8 = 5;

/// Registers reserved for copies.
const SPARE: usize = 4;

/// Why a network has no code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlicedError {
    /// More outputs than the result area holds.
    #[error("{0} outputs, expected at most {MAX_OUTPUTS}")]
    Outputs(usize),
    /// More inputs than can be addressed.
    #[error("{0} inputs, expected at most {MAX_INPUTS}")]
    Inputs(u32),
    /// Nodes with more inputs than an instruction has.
    #[error("a network of nodes with three inputs, for vectors without such instructions")]
    Arity,
    /// Registers do not suffice.
    #[error(transparent)]
    Pressure(#[from] RegisterPressure),
    /// An instruction could not be encoded: a bug in this back end.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Machine code of a network.
///
/// A function with the calling convention of batch code ([`crate::convention`]), with
/// *groups* of [`Width::packets`] packets and its own use of the tables: `BASE`
/// has the inputs of each group, a vector each, `input_bytes` a group;
/// `VERDICT` receives the results, `result_bytes` a group; `SCRATCH` is scratch
/// memory; `COUNT` is `step` times the number of groups, at least one. The
/// other tables are not used.
#[derive(Clone, Debug)]
pub struct Sliced {
    /// Instructions, then constants; position-independent.
    pub bytes: Vec<u8>,
    /// Where the instructions end.
    pub constants_at: usize,
    /// Where the function starts.
    pub entry: usize,
    /// The vectors.
    pub width: Width,
    /// `COUNT` for one group.
    pub step: usize,
    /// Bytes from the inputs of a group to those of the next.
    pub input_bytes: usize,
    /// Bytes from the results of a group to those of the next. Result `n` is
    /// vector `n` of these, complemented if the output is inverted; nothing is
    /// written for constants.
    pub result_bytes: usize,
    /// Bytes of scratch memory.
    pub scratch_bytes: usize,
}

/// Compiles the network for `outputs`.
///
/// # Errors
/// If the network exceeds a limit.
pub fn compile(network: &Network, outputs: &[Signal], width: Width) -> Result<Sliced, SlicedError> {
    if outputs.len() > MAX_OUTPUTS {
        return Err(SlicedError::Outputs(outputs.len()));
    }
    if network.inputs() > MAX_INPUTS {
        return Err(SlicedError::Inputs(network.inputs()));
    }
    if network.arity() == network::Arity::Three && width.arity() == network::Arity::Two {
        return Err(SlicedError::Arity);
    }
    let inputs = network.inputs().max(1) as usize * width.bytes();
    let results = MAX_OUTPUTS * width.bytes();
    let step = inputs.div_ceil(INPUT_SCALE.into()).max(results.div_ceil(RESULT_SCALE.into()));
    let step = step.next_power_of_two();
    let frame = Frame { width, step: step as u32, registers: width.registers() - SPARE };
    let Lowered { body, slots } = lower(network, outputs, frame);
    // The scheduler does not track dependences through slots.
    let scheduling = if slots > 0 { Scheduling::None } else { Scheduling::List };
    let options = Options { load_latency: LOAD_LATENCY, scheduling };
    let scheduled = schedule_loop(&body, &options, width.isa())?;
    let mut assembler = Assembler::new(false);
    let entry = emit_batch_function(&mut assembler, &[scheduled], Prefetches::Kept)?;
    let assembled = assembler.finish()?;
    Ok(Sliced {
        entry: assembled.offset(entry).unwrap_or(assembled.constants_at),
        constants_at: assembled.constants_at,
        bytes: assembled.bytes,
        width,
        step,
        input_bytes: step * usize::from(INPUT_SCALE),
        result_bytes: step * usize::from(RESULT_SCALE),
        scratch_bytes: slots as usize * width.bytes(),
    })
}
