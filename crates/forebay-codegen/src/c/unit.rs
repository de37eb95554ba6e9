//! A filter and what printing it as C needs to know.

use forebay_filter::ir::{BlockId, Function, Terminator, ValueId};

use super::expression::{self, Expressions};

/// Backward edges allowed for a packet besides its captured length, plus one.
pub(super) const BACKWARD_EDGES: u32 = 4097;

/// A function and what the printers derive from it.
pub(super) struct Unit<'f> {
    pub function: &'f Function,
    /// By block: the number of edges from reachable blocks, plus one for the
    /// entry; 0 for unreachable blocks.
    pub entries: Vec<u32>,
    /// By value: whether a reachable block needs it.
    pub needed: Vec<bool>,
    pub has_backward_edges: bool,
    pub needs_packet: bool,
    pub needs_cap_len: bool,
    pub needs_wire_len: bool,
}

impl<'f> Unit<'f> {
    pub fn new(function: &'f Function) -> Self {
        let entries = entries(function);
        let mut unit = Self {
            function,
            needed: vec![false; function.values().len()],
            has_backward_edges: false,
            needs_packet: false,
            needs_cap_len: false,
            needs_wire_len: false,
            entries,
        };
        unit.find_needs();
        unit
    }

    /// The reachable blocks in order of number.
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> + '_ {
        (0..self.entries.len()).filter(|&at| self.entries[at] > 0).map(|at| BlockId(at as u32))
    }

    fn find_needs(&mut self) {
        let function = self.function;
        for id in self.blocks().collect::<Vec<_>>() {
            let end = &function.block(id).end;
            let backward = |target: BlockId| target <= id;
            self.has_backward_edges |= end.edges().any(|edge| backward(edge.target));
            if let Terminator::Test { predicate, .. } = end {
                self.needs_cap_len |= expression::reads_cap_len(function, *predicate);
                let operands = expression::operands(function, *predicate);
                operands.into_iter().for_each(|value| self.need(value));
            }
            if let Terminator::Return(value) = end {
                self.need(*value);
            }
        }
        // An argument is needed only if its parameter is. In a loop that may
        // become known later, so repeat until nothing changes.
        while self.need_arguments() {}
        self.needs_cap_len |= self.has_backward_edges;
    }

    /// Marks the arguments of needed parameters. Returns whether any was newly
    /// marked.
    fn need_arguments(&mut self) -> bool {
        let function = self.function;
        let mut changed = false;
        for id in self.blocks().collect::<Vec<_>>().into_iter().rev() {
            for edge in function.block(id).end.edges() {
                let parameters = &function.block(edge.target).parameters;
                for (parameter, &argument) in parameters.iter().zip(&edge.arguments) {
                    if self.needs(*parameter) && !self.needs(argument) {
                        self.need(argument);
                        changed = true;
                    }
                }
            }
        }
        changed
    }

    pub fn needs(&self, value: ValueId) -> bool {
        self.needed[value.0 as usize]
    }

    fn need(&mut self, value: ValueId) {
        let mut pending = vec![value];
        while let Some(value) = pending.pop() {
            if std::mem::replace(&mut self.needed[value.0 as usize], true) {
                continue;
            }
            let value = self.function.get(value);
            self.needs_packet |= matches!(value, forebay_filter::ir::Value::Load { .. });
            self.needs_wire_len |= matches!(value, forebay_filter::ir::Value::WireLength);
            pending.extend(expression::operands_of(value));
        }
    }

    /// Type and name of each parameter that describes a packet.
    pub fn packet_parameters(&self) -> Vec<(&'static str, &'static str)> {
        [
            (self.needs_packet, ("const uint8_t *p", "p")),
            (self.needs_cap_len, ("uint32_t cap", "cap")),
            (self.needs_wire_len, ("uint32_t wire", "wire")),
        ]
        .into_iter()
        .filter_map(|(needed, parameter)| needed.then_some(parameter))
        .collect()
    }

    /// The needed parameters of a block and the `arguments` assigned to them.
    pub fn assignments<'a>(
        &'a self,
        target: BlockId,
        arguments: &'a [ValueId],
    ) -> impl Iterator<Item = (ValueId, ValueId)> + 'a {
        let parameters = self.function.block(target).parameters.iter().copied();
        parameters.zip(arguments.iter().copied()).filter(|&(parameter, _)| self.needs(parameter))
    }

    /// All needed parameters of reachable blocks.
    pub fn parameters(&self) -> Vec<ValueId> {
        let of = |id: BlockId| self.function.block(id).parameters.iter().copied();
        self.blocks().flat_map(of).filter(|&parameter| self.needs(parameter)).collect()
    }

    pub fn expressions(&self, roots: &[ValueId]) -> Expressions {
        Expressions::new(self.function, roots)
    }
}

/// Counts the edges into each block.
fn entries(function: &Function) -> Vec<u32> {
    let mut entries = vec![0_u32; function.blocks.len()];
    let mut pending = vec![BlockId(0)];
    while let Some(id) = pending.pop() {
        let Some(count) = entries.get_mut(id.0 as usize) else { continue };
        *count += 1;
        if *count == 1 {
            pending.extend(function.block(id).end.edges().map(|edge| edge.target));
        }
    }
    entries
}

/// Indentation of `depth` levels.
pub(super) fn indent(depth: usize) -> String {
    "    ".repeat(depth)
}
