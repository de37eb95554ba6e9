//! A network of its own for a test: devices that nothing else uses, gone with the test.

#![allow(dead_code, reason = "each test that includes this module uses its own part of it")]

#[allow(unused_imports, reason = "each test uses its part")]
pub use forebay_testkit::namespace::{holds_soon, in_namespace, ip, wait_for};

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
