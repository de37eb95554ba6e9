//! A network of its own for a test: devices that nobody else sees, gone with the test.

#![allow(dead_code, reason = "each test that includes this module uses its own part of it")]

use std::process::Command;
use std::time::{Duration, Instant};

/// Runs `test` in a thread that has a network namespace to itself, which ends with it and
/// with what it has started, whatever happens. Not when we are not root (with a word
/// why), but in CI we must be.
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI runs these tests as root");
        eprintln!("skipped: a network namespace takes root");
        return;
    }
    let thread = std::thread::spawn(|| {
        // SAFETY: concerns this thread's network alone, and no memory.
        let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        assert_eq!(result, 0, "unshare: {}", std::io::Error::last_os_error());
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Runs `ip` with those words.
pub fn ip(words: &str) {
    let output = Command::new("ip").args(words.split_whitespace()).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {words}: {complaint}");
}

/// A pair of joined devices that are up and speak only when spoken to.
pub fn veth(one: &str, other: &str) {
    ip(&format!("link add {one} type veth peer name {other}"));
    for device in [one, other] {
        let setting = format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6");
        // A kernel without IPv6 has nothing to switch off.
        let _ = std::fs::write(setting, "1");
        ip(&format!("link set dev {device} arp off multicast off up"));
    }
}

/// Waits until something is so, for some seconds.
pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
