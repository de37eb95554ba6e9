//! The program: what happens to a frame, from its arrival to its outcome.

use super::state::{
    BUCKET_COUNTERS_AT, Counter, DEVICE_COUNTERS_AT, FLOW_BIT, GENERATION_AT, INPUT_COUNTERS_AT,
    MARKED_AT, PAIR, SECTION, SPARES_AT, State, TALLY_PACKET,
};
use super::{MAX_SENSORS, NO_SENSOR, Settings, UserSpace, moving, rewrite};
use crate::asm::Register::{FP, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9};
use crate::asm::{Alu, Assembler, Condition, Helper, Label, Register, Size};
use crate::flow::{self, Exits, XDP_RX_QUEUE, frame};
use crate::program::Action;
use crate::programs::redirect::emit_slot;
use crate::translate::{self, Context, TranslateError};

/// The program's own part of the stack, below what filter and flow code use.
const OWN: i16 = if translate::STACK < frame::FREE { translate::STACK } else { frame::FREE };
/// This processor's section of the counters.
pub(super) const COUNTERS: i16 = OWN - 8;
/// Length of the frame.
pub(super) const LENGTH: i16 = OWN - 16;
/// The time.
pub(super) const NOW: i16 = OWN - 24;
/// The flow's hash.
pub(super) const HASH: i16 = OWN - 32;
/// A new record.
pub(super) const RECORD_WORD: i16 = OWN - 40;
/// The sensor that the frame goes to by a record, and, times 2¹⁶, that of new keys. Both are
/// the same, or 0, where the frame is not displaced.
pub(super) const DISPLACED: i16 = OWN - 48;

/// Where the outcomes' code is.
#[derive(Clone, Copy)]
pub(super) struct Outcomes {
    pub filtered: Label,
    pub group_filtered: Label,
    pub user_space: Label,
    pub no_sensor: Label,
    pub no_interface: Label,
    pub no_room: Label,
    /// Workers send the frames of its output.
    pub by_workers: Label,
}

/// The code for `settings` over the maps of `state`.
pub(super) fn assemble(state: &State, settings: &Settings) -> Result<Assembler, TranslateError> {
    let mut asm = Assembler::new();
    let outcomes = Outcomes {
        filtered: asm.label("filtered"),
        group_filtered: asm.label("group_filtered"),
        user_space: asm.label("user_space"),
        no_sensor: asm.label("no_sensor"),
        no_interface: asm.label("no_interface"),
        no_room: asm.label("no_room"),
        by_workers: asm.label("by_workers"),
    };
    let idle = settings.idle_timeout.as_nanos() as u64;
    let (plain, not_mine) = (asm.label("plain"), asm.label("not_mine"));

    emit_arrival(&mut asm, state, settings.input);
    let filters =
        [(&settings.filter, outcomes.filtered), (&settings.group_filter, outcomes.group_filtered)];
    for (filter, dropped) in filters {
        let Some(filter) = filter else { continue };
        let verdict = asm.label("verdict");
        let context = Context::Xdp { multi_buffer: settings.multi_buffer };
        translate::emit(&mut asm, filter, context, verdict)?;
        asm.bind(verdict);
        asm.branch32(Condition::Equal, R0, 0, dropped);
    }
    let exits = Exits { not_mine, no_addresses: outcomes.user_space };
    flow::emit(&mut asm, &settings.flow, exits);
    emit_marked(&mut asm, state, idle, plain, outcomes.user_space);

    asm.bind(plain);
    emit_bucket(&mut asm, state);
    moving::emit(&mut asm, state);
    emit_spare(&mut asm, state, outcomes.no_sensor);
    asm.store(Size::Double, FP, HASH, R9);
    rewrite::emit(&mut asm, state, outcomes);

    asm.bind(outcomes.by_workers);
    emit_uncounted(&mut asm);
    asm.bind(not_mine);
    emit_mark(&mut asm, state);
    emit_outcomes(&mut asm, state, settings, outcomes);
    Ok(asm)
}

/// Notes what all outcomes need, and counts the frame. R6 = the context.
fn emit_arrival(asm: &mut Assembler, state: &State, input: u32) {
    asm.mov(R6, R1);
    let known = asm.label("processor_known");
    asm.call(Helper::GetSmpProcessorId);
    // A processor beyond those that can be does not exist; the verifier is told so.
    asm.branch(Condition::Less, R0, state.processors.cast_signed(), known);
    asm.exit_with(Action::Aborted as i32);
    asm.bind(known);
    asm.alu(Alu::Mul, R0, SECTION.cast_signed());
    asm.load_map_value(R1, &state.counters, 0);
    asm.alu(Alu::Add, R1, R0);
    asm.store(Size::Double, FP, COUNTERS, R1);
    asm.mov(R1, R6);
    asm.call(Helper::XdpGetBuffLen);
    asm.store(Size::Double, FP, LENGTH, R0);
    asm.store(Size::Double, FP, DISPLACED, 0);
    // A multiple of 16 below 1,024.
    asm.load(Size::Double, R1, FP, COUNTERS);
    count_at(asm, (INPUT_COUNTERS_AT + input * PAIR) as i16);
}

/// Counts the frame. R1 to R3 are destroyed.
pub(super) fn count(asm: &mut Assembler, counter: Counter) {
    asm.load(Size::Double, R1, FP, COUNTERS);
    count_at(asm, counter.at());
}

/// Counts the frame in the pair of counters `offset` bytes behind R1.
fn count_at(asm: &mut Assembler, offset: i16) {
    asm.increment(R1, offset, R2);
    asm.load(Size::Double, R2, R1, offset + 8);
    asm.load(Size::Double, R3, FP, LENGTH);
    asm.alu(Alu::Add, R2, R3);
    asm.store(Size::Double, R1, offset + 8, R2);
}

/// R1 = the address of the pair of counters of that number, in `number`, of the table
/// `at` so many bytes in the section. R2 is destroyed.
fn emit_pair(asm: &mut Assembler, at: u32, number: Register) {
    asm.load(Size::Double, R1, FP, COUNTERS);
    asm.mov(R2, number);
    asm.alu(Alu::Mul, R2, PAIR.cast_signed());
    asm.alu(Alu::Add, R1, at.cast_signed());
    asm.alu(Alu::Add, R1, R2);
}

/// Adds the frame to the tally `offset` bytes into a pair of counters, which is given as to
/// [`emit_pair`], or takes it out. R1, R2 and R5 are destroyed.
pub(super) fn emit_tally(asm: &mut Assembler, how: Alu, at: u32, number: Register, offset: i16) {
    emit_pair(asm, at, number);
    asm.load(Size::Double, R2, R1, offset);
    asm.constant(R5, TALLY_PACKET);
    asm.alu(how, R2, R5);
    asm.load(Size::Double, R5, FP, LENGTH);
    asm.alu(how, R2, R5);
    asm.store(Size::Double, R1, offset, R2);
}

/// Counts the frame for the device whose slot is in R8. R1 to R3 are destroyed.
pub(super) fn count_device(asm: &mut Assembler) {
    emit_pair(asm, DEVICE_COUNTERS_AT, R8);
    count_at(asm, 0);
}

/// R0 = a pointer to the value at the key at `key` on the stack, or 0.
pub(super) fn emit_lookup(asm: &mut Assembler, map: &impl std::os::fd::AsFd, key: i16) {
    asm.load_map(R1, map);
    asm.mov(R2, FP);
    asm.alu(Alu::Add, R2, i32::from(key));
    asm.call(Helper::MapLookupElem);
}

/// R0 = the time, also on the stack.
fn emit_now(asm: &mut Assembler) {
    asm.call(Helper::KtimeGetCoarseNs);
    asm.store(Size::Double, FP, NOW, R0);
}

/// Nanoseconds by which processors that write the time of the last marked packet may be
/// apart, by far.
const MARKED_SLACK: u64 = 1_000_000_000;

/// Leads to user space where the packet's pair is marked and was not idle since, and
/// to `plain` elsewhere: nearly always by one word, which tells that no mark is in force.
fn emit_marked(asm: &mut Assembler, state: &State, idle: u64, plain: Label, user_space: Label) {
    let (fresh, some) = (asm.label("fresh"), asm.label("some_marked"));
    asm.load_map_value(R1, &state.tables, MARKED_AT);
    asm.load(Size::Double, R7, R1, 0);
    asm.branch(Condition::Equal, R7, 0, plain);
    asm.call(Helper::KtimeGetCoarseNs);
    asm.branch(Condition::GreaterOrEqual, R7, R0, some);
    asm.alu(Alu::Sub, R0, R7);
    asm.constant(R2, idle.saturating_add(MARKED_SLACK));
    asm.branch(Condition::Greater, R0, R2, plain);
    asm.bind(some);
    emit_lookup(asm, &state.marks, frame::PAIR);
    asm.branch(Condition::Equal, R0, 0, plain);
    asm.mov(R7, R0);
    asm.call(Helper::KtimeGetCoarseNs);
    asm.load(Size::Double, R2, R7, 0);
    // Another processor may have seen a later time, which is no time ago.
    asm.branch(Condition::GreaterOrEqual, R2, R0, fresh);
    asm.mov(R1, R0);
    asm.alu(Alu::Sub, R1, R2);
    asm.constant(R2, idle);
    asm.branch(Condition::Greater, R1, R2, plain);
    asm.bind(fresh);
    asm.store(Size::Double, R7, 0, R0);
    asm.load_map_value(R1, &state.tables, MARKED_AT);
    asm.store(Size::Double, R1, 0, R0);
    asm.jump(user_space);
}

/// Marks the packet's pair, and goes on to user space. The time comes first: who finds none
/// looks for no mark, and would have come before this one.
fn emit_mark(asm: &mut Assembler, state: &State) {
    let (renew, marked) = (asm.label("renew"), asm.label("marked"));
    emit_now(asm);
    asm.load_map_value(R1, &state.tables, MARKED_AT);
    asm.store(Size::Double, R1, 0, R0);
    emit_lookup(asm, &state.marks, frame::PAIR);
    asm.branch(Condition::NotEqual, R0, 0, renew);
    asm.load_map(R1, &state.marks);
    asm.mov(R2, FP);
    asm.alu(Alu::Add, R2, i32::from(frame::PAIR));
    asm.mov(R3, FP);
    asm.alu(Alu::Add, R3, i32::from(NOW));
    asm.mov(R4, 0);
    asm.call(Helper::MapUpdateElem);
    asm.branch(Condition::Equal, R0, 0, marked);
    count(asm, Counter::NotMarked);
    asm.jump(marked);
    asm.bind(renew);
    asm.load(Size::Double, R1, FP, NOW);
    asm.store(Size::Double, R0, 0, R1);
    asm.bind(marked);
}

/// Counts the frame and its flow for its bucket; R8 = the bucket's entry. The hash is
/// in R9.
fn emit_bucket(asm: &mut Assembler, state: &State) {
    asm.mov(R7, R9);
    asm.alu(Alu::Rsh, R7, 48);
    emit_tally(asm, Alu::Add, BUCKET_COUNTERS_AT, R7, 0);

    asm.load_map_value(R2, &state.tables, GENERATION_AT);
    asm.load(Size::Double, R2, R2, 0);
    asm.alu(Alu::And, R2, 1);
    asm.alu(Alu::Lsh, R2, 2);
    asm.alu(Alu::Add, R1, R2);
    // A shift of 32 bits takes the low five bits of its count.
    asm.mov(R3, R9);
    asm.alu(Alu::Rsh, R3, FLOW_BIT);
    asm.mov(R4, 1);
    asm.alu32(Alu::Lsh, R4, R3);
    asm.load(Size::Word, R2, R1, 8);
    asm.alu32(Alu::Or, R4, R2);
    // The line stays clean where the flow is known.
    let known = asm.label("flow_known");
    asm.branch(Condition::Equal, R4, R2, known);
    asm.store(Size::Word, R1, 8, R4);
    asm.bind(known);

    asm.load_map_value(R1, &state.tables, 0);
    asm.alu(Alu::Lsh, R7, 3);
    asm.alu(Alu::Add, R1, R7);
    asm.load(Size::Double, R8, R1, 0);
}

/// Takes the frame out of its bucket's tally and of displaced traffic: the worker that gets
/// it counts it.
fn emit_uncounted(asm: &mut Assembler) {
    asm.load(Size::Double, R7, FP, HASH);
    asm.alu(Alu::Rsh, R7, 48);
    emit_tally(asm, Alu::Sub, BUCKET_COUNTERS_AT, R7, 0);
    asm.load(Size::Double, R8, FP, DISPLACED);
    moving::emit_displaced(asm, Alu::Sub);
}

/// Where R8 is no sensor, R8 = the spare sensor of the hash in R9, or leads to `no_sensor`
/// where there is none. R1, R2 and R7 are destroyed.
fn emit_spare(asm: &mut Assembler, state: &State, no_sensor: Label) {
    let known = asm.label("has_sensor");
    asm.branch(Condition::NotEqual, R8, i32::from(NO_SENSOR), known);
    asm.load_map_value(R7, &state.tables, SPARES_AT);
    asm.load(Size::Double, R1, R7, 0);
    asm.branch(Condition::Equal, R1, 0, no_sensor);
    asm.mov(R2, R9);
    asm.alu(Alu::Rsh, R2, 32);
    asm.alu(Alu::Mul, R2, R1);
    asm.alu(Alu::Rsh, R2, 32);
    // It is less than their number; the verifier is told what that can be.
    asm.branch(Condition::GreaterOrEqual, R2, i32::from(MAX_SENSORS), no_sensor);
    asm.alu(Alu::Lsh, R2, 3);
    asm.alu(Alu::Add, R7, R2);
    asm.load(Size::Double, R8, R7, 8);
    asm.bind(known);
}

/// The ways a frame ends, but for the sensors.
fn emit_outcomes(asm: &mut Assembler, state: &State, settings: &Settings, outcomes: Outcomes) {
    asm.bind(outcomes.user_space);
    match settings.user_space {
        UserSpace::Stack => {
            count(asm, Counter::ToUserSpace);
            asm.exit_with(Action::Pass as i32);
        }
        UserSpace::Sockets { first, queues, per_queue } => {
            let (given, no_socket) = (asm.label("given"), asm.label("no_socket"));
            asm.load(Size::Word, R2, R6, XDP_RX_QUEUE);
            asm.branch(Condition::GreaterOrEqual, R2, queues.cast_signed(), no_socket);
            emit_slot(asm, per_queue, &settings.flow.hash_key);
            asm.alu(Alu::Add, R2, first.cast_signed());
            asm.load_map(R1, &state.sockets);
            asm.mov(R3, Action::Aborted as i32);
            asm.call(Helper::RedirectMap);
            asm.branch(Condition::Equal, R0, Action::Redirect as i32, given);
            asm.bind(no_socket);
            drop_counted(asm, Counter::NoSocket);
            asm.bind(given);
            count(asm, Counter::ToUserSpace);
            asm.exit_with(Action::Redirect as i32);
        }
    }
    for (label, counter) in [
        (outcomes.filtered, Counter::Filtered),
        (outcomes.group_filtered, Counter::GroupFiltered),
        (outcomes.no_sensor, Counter::NoSensor),
        (outcomes.no_interface, Counter::NoInterface),
        (outcomes.no_room, Counter::NoRoom),
    ] {
        if asm.is_used(label) {
            asm.bind(label);
            drop_counted(asm, counter);
        }
    }
}

fn drop_counted(asm: &mut Assembler, counter: Counter) {
    count(asm, counter);
    asm.exit_with(Action::Drop as i32);
}
