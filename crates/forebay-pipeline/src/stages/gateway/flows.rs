//! The flows of a gateway, by the numbers that the scanner gives them, and in which order they wait.

use forebay_packet::FlowKey;

use super::held::Chain;
use crate::stages::PassReason;

/// No flow.
const NONE: u32 = u32::MAX;

/// What becomes of a flow's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// They wait.
    #[default]
    Holding,
    /// They pass.
    Passing,
    /// Those that waited were dropped: the flow has ended, and nothing was found.
    Cleared,
}

/// Where a flow with packets that wait is queued, by the time of the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// Streams.
    Open,
    /// Flows that end by silence: those without streams, and streams that were reset.
    Silent,
    /// Streams that both sides have ended.
    Closed,
}

/// A flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    /// Tells it from others that had the number before; `None` until there is one.
    pub generation: Option<u32>,
    pub state: State,
    queue: Option<Queue>,
    pub is_stream: bool,
    /// Bytes that were sent have not come so far.
    pub waits: bool,
    /// As the scanner sees it, it has certainly ended.
    pub ends_clean: bool,
    /// A reset was among its packets.
    pub is_reset: bool,
    /// Why it passes.
    pub reason: PassReason,
    pub chain: Chain,
    prev: u32,
    next: u32,
    /// When the first and the last packet came that waits, in nanoseconds.
    pub first: i64,
    pub last: i64,
    /// Bytes on the wire of the packets that wait.
    pub wire_bytes: u64,
    /// The memory in which packets of it wait for a sensor, in bytes.
    pub delayed: u64,
    /// Bytes of payload each way that passed at the start of the flow.
    pub passed: [u32; 2],
    pub key: FlowKey,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

/// The flows.
pub(super) struct Flows {
    flows: Vec<Flow>,
    queues: [Ends; 3],
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            generation: None,
            state: State::Holding,
            queue: None,
            is_stream: false,
            waits: false,
            ends_clean: false,
            is_reset: false,
            reason: PassReason::CLEAN,
            chain: Chain::default(),
            prev: NONE,
            next: NONE,
            first: 0,
            last: 0,
            wire_bytes: 0,
            delayed: 0,
            passed: [0; 2],
            key: FlowKey::default(),
        }
    }
}

impl Flow {
    /// One whose first packet comes now.
    pub(super) fn begin(generation: u32, key: FlowKey, is_stream: bool) -> Self {
        Self { generation: Some(generation), key, is_stream, ..Self::default() }
    }

    pub(super) fn queue(&self) -> Option<Queue> {
        self.queue
    }
}

impl Flows {
    /// Room for so many at once, so that no packet waits while they are moved.
    pub(super) fn new(flows: usize) -> Self {
        let none = Ends { first: NONE, last: NONE };
        Self { flows: Vec::with_capacity(flows), queues: [none; 3] }
    }

    /// The flow with a number.
    pub(super) fn of(&mut self, number: u32) -> &mut Flow {
        let at = number as usize;
        if self.flows.len() <= at {
            self.flows.resize(at + 1, Flow::default());
        }
        &mut self.flows[at]
    }

    /// Has the flow wait in a queue, behind all others.
    pub(super) fn enqueue(&mut self, number: u32, queue: Queue) {
        if self.queues[queue as usize].last == number
            && self.flows[number as usize].queue == Some(queue)
        {
            return;
        }
        self.dequeue(number);
        let ends = &mut self.queues[queue as usize];
        let last = std::mem::replace(&mut ends.last, number);
        match last {
            NONE => ends.first = number,
            last => self.flows[last as usize].next = number,
        }
        let flow = &mut self.flows[number as usize];
        (flow.queue, flow.prev, flow.next) = (Some(queue), last, NONE);
    }

    /// The flow waits no more.
    pub(super) fn dequeue(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        let Some(queue) = flow.queue.take() else { return };
        let (prev, next) = (flow.prev, flow.next);
        let ends = &mut self.queues[queue as usize];
        match prev {
            NONE => ends.first = next,
            prev => self.flows[prev as usize].next = next,
        }
        match next {
            NONE => ends.last = prev,
            next => self.flows[next as usize].prev = prev,
        }
    }

    /// The flow of a queue that has been silent for longest.
    pub(super) fn oldest(&self, queue: Queue) -> Option<(u32, &Flow)> {
        let number = self.queues[queue as usize].first;
        self.flows.get(number as usize).map(|flow| (number, flow))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(flows: &mut Flows, queue: Queue) -> Vec<u32> {
        let mut order = Vec::new();
        while let Some((number, _)) = flows.oldest(queue) {
            order.push(number);
            flows.dequeue(number);
        }
        order
    }

    #[test]
    fn flows_wait_in_the_order_of_their_queue() {
        let mut flows = Flows::new(8);
        flows.of(5);
        for queue in [Queue::Open, Queue::Silent] {
            for number in [3, 1, 4, 1, 5, 3] {
                flows.enqueue(number, queue);
            }
            flows.dequeue(4);
            flows.dequeue(4);
            assert_eq!(order(&mut flows, queue), [1, 5, 3]);
            assert!(flows.oldest(queue).is_none());
        }
        flows.enqueue(1, Queue::Open);
        flows.enqueue(2, Queue::Open);
        flows.enqueue(1, Queue::Closed);
        assert_eq!(order(&mut flows, Queue::Closed), [1]);
        assert_eq!(order(&mut flows, Queue::Open), [2]);
    }
}
