//! Blocks as labels, edges as jumps.

use std::fmt::Write;

use forebay_filter::ir::{BlockId, Edge, Terminator, ValueId};

use super::expression::{Expressions, operands, parameter};
use super::unit::{BACKWARD_EDGES, Unit, indent};
use crate::explain::predicate::describe;

/// The body of the loop over packets.
pub(super) fn body(unit: &Unit<'_>) -> String {
    let mut text = String::new();
    for value in unit.parameters() {
        let _ = writeln!(text, "        uint32_t {} = 0;", parameter(unit.function, value));
    }
    if unit.has_backward_edges {
        let _ = writeln!(text, "        uint64_t left = (uint64_t)cap + {BACKWARD_EDGES};");
    }
    for id in unit.blocks() {
        // The entry is reached by falling through; an unused label gives a
        // warning.
        if id.0 > 0 || unit.entries[0] > 1 {
            let _ = writeln!(text, "    b{}:", id.0);
        }
        block(unit, id, &mut text);
    }
    text
}

fn block(unit: &Unit<'_>, id: BlockId, text: &mut String) {
    let (function, pad) = (unit.function, indent(3));
    let end = &function.block(id).end;
    let read: Vec<ValueId> = match end {
        Terminator::Return(value) => vec![*value],
        Terminator::Test { predicate, .. } => operands(function, *predicate),
        Terminator::Jump(_) => Vec::new(),
    };
    let expressions = unit.expressions(&read);
    text.push_str("        {");
    if let Terminator::Test { predicate, .. } = end {
        let _ = write!(text, " /* {} */", describe(function, *predicate));
    }
    text.push('\n');
    define(&expressions, 3, text);
    match end {
        Terminator::Return(value) => {
            let _ =
                writeln!(text, "{pad}verdict[i] = {};\n{pad}continue;", expressions.get(*value));
        }
        Terminator::Jump(edge) => go(unit, id, edge, 3, text),
        Terminator::Test { predicate, then, otherwise } => {
            let condition = expressions.condition(function, *predicate);
            let _ = writeln!(text, "{pad}if ({condition}) {{");
            go(unit, id, then, 4, text);
            let _ = writeln!(text, "{pad}}} else {{");
            go(unit, id, otherwise, 4, text);
            let _ = writeln!(text, "{pad}}}");
        }
    }
    text.push_str("        }\n");
}

/// Definitions of values that are read more than once.
pub(super) fn define(expressions: &Expressions, depth: usize, text: &mut String) {
    for definition in &expressions.definitions {
        let _ = writeln!(text, "{}{definition}", indent(depth));
    }
}

fn go(unit: &Unit<'_>, from: BlockId, edge: &Edge, depth: usize, text: &mut String) {
    let pad = indent(depth);
    if edge.target <= from {
        let _ = writeln!(text, "{pad}if (--left == 0) {{\n{pad}    verdict[i] = 0;");
        let _ = writeln!(text, "{pad}    continue;\n{pad}}}");
    }
    assign(unit, edge, depth, text);
    let _ = writeln!(text, "{pad}goto b{};", edge.target.0);
}

/// Assigns the arguments to the target's parameters, all at once.
pub(super) fn assign(unit: &Unit<'_>, edge: &Edge, depth: usize, text: &mut String) {
    let pad = indent(depth);
    let assignments: Vec<_> = unit.assignments(edge.target, &edge.arguments).collect();
    let arguments: Vec<ValueId> = assignments.iter().map(|&(_, argument)| argument).collect();
    let expressions = unit.expressions(&arguments);
    define(&expressions, depth, text);
    if let [(to, argument)] = assignments[..] {
        let to = parameter(unit.function, to);
        let _ = writeln!(text, "{pad}{to} = {};", expressions.get(argument));
        return;
    }
    for (number, &(_, argument)) in assignments.iter().enumerate() {
        let _ = writeln!(text, "{pad}const uint32_t a{number} = {};", expressions.get(argument));
    }
    for (number, &(to, _)) in assignments.iter().enumerate() {
        let _ = writeln!(text, "{pad}{} = a{number};", parameter(unit.function, to));
    }
}
