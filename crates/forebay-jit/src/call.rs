//! Calls compiled code.
//!
//! The conventions are those of [`forebay_codegen::convention`]: tables of 1 to 256 packets. A
//! [`Kernel`] guarantees the caller's side of it for any packets:
//!
//! * Code for single packets (`list`) reads captured bytes only, so packets
//!   inside their memory suffice: [`Packets`].
//! * Batch code reads up to `reach` bytes of each packet, captured or not. A
//!   packet too near the end of readable memory is an *edge* packet: the batch
//!   code reads the start of the memory instead, and `list` code computes its
//!   verdict.
//! * Batch code may leave packets undecided and mark them: *slow* packets.
//!   `list` code computes their verdicts.
//! * Batch code needs at least one group of packets: a smaller remainder goes
//!   to `list` code.
//!
//! A call does not allocate or lock, but for a thread's first one in a library that was opened by `dlopen`:
//! the loader makes room for the thread's variables then (`residence.rs`). Its scratch memory is on the stack of the
//! caller's thread, and is not reserved for code that needs none.
#![allow(unsafe_code, reason = "calls machine code made at run time")]

use std::mem::{self, MaybeUninit};
use std::ops::AddAssign;
use std::ptr::NonNull;

use forebay_codegen::code::{BatchEntry, Code, Options};
use forebay_codegen::compile;
use forebay_packet::BATCH;

use crate::cpu;
use crate::error::JitError;
use crate::marks::Marks;
use crate::memory::Executable;
use crate::packets::Packets;
use crate::residence;
use crate::verified::Verified;

/// The most bytes of scratch memory that code may need.
const SCRATCH: usize = 12 << 10;

/// Bytes of the marks of slow packets: the marks of a group start at its first
/// packet's number, and are fewer than its packets.
const SLOW: usize = BATCH;

/// `list` code: base, offsets, count, lengths on the wire, captured lengths, verdicts.
// SAFETY: a type; the creator of a value is responsible for its pointers.
type ListFunction =
    unsafe extern "sysv64" fn(*const u8, *const u32, usize, *const u32, *const u32, *mut u32);

/// Batch code.
// SAFETY: as above.
type BatchFunction = unsafe extern "sysv64" fn(*const Arguments);

/// The argument table of batch code. Field order and sizes are part of the convention.
#[repr(C)]
struct Arguments {
    base: *const u8,
    offset: *const u32,
    cap_len: *const u32,
    wire_len: *const u32,
    verdict: *mut u32,
    count: usize,
    slow: *mut u8,
    scratch: *mut u8,
}

/// The offset of a packet that begins at its base.
static NO_OFFSET: u32 = 0;

/// Scratch memory; 64 bytes is a cache line and the longest vector.
#[repr(C, align(64))]
struct Scratch([MaybeUninit<u8>; SCRATCH]);

/// The number of packets by path through compiled code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Decided by batch code.
    pub batch: u64,
    /// Decided by `list` code from the start: the filter has no batch code, or
    /// there were too few packets for it.
    pub list: u64,
    /// Left by batch code and decided by `list` code.
    pub slow: u64,
    /// Too near the end of memory for batch code, and decided by `list` code.
    pub edge: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.batch += other.batch;
        self.list += other.list;
        self.slow += other.slow;
        self.edge += other.edge;
    }
}

/// Executable code of one filter.
#[derive(Debug)]
pub struct Kernel {
    memory: Executable,
    each: ListFunction,
    batch: Option<BatchCode>,
}

/// Batch code.
#[derive(Debug)]
struct BatchCode {
    function: BatchFunction,
    /// The same without prefetches, for packets in the cache.
    resident: Option<BatchFunction>,
    entry: BatchEntry,
}

impl Kernel {
    /// Compiles `filter`. Also returns the code and its metadata.
    ///
    /// # Errors
    /// If this machine lacks the level, no code can be generated, or memory is
    /// short.
    pub fn compile(filter: &Verified, options: &Options) -> Result<(Self, Code), JitError> {
        cpu::require(options.isa)?;
        let code = compile::compile(filter.function(), options)?;
        // SAFETY: the filter keeps the verifier's rules, for it was verified;
        // the code generator's code of such a filter keeps the convention; and
        // all its instructions are of the level asked for, which this machine has.
        let kernel = unsafe { Self::new(&code) }?;
        Ok((kernel, code))
    }

    /// Makes `code` executable.
    ///
    /// # Errors
    /// If memory is short, or entries and requirements are invalid.
    ///
    /// # Safety
    /// The code must follow the convention, with instructions that this machine
    /// has: given the arguments described in the module documentation it
    /// returns, reads only the packet bytes that it may, and writes only
    /// verdicts, marks, scratch memory and its own stack frame.
    pub unsafe fn new(code: &Code) -> Result<Self, JitError> {
        let memory = Executable::new(&code.bytes)?;
        let address = |entry: usize| -> Result<*mut u8, JitError> {
            let inside = (entry < code.constants_at).then(|| memory.address(entry)).flatten();
            let address: NonNull<u8> = inside.ok_or(JitError::Entry {
                entry,
                instructions: code.constants_at.min(code.bytes.len()),
            })?;
            Ok(address.as_ptr())
        };
        // SAFETY: the address is one of executable memory where, as the
        // caller promises, a function of this type starts. It is called
        // only while `memory` lives, which `Kernel` owns.
        let each = unsafe { mem::transmute::<*mut u8, ListFunction>(address(code.each)?) };
        let batch = match code.batch {
            Some(entry) => {
                check(&entry)?;
                let function = |entry| -> Result<BatchFunction, JitError> {
                    let address = address(entry)?;
                    // SAFETY: as above.
                    Ok(unsafe { mem::transmute::<*mut u8, BatchFunction>(address) })
                };
                let resident = entry.resident.map(function).transpose()?;
                Some(BatchCode { function: function(entry.entry)?, resident, entry })
            }
            None => None,
        };
        Ok(Self { memory, each, batch })
    }

    /// The executable memory.
    #[must_use]
    pub fn memory(&self) -> &Executable {
        &self.memory
    }

    /// The fewest packets of a call that batch code is for, if there is any.
    pub(crate) fn least(&self) -> Option<usize> {
        self.batch.as_ref().map(|code| code.entry.least)
    }

    /// The verdict on one packet. Bytes beyond 4 GiB, the maximum of a captured
    /// length, are ignored.
    #[must_use]
    #[inline]
    pub fn one(&self, packet: &[u8], wire_len: u32) -> u32 {
        let cap_len = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        let mut verdict = 0;
        // SAFETY: one packet, in memory borrowed for the call; tables of one
        // entry each.
        unsafe {
            (self.each)(
                packet.as_ptr(),
                &raw const NO_OFFSET,
                1,
                &raw const wire_len,
                &raw const cap_len,
                &raw mut verdict,
            );
        }
        verdict
    }

    /// The verdicts on all packets.
    ///
    /// Packets are passed by reference from here on: reading a copy of a
    /// structure that was just written, in pieces other than those written,
    /// waits for the stores. The copies took 30 ns of a batch.
    ///
    /// # Panics
    /// If the numbers of verdicts and packets differ.
    pub fn run(&self, packets: &Packets<'_>, verdict: &mut [u32]) -> Tally {
        assert_eq!(packets.len(), verdict.len(), "a verdict for each packet");
        match &self.batch {
            Some(code) if (code.entry.least..=BATCH).contains(&packets.len()) => {
                if code.entry.scratch == 0 {
                    self.one_batch(code, packets, verdict, NonNull::dangling())
                } else {
                    self.one_batch_with_scratch(code, packets, verdict)
                }
            }
            _ if packets.len() > BATCH => self.batches(packets, verdict),
            _ => self.list(packets, verdict),
        }
    }

    /// Runs `list` code on up to 256 packets.
    #[inline]
    pub(crate) fn list(&self, packets: &Packets<'_>, verdict: &mut [u32]) -> Tally {
        self.each(packets, verdict);
        Tally { list: packets.len() as u64, ..Tally::default() }
    }

    /// Runs on all packets, batch by batch.
    #[inline(never)]
    fn batches(&self, packets: &Packets<'_>, verdict: &mut [u32]) -> Tally {
        let mut tally = Tally::default();
        for (start, verdict) in (0..).step_by(BATCH).zip(verdict.chunks_mut(BATCH)) {
            tally += self.run(&packets.slice(start..start + verdict.len()), verdict);
        }
        tally
    }

    /// Not inlined, so that only filters that need scratch memory have its
    /// stack frame.
    #[inline(never)]
    fn one_batch_with_scratch(
        &self,
        code: &BatchCode,
        packets: &Packets<'_>,
        verdict: &mut [u32],
    ) -> Tally {
        let mut scratch = MaybeUninit::<Scratch>::uninit();
        let start = NonNull::from(&mut scratch).cast();
        self.one_batch(code, packets, verdict, start)
    }

    /// Runs batch code on up to 256 packets, as far as possible. Inlined, as each call between costs a batch of 32 a
    /// tenth.
    #[inline(always)]
    fn one_batch(
        &self,
        code: &BatchCode,
        packets: &Packets<'_>,
        verdict: &mut [u32],
        scratch: NonNull<Scratch>,
    ) -> Tally {
        let Some(limit) = packets.limit(code.entry.reach) else {
            return self.edges_only(packets, verdict);
        };
        let [offset, ..] = packets.tables();
        if !packets.surely_within(limit) && !all_within(offset, limit) {
            return self.edge(code, packets, verdict, scratch, limit);
        }
        let slow = BatchCall { code, packets, offset, scratch }.run(verdict);
        let left = slow.count();
        if left != 0 {
            self.redo(packets, verdict, &slow);
        }
        Tally { batch: packets.len() as u64 - left, slow: left, ..Tally::default() }
    }

    /// The memory is too small for batch code.
    #[cold]
    fn edges_only(&self, packets: &Packets<'_>, verdict: &mut [u32]) -> Tally {
        let Tally { list, .. } = self.list(packets, verdict);
        Tally { edge: list, ..Tally::default() }
    }

    /// A batch with a packet beyond `limit`.
    #[cold]
    #[inline(never)]
    fn edge(
        &self,
        code: &BatchCode,
        packets: &Packets<'_>,
        verdict: &mut [u32],
        scratch: NonNull<Scratch>,
        limit: usize,
    ) -> Tally {
        let [offset, ..] = packets.tables();
        let mut moved = [0; BATCH];
        let mut edge = Marks::default();
        for (i, (&at, moved)) in offset.iter().zip(&mut moved).enumerate() {
            if at as usize > limit {
                // The start of memory: `reach` bytes are readable from there,
                // as `limit` is not negative, and so are `cap_len` bytes.
                edge.insert(i);
            } else {
                *moved = at;
            }
        }
        let call = BatchCall { code, packets, offset: &moved[..packets.len()], scratch };
        let mut slow = call.run(verdict);
        slow.remove_all(&edge);
        let tally = Tally {
            batch: packets.len() as u64 - edge.count() - slow.count(),
            slow: slow.count(),
            edge: edge.count(),
            list: 0,
        };
        slow.insert_all(&edge);
        self.redo(packets, verdict, &slow);
        tally
    }

    /// Runs `list` code on the marked packets.
    fn redo(&self, packets: &Packets<'_>, verdict: &mut [u32], marks: &Marks) {
        for run in marks.runs() {
            self.each(&packets.slice(run.clone()), &mut verdict[run]);
        }
    }

    /// Runs `list` code on up to 256 packets.
    #[inline]
    fn each(&self, packets: &Packets<'_>, verdict: &mut [u32]) {
        assert_eq!(packets.len(), verdict.len(), "a verdict for each packet");
        assert!(packets.len() <= BATCH, "one batch");
        if packets.is_empty() {
            return;
        }
        let [offset, cap_len, wire_len] = packets.tables();
        // SAFETY: 1 to 256 packets, all four tables of that length, each packet
        // inside the memory at the base (invariants of `Packets`).
        unsafe {
            (self.each)(
                packets.base(),
                offset.as_ptr(),
                packets.len(),
                wire_len.as_ptr(),
                cap_len.as_ptr(),
                verdict.as_mut_ptr(),
            );
        }
    }
}

/// Arguments of a call of batch code.
struct BatchCall<'a> {
    code: &'a BatchCode,
    packets: &'a Packets<'a>,
    /// By packet: its offset as passed to the code, or 0.
    offset: &'a [u32],
    scratch: NonNull<Scratch>,
}

impl BatchCall<'_> {
    /// Runs the code; returns the packets that it left.
    #[inline(always)]
    fn run(&self, verdict: &mut [u32]) -> Marks {
        if !self.code.entry.leaves {
            self.enter(verdict, NonNull::dangling());
            return Marks::default();
        }
        let mut slow = [0_u8; SLOW];
        self.enter(verdict, NonNull::from(&mut slow));
        Marks::of_groups(&slow, self.packets.len(), self.code.entry.lanes)
    }

    /// `slow` may dangle if the code leaves no packets.
    #[inline(always)]
    fn enter(&self, verdict: &mut [u32], slow: NonNull<[u8; SLOW]>) {
        let Self { code: BatchCode { function, resident, entry }, packets, offset, scratch } = self;
        let count = packets.len();
        assert!(count == offset.len() && count == verdict.len(), "a verdict for each packet");
        assert!((entry.lanes..=BATCH).contains(&count), "one batch");
        let [_, cap_len, wire_len] = packets.tables();
        let arguments = Arguments {
            base: packets.base(),
            offset: offset.as_ptr(),
            cap_len: cap_len.as_ptr(),
            wire_len: wire_len.as_ptr(),
            verdict: verdict.as_mut_ptr(),
            count,
            slow: slow.as_ptr().cast(),
            scratch: scratch.as_ptr().cast(),
        };
        let function = match resident {
            Some(resident) if residence::is_resident(packets) => resident,
            _ => function,
        };
        // SAFETY: `count` packets, at least a group and at most 256, all four
        // tables of that length. `reach` bytes are readable from each offset
        // (`Kernel::one_batch` and `Kernel::edge` saw to it), and `cap_len`
        // bytes too (an invariant of `Packets`; 0 in place of an offset is no
        // higher). The code uses at most the available scratch memory, or
        // none if the address dangles (`check`); marks of groups that
        // end with packet 256 or before end with `slow` or before.
        unsafe { function(&raw const arguments) };
    }
}

/// Whether no offset is above `limit`. Without early exit, so that the compiler
/// vectorises it.
fn all_within(offset: &[u32], limit: usize) -> bool {
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    !offset.iter().fold(false, |above, &at| above | (at > limit))
}

/// Checks the requirements of batch code against the limits.
fn check(entry: &BatchEntry) -> Result<(), JitError> {
    let &BatchEntry { lanes, least, scratch, .. } = entry;
    if !(1..=64).contains(&lanes) || least < lanes || (lanes > 8 && lanes % 8 != 0) {
        return Err(JitError::Lanes { lanes });
    }
    if scratch > SCRATCH {
        return Err(JitError::Scratch { wanted: scratch, most: SCRATCH });
    }
    Ok(())
}
