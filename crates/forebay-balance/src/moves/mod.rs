//! Moves a bucket to another sensor without tearing a flow.
//!
//! A flow is torn if packets of one key, within the idle timeout, reach two sensors. A move
//! therefore first learns which keys the bucket has, and those stay:
//!
//! ```text
//!            begin                 hold time over          seen by all workers
//!  Settled(A) ───► Learning(A→B) ───────────────► Turning(A→B) ───► Moving(A→B)
//!                    │ a key cannot be recorded      │                 │ no key of A
//!                    ▼                               │                 ▼ is left
//!                  Cancelled(A→B) ◄──────────────────┘              Settled(B)
//!                    │ seen by all workers
//!                    ▼
//!                  Moving(B→A), and soon Settled(A)
//! ```
//!
//! A packet whose key is on record goes to the recorded sensor, in every phase, and updates
//! the record. Otherwise it goes to A while the bucket learns and to B from then on; while
//! the bucket learns or turns, the key is recorded with that sensor.
//!
//! # Why no flow is torn
//!
//! * *Learning lasts for the hold time*, counted from when every worker has seen it
//!   ([`Quiescence`]). The hold time is the idle timeout and a margin. So every key with a
//!   packet within the idle timeout is on record when the bucket turns; a key not on record
//!   then is idle, and may go to B. If a bucket is proved to have had no packet since some
//!   earlier time (its counters did not change, and were complete when all workers had seen
//!   the phase), the hold time counts from that time, and a bucket without flows moves at
//!   once.
//! * *Turning* exists for keys whose packets arrive at several workers, such as source
//!   addresses: while one worker still learns and another already turns, both record a new
//!   key, and the first record decides for both.
//! * *A record is removed* when its key is idle for the hold time, by a clock not ahead of
//!   any worker's, or when it has the same sensor as keys not on record, which changes
//!   nothing. When a moving bucket has no other record left, the move is complete.
//! * *A cancelled move* keeps its records. Learning has sent nothing to B, so keys not on
//!   record go to A again.
//! * *A bucket may start its next move while it moves*: keys on record stay at their
//!   sensor, and learning adds those that went to B.
//!
//! # A bare SYN
//!
//! A SYN without ACK begins a connection, but may also be a retransmission. If the key's
//! connection is open or half closed, it goes to the key's sensor. If the connection has
//! ended (a RST, or a FIN of both ends), it begins a new flow and goes to B, although the
//! key was seen within the idle timeout: a connection stays whole at one sensor, and
//! clients that reuse their ports do not delay a move for ever. By the definition above
//! that is a tear, so such restarts are counted ([`WorkerTable::restarts`]); callers that
//! pass no TCP signals have none.
//!
//! # In the kernel
//!
//! `forebay_bpf::programs::splitter` has the same rules as code for the kernel. A test of
//! `forebay-broker` (`kernel::forwarding`) compares both in every state.
//!
//! # Cost
//!
//! One word for each key on record, in a table of fixed size ([`RecordLimits`]), and
//! nothing for other buckets. A flood of new keys cancels the move of the bucket that it
//! hits, which is counted.

mod forwarding;
mod mover;
mod progress;
mod quiescence;
mod records;
mod signal;
mod worker;

#[cfg(test)]
mod tests;

pub use forwarding::{Displaced, ForwardingTable, Pinned};
pub use mover::{Held, MoveCounts, Mover, NotBegun, Quiet, SensorDeath};
pub use progress::Progress;
pub use quiescence::Quiescence;
pub use signal::TcpSignal;
pub use worker::{PacketFacts, RecordLimits, Worker, WorkerTable};
