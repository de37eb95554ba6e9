//! Programs: loading through the kernel's verifier, and test runs.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::asm::{Assembler, Code};
use crate::error::{BpfError, Refusal};
use crate::sys::{self, ProgramLayout, TestRun};

/// The most bytes of the verifier's log that are read; of a longer log the verifier keeps
/// the end.
const LOG_BYTES: usize = 1 << 20;

/// The license of our programs in the kernel's spelling. The helper that reads kernel
/// memory is available only to programs that are also under the GPL.
const LICENSE: &std::ffi::CStr = c"MIT";
const LICENSE_OF_TRACEPOINTS: &std::ffi::CStr = c"Dual MIT/GPL";

/// `BPF_F_XDP_HAS_FRAGS`.
const XDP_HAS_FRAGS: u32 = 1 << 5;
/// `BPF_XDP` of `enum bpf_attach_type`.
pub(crate) const ATTACH_XDP: u32 = 37;

/// The type of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A socket's filter or fanout.
    SocketFilter,
    /// Traffic control. Sees packets like a filter of a packet socket: from the link header
    /// on.
    Classifier,
    /// Frames from the driver.
    Xdp {
        /// Whether it also handles frames in several buffers, larger than a page.
        multi_buffer: bool,
    },
    /// A kernel tracepoint, with its arguments as 64-bit words.
    RawTracepoint,
}

impl Kind {
    fn license(self) -> &'static std::ffi::CStr {
        if self == Self::RawTracepoint { LICENSE_OF_TRACEPOINTS } else { LICENSE }
    }

    /// `enum bpf_prog_type`, `enum bpf_attach_type` and flags.
    fn numbers(self) -> (u32, u32, u32) {
        match self {
            Self::SocketFilter => (1, 0, 0),
            Self::Classifier => (3, 0, 0),
            Self::RawTracepoint => (17, 0, 0),
            Self::Xdp { multi_buffer } => {
                (6, ATTACH_XDP, if multi_buffer { XDP_HAS_FRAGS } else { 0 })
            }
        }
    }
}

/// The result of an XDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Action {
    /// The program failed; the frame is dropped.
    Aborted = 0,
    /// The frame is dropped.
    Drop = 1,
    /// The frame continues to the host's network stack.
    Pass = 2,
    /// The frame is sent out of the interface that received it.
    Transmit = 3,
    /// The frame goes to another interface or to a socket.
    Redirect = 4,
}

impl Action {
    /// The action with this number.
    #[must_use]
    pub fn from_result(result: u32) -> Option<Self> {
        [Self::Aborted, Self::Drop, Self::Pass, Self::Transmit, Self::Redirect]
            .get(result as usize)
            .copied()
    }
}

/// A program accepted by the kernel's verifier.
#[derive(Debug)]
pub struct Program {
    name: &'static str,
    fd: OwnedFd,
}

impl Program {
    /// Assembles and loads a program. The maps in its code stay alive with it.
    ///
    /// # Errors
    /// If the code cannot be assembled, or the kernel refuses it: with the end of its
    /// verifier's log.
    pub fn load(name: &'static str, kind: Kind, asm: Assembler) -> Result<Self, BpfError> {
        let code = asm.finish().map_err(|source| BpfError::Assemble { program: name, source })?;
        Self::load_code(name, kind, &code)
    }

    /// Loads assembled code.
    ///
    /// # Errors
    /// If the kernel refuses it: with the end of its verifier's log.
    pub fn load_code(name: &'static str, kind: Kind, code: &Code) -> Result<Self, BpfError> {
        Self::load_slots(name, kind, code.slots(), || code.to_string())
    }

    /// Loads instructions; the listing is for the error.
    pub(crate) fn load_slots(
        name: &'static str,
        kind: Kind,
        slots: &[[u8; 8]],
        listing: impl FnOnce() -> String,
    ) -> Result<Self, BpfError> {
        let license = kind.license();
        let (kind, attach, flags) = kind.numbers();
        let layout = ProgramLayout { kind, attach, flags, name, license };
        // Logging takes time and is needed only if the program is refused.
        if let Ok(fd) = sys::program_load(layout, slots, &mut []) {
            return Ok(Self { name, fd });
        }
        let mut log = vec![0; LOG_BYTES];
        match sys::program_load(layout, slots, &mut log) {
            Ok(fd) => Ok(Self { name, fd }),
            Err(source) => {
                let refusal = Box::new(Refusal::new(&log, listing()));
                Err(BpfError::Refused { program: name, source, refusal })
            }
        }
    }

    /// The program's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the program on a copy of `frame`, an Ethernet frame of at least 14 bytes. The
    /// resulting frame is copied to `out`, unless that is empty; its length is part of the
    /// result.
    ///
    /// # Errors
    /// The kernel's: the frame is too short, or too long for this kind of program, or for
    /// `out`.
    pub fn run(&self, frame: &[u8], out: &mut [u8]) -> Result<Run, BpfError> {
        self.test(TestRun { data_in: frame, data_out: out, ..TestRun::default() })
    }

    /// The duration of a run on `frame` in nanoseconds, averaged over `times` runs, each on
    /// the frame as left by the previous one.
    ///
    /// # Errors
    /// As for [`Program::run`]; a signal.
    pub fn measure(&self, frame: &[u8], times: u32) -> Result<u32, BpfError> {
        let run = TestRun { data_in: frame, repeat: times, ..TestRun::default() };
        self.test(run).map(|run| run.nanoseconds)
    }

    pub(crate) fn test(&self, run: TestRun<'_>) -> Result<Run, BpfError> {
        let ran = sys::test_run(self.fd.as_fd(), run);
        let ran = ran.map_err(|source| BpfError::Run { program: self.name, source })?;
        Ok(Run { result: ran.result, length: ran.length as usize, nanoseconds: ran.nanoseconds })
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The program's result: for XDP, an [`Action`].
    pub result: u32,
    /// Length of the resulting frame.
    pub length: usize,
    /// Nanoseconds that the run took.
    pub nanoseconds: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_have_the_kernels_numbers() {
        for number in 0..5 {
            assert_eq!(Action::from_result(number).map(|action| action as u32), Some(number));
        }
        assert_eq!(Action::from_result(5), None);
    }
}
