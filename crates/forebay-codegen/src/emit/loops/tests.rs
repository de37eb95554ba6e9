//! The frames of loops, run by a small interpreter of their instructions.

use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};
use proptest::prelude::*;

use super::*;
use crate::code::{Isa, Scheduling};
use crate::convention::Table;
use crate::emit::assembler::Assembled;
use crate::mir::Operand;
use crate::sched::samples::{extraction, random_body};
use crate::sched::{Options, schedule_loop};

/// The instruction of an access to a table, its memory base, and the packet number plus displacement in bytes.
type Access = (Mnemonic, Register, i64);

/// What the frame of a loop does.
#[derive(Default)]
struct Run {
    /// The accesses of the prefetches in front.
    first: Vec<Access>,
    /// The accesses of the loop.
    accesses: Vec<Access>,
    /// What was added to the bound.
    added: i64,
    /// Of prefetches: the place of the packet's offset in its table, in bytes, and the byte of the packet.
    prefetched: Vec<(i64, u64)>,
}

/// Runs the frame of `code` over a batch of `count`.
fn run(code: &Assembled, count: i64) -> Run {
    let options = DecoderOptions::NONE;
    let (mut packet, mut bound, mut flags) = (i64::MIN, i64::MIN, 0);
    let mut run = Run::default();
    let mut offsets: Vec<(Register, i64)> = Vec::new();
    let mut ip = 0;
    loop {
        let instruction =
            Decoder::with_ip(64, &code.bytes[ip as usize..code.constants_at], ip, options).decode();
        assert!(!instruction.is_invalid(), "no instruction at byte {ip}");
        ip = instruction.next_ip();
        let number = || match instruction.op1_kind() {
            OpKind::Register if instruction.op1_register() == BOUND => bound,
            OpKind::Memory if instruction.memory_base() == ARGUMENTS => count,
            OpKind::Memory => bound + instruction.memory_displacement64() as i64,
            _ => instruction.immediate(1) as i64,
        };
        let jumps = match instruction.mnemonic() {
            Mnemonic::Ret => return run,
            Mnemonic::Jmp => true,
            Mnemonic::Jl | Mnemonic::Jb => flags < 0,
            Mnemonic::Jle => flags <= 0,
            Mnemonic::Jae => flags >= 0,
            _ => false,
        };
        if jumps {
            ip = instruction.near_branch_target();
        }
        match (instruction.op0_register(), instruction.mnemonic()) {
            (Register::R12D, Mnemonic::Xor) => {
                (packet, run.first) = (0, std::mem::take(&mut run.accesses));
            }
            (PACKET, Mnemonic::Add) => packet += number(),
            (PACKET, Mnemonic::Lea) => packet = number(),
            (PACKET, Mnemonic::Cmp) => flags = packet - number(),
            (BOUND, Mnemonic::Mov) => bound = number(),
            (BOUND, Mnemonic::Add) => (bound, run.added) = (bound + number(), run.added + number()),
            (BOUND, Mnemonic::Cmp) => flags = bound - number(),
            (BOUND, Mnemonic::And) => bound &= number(),
            (BOUND, Mnemonic::Sub) => (bound, flags) = (bound - number(), bound - number()),
            (_, mnemonic) if instruction.memory_index() == PACKET => {
                let scale = i64::from(instruction.memory_index_scale());
                let at = packet * scale + instruction.memory_displacement64() as i64;
                run.accesses.push((mnemonic, instruction.memory_base(), at));
                if mnemonic == Mnemonic::Mov && instruction.op0_kind() == OpKind::Register {
                    // The sample loads offsets by 32 bits.
                    let number = instruction.op0_register() as u32 - Register::EAX as u32;
                    let register = Register::RAX + number;
                    offsets.retain(|known| known.0 != register);
                    offsets.push((register, at));
                }
            }
            (_, Mnemonic::Prefetcht0) => {
                assert_eq!(instruction.memory_base(), table_register(Table::Base));
                // Random loops prefetch by any register.
                let at = offsets.iter().find(|known| known.0 == instruction.memory_index());
                run.prefetched.extend(at.map(|at| (at.1, instruction.memory_displacement64())));
            }
            _ => {}
        }
    }
}

fn assembled(body: &LoopBody, scheduling: Scheduling, prefetches: Prefetches) -> Option<Assembled> {
    let options = Options { load_latency: 5, scheduling };
    let scheduled = schedule_loop(body, &options, Isa::Avx512Vbmi).ok()?;
    let mut assembler = Assembler::default();
    for entry in 0..2u8 {
        assembler.pool.add(&[entry; 64], 64);
    }
    let entry = emit_batch_function(&mut assembler, &[scheduled], prefetches);
    let entry = entry.expect("it can be encoded");
    let assembled = assembler.finish().expect("labels are bound");
    assert_eq!(assembled.offset(entry), Some(0));
    Some(assembled)
}

/// The accesses of the ops of `body` in a batch of `count`; for ops with
/// lookahead, all that are permitted.
fn expected(body: &LoopBody, count: i64, ahead: bool) -> Vec<Access> {
    let step = i64::from(body.step);
    let whole = (0..count / step).map(|iteration| iteration * step);
    let ragged = (count % step != 0).then(|| count - step);
    let mut result = Vec::new();
    for packet in whole.chain(ragged) {
        for op in body.ops.iter().filter(|op| op.ahead == ahead) {
            for operand in &op.operands {
                if let Operand::Memory(address) = operand
                    && let crate::mir::Index::Packet(scale) = address.index
                    && let crate::mir::Base::Table(table) = address.base
                {
                    let at = packet * i64::from(scale) + i64::from(address.displacement);
                    result.push((op.code.mnemonic(), table_register(table), at));
                }
            }
        }
    }
    result.sort_unstable();
    result
}

#[test]
fn every_packet_is_done_once_and_nothing_looks_beyond_the_batch() {
    let body = extraction(2, 32);
    let code = assembled(&body, Scheduling::Modulo, Prefetches::Kept).expect("registers suffice");
    for count in 0..=256 {
        let Run { first, accesses, mut prefetched, added } = run(&code, count);
        assert_eq!(added, -32);
        assert!(first.iter().map(|access| access.2).eq((0..).step_by(4).take(first.len())));
        assert!(first.len() as i64 == count || first.len() == 32, "batch of {count}");
        // Each packet once, from the first on: all, or all but those of the last iterations.
        assert!(prefetched.iter().all(|(_, byte)| *byte == 12));
        prefetched.sort_unstable();
        assert!(prefetched.iter().map(|(at, _)| *at).eq((0..).step_by(4).take(prefetched.len())));
        assert!((count - 16..=count).contains(&(prefetched.len() as i64)), "batch of {count}");
        let (offsets, mut rest): (Vec<_>, Vec<_>) =
            accesses.into_iter().partition(|access| access.1 == table_register(Table::Offset));
        rest.sort_unstable();
        let stores = expected(&body, count, false);
        let stores: Vec<_> =
            stores.into_iter().filter(|a| a.1 == table_register(Table::Scratch)).collect();
        assert_eq!(rest, stores, "batch of {count}");
        assert!(offsets.iter().all(|access| (0..4 * count).contains(&access.2)));
    }
}

#[test]
fn without_prefetches_a_loop_does_the_same_and_reads_no_offset_ahead() {
    let body = extraction(2, 32);
    let code =
        assembled(&body, Scheduling::Modulo, Prefetches::LeftOut).expect("registers suffice");
    for count in 0..=256 {
        let Run { first, mut accesses, prefetched, added } = run(&code, count);
        assert!(first.is_empty() && prefetched.is_empty(), "batch of {count}");
        // The pipelined form goes as far as the batch.
        assert_eq!(added, 0, "batch of {count}");
        accesses.sort_unstable();
        assert_eq!(accesses, expected(&body, count, false), "batch of {count}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn random_loops_access_what_they_should(
        body in random_body(20),
        scheduling in prop::sample::select(vec![
            Scheduling::None, Scheduling::List, Scheduling::Modulo, Scheduling::Modulo,
        ]),
        whole in 0i64..70,
        more in 0i64..32,
    ) {
        let step = i64::from(body.step);
        let count = whole * step + if whole > 0 { more % step } else { 0 };
        if let Some(code) = assembled(&body, scheduling, Prefetches::Kept) {
            let Run { first, accesses: mut seen, .. } = run(&code, count);
            let prefetches = body.ops.iter().any(|op| op.code == Code::Prefetcht0_m8);
            prop_assert_eq!(!first.is_empty(), prefetches && count > 0);
            let least = count.min(i64::from(body.lookahead));
            prop_assert!(first.len() as i64 + 3 >= least || !prefetches);
            prop_assert!(first.len() as i64 <= count);
            prop_assert!(first.iter().map(|access| access.2).eq((0..).step_by(4).take(first.len())));
            seen.sort_unstable();
            prop_assert_eq!(seen, expected(&body, count, false));
        }
    }
}
