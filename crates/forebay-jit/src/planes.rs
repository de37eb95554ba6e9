//! Calls compiled predicates of bit planes.
//!
//! [`PlaneKernel`] guarantees the caller's side of the convention of
//! [`forebay_codegen::sliced::Sliced`]: tables of the sizes that the code
//! requires, each at a multiple of a cache line. It does not allocate.
#![allow(unsafe_code, reason = "calls machine code made at run time")]

use std::mem;
use std::ptr::{self, NonNull};

use forebay_codegen::sliced::network::{Network, Signal};
use forebay_codegen::sliced::{self, Sliced, Width};

use crate::cpu;
use crate::error::JitError;
use crate::memory::Executable;

/// A cache line, which is also the longest vector: the unit of tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Line(pub [u64; 8]);

/// Bytes of a [`Line`].
pub const LINE: usize = size_of::<Line>();

// SAFETY: a type; the creator of a value is responsible for its pointers.
type Function = unsafe extern "sysv64" fn(*const Arguments);

/// The argument table. Field order and sizes are part of the convention.
#[repr(C)]
struct Arguments {
    inputs: *const Line,
    unused: [usize; 3],
    results: *mut Line,
    count: usize,
    slow: usize,
    scratch: *mut Line,
}

/// Executable code of a network of predicates.
#[derive(Debug)]
pub struct PlaneKernel {
    memory: Executable,
    function: Function,
    code: Sliced,
}

impl PlaneKernel {
    /// Compiles `network` for `outputs`.
    ///
    /// # Errors
    /// If this machine lacks the level, no code can be generated, or memory is
    /// short.
    pub fn compile(network: &Network, outputs: &[Signal], width: Width) -> Result<Self, JitError> {
        cpu::require(width.isa())?;
        let mut code = sliced::compile(network, outputs, width)?;
        let memory = Executable::new(&code.bytes)?;
        code.bytes = Vec::new();
        let inside = (code.entry < code.constants_at).then(|| memory.address(code.entry));
        let address: NonNull<u8> = inside
            .flatten()
            .ok_or(JitError::Entry { entry: code.entry, instructions: code.constants_at })?;
        // SAFETY: the compiler made a function of this type start there; it is
        // called only while `memory` lives, which the kernel owns.
        let function = unsafe { mem::transmute::<*mut u8, Function>(address.as_ptr()) };
        Ok(Self { memory, function, code })
    }

    /// The requirements of the code, without its bytes.
    #[must_use]
    pub fn code(&self) -> &Sliced {
        &self.code
    }

    /// The executable memory.
    #[must_use]
    pub fn memory(&self) -> &Executable {
        &self.memory
    }

    /// Lines of inputs, results and scratch memory for `groups` groups.
    #[must_use]
    pub fn lines(&self, groups: usize) -> [usize; 3] {
        let Sliced { input_bytes, result_bytes, scratch_bytes, .. } = self.code;
        [groups * input_bytes, groups * result_bytes, scratch_bytes].map(|n| n.div_ceil(LINE))
    }

    /// Runs the code on `groups` groups.
    ///
    /// # Panics
    /// If a table is shorter than [`PlaneKernel::lines`] returns, or `groups`
    /// is 0.
    #[inline]
    pub fn run(&self, groups: usize, inputs: &[Line], results: &mut [Line], scratch: &mut [Line]) {
        let given = [inputs.len(), results.len(), scratch.len()];
        let enough = self.lines(groups).iter().zip(given).all(|(&wanted, given)| wanted <= given);
        assert!(enough && groups > 0, "tables of {given:?} lines for {groups} groups");
        let arguments = Arguments {
            inputs: inputs.as_ptr(),
            unused: [0; 3],
            results: results.as_mut_ptr(),
            count: groups * self.code.step,
            slow: 0,
            scratch: scratch.as_mut_ptr(),
        };
        // SAFETY: a group at least, and tables as long as the code was made
        // for, borrowed for the call; the code takes any contents of them.
        unsafe { (self.function)(ptr::from_ref(&arguments)) };
    }
}
