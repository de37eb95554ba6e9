//! The reference interpreter of a [`Function`], which defines its meaning.
//!
//! The run follows blocks from the entry. Operands of tests, edges and returns
//! are computed only when needed, so no value is computed unless its guarding
//! test has passed. In a function that violates the rules, a load outside the
//! packet and a division by 0 give 0.
//!
//! A value is computed once until parameters change, on which values may
//! depend: the time is at most that of all values for each edge with arguments.

use super::{Block, Edge, Function, Predicate, Terminator, Value, ValueId, Width};

/// Backward edges allowed for a packet besides one for each captured byte.
const SPARE_BACKWARD_EDGES: usize = 4096;

impl Function {
    /// The function's verdict on a packet with captured bytes `packet` and
    /// length `wire_len` on the wire: the number of bytes to keep, 0 to drop
    /// it.
    #[must_use]
    pub fn run(&self, packet: &[u8], wire_len: u32) -> u32 {
        let mut run = Run {
            function: self,
            packet,
            wire_len,
            known: vec![(0, 0); self.values().len()],
            now: 1,
            parameters: vec![0; self.values().len()],
            stack: Vec::new(),
        };
        run.verdict().unwrap_or(0)
    }
}

struct Run<'a> {
    function: &'a Function,
    packet: &'a [u8],
    wire_len: u32,
    /// Each value as last computed, and the time stamp of that.
    known: Vec<(u32, u32)>,
    /// Time stamp: counts the edges that changed parameters.
    now: u32,
    /// By value: the current number of a parameter.
    parameters: Vec<u32>,
    /// Values whose operands are computed first; kept to reuse its memory.
    stack: Vec<ValueId>,
}

impl Run<'_> {
    /// The result; `None` if a loop was ended.
    fn verdict(&mut self) -> Option<u32> {
        let mut backward_edges_left = self.packet.len() + SPARE_BACKWARD_EDGES;
        let mut here = 0;
        loop {
            let Block { end, .. } = self.function.blocks.get(here)?;
            let edge = match end {
                Terminator::Return(value) => return Some(self.number(*value)),
                Terminator::Jump(edge) => edge,
                Terminator::Test { predicate, then, otherwise } => {
                    if self.holds(*predicate) {
                        then
                    } else {
                        otherwise
                    }
                }
            };
            let next = edge.target.0 as usize;
            if next <= here {
                backward_edges_left = backward_edges_left.checked_sub(1)?;
            }
            self.pass(edge);
            here = next;
        }
    }

    /// Assigns the arguments to the parameters of the edge's target.
    fn pass(&mut self, edge: &Edge) {
        if edge.arguments.is_empty() {
            return;
        }
        let numbers: Vec<_> = edge.arguments.iter().map(|&value| self.number(value)).collect();
        let parameters = &self.function.block(edge.target).parameters;
        for (parameter, number) in parameters.iter().zip(numbers) {
            self.parameters[parameter.0 as usize] = number;
        }
        self.now += 1;
    }

    fn holds(&mut self, predicate: Predicate) -> bool {
        match predicate {
            Predicate::Captured { index, bytes } => {
                let index = index.map_or(0, |index| self.number(index));
                self.packet.len() as u64 >= u64::from(index) + u64::from(bytes)
            }
            Predicate::Compare { relation, left, right } => {
                relation.holds(self.number(left), self.number(right))
            }
            Predicate::Member { value, set } => {
                let number = self.number(value);
                self.function.sets[set.0 as usize].binary_search(&number).is_ok()
            }
        }
    }

    /// The current number of `id`.
    fn number(&mut self, id: ValueId) -> u32 {
        self.stack.push(id);
        // An expression may be as deep as the program is long: no recursion.
        while let Some(&top) = self.stack.last() {
            if self.known(top).is_some() {
                self.stack.pop();
            } else if let Some(number) = self.computed(top) {
                self.known[top.0 as usize] = (number, self.now);
                self.stack.pop();
            }
        }
        self.known[id.0 as usize].0
    }

    fn known(&self, id: ValueId) -> Option<u32> {
        let (number, when) = self.known[id.0 as usize];
        (when == self.now).then_some(number)
    }

    /// As [`Run::known`]; pushes a value that is not known on the stack.
    fn operand(&mut self, id: ValueId) -> Option<u32> {
        let known = self.known(id);
        if known.is_none() {
            self.stack.push(id);
        }
        known
    }

    /// The number of `id`, if its operands are known.
    fn computed(&mut self, id: ValueId) -> Option<u32> {
        Some(match self.function.get(id) {
            Value::Constant(number) => number,
            Value::WireLength => self.wire_len,
            Value::Parameter { .. } => self.parameters[id.0 as usize],
            Value::Load { width, index, displacement } => {
                let index = match index {
                    Some(index) => self.operand(index)?,
                    None => 0,
                };
                self.load(width, u64::from(index) + u64::from(displacement))
            }
            Value::Binary { op, left, right } => {
                let operands = (self.operand(left), self.operand(right));
                op.apply(operands.0?, operands.1?).unwrap_or(0)
            }
        })
    }

    fn load(&self, width: Width, at: u64) -> u32 {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let bytes = self.packet.get(at..).and_then(|rest| rest.get(..width.bytes() as usize));
        let shifted_in = |number, &byte| number << 8 | u32::from(byte);
        bytes.map_or(0, |bytes| bytes.iter().fold(0, shifted_in))
    }
}
