//! The running generator: a thread inside a call of the kernel, on a processor of its own.

use std::os::unix::thread::JoinHandleExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_bpf::BpfError;
use forebay_bpf::programs::generator::Sent;
use nix::sys::pthread::pthread_kill;
use nix::sys::signal::Signal;
use signal_hook::consts::SIGUSR1;

use super::traffic::Traffic;
use crate::cores::Cores;
use crate::failure::{During, Result};

/// Frames that are sent together, as by drivers.
const BATCH: u32 = 64;

/// The time in which the kernel makes its frames.
const SET_UP: Duration = Duration::from_millis(60);

/// A running generator, which ends when this is dropped.
pub struct Sender {
    traffic: Arc<Traffic>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), BpfError>>>,
}

impl Sender {
    /// Starts on a processor, by an interface. Nothing is sent before [`Sender::allow`].
    pub fn start(traffic: &Arc<Traffic>, interface: u32, core: usize) -> Result<Self> {
        // A handled signal interrupts the call without other effect.
        let noticed = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGUSR1, noticed).during("handling signals")?;
        let stop = Arc::new(AtomicBool::new(false));
        let (ours, theirs) = (Arc::clone(&stop), Arc::clone(traffic));
        traffic.generator.allow(traffic.generator.sent().frames);
        traffic.generator.set_interval(Duration::ZERO);
        let work = move || {
            // A generator that cannot be pinned is slower, but works.
            let _ = Cores::pin(&[core]);
            while !ours.load(Ordering::Relaxed) {
                theirs.generator.run(&theirs.frame, interface, u32::MAX, BATCH)?;
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name("generator".to_owned()).spawn(work);
        let thread = thread.during("starting a thread")?;
        std::thread::sleep(SET_UP);
        Ok(Self { traffic: Arc::clone(traffic), stop, thread: Some(thread) })
    }

    /// Frames sent since the generator was loaded.
    pub fn sent(&self) -> Sent {
        self.traffic.generator.sent()
    }

    /// Sets the number of frames since it was loaded at which it stops.
    pub fn allow(&self, frames: u64) {
        self.traffic.generator.allow(frames);
    }

    /// Sets its rate; as fast as it can without one.
    pub fn pace(&self, rate: Option<f64>) {
        let interval = rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(1.0 / rate));
        self.traffic.generator.set_interval(interval);
    }

    /// Stops it; it may already have begun a few frames.
    pub fn close(&self) {
        self.allow(self.sent().frames);
    }

    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.stop.store(true, Ordering::Relaxed);
        while !thread.is_finished() {
            // A signal just before the call has no effect: it is repeated.
            let _ = pthread_kill(thread.as_pthread_t(), Signal::SIGUSR1);
            std::thread::sleep(Duration::from_millis(1));
        }
        match thread.join() {
            Ok(outcome) => Ok(outcome?),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // `stop` reports errors.
        let _ = self.end();
    }
}
