//! Runs the kernel's flow code on single frames.
//!
//! A broker can check, before it puts a port into service, that this kernel's code agrees
//! with `forebay-packet`; tests check every packet they have.

use std::sync::atomic::Ordering::Relaxed;

use crate::error::BpfError;
use crate::flow::FlowOptions;
use crate::map::SharedMemory;
use crate::object::{Loader, include_program};
use crate::program::{Action, Kind, Program};

/// A program that returns the flow hash of test frames.
#[derive(Debug)]
pub struct Probe {
    program: Program,
    /// One word: the hash.
    found: SharedMemory,
}

impl Probe {
    /// Loads the program.
    ///
    /// # Errors
    /// The kernel's.
    pub fn load(options: &FlowOptions) -> Result<Self, BpfError> {
        let found = SharedMemory::create("probe_found", 1)?;
        let loader = options.set(Loader::new(include_program!("probe"))).map("hash", &found);
        let program = loader.load("forebay_probe", Kind::Xdp { multi_buffer: true })?;
        Ok(Self { program, found })
    }

    /// The flow hash of an Ethernet frame; `None` if user space has to determine it. `&mut`
    /// ensures one caller at a time.
    ///
    /// # Errors
    /// The kernel's: frames have at least 14 bytes.
    pub fn hash(&mut self, frame: &[u8]) -> Result<Option<u64>, BpfError> {
        let run = self.program.run(frame, &mut [])?;
        let mine = Action::from_result(run.result) == Some(Action::Redirect);
        Ok(mine.then(|| self.found.values()[0].load(Relaxed)))
    }
}
