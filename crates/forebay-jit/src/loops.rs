//! Code for batches, compiled when it is first needed.
//!
//! Loops take many times as long to compile as `list` code, and a caller that runs
//! a filter on few packets needs none. So a filter of back end `auto` starts
//! with `list` code, and the first call with [`LEAST`] packets or more compiles
//! the rest. Calls of other threads meanwhile do not wait: they run the `list`
//! code.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_codegen::code::Backend;

use crate::call::Kernel;
use crate::filter;
use crate::options::Options;
use crate::verified::Verified;

/// The fewest packets of a call that has the loops compiled: no loop that the
/// cost model chooses is faster than `list` code for fewer.
const LEAST: usize = 16;

/// The loops of one filter.
#[derive(Debug)]
pub(crate) struct Loops {
    function: Verified,
    options: Options,
    /// Whether some call compiles them, or did.
    begun: AtomicBool,
    /// None inside if they cannot be compiled.
    compiled: OnceLock<Option<(Kernel, Backend)>>,
}

impl Loops {
    /// The loops of `function`. Compiles nothing.
    pub(crate) fn new(function: Verified, options: Options) -> Self {
        Self { function, options, begun: AtomicBool::new(false), compiled: OnceLock::new() }
    }

    /// The code for a call with so many packets, if it is compiled or this call
    /// is to do it.
    #[inline]
    pub(crate) fn kernel(&self, packets: usize) -> Option<&Kernel> {
        match self.compiled.get() {
            Some(compiled) => compiled.as_ref().map(|(kernel, _)| kernel),
            None if packets < LEAST => None,
            None => self.begin(),
        }
    }

    #[cold]
    fn begin(&self) -> Option<&Kernel> {
        if self.begun.swap(true, Ordering::Relaxed) {
            return None;
        }
        self.finish();
        self.compiled()
    }

    /// Compiles them, unless that was done before; waits for a thread that does.
    ///
    /// A failure is no error: the filter has its `list` code.
    pub(crate) fn finish(&self) {
        self.begun.store(true, Ordering::Relaxed);
        self.compiled.get_or_init(|| filter::compile(&self.function, &self.options).ok());
    }

    /// The code, if it was compiled.
    pub(crate) fn compiled(&self) -> Option<&Kernel> {
        self.compiled.get()?.as_ref().map(|(kernel, _)| kernel)
    }

    /// The back end of that code.
    pub(crate) fn backend(&self) -> Option<Backend> {
        self.compiled.get()?.as_ref().map(|&(_, backend)| backend)
    }
}
