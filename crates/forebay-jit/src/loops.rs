//! Code for batches, compiled when it is first needed.
//!
//! Loops take many times as long to compile as `list` code, and a caller that runs
//! a filter on few packets needs none. So a filter of back end `auto` starts
//! with `list` code, and the first call with [`LEAST`] packets or more compiles
//! the rest. Calls of other threads meanwhile do not wait: they run the `list`
//! code.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use forebay_codegen::code::Backend;
use forebay_packet::BATCH;

use crate::call::Kernel;
use crate::error::JitError;
use crate::filter::{self, Compiled};
use crate::options::Options;
use crate::verified::Verified;

/// The fewest packets of a call that has the loops compiled: few loops are faster than
/// `list` code for fewer.
const LEAST: usize = 16;

/// The loops of one filter.
#[derive(Debug)]
pub(crate) struct Loops {
    /// What to compile; None once that is done.
    source: Mutex<Option<(Verified, Options)>>,
    /// The fewest packets of a call that they are for; until they are compiled, [`LEAST`].
    least: AtomicUsize,
    /// Whether some call compiles them, or did.
    begun: AtomicBool,
    compiled: OnceLock<Result<Compiled, JitError>>,
}

impl Loops {
    /// The loops of `function`. Compiles nothing.
    pub(crate) fn new(function: Verified, options: Options) -> Self {
        let source = Mutex::new(Some((function, options)));
        let least = AtomicUsize::new(LEAST);
        Self { source, least, begun: AtomicBool::new(false), compiled: OnceLock::new() }
    }

    /// The fewest packets of a call that they are for; at most a batch.
    #[inline]
    pub(crate) fn least(&self) -> usize {
        self.least.load(Ordering::Relaxed)
    }

    /// The code for a call that they are for, if it is compiled or this call is to do it.
    #[inline]
    pub(crate) fn kernel(&self) -> Option<&Kernel> {
        match self.compiled.get() {
            Some(compiled) => compiled.as_ref().ok().map(|compiled| &compiled.kernel),
            None => self.begin(),
        }
    }

    #[cold]
    fn begin(&self) -> Option<&Kernel> {
        if self.begun.swap(true, Ordering::Relaxed) {
            return None;
        }
        // After a failure there is the `list` code, and `finish` returns the error.
        let _ = self.finish();
        self.compiled()
    }

    /// Compiles them, unless that was done before; waits for a thread that does.
    ///
    /// # Errors
    /// Each time, if they could not be compiled, or have no entry in the `perf`
    /// map; they are used without one.
    pub(crate) fn finish(&self) -> Result<(), JitError> {
        self.begun.store(true, Ordering::Relaxed);
        let compiled = self.compiled.get_or_init(|| {
            let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
            let (function, options) = source.as_ref().expect("it is there until this is done");
            let compiled = filter::compile(function, options);
            // Only now: a compilation that is cancelled unwinds, and may be tried again.
            *source = None;
            if let Some(least) = compiled.as_ref().ok().and_then(|made| made.kernel.least()) {
                self.least.store(least.min(BATCH), Ordering::Relaxed);
            }
            compiled
        });
        compiled.as_ref().map_err(Clone::clone)?.mapped.clone()
    }

    fn made(&self) -> Option<&Compiled> {
        self.compiled.get()?.as_ref().ok()
    }

    /// The code, if it was compiled.
    pub(crate) fn compiled(&self) -> Option<&Kernel> {
        self.made().map(|made| &made.kernel)
    }

    /// The back end of that code.
    pub(crate) fn backend(&self) -> Option<Backend> {
        self.made().map(|made| made.backend)
    }
}
