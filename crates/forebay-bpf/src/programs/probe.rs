//! Runs the kernel's flow code on single frames.
//!
//! A broker can check, before it puts a port into service, that this kernel's code agrees
//! with `forebay-packet`; tests check every packet they have.

use std::sync::atomic::Ordering::Relaxed;

use crate::asm::Register::{R1, R6, R9};
use crate::asm::{Assembler, Size};
use crate::error::BpfError;
use crate::flow::{self, Exits, FlowOptions};
use crate::map::SharedMemory;
use crate::program::{Action, Kind, Program};

/// A program that returns the flow hash of test frames.
#[derive(Debug)]
pub struct Probe {
    program: Program,
    /// One word: the hash.
    found: SharedMemory,
}

impl Probe {
    /// Generates and loads the program.
    ///
    /// # Errors
    /// The kernel's.
    pub fn load(options: &FlowOptions) -> Result<Self, BpfError> {
        let found = SharedMemory::create("probe_found", 1)?;
        let mut asm = Assembler::new();
        let not_mine = asm.label("not_mine");
        asm.mov(R6, R1);
        flow::emit(&mut asm, options, Exits { not_mine, no_addresses: not_mine });
        asm.load_map_value(R1, &found, 0);
        asm.store(Size::Double, R1, 0, R9);
        asm.exit_with(Action::Redirect as i32);
        asm.bind(not_mine);
        asm.exit_with(Action::Pass as i32);
        let program = Program::load("forebay_probe", Kind::Xdp { multi_buffer: true }, asm)?;
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
