//! Taking a key off the record, while packets of it may come in.
//!
//! User space sees that a key was idle and decides to remove it. A packet that comes
//! just then has been sent by the record, so the next one must be, too. The kernel's
//! call that deletes from a map asks for no such condition, so a small program does:
//! it exchanges the record's word for 0, if it is still what user space saw. What is
//! left is no record, for everybody. It is deleted only where no bucket records any
//! more, or a packet that is just making it a record again would be forgotten.

use super::entry::Record;
use crate::asm::Register::{FP, R0, R1, R2, R3, R4, R6, R7, R8};
use crate::asm::{Alu, Assembler, Condition, Helper, Instruction, Size};
use crate::error::BpfError;
use crate::flow::{XDP_DATA, XDP_DATA_END};
use crate::map::HashMap;
use crate::program::{Action, Kind, Program};

/// What the program is asked, in the place of a frame: the hash, the word as it was
/// seen, and whether to delete.
const QUESTION: usize = 24;
const WORD_AT: i16 = 8;
const DELETE_AT: i16 = 16;

/// The key on the stack.
const KEY: i16 = -8;

/// The program that removes records.
#[derive(Debug)]
pub(super) struct Sweeper(Program);

impl Sweeper {
    pub fn load(records: &HashMap<u64, u64>) -> Result<Self, BpfError> {
        let mut asm = Assembler::new();
        let (changed, delete, done) =
            (asm.label("changed"), asm.label("delete"), asm.label("done"));
        asm.load(Size::Word, R6, R1, XDP_DATA);
        asm.load(Size::Word, R2, R1, XDP_DATA_END);
        asm.mov(R3, R6);
        asm.alu(Alu::Add, R3, QUESTION as i32);
        asm.branch(Condition::Greater, R3, R2, changed);
        asm.load(Size::Double, R7, R6, WORD_AT);
        asm.load(Size::Double, R8, R6, DELETE_AT);
        asm.load(Size::Double, R1, R6, 0);
        asm.store(Size::Double, FP, KEY, R1);
        asm.load_map(R1, records);
        asm.mov(R2, FP);
        asm.alu(Alu::Add, R2, i32::from(KEY));
        asm.call(Helper::MapLookupElem);
        asm.branch(Condition::Equal, R0, 0, changed);
        asm.mov(R1, R0);
        asm.mov(R0, R7);
        asm.mov(R4, 0);
        asm.emit(Instruction::CompareExchange { base: R1, offset: 0, src: R4 });
        asm.branch(Condition::NotEqual, R0, R7, changed);
        asm.branch(Condition::NotEqual, R8, 0, delete);
        asm.jump(done);
        asm.bind(delete);
        asm.load_map(R1, records);
        asm.mov(R2, FP);
        asm.alu(Alu::Add, R2, i32::from(KEY));
        asm.call(Helper::MapDeleteElem);
        asm.bind(done);
        asm.exit_with(Action::Pass as i32);
        asm.bind(changed);
        asm.exit_with(Action::Drop as i32);
        Program::load("forebay_sweep", Kind::Xdp { multi_buffer: false }, asm).map(Self)
    }

    /// Removes a record, unless it has changed since it was read; false where it has.
    pub fn remove(&self, record: Record, delete: bool) -> Result<bool, BpfError> {
        let mut question = [0; QUESTION];
        let fields = [record.hash, record.word, delete.into()];
        for (bytes, field) in question.chunks_exact_mut(8).zip(fields) {
            bytes.copy_from_slice(&u64::to_ne_bytes(field));
        }
        let run = self.0.run(&question, &mut [])?;
        Ok(Action::from_result(run.result) == Some(Action::Pass))
    }
}
