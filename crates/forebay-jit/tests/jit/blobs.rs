//! Code written out by hand, which says by its verdicts what it was given.

use forebay_codegen::code::{Backend, BatchEntry, Code, Isa};
use forebay_jit::{Filter, Kernel};
use iced_x86::code_asm::*;

/// Packets a group of the batch code below.
pub const LANES: usize = 8;

/// Batch code adds this to each verdict, so that it can be told from `list`.
pub const BATCH_MARK: u32 = 1 << 31;

/// Batch code for packets in the cache adds this instead.
pub const RESIDENT_MARK: u32 = 1 << 30;

/// What the `list` code gives: the captured length plus the packet's first byte,
/// if it has one, in the upper half.
pub fn expected(packet: &[u8]) -> u32 {
    packet.len() as u32 + (packet.first().map_or(0, |&byte| u32::from(byte)) << 16)
}

/// What batch code is to be like.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Bytes of each packet that it reads: the last of them is read.
    pub reach: usize,
    /// Bytes of scratch memory: the first and the last are written.
    pub scratch: usize,
    /// Packets whose captured length is a multiple of this are left, if not 0.
    pub leaves: u32,
}

/// A filter of the code below, with batch code where a shape is given.
pub fn filter(shape: Option<Shape>) -> Filter {
    made(shape, false)
}

/// The same with a second form of batch code, for packets in the cache.
pub fn filter_of_two_forms(shape: Shape) -> Filter {
    made(Some(shape), true)
}

fn made(shape: Option<Shape>, of_two_forms: bool) -> Filter {
    let mut bytes = list();
    let mut add = |code: Vec<u8>| {
        bytes.resize(bytes.len().next_multiple_of(64), 0xcc);
        let entry = bytes.len();
        bytes.extend(code);
        entry
    };
    let batch = shape.map(|shape| {
        let entry = add(batch_code(shape, BATCH_MARK));
        let resident = of_two_forms.then(|| add(batch_code(shape, RESIDENT_MARK)));
        let Shape { reach, scratch, leaves } = shape;
        let leaves = leaves != 0;
        BatchEntry { entry, resident, lanes: LANES, least: LANES, reach, scratch, leaves }
    });
    let code = code(bytes, batch);
    // SAFETY: both functions below keep the convention.
    let kernel = unsafe { Kernel::new(&code) }.unwrap();
    Filter::of_kernel(kernel, Backend::Pe, Isa::Scalar)
}

/// `bytes` with entries where they say.
pub fn code(bytes: Vec<u8>, batch: Option<BatchEntry>) -> Code {
    let constants_at = bytes.len();
    Code {
        bytes,
        constants_at,
        each: 0,
        batch,
        backend: Backend::Pe,
        notes: Vec::new(),
        schedule: String::new(),
        remark: None,
    }
}

/// Reads the table of arguments of batch code: rax base, rcx offsets, rdx captured lengths,
/// rsi verdicts, r8 count; rdi stays the table. r9 becomes 0.
fn prologue(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(rax, qword_ptr(rdi))?;
    a.mov(rcx, qword_ptr(rdi + 8))?;
    a.mov(rdx, qword_ptr(rdi + 16))?;
    a.mov(rsi, qword_ptr(rdi + 32))?;
    a.mov(r8, qword_ptr(rdi + 40))?;
    a.xor(r9d, r9d)
}

/// Its arguments: rdi base, rsi offsets, rdx count, r8 captured lengths, r9 verdicts.
fn list() -> Vec<u8> {
    let assemble = || -> Result<Vec<u8>, IcedError> {
        let mut a = CodeAssembler::new(64)?;
        let mut each = a.create_label();
        let mut empty = a.create_label();
        a.xor(eax, eax)?;
        a.set_label(&mut each)?;
        a.xor(r11d, r11d)?;
        a.mov(r10d, dword_ptr(r8 + rax * 4))?;
        a.test(r10d, r10d)?;
        a.je(empty)?;
        a.mov(r11d, dword_ptr(rsi + rax * 4))?;
        a.movzx(r11d, byte_ptr(rdi + r11))?;
        a.shl(r11d, 16)?;
        a.set_label(&mut empty)?;
        a.add(r11d, r10d)?;
        a.mov(dword_ptr(r9 + rax * 4), r11d)?;
        a.inc(rax)?;
        a.cmp(rax, rdx)?;
        a.jb(each)?;
        a.ret()?;
        a.assemble(0)
    };
    assemble().unwrap()
}

/// Verdicts as `list` gives them with a mark, also of packets that are
/// left: those get nonsense besides. The first byte is read captured or not.
fn batch_code(shape: Shape, mark: u32) -> Vec<u8> {
    let assemble = || -> Result<Vec<u8>, IcedError> {
        let mut a = CodeAssembler::new(64)?;
        prologue(&mut a)?;
        if shape.scratch != 0 {
            a.mov(r10, qword_ptr(rdi + 56))?;
            a.movaps(xmmword_ptr(r10), xmm0)?;
            a.mov(byte_ptr(r10 + (shape.scratch - 1) as i32), r8b)?;
        }
        let mut group = a.create_label();
        let mut each = a.create_label();
        let mut kept = a.create_label();
        let mut next = a.create_label();
        let mut whole = a.create_label();
        let mut done = a.create_label();
        a.push(rbx)?;
        a.push(rbp)?;
        a.push(r12)?;
        a.push(r13)?;
        a.mov(rbp, rdx)?;
        a.set_label(&mut group)?;
        // r9 is the group's first packet, rbx the packet in it, r13 its marks.
        a.xor(ebx, ebx)?;
        a.xor(r13d, r13d)?;
        a.set_label(&mut each)?;
        a.lea(r12, qword_ptr(r9 + rbx))?;
        a.mov(r11d, dword_ptr(rcx + r12 * 4))?;
        a.add(r11, rax)?;
        a.movzx(r10d, byte_ptr(r11 + (shape.reach - 1) as i32))?;
        a.movzx(r11d, byte_ptr(r11))?;
        a.shl(r11d, 16)?;
        a.mov(r10d, dword_ptr(rbp + r12 * 4))?;
        a.test(r10d, r10d)?;
        a.cmove(r11d, r10d)?;
        a.lea(r11d, qword_ptr(r11 + r10 + mark as i32))?;
        if shape.leaves != 0 {
            a.push(rax)?;
            a.mov(eax, r10d)?;
            a.xor(edx, edx)?;
            a.mov(r10d, shape.leaves)?;
            a.div(r10d)?;
            a.pop(rax)?;
            a.test(edx, edx)?;
            a.jne(kept)?;
            a.bts(r13d, ebx)?;
            a.mov(r11d, 0xdead_u32)?;
        }
        a.set_label(&mut kept)?;
        a.mov(dword_ptr(rsi + r12 * 4), r11d)?;
        a.inc(rbx)?;
        a.cmp(rbx, LANES as i32)?;
        a.jb(each)?;
        if shape.leaves != 0 {
            a.mov(r10, qword_ptr(rdi + 48))?;
            a.mov(byte_ptr(r10 + r9), r13b)?;
        }
        a.set_label(&mut next)?;
        a.add(r9, LANES as i32)?;
        a.cmp(r9, r8)?;
        a.jae(done)?;
        a.lea(r10, qword_ptr(r8 - LANES as i32))?;
        a.cmp(r9, r10)?;
        a.jbe(whole)?;
        a.mov(r9, r10)?;
        a.set_label(&mut whole)?;
        a.jmp(group)?;
        a.set_label(&mut done)?;
        a.pop(r13)?;
        a.pop(r12)?;
        a.pop(rbp)?;
        a.pop(rbx)?;
        a.ret()?;
        a.assemble(0)
    };
    assemble().unwrap()
}
