//! Blocks as nested tests.
//!
//! A function for one packet tests and returns the verdict. C without jumps
//! cannot merge paths, so a block with several predecessors is repeated at each
//! if it is short, and becomes a function otherwise. Tests that would be nested
//! too deeply for a compiler become functions too. A function calls only
//! functions of later blocks, so functions are printed last block first and
//! need no forward declarations.

use std::collections::BTreeSet;
use std::fmt::Write;

use forebay_filter::ir::{BlockId, Edge, Terminator, ValueId};

use super::expression::{Expressions, operands, parameter, reads_cap_len};
use super::unit::{BACKWARD_EDGES, Unit, indent};
use super::unstructured::{assign, define};
use crate::explain::predicate::describe;

/// The most tests that are repeated.
const REPEATED: u32 = 2;

/// The deepest nesting of tests in one function.
const NESTED: usize = 24;

/// The functions for one packet; the entry's comes last.
pub(super) fn functions(unit: &Unit<'_>) -> String {
    if unit.has_backward_edges {
        return dispatch(unit);
    }
    let mut printer = Printer {
        unit,
        sizes: sizes(unit),
        outside: outside(unit),
        called: BTreeSet::from([BlockId(0)]),
        reads: Reads::default(),
    };
    let mut functions = Vec::new();
    // A function calls only functions of later blocks, so blocks added to the
    // set always lie beyond the current one.
    let mut next = Some(BlockId(0));
    while let Some(id) = next {
        functions.push(printer.function(id));
        next = printer.called.range(BlockId(id.0 + 1)..).next().copied();
    }
    functions.reverse();
    functions.concat()
}

/// The body of the loop over packets.
pub(super) fn body(unit: &Unit<'_>) -> String {
    let names: Vec<&str> = unit.packet_parameters().into_iter().map(|(_, name)| name).collect();
    format!("        verdict[i] = block_0({});\n", names.join(", "))
}

/// By block: the tests that its code has when written out.
fn sizes(unit: &Unit<'_>) -> Vec<u32> {
    let mut sizes = vec![0_u32; unit.entries.len()];
    for id in unit.blocks().collect::<Vec<_>>().into_iter().rev() {
        let end = &unit.function.block(id).end;
        let own = u32::from(matches!(end, Terminator::Test { .. }));
        let of = |edge: &Edge| {
            let target = edge.target.0 as usize;
            if is_function(unit, &sizes, edge.target) { 0 } else { sizes[target] }
        };
        sizes[id.0 as usize] = end.edges().map(of).fold(own, u32::saturating_add);
    }
    sizes
}

/// Whether a block becomes a function because it has several predecessors.
fn is_function(unit: &Unit<'_>, sizes: &[u32], id: BlockId) -> bool {
    unit.entries[id.0 as usize] > 1 && sizes[id.0 as usize] > REPEATED
}

/// By block: the parameters of earlier blocks that it or its successors read.
fn outside(unit: &Unit<'_>) -> Vec<BTreeSet<ValueId>> {
    let function = unit.function;
    let mut outside = vec![BTreeSet::new(); unit.entries.len()];
    if unit.parameters().is_empty() {
        return outside;
    }
    for id in unit.blocks().collect::<Vec<_>>().into_iter().rev() {
        let block = function.block(id);
        let mut roots = match &block.end {
            Terminator::Return(value) => vec![*value],
            Terminator::Test { predicate, .. } => operands(function, *predicate),
            Terminator::Jump(_) => Vec::new(),
        };
        let mut here = BTreeSet::new();
        for edge in block.end.edges() {
            here.extend(outside[edge.target.0 as usize].iter().copied());
            roots.extend(unit.assignments(edge.target, &edge.arguments).map(|(_, from)| from));
        }
        here.extend(unit.expressions(&roots).parameters(function));
        block.parameters.iter().for_each(|own| {
            here.remove(own);
        });
        outside[id.0 as usize] = here;
    }
    outside
}

/// The parts of a packet that a function reads.
#[derive(Clone, Copy, Default)]
struct Reads {
    packet: bool,
    cap_len: bool,
    wire_len: bool,
}

struct Printer<'u, 'f> {
    unit: &'u Unit<'f>,
    sizes: Vec<u32>,
    outside: Vec<BTreeSet<ValueId>>,
    /// Blocks that become functions.
    called: BTreeSet<BlockId>,
    /// The parts of the packet that the current function reads.
    reads: Reads,
}

impl Printer<'_, '_> {
    /// The function for block `id`.
    fn function(&mut self, id: BlockId) -> String {
        self.reads = Reads::default();
        let mut body = String::new();
        self.block(id, 1, &mut body);
        let mut text = self.signature(id);
        text.push_str("{\n");
        for (_, name) in self.unit.packet_parameters() {
            let is_read = match name {
                "p" => self.reads.packet,
                "cap" => self.reads.cap_len,
                _ => self.reads.wire_len,
            };
            if !is_read {
                let _ = writeln!(text, "    (void){name};");
            }
        }
        text + &body + "}\n"
    }

    /// The signature of the function for block `id`.
    fn signature(&self, id: BlockId) -> String {
        let values = self.parameters(id).map(|value| parameter(self.unit.function, value));
        signature(self.unit, id, values)
    }

    /// The parameters of a block's function besides the packet.
    fn parameters(&self, id: BlockId) -> impl Iterator<Item = ValueId> + '_ {
        let own = self.unit.function.block(id).parameters.iter().copied();
        let own = own.filter(|&value| self.unit.needs(value));
        own.chain(self.outside[id.0 as usize].iter().copied())
    }

    fn expressions(&mut self, roots: &[ValueId]) -> Expressions {
        let expressions = self.unit.expressions(roots);
        self.reads.packet |= expressions.reads_packet;
        self.reads.wire_len |= expressions.reads_wire_len;
        expressions
    }

    fn block(&mut self, id: BlockId, depth: usize, text: &mut String) {
        let (function, pad) = (self.unit.function, indent(depth));
        match &function.block(id).end {
            Terminator::Return(value) => {
                let expressions = self.expressions(&[*value]);
                define(&expressions, depth, text);
                let _ = writeln!(text, "{pad}return {};", expressions.get(*value));
            }
            Terminator::Jump(edge) => self.edge(edge, depth, text),
            Terminator::Test { predicate, then, otherwise } => {
                let expressions = self.expressions(&operands(function, *predicate));
                self.reads.cap_len |= reads_cap_len(function, *predicate);
                define(&expressions, depth, text);
                let condition = expressions.condition(function, *predicate);
                let comment = describe(function, *predicate);
                let _ = writeln!(text, "{pad}/* b{}: {comment} */", id.0);
                let _ = writeln!(text, "{pad}if ({condition}) {{");
                self.edge(then, depth + 1, text);
                let _ = writeln!(text, "{pad}}} else {{");
                self.edge(otherwise, depth + 1, text);
                let _ = writeln!(text, "{pad}}}");
            }
        }
    }

    fn edge(&mut self, edge: &Edge, depth: usize, text: &mut String) {
        let (unit, target) = (self.unit, edge.target);
        let is_long = self.sizes[target.0 as usize] > REPEATED;
        if is_function(unit, &self.sizes, target) || (is_long && depth > NESTED) {
            return self.call(edge, depth, text);
        }
        let assignments: Vec<_> = unit.assignments(target, &edge.arguments).collect();
        if assignments.is_empty() {
            return self.block(target, depth, text);
        }
        // Open a scope: the block may define names again.
        let pad = indent(depth);
        let arguments: Vec<ValueId> = assignments.iter().map(|&(_, argument)| argument).collect();
        let expressions = self.expressions(&arguments);
        define(&expressions, depth, text);
        for &(to, argument) in &assignments {
            let to = parameter(unit.function, to);
            let _ = writeln!(text, "{pad}const uint32_t {to} = {};", expressions.get(argument));
        }
        let _ = writeln!(text, "{pad}{{");
        self.block(target, depth + 1, text);
        let _ = writeln!(text, "{pad}}}");
    }

    /// Returns the result of the function of the edge's target.
    fn call(&mut self, edge: &Edge, depth: usize, text: &mut String) {
        let (unit, pad) = (self.unit, indent(depth));
        self.called.insert(edge.target);
        self.reads = Reads { packet: true, cap_len: true, wire_len: true };
        let given: Vec<_> = unit.assignments(edge.target, &edge.arguments).collect();
        let arguments: Vec<ValueId> = given.iter().map(|&(_, argument)| argument).collect();
        let expressions = self.expressions(&arguments);
        define(&expressions, depth, text);
        let packet = unit.packet_parameters().into_iter().map(|(_, name)| name.to_owned());
        let values = self.parameters(edge.target).map(|value| {
            match given.iter().find(|&&(to, _)| to == value) {
                Some(&(_, argument)) => expressions.get(argument).to_owned(),
                None => parameter(unit.function, value),
            }
        });
        let all: Vec<String> = packet.chain(values).collect();
        let _ = writeln!(text, "{pad}return block_{}({});", edge.target.0, all.join(", "));
    }
}

/// The signature of a function with the packet and `values` as parameters.
fn signature(unit: &Unit<'_>, id: BlockId, values: impl Iterator<Item = String>) -> String {
    let packet =
        unit.packet_parameters().into_iter().map(|(declaration, _)| declaration.to_owned());
    let mut all: Vec<String> =
        packet.chain(values.map(|name| format!("uint32_t {name}"))).collect();
    if all.is_empty() {
        all.push("void".to_owned());
    }
    format!("\nstatic uint32_t block_{}({})\n", id.0, all.join(", "))
}

/// A function with loops: a variable holds the number of the next block.
fn dispatch(unit: &Unit<'_>) -> String {
    let mut text = signature(unit, BlockId(0), std::iter::empty());
    text.push_str("{\n");
    for value in unit.parameters() {
        let _ = writeln!(text, "    uint32_t {} = 0;", parameter(unit.function, value));
    }
    let _ = writeln!(text, "    uint64_t left = (uint64_t)cap + {BACKWARD_EDGES};");
    text.push_str("    uint32_t block = 0;\n    for (;;) {\n        switch (block) {\n");
    for id in unit.blocks() {
        let _ = writeln!(text, "        case {}: {{", id.0);
        case(unit, id, &mut text);
        text.push_str("        }\n");
    }
    text.push_str("        default:\n            return 0;\n        }\n    }\n}\n");
    text
}

fn case(unit: &Unit<'_>, id: BlockId, text: &mut String) {
    let (function, pad) = (unit.function, indent(3));
    let follow = |edge: &Edge, depth: usize, text: &mut String| {
        let pad = indent(depth);
        if edge.target <= id {
            let _ = writeln!(text, "{pad}if (--left == 0) {{\n{pad}    return 0;\n{pad}}}");
        }
        assign(unit, edge, depth, text);
        let _ = writeln!(text, "{pad}block = {};", edge.target.0);
    };
    match &function.block(id).end {
        Terminator::Return(value) => {
            let expressions = unit.expressions(&[*value]);
            define(&expressions, 3, text);
            let _ = writeln!(text, "{pad}return {};", expressions.get(*value));
        }
        Terminator::Jump(edge) => {
            follow(edge, 3, text);
            let _ = writeln!(text, "{pad}break;");
        }
        Terminator::Test { predicate, then, otherwise } => {
            let expressions = unit.expressions(&operands(function, *predicate));
            define(&expressions, 3, text);
            let condition = expressions.condition(function, *predicate);
            let comment = describe(function, *predicate);
            let _ = writeln!(text, "{pad}/* {comment} */\n{pad}if ({condition}) {{");
            follow(then, 4, text);
            let _ = writeln!(text, "{pad}}} else {{");
            follow(otherwise, 4, text);
            let _ = writeln!(text, "{pad}}}\n{pad}break;");
        }
    }
}
