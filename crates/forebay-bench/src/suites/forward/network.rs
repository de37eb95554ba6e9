//! A network namespace without a name, which ends with the last process in it.

use std::fs;

use forebay_io::device::{self, Link, Need};
use nix::sched::{CloneFlags, unshare};

use crate::failure::{During, Failure, Result};
use crate::peers::process::CommandLine;

/// Enters a new network namespace without IPv6. Processes started later are in it, too.
pub fn enter() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err("it takes root: network namespaces, BPF".into());
    }
    unshare(CloneFlags::CLONE_NEWNET).during("making a network namespace")?;
    for (setting, value) in [
        ("ipv6/conf/all/disable_ipv6", "1"),
        ("ipv6/conf/default/disable_ipv6", "1"),
        // Otherwise a bridge passes frames to iptables, which drops some and takes time.
        ("bridge/bridge-nf-call-iptables", "0"),
    ] {
        let file = format!("/proc/sys/net/{setting}");
        if fs::exists(&file).unwrap_or(false) {
            fs::write(&file, value).during(format_args!("writing {file}"))?;
        }
    }
    Ok(())
}

/// Runs a command with an input.
pub fn feed(command: &str, arguments: &[&str], input: &str) -> Result<()> {
    CommandLine::new(command, arguments).input(input).output().map(drop)
}

/// Runs `ip` with a command a line.
pub fn ip(commands: &str) -> Result<()> {
    feed("ip", &["-batch", "-"], commands)
}

/// Makes a pair of interfaces and brings them up.
pub fn pair(one: &str, other: &str) -> Result<()> {
    ip(&format!(
        "link add {one} type veth peer name {other}\nlink set {one} up\nlink set {other} up\n"
    ))
}

pub fn link(name: &str) -> Result<Link> {
    Link::named(name).map_err(Failure::from)
}

/// Has the other end of `interface` receive by NAPI, as drivers of network cards do: frames
/// that XDP redirects are lost otherwise.
pub fn receive_by_napi(interface: &str) -> Result<()> {
    let need = Need { receive: false, send: true, xdp: true, mtu: 0 };
    let checked = device::check(interface, need, true);
    checked.map(drop).map_err(Failure::from)
}
