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
mod unit;
mod unstructured;

use std::fmt::Write;

use forebay_filter::ir::{Function, Predicate, Terminator, Value, ValueId, Width};

use unit::Unit;

/// Translates `function` to C with a label for each block.
#[must_use]
pub fn unstructured(function: &Function) -> String {
    let unit = Unit::new(function);
    let body = unstructured::body(&unit);
    text(&unit, "", &body)
}

/// Translates `function` to C with nested tests. A small block with several
/// predecessors is repeated at each; a large one becomes a function. A filter
/// with loops becomes a loop over a `switch` on the number of the next block.
#[must_use]
pub fn structured(function: &Function) -> String {
    let unit = Unit::new(function);
    let functions = structured::functions(&unit);
    let body = structured::body(&unit);
    text(&unit, &functions, &body)
}

/// The translation unit: helpers, `functions`, and the loop over packets
/// around `body`.
fn text(unit: &Unit<'_>, functions: &str, body: &str) -> String {
    let mut text = String::from("#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n");
    text.push_str(&helpers(unit));
    text.push_str(functions);
    text.push_str(
        "\nvoid filter(const uint8_t *base, const uint32_t *offset, const uint32_t *cap_len,\n            \
         const uint32_t *wire_len, uint32_t *restrict verdict, size_t n)\n{\n",
    );
    let unused = [
        (unit.needs_packet, "base"),
        (unit.needs_packet, "offset"),
        (unit.needs_cap_len, "cap_len"),
        (unit.needs_wire_len, "wire_len"),
    ];
    for (_, name) in unused.iter().filter(|(needed, _)| !needed) {
        let _ = writeln!(text, "    (void){name};");
    }
    text.push_str("    for (size_t i = 0; i < n; i++) {\n");
    for (needed, line) in [
        (unit.needs_packet, "const uint8_t *const p = base + offset[i];"),
        (unit.needs_cap_len, "const uint32_t cap = cap_len[i];"),
        (unit.needs_wire_len, "const uint32_t wire = wire_len[i];"),
    ] {
        if needed {
            let _ = writeln!(text, "        {line}");
        }
    }
    text.push_str(body);
    text.push_str("    }\n}\n");
    text
}

/// Helper functions of the translation unit: big-endian loads and sets.
fn helpers(unit: &Unit<'_>) -> String {
    let mut text = String::new();
    for (width, helper) in [
        (Width::Byte, "static inline uint32_t byte(const uint8_t *p)\n{\n    return *p;\n}\n"),
        (
            Width::Half,
            "static inline uint32_t half(const uint8_t *p)\n{\n    uint16_t bytes;\n    \
             memcpy(&bytes, p, sizeof bytes);\n    return __builtin_bswap16(bytes);\n}\n",
        ),
        (
            Width::Word,
            "static inline uint32_t word(const uint8_t *p)\n{\n    uint32_t bytes;\n    \
             memcpy(&bytes, p, sizeof bytes);\n    return __builtin_bswap32(bytes);\n}\n",
        ),
    ] {
        let is_used = unit.function.values().iter().enumerate().any(|(at, value)| {
            matches!(value, Value::Load { width: of, .. } if *of == width)
                && unit.needs(ValueId(at as u32))
        });
        if is_used {
            text.push('\n');
            text.push_str(helper);
        }
    }
    let mut used: Vec<usize> = unit
        .blocks()
        .filter_map(|id| match unit.function.block(id).end {
            Terminator::Test { predicate: Predicate::Member { set, .. }, .. } => {
                Some(set.0 as usize)
            }
            _ => None,
        })
        .collect();
    used.sort_unstable();
    used.dedup();
    used.into_iter().for_each(|set| text.push_str(&expression::set_function(unit.function, set)));
    text
}
