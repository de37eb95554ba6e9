//! Whether an interface takes redirected frames, without sending it any.
//!
//! A test run redirects a frame that is too long for the interface's MTU. Before the kernel
//! looks at the length it asks whether the driver takes redirected frames at all, so that the
//! reason for which it refuses the frame tells (`xdp_redirect_err`, counted by
//! [`RedirectLosses`]). The frame goes by a slot of the device map that no sensor has: it is
//! in nobody's account.
//!
//! Kernels before 6.3 do not ask the driver. There a trial succeeds although the driver may
//! refuse the next frame, and whoever relies on it has to watch what is refused afterwards.

use crate::asm::Assembler;
use crate::asm::Helper;
use crate::asm::Register::{R1, R2, R3};
use crate::error::BpfError;
use crate::program::{Action, Kind, Program};
use crate::programs::losses::{REFUSED, RedirectLosses, TOO_LONG};
use crate::programs::sender::{LIVE_FRAMES, MAX_FRAME, OVER};
use crate::programs::splitter::{MAX_OUTPUTS, State};
use crate::sys::TestRun;

/// The slot that trials use.
const SLOT: u32 = MAX_OUTPUTS;

/// A program that redirects a frame to the interface in `SLOT`.
#[derive(Debug)]
pub struct Trial {
    program: Program,
}

impl Trial {
    /// Loads the program, over the device map of `state`. `multi_buffer` must be that of the
    /// splitters over the same map: the kernel refuses one that differs.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn load(state: &State, multi_buffer: bool) -> Result<Self, BpfError> {
        let mut asm = Assembler::new();
        asm.load_map(R1, state.devices());
        asm.mov(R2, SLOT.cast_signed());
        asm.mov(R3, Action::Drop as i32);
        asm.call(Helper::RedirectMap);
        asm.exit();
        Ok(Self { program: Program::load("forebay_trial", Kind::Xdp { multi_buffer }, asm)? })
    }

    /// Whether the interface of that number and MTU takes redirected frames; nothing where no
    /// frame is too long for that MTU, or the interface is down. `losses` must be those of
    /// `state`.
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
