//! The last step to a sensor: a tag, addresses, and out by its interface.

use super::code::{Outcomes, count_device};
use super::state::{
    BY_WORKERS_AT, ENTRY_DESTINATION, ENTRY_DEVICE, ENTRY_PLACE, ENTRY_SOURCE, PRESENT, PUSH_TAG,
    SECOND_PLACE, SENSOR_ENTRY, SENSORS_AT, SET_DESTINATION, SET_SOURCE, State,
};
use super::{MAX_DEVICES, MAX_SENSORS};
use crate::asm::Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9};
use crate::asm::{Alu, Assembler, Condition, Helper, Label, Register, Size};
use crate::flow::{XDP_DATA, XDP_DATA_END};
use crate::program::Action;

/// Fields of an Ethernet frame, and a VLAN tag's length and type (IEEE 802.1Q).
const DESTINATION: i16 = 0;
const SOURCE: i16 = 6;
const ETHER_TYPE: i16 = 12;
const TAG_BYTES: i16 = 4;
const TAG_TYPE: u16 = 0x8100;

/// Appends code that sends the frame to the sensor in R8. The frame is unchanged where it leads
/// to user space.
pub(super) fn emit(asm: &mut Assembler, state: &State, outcomes: Outcomes) {
    emit_entry(asm, state, outcomes.no_sensor);
    asm.load(Size::Word, R8, R7, ENTRY_DEVICE);
    asm.branch(Condition::GreaterOrEqual, R8, MAX_DEVICES.cast_signed(), outcomes.no_interface);
    asm.load_map_value(R1, &state.tables, BY_WORKERS_AT);
    asm.mov(R2, R8);
    asm.alu(Alu::Lsh, R2, 3);
    asm.alu(Alu::Add, R1, R2);
    asm.load(Size::Double, R1, R1, 0);
    asm.branch(Condition::NotEqual, R1, 0, outcomes.by_workers);
    let untagged = asm.label("untagged");
    branch_unless(asm, PUSH_TAG, untagged);
    emit_tag(asm, outcomes.no_room);
    asm.bind(untagged);
    emit_addresses(asm, outcomes.no_room);

    asm.load_map(R1, &state.devices);
    asm.mov(R2, R8);
    asm.mov(R3, Action::Aborted as i32);
    asm.call(Helper::RedirectMap);
    asm.branch(Condition::NotEqual, R0, Action::Redirect as i32, outcomes.no_interface);
    count_device(asm);
    asm.exit_with(Action::Redirect as i32);
}

/// R9 = the first word of the sensor's entry: destination and flags. R7 leads to the place
/// of the others that counts.
fn emit_entry(asm: &mut Assembler, state: &State, no_sensor: Label) {
    asm.branch(Condition::GreaterOrEqual, R8, i32::from(MAX_SENSORS), no_sensor);
    asm.load_map_value(R7, &state.tables, SENSORS_AT);
    asm.mov(R1, R8);
    asm.alu(Alu::Mul, R1, SENSOR_ENTRY.cast_signed());
    asm.alu(Alu::Add, R7, R1);
    asm.load(Size::Double, R9, R7, ENTRY_DESTINATION);
    branch_unless(asm, PRESENT, no_sensor);
    asm.mov(R1, R9);
    asm.alu(Alu::Rsh, R1, SECOND_PLACE.trailing_zeros().cast_signed());
    asm.alu(Alu::And, R1, 1);
    asm.alu(Alu::Mul, R1, ENTRY_PLACE);
    asm.alu(Alu::Add, R7, R1);
}

/// Leads to `otherwise` unless the flag is set in R9. R1 is destroyed.
fn branch_unless(asm: &mut Assembler, flag: u64, otherwise: Label) {
    asm.mov(R1, R9);
    asm.alu(Alu::Rsh, R1, flag.trailing_zeros().cast_signed());
    asm.alu(Alu::And, R1, 1);
    asm.branch(Condition::Equal, R1, 0, otherwise);
}

/// R2 = the frame's start, of which so many bytes are there, or leads elsewhere. R3
/// and R4 are destroyed.
fn emit_frame(asm: &mut Assembler, bytes: i16, otherwise: Label) {
    asm.load(Size::Word, R2, R6, XDP_DATA);
    asm.load(Size::Word, R3, R6, XDP_DATA_END);
    asm.mov(R4, R2);
    asm.alu(Alu::Add, R4, i32::from(bytes));
    asm.branch(Condition::Greater, R4, R3, otherwise);
}

/// Puts a tag after the addresses, which move to the front.
fn emit_tag(asm: &mut Assembler, no_room: Label) {
    asm.mov(R1, R6);
    asm.mov(R2, -i32::from(TAG_BYTES));
    asm.call(Helper::XdpAdjustHead);
    asm.branch(Condition::NotEqual, R0, 0, no_room);
    emit_frame(asm, ETHER_TYPE + TAG_BYTES + 2, no_room);
    // Twelve bytes of addresses, by words.
    for (register, word) in [(R3, 0), (R4, 4), (R5, 8)] {
        asm.load(Size::Word, register, R2, TAG_BYTES + word);
    }
    for (register, word) in [(R3, 0), (R4, 4), (R5, 8)] {
        asm.store(Size::Word, R2, word, register);
    }
    asm.store(Size::Half, R2, ETHER_TYPE, i32::from(TAG_TYPE.to_be()));
    asm.load(Size::Half, R3, R7, ENTRY_SOURCE + 6);
    asm.store(Size::Half, R2, ETHER_TYPE + 2, R3);
}

/// Writes the addresses that the sensor's entry has.
fn emit_addresses(asm: &mut Assembler, otherwise: Label) {
    let (source, written) = (asm.label("source"), asm.label("addresses_written"));
    emit_frame(asm, ETHER_TYPE, otherwise);
    branch_unless(asm, SET_DESTINATION, source);
    store_address(asm, R9, DESTINATION);
    asm.bind(source);
    branch_unless(asm, SET_SOURCE, written);
    asm.load(Size::Double, R5, R7, ENTRY_SOURCE);
    store_address(asm, R5, SOURCE);
    asm.bind(written);
}

/// Stores the lower six bytes of a register at R2 + `at`. R1 is destroyed.
fn store_address(asm: &mut Assembler, word: Register, at: i16) {
    asm.store(Size::Word, R2, at, word);
    asm.mov(R1, word);
    asm.alu(Alu::Rsh, R1, 32);
    asm.store(Size::Half, R2, at + 4, R1);
}
