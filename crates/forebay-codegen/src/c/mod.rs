//! Back ends `c` and `c-structured`: filters as C.
//!
//! Both emit a complete C11 translation unit with one function:
//!
//! ```c
//! void filter(const uint8_t *base, const uint32_t *offset, const uint32_t *cap_len,
//!             const uint32_t *wire_len, uint32_t *verdict, size_t n);
//! ```
//!
//! [`unstructured`] emits a label for each block and jumps between them, as
//! classic BPF does; [`structured`] emits nested tests and no jump (lists 2 and
//! 3 of Yamashita and Tsuru, "Software Pipelining for Packet Filters"). A
//! compiler may optimise the two forms differently.
//!
//! The code has no undefined behaviour: numbers are unsigned, bytes are copied
//! out of the packet, shift distances are checked, and each load follows its
//! test of the captured length.

mod expression;
mod structured;
mod unstructured;

use std::fmt::Write;

use forebay_filter::ir::{BlockId, Function, Terminator, ValueId};

use expression::Expressions;

/// Backward edges allowed for a packet besides its captured length, plus one.
const BACKWARD_EDGES: u32 = 4097;

/// Translates `function` to C with a label for each block.
#[must_use]
pub fn unstructured(function: &Function) -> String {
    let unit = Unit::new(function);
    let body = unstructured::body(&unit);
    unit.text("", &body)
}

/// Translates `function` to C with nested tests. A small block with several
/// predecessors is repeated at each; a large one becomes a function. A filter
/// with loops becomes a loop over a `switch` on the number of the next block.
#[must_use]
pub fn structured(function: &Function) -> String {
    let unit = Unit::new(function);
    let functions = structured::functions(&unit);
    let body = structured::body(&unit);
    unit.text(&functions, &body)
}

/// A function and what the printers derive from it.
struct Unit<'f> {
    function: &'f Function,
    /// By block: the number of edges from reachable blocks, plus one for the
    /// entry; 0 for unreachable blocks.
    entries: Vec<u32>,
    /// By value: whether a reachable block needs it.
    needed: Vec<bool>,
    has_backward_edges: bool,
    needs_packet: bool,
    needs_cap_len: bool,
    needs_wire_len: bool,
}

impl<'f> Unit<'f> {
    fn new(function: &'f Function) -> Self {
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
    fn blocks(&self) -> impl Iterator<Item = BlockId> + '_ {
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

    fn needs(&self, value: ValueId) -> bool {
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

    /// The translation unit: helpers, `functions`, and the loop over packets
    /// around `body`.
    fn text(&self, functions: &str, body: &str) -> String {
        let mut text =
            String::from("#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n");
        text.push_str(&expression::helpers(self));
        text.push_str(functions);
        text.push_str(
            "\nvoid filter(const uint8_t *base, const uint32_t *offset, const uint32_t *cap_len,\n            \
             const uint32_t *wire_len, uint32_t *restrict verdict, size_t n)\n{\n",
        );
        let unused = [
            (self.needs_packet, "base"),
            (self.needs_packet, "offset"),
            (self.needs_cap_len, "cap_len"),
            (self.needs_wire_len, "wire_len"),
        ];
        for (_, name) in unused.iter().filter(|(needed, _)| !needed) {
            let _ = writeln!(text, "    (void){name};");
        }
        text.push_str("    for (size_t i = 0; i < n; i++) {\n");
        for (needed, line) in [
            (self.needs_packet, "const uint8_t *const p = base + offset[i];"),
            (self.needs_cap_len, "const uint32_t cap = cap_len[i];"),
            (self.needs_wire_len, "const uint32_t wire = wire_len[i];"),
        ] {
            if needed {
                let _ = writeln!(text, "        {line}");
            }
        }
        text.push_str(body);
        text.push_str("    }\n}\n");
        text
    }

    /// Type and name of each parameter that describes a packet.
    fn packet_parameters(&self) -> Vec<(&'static str, &'static str)> {
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
    fn assignments<'a>(
        &'a self,
        target: BlockId,
        arguments: &'a [ValueId],
    ) -> impl Iterator<Item = (ValueId, ValueId)> + 'a {
        let parameters = self.function.block(target).parameters.iter().copied();
        parameters.zip(arguments.iter().copied()).filter(|&(parameter, _)| self.needs(parameter))
    }

    /// All needed parameters of reachable blocks.
    fn parameters(&self) -> Vec<ValueId> {
        let of = |id: BlockId| self.function.block(id).parameters.iter().copied();
        self.blocks().flat_map(of).filter(|&parameter| self.needs(parameter)).collect()
    }

    fn expressions(&self, roots: &[ValueId]) -> Expressions {
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
fn indent(depth: usize) -> String {
    "    ".repeat(depth)
}
