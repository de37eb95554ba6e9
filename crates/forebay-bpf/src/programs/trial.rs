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

use crate::error::BpfError;
use crate::object::{Loader, include_program};
use crate::program::{Kind, Program};
use crate::programs::losses::RedirectLosses;
use crate::programs::sender::{LIVE_FRAMES, MAX_FRAME, OVER};
use crate::programs::splitter::SplitterMaps;
use crate::sys::TestRun;
use crate::sys::layout::{MAX_OUTPUTS, Reason};

/// The slot of these tests.
const SLOT: u32 = MAX_OUTPUTS as u32;

/// A program that redirects a frame to the interface in `SLOT`.
#[derive(Debug)]
pub struct Trial {
    program: Program,
}

impl Trial {
    /// Loads the program with the device map of `maps`. `multi_buffer` must be that of the
    /// splitters on the same map: the kernel refuses a different one.
    ///
    /// # Errors
    /// The kernel's.
    pub fn load(maps: &SplitterMaps, multi_buffer: bool) -> Result<Self, BpfError> {
        let loader = Loader::new(include_program!("trial")).map("devices", maps.devices());
        let program = loader.load("forebay_trial", Kind::Xdp { multi_buffer })?;
        Ok(Self { program })
    }

    /// Whether the interface with this number and MTU accepts redirected frames; `None` if
    /// no frame is too long for that MTU, or the interface is down. `losses` must be those
    /// of `maps`.
    ///
    /// # Errors
    /// The kernel's: no such interface.
    pub fn takes(
        &self,
        maps: &SplitterMaps,
        losses: &RedirectLosses,
        interface: u32,
        mtu: u32,
    ) -> Result<Option<bool>, BpfError> {
        let len = mtu as usize + OVER;
        let frame = [0; MAX_FRAME];
        let Some(frame) = frame.get(..len) else { return Ok(None) };
        maps.devices().set(SLOT, interface)?;
        let before = losses.lost(SLOT);
        let ran = self.program.test(TestRun {
            data_in: frame,
            repeat: 1,
            flags: LIVE_FRAMES,
            ..TestRun::default()
        });
        let after = losses.lost(SLOT);
        maps.devices().clear(SLOT)?;
        ran?;
        let grew = |reason: Reason| {
            let count = |lost: &[(&str, u64)]| lost.get(reason as usize).map_or(0, |one| one.1);
            count(&after) > count(&before)
        };
        Ok(match (grew(Reason::TooLong), grew(Reason::Refused)) {
            (_, true) => Some(false),
            (true, false) => Some(true),
            (false, false) => None,
        })
    }
}
