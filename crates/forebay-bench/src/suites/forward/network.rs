//! A network of the benchmark's own: a namespace without a name, which ends with the last
//! process that is in it, however that ends.

use std::fs;

use forebay_io::device::{self, Link, Need};
use nix::sched::{CloneFlags, unshare};

use crate::peers::process::CommandLine;
use crate::{BenchError, io_error};

/// Leaves for a new network namespace, where IPv6 is silent. What this process starts from
/// now on is in it, too.
pub fn enter() -> Result<(), BenchError> {
    if !rustix::process::geteuid().is_root() {
        return Err(BenchError::Unable("it takes root: network namespaces, BPF".to_owned()));
    }
    unshare(CloneFlags::CLONE_NEWNET)
        .map_err(|error| BenchError::Unable(format!("no network namespace can be had: {error}")))?;
    for (setting, value) in [
        ("ipv6/conf/all/disable_ipv6", "1"),
        ("ipv6/conf/default/disable_ipv6", "1"),
        // With it a bridge shows frames to iptables, which drops some and costs time.
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

/// Has `ip` do something, a command a line.
pub fn ip(commands: &str) -> Result<(), BenchError> {
    feed("ip", &["-batch", "-"], commands)
}

/// A pair of interfaces, up.
pub fn pair(one: &str, other: &str) -> Result<(), BenchError> {
    ip(&format!(
        "link add {one} type veth peer name {other}\nlink set {one} up\nlink set {other} up\n"
    ))
}

/// The interface of that name as it is now.
pub fn link(name: &str) -> Result<Link, BenchError> {
    Link::named(name).map_err(|error| BenchError::Unable(error.to_string()))
}

/// Has the other end of `interface` take frames as network cards' drivers do (NAPI): what
/// XDP redirects vanishes otherwise.
pub fn receive_by_napi(interface: &str) -> Result<(), BenchError> {
    let need = Need { receive: false, send: true, xdp: true, mtu: 0 };
    let checked = device::check(interface, need, true);
    checked.map(drop).map_err(|error| BenchError::Unable(error.to_string()))
}
