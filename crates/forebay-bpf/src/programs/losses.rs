//! Counts losses after a redirect: frames that a program redirected to a device, and that
//! the device did not accept.
//!
//! The redirecting program has ended by then and cannot count them, and few drivers do. The
//! kernel reports them at two tracepoints, which these programs count by slot of the device
//! map:
//!
//! | name | tracepoint | cause |
//! |---|---|---|
//! | `ring_full` | `xdp_devmap_xmit` | the transmit ring of the device was full |
//! | `refused` | both | the device does not accept the frame: no ring for it, or no such feature |
//! | `too_long` | `xdp_redirect_err` | the frame is longer than the device's MTU allows |
//! | `link_down` | `xdp_redirect_err` | the device was down |
//!
//! The first tracepoint passes devices only as kernel structures, and covers all network
//! namespaces, so the programs read the number and the namespace of the device from there.
//! It runs once for up to 16 frames, nearly always without a loss.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering::Relaxed;

use crate::error::BpfError;
use crate::link::TracepointLink;
use crate::map::{DeviceMap, HashMap, SharedMemory, WhenFull};
use crate::object::{Loader, include_program};
use crate::program::Kind;
use crate::programs::splitter::SplitterMaps;
use crate::sys::layout::{Losses, MAX_DEVICES, REASONS};

/// The names of the causes, in the order of `layout::Reason`.
pub(crate) const NAMES: [&str; REASONS] = ["ring_full", "refused", "too_long", "link_down"];

/// The network namespace of the current thread.
const NAMESPACE: &str = "/proc/thread-self/ns/net";

/// Counts losses after redirects through the device map of a splitter.
#[derive(Debug)]
pub struct RedirectLosses {
    /// By slot, then by reason.
    lost: SharedMemory<Losses>,
    _links: [TracepointLink; 2],
}

impl RedirectLosses {
    /// Starts counting the losses of devices, each given as its slot in the map and its
    /// number in this thread's network namespace.
    ///
    /// # Errors
    /// The kernel's, or its type information is missing.
    pub fn watch(maps: &SplitterMaps, devices: &[(u32, u32)]) -> Result<Self, BpfError> {
        let slots = HashMap::create("lost_slots", MAX_DEVICES as u32, WhenFull::Refuse)?;
        for &(slot, interface) in devices {
            slots.set(&interface, &slot)?;
        }
        let losses = Loader::new(include_program!("losses")).map("slots", &slots);
        Self::attach(losses, "forebay_sent", maps.devices())
    }

    /// Starts counting the losses of a device for frames that test runs redirect to it
    /// through this map. `owners` has, for each processor, the slot of the program that ran
    /// last.
    pub(crate) fn watch_runs(
        devices: &DeviceMap,
        interface: u32,
        owners: &SharedMemory,
    ) -> Result<Self, BpfError> {
        let losses = Loader::new(include_program!("losses"))
            .set("interface", interface.into())
            .set("processors", owners.values().len() as u64)
            .map("owners", owners);
        Self::attach(losses, "forebay_runs", devices)
    }

    fn attach(
        losses: Loader<'_>,
        sent: &'static str,
        devices: &DeviceMap,
    ) -> Result<Self, BpfError> {
        let namespace = fs::metadata(NAMESPACE).map_err(|e| BpfError::Namespace(NAMESPACE, e))?;
        let lost = SharedMemory::create("lost", MAX_DEVICES)?;
        let losses = losses
            .set("namespace", namespace.ino())
            .set("map", devices.id()?.into())
            .map("lost", &lost);
        let sent = losses.clone().load(sent, Kind::RawTracepoint)?;
        let refused = losses.load("forebay_refused", Kind::RawTracepoint)?;
        let links = [
            TracepointLink::attach(&sent, c"xdp_devmap_xmit")?,
            TracepointLink::attach(&refused, c"xdp_redirect_err")?,
        ];
        Ok(Self { lost, _links: links })
    }

    /// The losses of the device in a slot, by cause.
    #[must_use]
    pub fn lost(&self, slot: u32) -> [(&'static str, u64); REASONS] {
        let lost = self.lost.values().get(slot as usize);
        let count = |i: usize| lost.map_or(0, |lost| lost.frames[i].load(Relaxed));
        std::array::from_fn(|i| (NAMES[i], count(i)))
    }

    /// The losses of a slot's device, by cause; resets them.
    pub(crate) fn take(&self, slot: u32) -> [u64; REASONS] {
        let lost = self.lost.values().get(slot as usize);
        std::array::from_fn(|i| lost.map_or(0, |lost| lost.frames[i].swap(0, Relaxed)))
    }
}
