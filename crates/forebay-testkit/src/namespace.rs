//! A network namespace for a test, devices in it, and waiting for conditions.
#![allow(unsafe_code, reason = "a thread leaves the network of its process")]

use std::io;
use std::panic;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Runs `test` in a thread with its own network namespace, which ends with the thread and
/// the processes that it has started. The test is [`skipped`](crate::skipped) without root.
///
/// # Panics
/// If `test` does, or the kernel provides no namespace.
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    if !crate::is_root("a network namespace") {
        return;
    }
    let thread = thread::spawn(|| {
        // SAFETY: concerns this thread's network alone, and no memory.
        let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        assert_eq!(result, 0, "unshare: {}", io::Error::last_os_error());
        test();
    });
    if let Err(error) = thread.join() {
        panic::resume_unwind(error);
    }
}

/// Runs `ip` with these arguments.
///
/// # Panics
/// If it fails.
pub fn ip(words: &str) {
    let output =
        Command::new("ip").args(words.split_whitespace()).output().expect("ip can be started");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {words}: {complaint}");
}

/// Waits until a condition holds, for up to 20 s; whether it does.
#[must_use]
pub fn holds_soon(mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Waits until a condition holds, for up to 20 s.
///
/// # Panics
/// If it does not hold by then.
#[track_caller]
pub fn wait_for(what: &str, condition: impl FnMut() -> bool) {
    assert!(holds_soon(condition), "waited in vain for {what}");
}
