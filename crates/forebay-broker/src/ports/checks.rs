//! What ports demand of their devices, of each other and of the machine.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use forebay_io::device::{Link, Need};
use nix::sys::socket::SockaddrIn6;

use super::error::PortError;
use crate::config::{Config, Port, PortKind, Sending};

/// What a port of that kind and side needs of its device. Outputs get packets of up to `mtu`.
pub(crate) fn need(kind: &PortKind, side: &str, mtu: u32) -> Need {
    let receive = side == "input";
    let xdp = match kind {
        PortKind::Xdp { .. } => true,
        // What concerns redirected frames does not concern those of a ring.
        PortKind::AfXdp { send, .. } => receive || *send == Sending::Frames,
        _ => false,
    };
    Need { receive, send: !receive, xdp, mtu: if receive { 0 } else { mtu } }
}

/// Whether there is only one worker to use a port that cannot be shared.
pub(crate) fn only_worker(
    workers: usize,
    port: &Port,
    side: &'static str,
) -> Result<(), PortError> {
    if workers == 1 {
        return Ok(());
    }
    let what = "cannot be shared by several workers: expected `workers = 1`".to_owned();
    Err(PortError::Cannot { side, name: port.name.clone(), what })
}

/// Refuses a recorder whose file is a capture that is played in, by whatever name.
pub(crate) fn not_own_inputs(config: &Config) -> Result<(), PortError> {
    let identity = |path: &Path| {
        let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        Some((found.dev(), found.ino()))
    };
    let inputs: Vec<_> = config.inputs.iter().filter_map(Port::file).filter_map(identity).collect();
    for port in &config.outputs {
        if port.file().and_then(identity).is_some_and(|file| inputs.contains(&file)) {
            let what = "its file is an input, and would be replaced".to_owned();
            return Err(PortError::Cannot { side: "output", name: port.name.clone(), what });
        }
    }
    Ok(())
}

/// The greatest MTU of the devices of some ports. One that is absent is reported later.
pub(crate) fn longest(ports: &[Port]) -> u32 {
    let mtu = |port: &Port| port.device().and_then(|device| Link::named(device).ok());
    ports.iter().filter_map(mtu).map(|link| link.mtu).max().unwrap_or(0)
}

/// Whether a device has an IP address that was assigned.
pub(super) fn has_address(device: &str) -> bool {
    let Ok(all) = nix::ifaddrs::getifaddrs() else { return true };
    let mut its = all.filter(|one| one.interface_name == device).filter_map(|one| one.address);
    its.any(|address| {
        let given = |six: &SockaddrIn6| !six.ip().is_unicast_link_local();
        address.as_sockaddr_in().is_some() || address.as_sockaddr_in6().is_some_and(given)
    })
}

/// Whether a device of the host's gets its frames from this one: a VLAN's, a macvlan. Where
/// the system does not say, it is as if there were.
pub(super) fn is_below_others(link: &Link) -> bool {
    let Ok(all) = nix::net::if_::if_nameindex() else { return true };
    all.iter().filter_map(|one| Link::named(one.name().to_str().ok()?).ok()).any(|other| {
        // The other end of a veth pair is no device above.
        other.peer == Some(link.index) && other.kind.as_deref() != Some("veth")
    })
}
