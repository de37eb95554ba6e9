//! The broker inside the kernel: filter, bucket, rewrite, redirect.
//!
//! Every frame that comes in has exactly one outcome, and each outcome has its
//! counter, so that frames received are the sum of all outcomes:
//!
//! | outcome | what becomes of the frame |
//! |---|---|
//! | filtered | the filter, or the group's filter, returned 0: dropped |
//! | to a sensor | addressed by the sensor's entry, redirected to its interface |
//! | to user space | passed up the stack, or to an AF_XDP socket |
//! | no sensor | the bucket has no sensor and there is no spare one, or it has no entry: dropped |
//! | no interface | the sensor's slot of the device map is empty: dropped |
//! | no socket | user space has no socket for the queue: dropped |
//! | no room | there is no room before the frame for a VLAN tag: dropped |
//! | shunted | the flow is shunted by hand ([`ShuntedFlows`]): dropped |
//!
//! An interface that refuses redirected frames can be set aside: user space gets the frames for
//! it, and sends them ([`SplitterMaps::set_by_workers`]).
//!
//! A redirected frame may yet be lost in the interface it goes out by (down, ring
//! full, frame too long): that is for the interface's own counters to say.
//!
//! **Flows stay in order** although packets take two ways. User space gets what this
//! program cannot decode (see [`crate::flow`]). The address pair of such a packet is
//! marked, and all packets of a marked pair follow it until the pair was idle for the
//! idle timeout. The way through user space is the longer one, so a packet that
//! changes to it cannot overtake; one that changes back comes after a pause. Marks
//! are bounded, the pair not seen for the longest time goes first.
//!
//! **Buckets move** without a flow changing its sensor: by the same table entries
//! ([`entry`]) and the same rules as in user space (`forebay_balance::moves`), with
//! records of its own. Keys on record stay where they are, and a bucket records its
//! keys before new ones go elsewhere. A key that cannot be recorded cancels the move.
//!
//! Settings are constants in the code; to change them, load the program anew over the same
//! [`SplitterMaps`] and replace it in its link. What changes all the time (buckets, sensors,
//! counters) is shared memory. Times are those of the monotonic clock, as coarse as
//! the kernel's tick (1 to 10 ms).

pub mod entry;
mod limits;
mod maps;
mod outcomes;
mod shunted;
mod userspace;

use std::time::Duration;

use crate::asm::Register::{R0, R1, R6};
use crate::asm::{Assembler, Condition};
use crate::error::BpfError;
use crate::flow::FlowOptions;
use crate::program::{Kind, Program};
use crate::translate;

pub use entry::{NO_SENSOR, Record};
pub use limits::{BUCKETS, Limits, MAX_DEVICES, MAX_INPUTS, MAX_OUTPUTS, MAX_SENSORS, MAX_SHUNTED};
pub use maps::{Sensor, SplitterMaps};
pub use outcomes::{Outcomes, Traffic};
pub use shunted::ShuntedFlows;
pub use userspace::{Signal, UserspaceSteering};

/// How user space gets the packets that are its own to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserSpace {
    /// Up the host's network stack, where packet sockets are.
    Stack,
    /// To an AF_XDP socket of the receive queue, shared out as [`super::redirect`] does.
    Sockets {
        /// The slot of the first queue's first socket; the others follow, queue by queue.
        first: u32,
        /// How many queues have sockets.
        queues: u32,
        /// How many sockets each has.
        per_queue: u32,
    },
}

/// The program's name.
const PROGRAM: &str = "forebay_split";

/// What the program is made after.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is not kept by it is dropped; without a filter all is kept.
    pub filter: Option<forebay_filter::Program>,
    /// Likewise, for what the first has kept; counted by itself.
    pub group_filter: Option<forebay_filter::Program>,
    /// The number of the input that it is attached to, for counting: less than
    /// [`MAX_INPUTS`].
    pub input: u32,
    /// What a flow is, and its hash.
    pub flow: FlowOptions,
    /// How long an address pair is silent before its mark means nothing.
    pub idle_timeout: Duration,
    /// The way to user space.
    pub user_space: UserSpace,
    /// Take frames that lie in several buffers, larger than a page.
    pub multi_buffer: bool,
}

/// Makes and loads the program over `maps`.
///
/// # Errors
/// A filter that cannot be translated, an idle timeout that is no time, numbers out of
/// bounds; the kernel's refusal.
pub fn load(maps: &SplitterMaps, settings: &Settings) -> Result<Program, BpfError> {
    let idle = settings.idle_timeout.as_nanos();
    if idle == 0 || idle > u128::from(u64::MAX >> 1) {
        return Err(BpfError::Setting {
            setting: "the idle timeout in nanoseconds",
            value: u64::try_from(idle).unwrap_or(u64::MAX),
            expected: "1 to 9223372036854775807",
        });
    }
    let (first, queues, per_queue) = match settings.user_space {
        UserSpace::Stack => (0, 0, 1),
        UserSpace::Sockets { first, queues, per_queue } => (first, queues, per_queue),
    };
    for (setting, value, most, expected) in [
        ("the number of an input", settings.input, MAX_INPUTS - 1, "less than 32"),
        ("sockets to a queue, less one,", per_queue.wrapping_sub(1), 1023, "0 to 1023"),
    ] {
        if value > most {
            return Err(BpfError::Setting { setting, value: value.into(), expected });
        }
    }
    let loader = settings
        .flow
        .set(maps.loader())
        .set("input", settings.input.into())
        .set("idle_timeout", idle as u64)
        .set("first_socket", first.into())
        .set("queues", queues.into())
        .set("per_queue", per_queue.into());
    let multi_buffer = settings.multi_buffer;
    let mut asm = Assembler::new();
    let mut linked = Vec::new();
    // The filters come first, each followed by the program for frames that it rejects. There is
    // no call between them, which would take 10 ns.
    for (filter, rejected) in
        [(&settings.filter, "filtered"), (&settings.group_filter, "group_filtered")]
    {
        let Some(filter) = filter else { continue };
        let (verdict, kept) = (asm.label("verdict"), asm.label("kept"));
        asm.mov(R6, R1);
        translate::emit(&mut asm, filter, translate::Context::Xdp { multi_buffer }, verdict)?;
        asm.bind(verdict);
        asm.mov(R1, R6);
        asm.branch32(Condition::NotEqual, R0, 0, kept);
        linked.push(loader.link(rejected)?.append_to(&mut asm));
        asm.bind(kept);
    }
    linked.push(loader.link(PROGRAM)?.append_to(&mut asm));
    Program::load(PROGRAM, Kind::Xdp { multi_buffer }, asm)
}
