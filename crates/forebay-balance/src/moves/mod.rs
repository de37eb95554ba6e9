//! Moving a bucket to another sensor without tearing a flow.
//!
//! A flow is torn when packets of one key, within the idle timeout, reach two
//! sensors. A moved bucket therefore learns first which keys it has, and those stay:
//!
//! ```text
//!            begin                 hold time over          all workers know
//!  Settled(A) ───► Learning(A→B) ───────────────► Turning(A→B) ───► Moving(A→B)
//!                    │ a key cannot be recorded      │                 │ no key of A
//!                    ▼                               │                 ▼ is left
//!                  Cancelled(A→B) ◄──────────────────┘              Settled(B)
//!                    │ all workers know
//!                    ▼
//!                  Moving(B→A), and soon Settled(A)
//! ```
//!
//! A packet whose key is on record goes to the sensor that the record names, in every
//! phase, and its record is seen. Otherwise it goes to A while the bucket learns and
//! to B from then on, and while it learns or turns the key is recorded with that.
//!
//! # Why no flow is torn
//!
//! * *Learning lasts for the hold time*, counted from when every worker knows of
//!   it ([`Quiescence`]). The hold time is the idle timeout and a margin. So every key that
//!   had a packet within the idle timeout is on record when the bucket turns; one
//!   that is not on record then is idle, and may go to B. If a bucket is proved to
//!   have had no packet since some time before (its counters did not move, and were
//!   complete when all workers knew), the hold time counts from that time, and a
//!   bucket without flows moves at once.
//! * *Turning* is there for keys whose packets come to several workers, such as
//!   source addresses: while one worker still learns and another turns already,
//!   both record a new key, and the first decides for both.
//! * *A record is removed* when its key is idle for the hold time, by a clock that no
//!   worker's is behind, or when it names the sensor that keys off the record go to
//!   anyway, which changes nothing. When a bucket that moves has no other record
//!   left, the move is complete.
//! * *A cancelled move* leaves what is on record where it is. Learning has sent
//!   nothing to B, so keys off the record go to A again.
//! * *A bucket may begin its next move while it moves*: keys on record stay at
//!   whatever sensor they are at, and learning adds those that went to B.
//!
//! # A bare SYN
//!
//! A SYN without ACK begins a connection, but it may also be sent twice. On a key
//! whose connection is open, or half closed, it stays where the key is. On a key whose
//! connection has ended (a RST, or a FIN of both ends) it begins a new flow and goes to
//! B, though the key was seen within the idle timeout: a connection is whole at one
//! sensor, and clients that use their ports again and again do not hold up a move for
//! ever. By the letter of the definition above that is a tear, so such restarts are
//! counted ([`WorkerTable::restarts`]); who gives no TCP signals has none.
//!
//! # What it costs
//!
//! One word a key on record, in a table of fixed size ([`RecordLimits`]), and nothing
//! for other buckets. A flood of new keys ends the move of the bucket that it is aimed
//! at, which is counted.

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
