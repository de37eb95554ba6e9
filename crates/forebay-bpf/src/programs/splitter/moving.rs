//! Which sensor a packet goes to, also while its bucket moves.
//!
//! The rules are those of the workers in user space (`forebay_balance::moves`): a key
//! on record goes to the sensor that the record names, and is seen. Any other goes
//! where the bucket's new keys go, and is put on record with that while the bucket
//! records. What cannot be put on record cancels the move, on the spot.
//!
//! A record is one word. Every change is a compare-and-exchange, tried a few times:
//! another processor may see a packet of the same key, and user space may be removing
//! the record ([`super::sweep`]).

use super::MAX_SENSORS;
use super::code::{DISPLACED, HASH, NOW, RECORD_WORD, count, emit_lookup, emit_tally};
use super::entry::{
    CANCELLED, HIGH_CLOSED, LOOK_UP, LOW_CLOSED, ON_RECORD, OTHER_SHIFT, RECORD, RECORD_SENSOR,
    RECORD_TIME, SENSOR_MASK, TIME_UNIT, TURNED, WATCHED,
};
use super::state::{
    Counter, DEAD, DISPLACED_AT, PRESENT, RECORDED_AT, SENSOR_ENTRY, SENSORS_AT, State,
};
use crate::asm::Register::{FP, R0, R1, R2, R3, R4, R5, R7, R8, R9};
use crate::asm::{Alu, Assembler, Condition, Helper, Instruction, Label, Register, Size};
use crate::flow::frame;

/// Attempts at a change that others get in the way of.
const ATTEMPTS: usize = 3;

/// `BPF_NOEXIST`, and the answer where the key is there.
const NO_EXIST: i32 = 1;
const EEXIST: i32 = 17;

/// Flags of a TCP header (RFC 9293 section 3.1).
pub(super) const FIN: i32 = 0x01;
pub(super) const SYN: i32 = 0x02;
pub(super) const RST: i32 = 0x04;
const ACK: i32 = 0x10;

/// Where a packet's sensor is decided.
#[derive(Clone, Copy)]
struct Ways {
    /// To the sensor in R3, by the record.
    stays: Label,
    /// To the sensor of keys that are not on record.
    default: Label,
    /// A record was made.
    recorded: Label,
    /// A key cannot be recorded.
    cancel: Label,
}

/// Appends code for R8 = the sensor, of the bucket's entry in R8 and the hash in R9.
/// R6 and R9 stay.
pub(super) fn emit(asm: &mut Assembler, state: &State) {
    let ways = Ways {
        stays: asm.label("stays"),
        default: asm.label("default"),
        recorded: asm.label("recorded"),
        cancel: asm.label("cancel"),
    };
    let (absent, known) = (asm.label("absent"), asm.label("known"));
    branch_unless(asm, LOOK_UP, ways.default);
    asm.store(Size::Double, FP, HASH, R9);
    asm.call(Helper::KtimeGetCoarseNs);
    asm.alu(Alu::Rsh, R0, TIME_UNIT);
    asm.alu(Alu::Lsh, R0, RECORD_TIME);
    asm.store(Size::Double, FP, NOW, R0);
    emit_lookup(asm, &state.records, HASH);
    asm.branch(Condition::Equal, R0, 0, absent);
    asm.mov(R7, R0);
    for _ in 0..ATTEMPTS {
        emit_follow(asm, state, ways);
    }
    asm.jump(ways.stays);

    asm.bind(absent);
    emit_record(asm, state, ways);
    asm.bind(ways.recorded);
    emit_bucket_word(asm, state, RECORDED_AT);
    asm.mov(R2, 1);
    asm.emit(Instruction::AtomicAdd { base: R1, offset: 0, src: R2 });
    asm.jump(ways.default);

    asm.bind(ways.cancel);
    count(asm, Counter::NotRecorded);
    for _ in 0..ATTEMPTS {
        emit_cancel(asm, state, ways.default);
    }
    asm.jump(ways.default);

    asm.bind(ways.stays);
    asm.alu(Alu::And, R8, SENSOR_MASK.cast_signed());
    asm.alu(Alu::Lsh, R8, 16);
    asm.alu(Alu::Or, R8, R3);
    asm.store(Size::Double, FP, DISPLACED, R8);
    emit_displaced(asm, Alu::Add);
    asm.alu(Alu::And, R8, 0xffff);
    asm.jump(known);
    asm.bind(ways.default);
    asm.alu(Alu::And, R8, SENSOR_MASK.cast_signed());
    asm.bind(known);
}

/// R1 = the address of the bucket's word in the table that starts at `at`.
pub(super) fn emit_bucket_word(asm: &mut Assembler, state: &State, at: u32) {
    asm.load_map_value(R1, &state.tables, at);
    asm.mov(R2, R9);
    asm.alu(Alu::Rsh, R2, 48);
    asm.alu(Alu::Lsh, R2, 3);
    asm.alu(Alu::Add, R1, R2);
}

/// `to` = the word of a new record of now. `scratch` is destroyed.
fn emit_new_word(asm: &mut Assembler, to: Register, scratch: Register) {
    asm.load(Size::Double, to, FP, NOW);
    asm.mov(scratch, R8);
    asm.alu(Alu::And, scratch, SENSOR_MASK.cast_signed());
    asm.alu(Alu::Lsh, scratch, RECORD_SENSOR);
    asm.alu(Alu::Or, to, scratch);
    asm.alu(Alu::Or, to, ON_RECORD as i32);
}

/// Leads to `target` where R0 was in the word at R7, which then becomes R4.
fn emit_exchange(asm: &mut Assembler, target: Label) {
    asm.mov(R5, R0);
    asm.emit(Instruction::CompareExchange { base: R7, offset: 0, src: R4 });
    asm.branch(Condition::Equal, R0, R5, target);
}

/// One attempt to go by the record at R7 and bring it up to date; falls through where
/// another came first. R3 = the record's sensor.
fn emit_follow(asm: &mut Assembler, state: &State, ways: Ways) {
    let (dead, open, again) = (asm.label("dead"), asm.label("open"), asm.label("again"));
    asm.load(Size::Double, R0, R7, 0);
    asm.mov(R3, R0);
    asm.alu(Alu::Rsh, R3, RECORD_SENSOR);
    asm.alu(Alu::And, R3, SENSOR_MASK.cast_signed());
    asm.branch(Condition::AnyBit, R0, ON_RECORD as i32, open);

    // What is left of a record is none, and may become one again.
    branch_unless(asm, RECORD, ways.default);
    emit_allowance(asm, state, ways.cancel);
    emit_new_word(asm, R4, R1);
    emit_exchange(asm, ways.recorded);
    asm.jump(again);

    // A record at a sensor that is no more: the key begins anew.
    asm.bind(dead);
    branch_unless(asm, RECORD, ways.default);
    emit_new_word(asm, R4, R1);
    emit_exchange(asm, ways.default);
    asm.jump(again);

    asm.bind(open);
    emit_alive(asm, state, dead);
    emit_signal(asm, ways, again);
    asm.bind(again);
}

/// Leads to `otherwise` unless the flag is set in the entry in R8.
fn branch_unless(asm: &mut Assembler, flag: u32, otherwise: Label) {
    branch_without(asm, R8, flag.cast_signed(), otherwise);
}

/// Leads to `otherwise` unless the bit is set in a register; BPF has the opposite.
fn branch_without(asm: &mut Assembler, register: Register, bit: i32, otherwise: Label) {
    let set = asm.label("set");
    asm.branch32(Condition::AnyBit, register, bit, set);
    asm.jump(otherwise);
    asm.bind(set);
}

/// Leads to `dead` unless the sensor in R3 exists and is alive. R1 and R2 are
/// destroyed.
fn emit_alive(asm: &mut Assembler, state: &State, dead: Label) {
    asm.branch(Condition::GreaterOrEqual, R3, i32::from(MAX_SENSORS), dead);
    asm.load_map_value(R1, &state.tables, SENSORS_AT);
    asm.mov(R2, R3);
    asm.alu(Alu::Mul, R2, SENSOR_ENTRY.cast_signed());
    asm.alu(Alu::Add, R1, R2);
    asm.load(Size::Double, R1, R1, 0);
    asm.constant(R2, PRESENT | DEAD);
    asm.alu(Alu::And, R1, R2);
    asm.constant(R2, PRESENT);
    asm.branch(Condition::NotEqual, R1, R2, dead);
}

/// Takes note of what the packet says of its connection: R0 is the record's word, R7
/// leads to it. Leads to `again` where another came first.
fn emit_signal(asm: &mut Assembler, ways: Ways, again: Label) {
    let (renew, no_reset, no_fin) =
        (asm.label("renew"), asm.label("no_reset"), asm.label("no_fin"));
    let (high, begins) = (asm.label("high"), asm.label("begins"));
    let ended = (LOW_CLOSED | HIGH_CLOSED) as i32;
    // Bits 0 to 15 stay; the time is now.
    asm.load(Size::Double, R4, FP, NOW);
    asm.mov(R1, R0);
    asm.alu(Alu::And, R1, 0xffff);
    asm.alu(Alu::Or, R4, R1);
    asm.load(Size::Double, R2, FP, frame::SIGNAL);
    branch_without(asm, R2, frame::TCP, renew);
    branch_without(asm, R2, RST, no_reset);
    asm.alu(Alu::Or, R4, ended);
    asm.jump(renew);
    asm.bind(no_reset);
    branch_without(asm, R2, FIN, no_fin);
    asm.branch(Condition::AnyBit, R2, frame::FROM_HIGH, high);
    asm.alu(Alu::Or, R4, LOW_CLOSED as i32);
    asm.jump(renew);
    asm.bind(high);
    asm.alu(Alu::Or, R4, HIGH_CLOSED as i32);
    asm.jump(renew);
    asm.bind(no_fin);
    // A bare SYN where a connection has ended.
    asm.alu(Alu::And, R2, SYN | ACK);
    asm.branch(Condition::NotEqual, R2, SYN, renew);
    asm.alu(Alu::And, R1, ended);
    asm.branch(Condition::Equal, R1, ended, begins);
    asm.jump(renew);
    asm.bind(begins);
    emit_begins(asm, ways, again, renew);

    asm.bind(renew);
    // Most packets change nothing: the line stays with who has it.
    asm.branch(Condition::Equal, R4, R0, ways.stays);
    emit_exchange(asm, ways.stays);
    asm.jump(again);
}

/// A new connection of a key on record: of the record's sensor while the bucket
/// records, else it is of the bucket's new ones.
fn emit_begins(asm: &mut Assembler, ways: Ways, again: Label, renew: Label) {
    let (removes, moved) = (asm.label("removes"), asm.label("moved"));
    branch_unless(asm, RECORD, removes);
    asm.alu(Alu::And, R4, !((LOW_CLOSED | HIGH_CLOSED) as i32));
    asm.jump(renew);
    asm.bind(removes);
    asm.mov(R4, 0);
    emit_exchange(asm, moved);
    asm.jump(again);
    asm.bind(moved);
    asm.mov(R1, R8);
    asm.alu(Alu::And, R1, SENSOR_MASK.cast_signed());
    asm.branch(Condition::Equal, R1, R3, ways.default);
    count(asm, Counter::Restarts);
    asm.jump(ways.default);
}

/// Leads to `cancel` where the bucket's move may make no more records. R1 and R2 are
/// destroyed.
fn emit_allowance(asm: &mut Assembler, state: &State, cancel: Label) {
    emit_bucket_word(asm, state, RECORDED_AT);
    asm.load(Size::Double, R1, R1, 0);
    asm.constant(R2, u64::from(state.keys_per_move));
    asm.branch(Condition::GreaterOrEqual, R1, R2, cancel);
}

/// Puts a key on record that is not there.
fn emit_record(asm: &mut Assembler, state: &State, ways: Ways) {
    branch_unless(asm, RECORD, ways.default);
    emit_allowance(asm, state, ways.cancel);
    emit_new_word(asm, R1, R2);
    asm.store(Size::Double, FP, RECORD_WORD, R1);
    asm.load_map(R1, &state.records);
    asm.mov(R2, FP);
    asm.alu(Alu::Add, R2, i32::from(HASH));
    asm.mov(R3, FP);
    asm.alu(Alu::Add, R3, i32::from(RECORD_WORD));
    asm.mov(R4, NO_EXIST);
    asm.call(Helper::MapUpdateElem);
    asm.branch(Condition::Equal, R0, 0, ways.recorded);
    asm.branch(Condition::NotEqual, R0, -EEXIST, ways.cancel);
    // Another processor has just recorded it, by the same rules.
    emit_lookup(asm, &state.records, HASH);
    asm.branch(Condition::Equal, R0, 0, ways.default);
    asm.load(Size::Double, R3, R0, 0);
    asm.alu(Alu::Rsh, R3, RECORD_SENSOR);
    asm.alu(Alu::And, R3, SENSOR_MASK.cast_signed());
    asm.branch(Condition::GreaterOrEqual, R3, i32::from(MAX_SENSORS), ways.default);
    asm.jump(ways.stays);
}

/// One attempt to turn the entry in R8, which records, into its cancelled form; leads
/// to `done` where that worked or the entry does not record any more. R8 = the entry
/// as it is now.
fn emit_cancel(asm: &mut Assembler, state: &State, done: Label) {
    let (form, again) = (asm.label("form"), asm.label("again"));
    emit_bucket_word(asm, state, 0);
    // R2 = where it moves from, R3 = where to.
    asm.mov(R2, R8);
    asm.alu(Alu::And, R2, SENSOR_MASK.cast_signed());
    asm.mov(R3, R8);
    asm.alu(Alu::Rsh, R3, OTHER_SHIFT.cast_signed());
    asm.alu(Alu::And, R3, SENSOR_MASK.cast_signed());
    branch_unless(asm, TURNED, form);
    asm.mov(R4, R2);
    asm.mov(R2, R3);
    asm.mov(R3, R4);
    asm.bind(form);
    asm.mov(R4, R8);
    asm.alu32(Alu::And, R4, WATCHED.cast_signed());
    asm.alu32(Alu::Or, R4, (LOOK_UP | CANCELLED).cast_signed());
    asm.alu(Alu::Or, R4, R2);
    asm.alu(Alu::Lsh, R3, OTHER_SHIFT.cast_signed());
    asm.alu(Alu::Or, R4, R3);
    asm.mov(R0, R8);
    asm.emit(Instruction::CompareExchange { base: R1, offset: 0, src: R4 });
    let exchanged = asm.label("exchanged");
    asm.branch(Condition::Equal, R0, R8, exchanged);
    asm.mov(R8, R0);
    asm.branch32(Condition::AnyBit, R8, RECORD.cast_signed(), again);
    asm.jump(done);
    asm.bind(exchanged);
    asm.mov(R8, R4);
    asm.jump(done);
    asm.bind(again);
}

/// Adds the frame to displaced traffic, or takes it out, by what R8 says as [`DISPLACED`] does.
/// R1 to R5 are destroyed.
pub(super) fn emit_displaced(asm: &mut Assembler, how: Alu) {
    let same = asm.label("not_displaced");
    asm.mov(R3, R8);
    asm.alu(Alu::And, R3, 0xffff);
    asm.mov(R4, R8);
    asm.alu(Alu::Rsh, R4, 16);
    asm.branch(Condition::Equal, R3, R4, same);
    // The first word of a pair is of what came here, the second of what went away.
    for (sensor, offset) in [(R3, 0), (R4, 8)] {
        let none = asm.label("none");
        asm.branch(Condition::GreaterOrEqual, sensor, i32::from(MAX_SENSORS), none);
        emit_tally(asm, how, DISPLACED_AT, sensor, offset);
        asm.bind(none);
    }
    asm.bind(same);
}
