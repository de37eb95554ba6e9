//! A network namespace without a name, which ends with the last process in it.

use std::fs;

use forebay_io::device::{self, Link, Need};
use nix::sched::{CloneFlags, unshare};

use crate::peers::process::CommandLine;
use crate::{BenchError, io_error};

/// Enters a new network namespace without IPv6. Processes started later are in it, too.
pub fn enter() -> Result<(), BenchError> {
    if !rustix::process::geteuid().is_root() {
        return Err(BenchError::Unable("it takes root: network namespaces, BPF".to_owned()));
    }
    unshare(CloneFlags::CLONE_NEWNET)
        .map_err(|error| BenchError::Unable(format!("no network namespace can be had: {error}")))?;
    for (setting, value) in [
        ("ipv6/conf/all/disable_ipv6", "1"),
        ("ipv6/conf/default/disable_ipv6", "1"),
        // Otherwise a bridge passes frames to iptables, which drops some and takes time.
        ("bridge/bridge-nf-call-iptables", "0"),
    ] {
        let file = format!("/proc/sys/net/{setting}");
        if fs::exists(&file).unwrap_or(false) {
            fs::write(&file, value).map_err(io_error(format!("writing {file}")))?;
        }
    }
    Ok(())
}

/// Runs a command with an input.
pub fn feed(command: &str, arguments: &[&str], input: &str) -> Result<(), BenchError> {
    CommandLine::new(command, arguments).input(input).output().map(drop)
}

/// Runs `ip` with a command a line.
pub fn ip(commands: &str) -> Result<(), BenchError> {
    feed("ip", &["-batch", "-"], commands)
}

/// Makes a pair of interfaces and brings them up.
pub fn pair(one: &str, other: &str) -> Result<(), BenchError> {
    ip(&format!(
        "link add {one} type veth peer name {other}\nlink set {one} up\nlink set {other} up\n"
    ))
}

pub fn link(name: &str) -> Result<Link, BenchError> {
    Link::named(name).map_err(|error| BenchError::Unable(error.to_string()))
}

/// Has the other end of `interface` receive by NAPI, as drivers of network cards do: frames
/// that XDP redirects are lost otherwise.
pub fn receive_by_napi(interface: &str) -> Result<(), BenchError> {
    let need = Need { receive: false, send: true, xdp: true, mtu: 0 };
    let checked = device::check(interface, need, true);
    checked.map(drop).map_err(|error| BenchError::Unable(error.to_string()))
}
