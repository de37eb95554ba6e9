//! Tests whether an interface accepts redirected frames, without sending any.
//!
//! A test run redirects a frame that is too long for the interface's MTU. The kernel checks
//! whether the driver accepts redirected frames before it checks the length, so the cause
//! for which it refuses the frame is the answer (`xdp_redirect_err`, counted by
//! [`RedirectLosses`]). The frame uses a slot of the device map that no sensor has, so no
//! sensor is charged for it.
//!
//! Kernels before 6.3 do not check the driver. There the test passes although the driver
//! may refuse frames later; callers must watch the counter `refused` afterwards.

use crate::asm::Assembler;
use crate::asm::Helper;
use crate::asm::Register::{R1, R2, R3};
use crate::error::BpfError;
use crate::program::{Action, Kind, Program};
use crate::programs::losses::{REFUSED, RedirectLosses, TOO_LONG};
use crate::programs::sender::{LIVE_FRAMES, MAX_FRAME, OVER};
use crate::programs::splitter::{MAX_OUTPUTS, State};
use crate::sys::TestRun;

/// The slot of these tests.
const SLOT: u32 = MAX_OUTPUTS;

/// A program that redirects a frame to the interface in `SLOT`.
#[derive(Debug)]
pub struct Trial {
    program: Program,
}

impl Trial {
    /// Loads the program with the device map of `state`. `multi_buffer` must be that of the
    /// splitters on the same map: the kernel refuses a different one.
    ///
    /// # Errors
    /// The kernel's.
    pub fn load(state: &State, multi_buffer: bool) -> Result<Self, BpfError> {
        let mut asm = Assembler::new();
        asm.load_map(R1, state.devices());
        asm.mov(R2, SLOT.cast_signed());
        asm.mov(R3, Action::Drop as i32);
        asm.call(Helper::RedirectMap);
        asm.exit();
        Ok(Self { program: Program::load("forebay_trial", Kind::Xdp { multi_buffer }, asm)? })
    }

    /// Whether the interface with this number and MTU accepts redirected frames; `None` if
    /// no frame is too long for that MTU, or the interface is down. `losses` must be those
    /// of `state`.
    ///
    /// # Errors
    /// The kernel's: no such interface.
    pub fn takes(
        &self,
        state: &State,
        losses: &RedirectLosses,
        interface: u32,
        mtu: u32,
    ) -> Result<Option<bool>, BpfError> {
        let len = mtu as usize + OVER;
        let frame = [0; MAX_FRAME];
        let Some(frame) = frame.get(..len) else { return Ok(None) };
        state.devices().set(SLOT, interface)?;
        let before = losses.lost(SLOT);
        let ran = self.program.test(TestRun {
            data_in: frame,
            repeat: 1,
            flags: LIVE_FRAMES,
            ..TestRun::default()
        });
        let after = losses.lost(SLOT);
        state.devices().clear(SLOT)?;
        ran?;
        let grew = |reason: i32| {
            let count = |lost: &[(&str, u64)]| lost.get(reason as usize).map_or(0, |one| one.1);
            count(&after) > count(&before)
        };
        Ok(match (grew(TOO_LONG), grew(REFUSED)) {
            (_, true) => Some(false),
            (true, false) => Some(true),
            (false, false) => None,
        })
    }
}
