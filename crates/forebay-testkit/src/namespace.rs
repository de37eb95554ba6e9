//! A network namespace for a test, devices in it, and waiting for what happens there.
#![allow(unsafe_code, reason = "a thread leaves the network of its process")]

use std::io;
use std::panic;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Runs `test` in a thread with a network namespace of its own, which ends with the thread and
/// the processes that it has started. The test is [`skipped`](crate::skipped) without root.
///
/// # Panics
/// Where `test` does, and where the kernel gives no namespace.
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

/// Runs `ip` with those words.
///
/// # Panics
/// Where it fails.
pub fn ip(words: &str) {
    let output =
        Command::new("ip").args(words.split_whitespace()).output().expect("ip can be started");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {words}: {complaint}");
}

/// Waits until something is so, for up to 20 s.
///
/// # Panics
/// When it is not so by then.
pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
