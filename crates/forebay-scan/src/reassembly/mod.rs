//! TCP reassembly for scanning (RFC 9293).
//!
//! A [`Connection`] takes the segments of both directions as they were captured, and delivers the
//! bytes of each direction in order, each at most once. Bytes in order are delivered from the
//! segment itself; others are held until those before them come.
//!
//! The invariant: if a connection gives no [`Uncertainty`] until its end, then for each direction
//! the delivered bytes are the stream that every receiver got, whatever it does about overlaps.
//! So it is not enough to choose one of two conflicting segments, as a receiver does:
//! * A segment that overlaps held bytes is compared with them.
//! * A segment that repeats delivered bytes is compared with their digests. Digests are of whole
//!   segments, and only of the last ones.
//! * A hole whose bytes the other side has acknowledged is skipped, as is one for which the memory
//!   does not suffice. An acknowledgment may overtake the bytes that it is for, so these are missing
//!   only when their sender goes on without them, or the other side acknowledges again and again.
//! * A reset with bytes is a doubt: some receivers take them for part of the stream. One without
//!   bytes is none: if a receiver ignores it, the bytes behind it are delivered in order.
//! * A SYN starts another connection only if the old one has certainly ended. A reset that a
//!   receiver ignores ends none (RFC 5961, section 3.2), and bytes behind the SYN could then continue
//!   the old stream.
//! * After any doubt the stream goes on, and the rest of it is delivered too.
//!
//! Time and threads are the caller's. Segments are to have passed IP: the caller reports fragments.

mod digest;
mod direction;
mod held;
mod pool;
mod uncertainty;

pub use pool::{BLOCK_BYTES, HISTORY_BYTES, Limits, Pool};
pub use uncertainty::{Uncertainties, Uncertainty};

use direction::{Data, Direction};

/// TCP's control bits (RFC 9293, section 3.1).
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
const URG: u8 = 32;

/// The most bytes of a segment that count as sent; more than any datagram has.
const MOST_SENT: u32 = 1 << 24;

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// The sequence number of the first byte, or of the SYN.
    pub sequence: u32,
    /// The acknowledgment number, valid with the control bit ACK.
    pub acknowledgment: u32,
    /// The control bits.
    pub flags: u8,
    /// The captured bytes behind the header.
    pub payload: &'a [u8],
    /// The bytes behind the header by the length of the datagram, if more than those captured.
    pub sent: u32,
}

/// Bytes of one direction.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The direction: that of the segments given with the same number.
    pub direction: usize,
    /// The bytes, at least one.
    pub bytes: &'a [u8],
    /// Whether they follow the bytes of the piece before in this direction.
    pub continues: bool,
}

/// What was found with a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Causes of doubt.
    pub uncertain: Uncertainties,
    /// The segment started a new connection between the ends of one that had ended.
    pub restarted: bool,
}

/// The two directions of a connection, or of one after the other between the same ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Connection {
    directions: [Direction; 2],
    /// Which sides have reset the connection so that the other one must have accepted it.
    reset: [bool; 2],
}

impl Connection {
    /// Fetches into the cache what a segment of a direction needs of the pool. Only the speed depends
    /// on it.
    pub fn prefetch(&self, direction: usize, pool: &Pool) {
        self.directions[direction].prefetch(pool);
    }

    /// Takes a segment of direction 0 or 1. Bytes that are next are passed to `deliver`.
    ///
    /// # Panics
    /// `direction` is neither.
    pub fn segment(
        &mut self,
        direction: usize,
        segment: &Segment<'_>,
        pool: &mut Pool,
        mut deliver: impl FnMut(Piece<'_>),
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let found = &mut outcome.uncertain;
        // A reset opens no connection, whatever other bits it has.
        if segment.flags & (SYN | RST) == SYN {
            outcome.restarted = self.syn(direction, segment, pool, found);
        }
        let (this, other) = {
            let [a, b] = &mut self.directions;
            if direction == 0 { (a, b) } else { (b, a) }
        };
        // A reset of a connection that was never open has no place in a stream.
        if !this.is_started() && segment.flags & RST == 0 {
            this.begin(segment.sequence, false, pool);
            found.insert(Uncertainty::Middle);
        }
        if segment.flags & ACK != 0 {
            other.acknowledge(segment.acknowledgment, found);
            other.resynchronise(pool, found, &mut |bytes, continues| {
                deliver(Piece { direction: 1 - direction, bytes, continues });
            });
        }
        if segment.flags & RST != 0 {
            // Its bytes are the reason of the reset (RFC 9293, section 3.5.3), but sensors and
            // receivers may take them for part of the stream.
            if segment.sent > 0 || !segment.payload.is_empty() {
                found.insert(Uncertainty::Reset);
            }
            self.reset[direction] |= self.resets(direction, segment);
            return outcome;
        }
        self.data(direction, segment, pool, found, &mut deliver);
        outcome
    }

    /// Whether the receiver of a reset must accept it: it is exactly at the next byte, or it refuses
    /// a connection without data (RFC 9293, section 3.10.7). With one direction only it is not
    /// known which bytes the receiver expects.
    fn resets(&self, direction: usize, segment: &Segment<'_>) -> bool {
        let (this, other) = (&self.directions[direction], &self.directions[1 - direction]);
        if this.is_started() {
            return other.is_started() && this.is_next(segment.sequence);
        }
        let refuses = segment.flags & ACK != 0 && other.is_next(segment.acknowledgment);
        refuses && other.is_started() && other.is_at_start()
    }

    /// Takes a SYN, and returns whether it starts a new connection after the end of another.
    fn syn(
        &mut self,
        direction: usize,
        segment: &Segment<'_>,
        pool: &mut Pool,
        found: &mut Uncertainties,
    ) -> bool {
        let start = segment.sequence.wrapping_add(1);
        let this = &self.directions[direction];
        if this.started_by_syn(start) {
            self.reset = [false; 2];
            return false;
        }
        let restarts = this.is_started() && self.is_closed() && segment.flags & ACK == 0;
        if restarts {
            if this.could_continue_at(start) {
                found.insert(Uncertainty::Syn);
            }
            found.extend(self.end(pool));
        } else if this.is_started() {
            found.insert(Uncertainty::Syn);
        }
        self.reset = [false; 2];
        self.directions[direction].begin(start, true, pool);
        restarts
    }

    /// Takes the bytes of a segment and its FIN.
    fn data(
        &mut self,
        direction: usize,
        segment: &Segment<'_>,
        pool: &mut Pool,
        found: &mut Uncertainties,
        deliver: &mut impl FnMut(Piece<'_>),
    ) {
        let captured = segment.payload.len() as u32;
        let sent = segment.sent.min(MOST_SENT).max(captured);
        let start = segment.sequence.wrapping_add(u32::from(segment.flags & SYN != 0));
        // Whoever sends bytes has not reset the connection.
        self.reset[direction] &= sent == 0;
        let this = &mut self.directions[direction];
        this.note_sent(start);
        if segment.flags & FIN != 0 {
            this.finish(start.wrapping_add(sent), found);
        }
        if sent > 0 {
            if segment.flags & URG != 0 {
                found.insert(Uncertainty::Urgent);
            }
            if sent > captured {
                found.insert(Uncertainty::Truncated);
            }
            let data = Data { start, bytes: segment.payload, sent };
            this.take(data, pool, found, &mut |bytes, continues| {
                deliver(Piece { direction, bytes, continues });
            });
        }
        this.check_fin(pool, found);
        this.check_gap(pool, found, &mut |bytes, continues| {
            deliver(Piece { direction, bytes, continues });
        });
    }

    /// Whether a side has reset the connection and the other one must have accepted that, or both
    /// have ended it and all bytes are delivered.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.reset.contains(&true) || self.directions.iter().all(Direction::fin_reached)
    }

    /// Whether bytes were not seen that are before others, or before a FIN, that were: the latter
    /// are not delivered yet, or have passed without what is before them.
    #[must_use]
    pub fn has_hole(&self) -> bool {
        self.directions.iter().any(Direction::has_hole)
    }

    /// Whether bytes are held, or the other side has acknowledged some that were not seen.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.directions.iter().any(Direction::is_waiting)
    }

    /// Ends the connection: gives its memory back, and returns what remains in doubt. The
    /// connection is then as a new one.
    pub fn end(&mut self, pool: &mut Pool) -> Uncertainties {
        let mut found = Uncertainties::default();
        for direction in &mut self.directions {
            direction.end(pool, &mut found);
        }
        self.reset = [false; 2];
        found
    }
}
