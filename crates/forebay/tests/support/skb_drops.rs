//! Where the kernel drops packets, by its tracepoint `skb:kfree_skb`: the function and the
//! reason, as far as the trace file system is there. Of all network namespaces, so that it is a
//! hint where frames may be and no part of an account.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Reasons that mean no loss here: a sensor's host does not want the frames that the sink has
/// had, and a tap's host hears nothing (`enum skb_drop_reason` of the kernel).
const ORDINARY: [&str; 8] = [
    "NO_SOCKET",
    "OTHERHOST",
    "TC_INGRESS",
    "UNHANDLED_PROTO",
    "IPV6DISABLED",
    "SOCKET_FILTER",
    "NETFILTER_DROP",
    "XDP",
];

/// A trace of what is dropped while this lives.
pub struct SkbDrops {
    folder: PathBuf,
}

impl SkbDrops {
    /// Begins; nothing where there is no trace file system, or we may not.
    pub fn begin() -> Option<Self> {
        let instance = format!("/sys/kernel/tracing/instances/forebay-soak-{}", std::process::id());
        let folder = PathBuf::from(instance);
        fs::create_dir(&folder).ok()?;
        let this = Self { folder };
        let event = this.folder.join("events/skb/kfree_skb");
        let format = fs::read_to_string(event.join("format")).ok()?;
        let number = |name: &str| {
            let at = format.find(&format!("\"{name}\" }}"))?;
            let before = format[..at].rsplit_once("{ ")?.1;
            before.split(',').next()?.trim().parse::<u32>().ok()
        };
        let mut filter = "protocol == 2048".to_owned();
        for reason in ORDINARY.into_iter().filter_map(number) {
            filter += &format!(" && reason != {reason}");
        }
        fs::write(event.join("filter"), filter).ok()?;
        fs::write(event.join("enable"), "1").ok()?;
        Some(this)
    }

    /// What was dropped since this was last asked: place and reason, and how often. The trace
    /// keeps the last that fit its buffer.
    pub fn take(&self) -> BTreeMap<String, u64> {
        let trace = self.folder.join("trace");
        let text = fs::read_to_string(&trace).unwrap_or_default();
        // Writing to it empties it.
        let _ = fs::write(&trace, "");
        let mut counts = BTreeMap::new();
        for place in text.lines().filter_map(|line| line.split_once("location=")) {
            *counts.entry(place.1.trim().to_owned()).or_default() += 1;
        }
        counts
    }
}

impl Drop for SkbDrops {
    fn drop(&mut self) {
        let _ = fs::write(self.folder.join("events/skb/kfree_skb/enable"), "0");
        let _ = fs::remove_dir(&self.folder);
    }
}
