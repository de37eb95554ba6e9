//! Deficit round robin.
//!
//! Flows with packets in the buffer take turns. At its turn a flow may send its quantum, and what
//! it was not able to use of earlier turns, its deficit: it sends packets as long as they are not
//! longer than that. The deficit is counted in bytes, is less than the longest packet after a
//! turn, and is forgotten when the flow has no packets left at the end of its turn. Over any time
//! in which two flows of weight 1 always have packets, what they send differs by at most 2·*Max* +
//! *Q* bytes, where *Max* is the longest packet and *Q* the quantum.
//!
//! A flow's state is its quantum in bytes, as in section 2.2 of the paper of the two bytes (see
//! [`super`]), which takes 64 KiB as the longest packet. Deficits are those of flows with packets
//! in the buffer only, and are stored with their queues.
//!
//! If the buffer is full, the last packet of the flow with the most bytes in it is dropped, until
//! the buffer is not too full any more. The queues are in a tree by their bytes, so an arrival
//! takes time logarithmic in their number; a packet takes at most ⌈length/quantum⌉ turns.

use std::collections::{BTreeSet, VecDeque};

use super::link::Discipline;
use super::{Count, Packet, PolicyError, Reason, Waiting};

/// The longest packet.
const MOST_LEN: u32 = u16::MAX as u32;

/// Stands for no cell, and for no queue.
const NONE: u32 = u32::MAX;

/// The properties of deficit round robin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrrOptions {
    /// What a flow of weight 1 may send at its turn, in bytes; a flow of weight *w* may send *w*
    /// times that, up to 65,535.
    pub quantum: u16,
}

impl Default for DrrOptions {
    /// The longest frame of Ethernet, without checksum.
    fn default() -> Self {
        Self { quantum: 1514 }
    }
}

/// A packet in the buffer, linked with those of its flow before and behind it.
#[derive(Clone, Copy, Debug)]
struct Cell {
    packet: Waiting,
    before: u32,
    behind: u32,
}

/// The packets of a flow that takes turns.
#[derive(Clone, Copy, Debug)]
struct Queue {
    flow: u32,
    quantum: u16,
    deficit: u32,
    /// Whether its turn has begun.
    has_turn: bool,
    first: u32,
    last: u32,
    /// Bytes that its packets take.
    taken: u64,
}

/// Deficit round robin over a buffer that all flows share.
#[derive(Debug)]
pub(super) struct Drr {
    options: DrrOptions,
    limit: u64,
    taken: u64,
    waiting: Count,
    cells: Vec<Cell>,
    free_cells: Vec<u32>,
    queues: Vec<Queue>,
    free_queues: Vec<u32>,
    /// The queue of each flow.
    queue_of: Vec<u32>,
    /// Queues in the order of their turns. Dropping may have left them without packets.
    turns: VecDeque<u32>,
    /// Queues by the bytes of their packets.
    by_length: BTreeSet<(u64, u32)>,
}

impl Drr {
    /// An empty buffer of `limit` bytes.
    pub(super) fn new(options: DrrOptions, limit: u64) -> Result<Self, PolicyError> {
        if options.quantum < 256 {
            return Err(PolicyError::Quantum(options.quantum));
        }
        Ok(Self {
            options,
            limit,
            taken: 0,
            waiting: Count::default(),
            cells: Vec::new(),
            free_cells: Vec::new(),
            queues: Vec::new(),
            free_queues: Vec::new(),
            queue_of: Vec::new(),
            turns: VecDeque::new(),
            by_length: BTreeSet::new(),
        })
    }

    /// The queue of a flow; one without packets is appended to the turns.
    fn queue_of(&mut self, flow: u32, quantum: u16) -> u32 {
        let at = flow as usize;
        if self.queue_of.len() <= at {
            self.queue_of.resize(at + 1, NONE);
        }
        if self.queue_of[at] != NONE {
            return self.queue_of[at];
        }
        let new =
            Queue { flow, quantum, deficit: 0, has_turn: false, first: NONE, last: NONE, taken: 0 };
        let queue = place(&mut self.queues, &mut self.free_queues, new);
        self.queue_of[at] = queue;
        self.turns.push_back(queue);
        queue
    }

    /// Adds to or takes from the bytes of a queue.
    fn resize(&mut self, queue: u32, change: impl Fn(u64) -> u64) {
        let taken = &mut self.queues[queue as usize].taken;
        self.by_length.remove(&(*taken, queue));
        *taken = change(*taken);
        if *taken > 0 {
            self.by_length.insert((*taken, queue));
        }
        self.taken = change(self.taken);
    }

    fn append(&mut self, queue: u32, packet: Waiting) {
        let before = self.queues[queue as usize].last;
        let cell = Cell { packet, before, behind: NONE };
        let cell = place(&mut self.cells, &mut self.free_cells, cell);
        let ends = &mut self.queues[queue as usize];
        ends.last = cell;
        match self.cells.get_mut(before as usize) {
            Some(before) => before.behind = cell,
            None => ends.first = cell,
        }
        self.resize(queue, |taken| taken + packet.room());
        self.waiting += Count::of(packet.len);
    }

    /// Takes a packet out of a queue that has it first or last.
    fn remove(&mut self, queue: u32, cell: u32) -> Waiting {
        let Cell { packet, before, behind } = self.cells[cell as usize];
        let ends = &mut self.queues[queue as usize];
        match self.cells.get_mut(before as usize) {
            Some(before) => before.behind = behind,
            None => ends.first = behind,
        }
        match self.cells.get_mut(behind as usize) {
            Some(behind) => behind.before = before,
            None => ends.last = before,
        }
        self.free_cells.push(cell);
        self.resize(queue, |taken| taken - packet.room());
        self.waiting.remove(packet.len);
        packet
    }

    /// The queue at the front of the turns has no packets.
    fn end_turns(&mut self) {
        if let Some(queue) = self.turns.pop_front() {
            self.queue_of[self.queues[queue as usize].flow as usize] = NONE;
            self.free_queues.push(queue);
        }
    }
}

impl Discipline for Drr {
    fn arrive(
        &mut self,
        packet: &Packet,
        state: &mut u16,
        dropped: &mut dyn FnMut(Waiting, Reason),
    ) {
        if *state == 0 {
            *state = self.options.quantum.saturating_mul(packet.weight.max(1));
        }
        let waiting = Waiting::new(packet);
        if packet.len > MOST_LEN {
            return dropped(waiting, Reason::TooLong);
        }
        let queue = self.queue_of(packet.flow, *state);
        self.append(queue, waiting);
        while self.taken > self.limit {
            let Some(&(_, longest)) = self.by_length.last() else { return };
            let last = self.queues[longest as usize].last;
            dropped(self.remove(longest, last), Reason::BufferFull);
        }
    }

    fn next(&mut self, _: u64) -> Option<Waiting> {
        loop {
            let &at = self.turns.front()?;
            let queue = &mut self.queues[at as usize];
            let Some(cell) = self.cells.get(queue.first as usize) else {
                self.end_turns();
                continue;
            };
            if !queue.has_turn {
                queue.has_turn = true;
                queue.deficit += u32::from(queue.quantum);
            }
            if cell.packet.len > queue.deficit {
                queue.has_turn = false;
                self.turns.rotate_left(1);
                continue;
            }
            queue.deficit -= cell.packet.len;
            let first = queue.first;
            let packet = self.remove(at, first);
            if self.queues[at as usize].first == NONE {
                self.end_turns();
            }
            return Some(packet);
        }
    }

    fn waiting(&self) -> Count {
        self.waiting
    }

    fn taken(&self) -> u64 {
        self.taken
    }

    /// The quantum in bytes.
    fn reading(&self, state: u16) -> u64 {
        state.into()
    }
}

/// Puts a value into a free place, or a new one.
fn place<T>(values: &mut Vec<T>, free: &mut Vec<u32>, value: T) -> u32 {
    if let Some(at) = free.pop() {
        values[at as usize] = value;
        return at;
    }
    values.push(value);
    (values.len() - 1) as u32
}
