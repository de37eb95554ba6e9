//! Machine code as text, disassembled from its bytes.
//!
//! The listing comes from a decoder that is independent of the back ends, so it
//! shows exactly what the processor executes. Jump targets are numbered L1, L2,
//! ... by address, constants C1, C2, ...; the compiler's notes precede the code
//! they describe. Addresses are offsets from the start of the code. The same
//! code gives the same text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use iced_x86::{
    Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter, SymbolResolver, SymbolResult,
};

use crate::code::Code;

/// Column of the operands, within the text of an instruction.
const OPERANDS_AT: u32 = 12;

/// Bytes of a constant that are shown; the rest of a table is only counted.
const SHOWN: usize = 256;

/// Bytes shown a line.
const LINE: usize = 32;

/// The listing of `code`.
#[must_use]
pub fn disassemble(code: &Code) -> String {
    let instructions = decode(code);
    let names = Names::new(code, &instructions);
    let mut formatter = formatter(names.clone());
    let mut text = String::new();
    let mut notes = code.notes.iter().peekable();
    for instruction in &instructions {
        let at = instruction.ip();
        while let Some((_, note)) = notes.next_if(|(start, _)| *start as u64 <= at) {
            note.lines().for_each(|line| append(&mut text, format_args!("; {line}\n")));
        }
        if let Some(entry) = entry_name(code, at) {
            append(&mut text, format_args!("{entry}:\n"));
        }
        if let Some(label) = names.labels.get(&at) {
            append(&mut text, format_args!("{label}:\n"));
        }
        let mut line = String::new();
        formatter.format(instruction, &mut line);
        append(&mut text, format_args!("{at:6x}  {line}"));
        if let Some(value) = names.short_constant(code, instruction) {
            append(&mut text, format_args!("  ; {value}"));
        }
        text.push('\n');
    }
    append_constants(&mut text, code, &names);
    text
}

/// Appends formatted text; writing to a string cannot fail.
fn append(text: &mut String, what: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(what);
}

fn entry_name(code: &Code, at: u64) -> Option<&'static str> {
    let is_batch = code.batch.is_some_and(|batch| batch.entry as u64 == at);
    match (code.each as u64 == at, is_batch) {
        (true, true) => Some("each, batch"),
        (true, false) => Some("each"),
        (false, true) => Some("batch"),
        (false, false) => None,
    }
}

/// All instructions except the padding before the constants.
fn decode(code: &Code) -> Vec<Instruction> {
    let end = code.constants_at.min(code.bytes.len());
    let used = code.bytes[..end].iter().rposition(|&byte| byte != 0xcc).map_or(0, |last| last + 1);
    // A padding byte decodes as one instruction, but can also end an operand: a
    // longer last instruction is decoded in full.
    let mut decoder = Decoder::new(64, &code.bytes[..end], DecoderOptions::NONE);
    decoder.iter().take_while(|instruction| instruction.ip() < used as u64).collect()
}

fn formatter(names: Names) -> IntelFormatter {
    let mut formatter = IntelFormatter::with_options(Some(Box::new(names)), None);
    let options = formatter.options_mut();
    options.set_first_operand_char_index(OPERANDS_AT);
    options.set_space_after_operand_separator(true);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_small_hex_numbers_in_decimal(true);
    options.set_add_leading_zero_to_hex_numbers(false);
    options.set_branch_leading_zeros(false);
    options.set_show_branch_size(false);
    options.set_rip_relative_addresses(false);
    formatter
}

/// Names of addresses.
#[derive(Clone)]
struct Names {
    labels: BTreeMap<u64, String>,
    constants: BTreeMap<u64, Constant>,
}

/// A constant that an instruction refers to.
#[derive(Clone)]
struct Constant {
    name: String,
    /// Bytes that instructions read from it; 0 if only its address is used.
    size: usize,
}

impl Names {
    fn new(code: &Code, instructions: &[Instruction]) -> Self {
        let targets: BTreeSet<u64> = instructions.iter().filter_map(branch_target).collect();
        let number = |(number, at): (usize, u64)| (at, format!("L{}", number + 1));
        let labels = targets.into_iter().enumerate().map(number).collect();
        let mut sizes: BTreeMap<u64, usize> = BTreeMap::new();
        for instruction in instructions.iter().filter(|i| i.is_ip_rel_memory_operand()) {
            let at = instruction.ip_rel_memory_address();
            if at >= code.constants_at as u64 && at < code.bytes.len() as u64 {
                let size = sizes.entry(at).or_default();
                *size = (*size).max(instruction.memory_size().size());
            }
        }
        let constant =
            |(number, (at, size))| (at, Constant { name: format!("C{}", number + 1), size });
        Self { labels, constants: sizes.into_iter().enumerate().map(constant).collect() }
    }

    /// The operand that an instruction reads from the constants as text, if it
    /// is short or periodic.
    fn short_constant(&self, code: &Code, instruction: &Instruction) -> Option<String> {
        if !instruction.is_ip_rel_memory_operand() {
            return None;
        }
        let at = instruction.ip_rel_memory_address();
        let size = self.constants.get(&at)?.size;
        let bytes = code.bytes.get(at as usize..at as usize + size)?;
        let number = |bytes: &[u8]| {
            let digits = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>();
            format!("0x{digits}")
        };
        if matches!(size, 1..=8) {
            return Some(number(bytes));
        }
        let period = [1, 2, 4, 8].into_iter().find(|&period| {
            size > period && bytes.chunks(period).all(|chunk| chunk == &bytes[..period])
        })?;
        Some(format!("{} times {}", size / period, number(&bytes[..period])))
    }
}

impl SymbolResolver for Names {
    fn symbol(
        &mut self,
        instruction: &Instruction,
        _operand: u32,
        _instruction_operand: Option<u32>,
        address: u64,
        _address_size: u32,
    ) -> Option<SymbolResult<'_>> {
        let name = if branch_target(instruction) == Some(address) {
            self.labels.get(&address)?
        } else if instruction.is_ip_rel_memory_operand()
            && instruction.ip_rel_memory_address() == address
        {
            &self.constants.get(&address)?.name
        } else {
            return None;
        };
        Some(SymbolResult::with_str(address, name))
    }
}

/// The target of a jump with a constant target.
fn branch_target(instruction: &Instruction) -> Option<u64> {
    let target = instruction.near_branch_target();
    (instruction.op_count() > 0 && target != 0).then_some(target)
}

/// The constants that are referred to, by name, with their bytes.
fn append_constants(text: &mut String, code: &Code, names: &Names) {
    let starts: Vec<u64> = names.constants.keys().copied().collect();
    for (number, (&at, constant)) in names.constants.iter().enumerate() {
        let end = starts.get(number + 1).map_or(code.bytes.len(), |&next| next as usize);
        let start = at as usize;
        let size = if constant.size == 0 { end - start } else { constant.size };
        append(text, format_args!("{}:  ; {size} bytes\n", constant.name));
        let bytes = &code.bytes[start..(start + size).min(code.bytes.len())];
        for (line, chunk) in bytes[..bytes.len().min(SHOWN)].chunks(LINE).enumerate() {
            append(text, format_args!("{:6x} ", start + line * LINE));
            for word in chunk.chunks(4) {
                text.push(' ');
                word.iter().for_each(|byte| append(text, format_args!("{byte:02x}")));
            }
            text.push('\n');
        }
        if size > SHOWN {
            append(text, format_args!("        and {} bytes more\n", size - SHOWN));
        }
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::{Code as Op, Instruction, MemoryOperand, Register};

    use super::*;
    use crate::code::Backend;
    use crate::emit::assembler::Assembler;

    fn sample() -> Code {
        let mut assembler = Assembler::default();
        let (entry, again) = (assembler.label(), assembler.label());
        assembler.bind(entry);
        let zero = Instruction::with2(Op::Xor_r32_rm32, Register::EAX, Register::EAX);
        assembler.push(&zero.expect("operands")).expect("code");
        assembler.bind(again);
        assembler.note("the loop");
        let pool = assembler.pool.add(&[0x34, 0x12, 0x34, 0x12].repeat(8), 32);
        let operand = assembler.constant();
        let load = Instruction::with2(Op::VEX_Vmovdqu_ymm_ymmm256, Register::YMM0, operand);
        assembler.push_with_constant(&load.expect("operands"), pool, 0).expect("code");
        let small = MemoryOperand::with_base_displ(Register::RDI, 10);
        let compare = Instruction::with2(Op::Cmp_rm32_imm32, small, 10);
        assembler.push(&compare.expect("operands")).expect("code");
        assembler.jump(Op::Jne_rel32_64, again).expect("code");
        assembler.push(&Instruction::with(Op::Retnq)).expect("code");
        let assembled = assembler.finish().expect("code");
        Code {
            each: 0,
            constants_at: assembled.constants_at,
            batch: None,
            backend: Backend::List,
            notes: assembled.notes,
            schedule: String::new(),
            remark: None,
            bytes: assembled.bytes,
        }
    }

    #[test]
    fn jumps_and_constants_have_names_and_notes_stand_above() {
        let expected = "\
each:
     0  xor         eax, eax
; the loop
L1:
     2  vmovdqu     ymm0, [C1]  ; 16 times 0x1234
     a  cmp         dword ptr [rdi+0xa], 0xa
    11  jne         L1
    17  ret
C1:  ; 32 bytes
    40  34123412 34123412 34123412 34123412 34123412 34123412 34123412 34123412
";
        assert_eq!(disassemble(&sample()), expected);
    }
}
